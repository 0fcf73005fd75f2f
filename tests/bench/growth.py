"""How time and memory grow with sequence length, width, batch and threads, as tables in Markdown.

usage: python3 tests/bench/growth.py [--seconds 2] [--rounds 3]

A training step of gpt-char (4 layers of 128, 4 heads, 12 x 64 characters) with one size changed. Medians of rounds, one
process per measurement.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

SERIES = {
    "length": ("sequence length", [512, 1024, 2048, 4096, 8192, 16384]),
    "width": ("width, heads of 32", [64, 128, 256, 512, 1024]),
    "batch": ("windows of 64 tokens", [1, 3, 12, 48, 192]),
}


def measure(options, name, threads):
    env = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}
    command = [options.bench, name, "--seconds", str(options.seconds), "--threads", str(threads)]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"growth: {' '.join(command)} failed:\n{result.stderr.strip()}")
    return json.loads(result.stdout)


def medians(options, name, thread_counts):
    """Measures ms, MB and GFLOP/s for each number of threads."""
    runs = [[measure(options, name, threads) for threads in thread_counts] for _ in range(options.rounds)]
    return [[statistics.median(run[i][field] for run in runs) for field in ("ms", "peak_rss_mb", "gflops")]
            for i in range(len(thread_counts))]


def short(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default="build/bin/bench", help="our benchmark program")
    parser.add_argument("--seconds", type=float, default=2, help="per measurement")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    for series, (what, sizes) in SERIES.items():
        print(f"| {what} | ms | GFLOP/s | MB | ms, 1 thread | speed-up by {cores} threads |\n|---|---|---|---|---|---|")
        for size in sizes:
            (one, _, _), (ms, mb, gflops) = medians(options, f"{series}-{size}", [1, cores])
            print(f"| {size:,} | {short(ms)} | {gflops:.0f} | {mb:,.0f} | {short(one)} | {one / ms:.2f} |", flush=True)
        print()


if __name__ == "__main__":
    main()
