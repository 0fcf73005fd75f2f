"""Compares gradus with PyTorch, workload by workload: both alternate within one run, one process per measurement.

usage: python3 tests/bench/peers.py [workload ...] [--seconds 4] [--rounds 3] [--threads N] [--level x86-64-v3]

PyTorch runs with its best settings: OpenBLAS's OpenMP build with kernels for this processor, and tcmalloc, if
installed (Debian: python3-torch libopenblas-openmp-dev libtcmalloc-minimal4). The ratio is the median of the rounds'
ratios; below 1, gradus is faster. --level restricts both to an instruction set: gradus as built by
`make ARCH=x86-64-v3 build/x86-64-v3/bin/bench`, the libraries by their environment variables.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys

SHARED = ["mlp", "gpt-char", "gpt-baby", "gpt2-124M", "lstm", "seq2seq", "bert", "vit", "contrastive",
          "cnn-attention", "conv", "attention-512", "attention-1024", "attention-2048", "attention-4096", "attention-8192"]

# Per level: the kernels of OpenBLAS, PyTorch and oneDNN, which has none below SSE 4.1.
LEVELS = {"x86-64": {"OPENBLAS_CORETYPE": "Nehalem", "ATEN_CPU_CAPABILITY": "default", "DNNL_MAX_CPU_ISA": "SSE41"},
          "x86-64-v3": {"OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "avx2", "DNNL_MAX_CPU_ISA": "AVX2"},
          "x86-64-v4": {"OPENBLAS_CORETYPE": "SkylakeX", "ATEN_CPU_CAPABILITY": "avx512"}}


def own_environment(level=None):
    """gradus's environment: it finds its BLAS kernels by itself, unless restricted."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}
    return dict(env, **LEVELS.get(level, {}))


def tuned_environment(threads, level=None):
    """The environment in which PyTorch runs fastest."""
    env = dict(own_environment(level), OMP_NUM_THREADS=str(threads))
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        if not level and " avx512f" in f.read():
            env["OPENBLAS_CORETYPE"] = "SkylakeX"
    for folder in glob.glob("/usr/lib/*/openblas-openmp"):
        env["LD_LIBRARY_PATH"] = folder
    for library in glob.glob("/usr/lib/*/libtcmalloc_minimal.so.4"):
        env["LD_PRELOAD"] = library
    return env


def measure(command, env):
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"peers: {' '.join(command)} failed:\n{result.stderr.strip()}")
    return json.loads(result.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", help="our benchmark program")
    parser.add_argument("--level", choices=LEVELS, help="the instruction set that both are held to")
    parser.add_argument("workloads", nargs="*", metavar="workload", help="default: all that both have")
    parser.add_argument("--seconds", type=float, default=4, help="per measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    options = parser.parse_args()
    peer = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_peer.py")]
    bench = options.bench or f"build/{options.level + '/' if options.level else ''}bin/bench"
    env = tuned_environment(options.threads, options.level)
    print("workload          ours ms   torch ms   ratio   ours MB   torch MB   ratio")
    for name in options.workloads or SHARED:
        rounds = []
        for _ in range(options.rounds):
            ours = measure([bench, name, "--seconds", str(options.seconds),
                            "--threads", str(options.threads)], own_environment(options.level))
            theirs = measure(peer + [name, "--seconds", str(options.seconds)], env)
            rounds.append((ours, theirs))

        def median(pick):
            return statistics.median(pick(ours, theirs) for ours, theirs in rounds)

        print(f"{name:16s}{median(lambda a, b: a['ms']):9.2f}{median(lambda a, b: b['ms']):11.2f}"
              f"{median(lambda a, b: a['ms'] / b['ms']):8.2f}"
              f"{median(lambda a, b: a['peak_rss_mb']):10.0f}{median(lambda a, b: b['peak_rss_mb']):11.0f}"
              f"{median(lambda a, b: a['peak_rss_mb'] / b['peak_rss_mb']):8.2f}", flush=True)


if __name__ == "__main__":
    main()
