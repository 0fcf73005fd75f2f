#!/usr/bin/env python3
"""Races a training recipe to a target: trains with several seeds and asks whether the mean of the
held-out scores is better than the target.

    race.py TRACK --data DATA [--seeds 10] [-- FLAG...]

The flags after -- are the training program's and come after the track's own. Prints a line per run
(score, seconds of training, joules if the processor's meter can be read), then the mean, the
standard deviation and p: the probability of such a mean or a better one if the recipe's true mean
were only the target (Student's t-test, one-sided). Runs never share a seed with the runs that tuned
a recipe: seeds count from 1000, tuning used seeds below 100.
"""

import argparse
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

METER = pathlib.Path("/sys/class/powercap/intel-rapl:0/energy_uj")

NANOGPT = 1.8857  # what nanoGPT publishes for its CPU setting on tinyshakespeare after 2,000 steps
BABY = 1.4697  # and for its baby GPT, after three minutes on an A100
IMAGES = "--filters 64 --optimizer muon --muon-lr 0.03 --muon-momentum 0.9 --muon-decay 0.1 --stable 0.3"

# name: (program, flags, score, target)
TRACKS = {
    # nanoGPT's model: only optimiser, schedule, initialisation and the order of batches may change.
    "fixed": ("train_gpt", "--recipe nanogpt --steps 450 --optimizer muon --muon-lr 0.03 --muon-momentum 0.85 "
              "--lr 1e-2 --min-lr 0 --beta2 0.95 --warmup 20 --stable 0.5 --clip 0", "val_loss", NANOGPT),
    # Any model that trains on the same text.
    "open": ("train_gpt", "--recipe fast", "val_loss", NANOGPT),
    # The same text, as far as an A100 gets in three minutes: 5 million tokens instead of 82.
    "a100": ("train_gpt", "--recipe fast --layers 6 --heads 6 --dim 192 --context 256 --batch 12 --dropout 0.1 "
             "--steps 1450 --muon-lr 0.02 --muon-momentum 0.95 --warmup 20 --stable 0.4 --lr 5e-3 --precision bf16 "
             "--muon-precision bf16 --muon-steps 5 --no-muon-polar-express --no-muon-per-head", "val_loss", BABY),
    # --data mnist:DIR. If DIR has only MNIST's test files, 8,000 of these train and 2,000 are held out. 0.99 is our own
    # target, 0.94 that of hlb-CIFAR10 and airbench.
    "digits": ("train_cnn_attention", IMAGES + " --shear 10 --steps 1000", "accuracy", 0.99),
    # --data cifar10:DIR.
    "cifar10": ("train_cnn_attention", IMAGES + " --flip 0.5 --rotate 0 --steps 10000", "accuracy", 0.94),
}


def student_p(t, degrees):
    """P(T <= t) of Student's distribution, by integrating its density."""
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(
        degrees * math.pi)
    steps, end = 20000, abs(t)
    width = end / steps
    density = lambda x: scale * (1 + x * x / degrees) ** (-(degrees + 1) / 2)
    inner = width / 3 * sum((1 if i in (0, steps) else 4 if i % 2 else 2) * density(i * width)
                            for i in range(steps + 1)) if end > 0 else 0
    return 0.5 - inner if t < 0 else 0.5 + inner


def joules():
    try:
        return int(METER.read_text()) / 1e6
    except (OSError, ValueError):
        return None


def run(program, flags, score, seed):
    """Trains once; returns score, seconds and joules."""
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--out", folder + "/run", "--seed", str(seed),
                   "--eval-every", "1000000", "--eval-batches", "1"] + flags
        before = joules()
        done = subprocess.run(command, capture_output=True, text=True)
        after = joules()
    final = [line for line in done.stdout.splitlines() if line.startswith("final: ")]
    if done.returncode != 0 or not final:
        sys.exit(f"race: {' '.join(command)}: {done.stderr.strip() or done.stdout[-500:]}")
    values = dict(re.findall(r"(\w+) ([-+.\de]+)", final[-1]))
    spent = after - before if before is not None and after is not None else None
    return float(values[score]), float(values["seconds"]), spent


def main():
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("track", choices=TRACKS)
    parser.add_argument("--bin", default="build/bin", help="folder of the training programs")
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--target", type=float)
    options = parser.parse_args(sys.argv[1:split])
    program, flags, score, target = TRACKS[options.track]
    target = target if options.target is None else options.target
    flags = ["--data", options.data] + flags.split() + sys.argv[split + 1:]
    results = []
    for seed in range(options.first, options.first + options.seeds):
        value, seconds, spent = run(os.path.join(options.bin, program), flags, score, seed)
        results.append((value, seconds))
        energy = "" if spent is None else f", {spent:.0f} J"
        print(f"seed {seed}: {score} {value:.4f}, {seconds:.1f} s{energy}", flush=True)
    values = [value for value, _ in results]
    mean, seconds = statistics.mean(values), statistics.median(s for _, s in results)
    print(f"{options.track}: mean {score} {mean:.4f}", end="")
    if len(values) > 1:
        spread = statistics.stdev(values)
        error = spread / math.sqrt(len(values))
        gap = target - mean if score == "accuracy" else mean - target  # negative: better than the target
        t = gap / error if error > 0 else math.copysign(math.inf, gap)
        p = student_p(t, len(values) - 1) if math.isfinite(t) else float(t > 0)
        print(f" +- {spread:.4f} over {len(values)} seeds; target {target}: p = {p:.2g}", end="")
    print(f"; median {seconds:.1f} s")


if __name__ == "__main__":
    main()
