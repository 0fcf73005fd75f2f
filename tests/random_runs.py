"""Runs programs in random ways; prints what goes wrong.

usage: python3 tests/random_runs.py [--from 0] [--count 300] [--seconds S] [--bin build/bin]

Case number N, which --from N --count 1 repeats, is one of three, in turn:
  killed   a training program with random flags, three steps on tiny data: killed at random moments and resumed on
           other numbers of threads, it must leave the same folder, bit by bit, as without interruption
  changed  a run is resumed with two other flags: each is honoured, and said to be changed, or the run is refused and
           its folder stays as it was
  folder   a model folder of Hugging Face's form in which one thing is changed, cut, flipped or missing is read
A program may refuse any of these, with status 1 and one line. It must not crash, hang, or take the machine's memory.
"""
import argparse
import glob
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import crash

HOME = os.path.dirname(os.path.abspath(__file__))
SMALL = "--steps 3 --eval-batches 1 --warmup 1 --out run "
BLOCKS = "--layers 1 --heads 2 --dim 16 "
IMAGES = SMALL + "--data shapes:30 --batch 4 "
PROGRAMS = {
    "train_gpt": SMALL + BLOCKS + "--data text.txt --context 16 --batch 2",
    "train_bert": SMALL + BLOCKS + "--data text.txt --context 16 --batch 2",
    "train_translator": SMALL + BLOCKS + "--pairs pairs.tsv --batch 4",
    "train_translator --model rnn": SMALL + "--dim 8 --hidden 8 --pairs pairs.tsv --batch 4",
    "train_digits": SMALL + "--hidden 8 --batch 8",
    "train_vit": IMAGES + BLOCKS + "--patch 8",
    "train_cnn_attention": IMAGES + "--filters 4",
    "train_contrastive": IMAGES + BLOCKS + "--patch 8 --probe-images 10",
    "train_mae": IMAGES + BLOCKS + "--patch 8 --decoder-layers 1 --decoder-heads 2 --decoder-dim 8 --probe-images 10",
    "train_clip": IMAGES + "--layers 1 --heads 2 --dim 8 --patch 8 --text-layers 1 --text-heads 2 --text-dim 8 --shared 8",
    "train_caption": IMAGES + "--filters 4 --convolutions 2 --dim 8 --hidden 16",
}
# Flags that say where data is, serve a page, or record times; and updates of weights, which need other weights.
LEFT_OUT = re.compile(r"data|val-data|pairs|text|images|labels|count|out|init-from|eval-only|resume|overwrite|page|deadline|"
                      r"tensorboard|model|threads|steps|probe-images|chat-template|skip-bad|lora.*")
VALUES = {
    "tokenizer": ["char", "word", "bpe"], "vocab": [270, 300], "dim": [8, 12, 16],
    "heads": [1, 2, 4], "layers": [1, 2, 3], "context": [8, 16, 24], "hidden": [0, 8, 24], "patch": [0, 4, 8],
    "seed": [0, 1, 2**64 - 1], "batch": [1, 2, 3, 5], "eval-every": [1, 2, 3], "accumulate": [1, 2, 3],
    "text-dim": [4, 8, 12], "decoder-dim": [4, 8, 12], "lr": [0, 1e-3, 0.1], "norm-eps": [1e-12, 1e-5, 1e-2],
}
KEPT = {"ema", "optimizer", "dropout", "accumulate", "seed"}  # what a resumed run must go on with
FOLDERS = sorted(os.path.dirname(path) for path in glob.glob(os.path.join(HOME, "golden/hugging_face/*/config.json")))
ODD = [None, True, False, 0, 1, -1, 2, 3, 7, 1e9, 2**31, 2**63, -2**63, 1e308, 1e-300, 0.5, "", "x", "silu", "gelu", [], [1], {},
       {"type": "linear"}, "../x", "\u0000", "ü" * 40]


class Wrong(Exception):
    """A case went wrong."""


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Bench:
    """A case: its folder and its draws."""

    def __init__(self, binaries, folder, number):
        self.binaries, self.folder, self.draw, self.said = binaries, folder, random.Random(f"case {number}"), []

    def command(self, text):
        words = text.split() if isinstance(text, str) else text
        return [os.path.join(self.binaries, words[0]), *words[1:]]

    def start(self, text):
        self.said.append(text if isinstance(text, str) else " ".join(text))
        return subprocess.Popen(self.command(text), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL, text=True, errors="replace", preexec_fn=limit_memory)

    def finish(self, process):
        """Its output, or None if it refused with one line."""
        try:
            out, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Wrong("no end in 120 s") from None
        if process.returncode not in (0, 1):
            raise Wrong(f"status {process.returncode}: {err[-300:]}")
        if process.returncode == 0 and err:
            raise Wrong(f"status 0, but says: {err[-300:]}")
        if process.returncode == 1 and (err.count("\n") != 1 or len(err) > 1000):
            raise Wrong(f"refuses with {err.count(chr(10))} lines: {err[-300:]}")
        self.refusal = err.strip()
        return out if process.returncode == 0 else None

    def run(self, text):
        return self.finish(self.start(text))

    def flags(self, program):
        """(name, kind, choices, default, stored) of each flag that the program's --help lists."""
        text = subprocess.run(self.command(f"{program} --help"), capture_output=True, text=True, check=True).stdout
        stored, found = True, []
        for entry in re.findall(r"^(?:\w.*|  --\S.*(?:\n {6,}\S.*)*)$", text, re.MULTILINE):
            if not entry.startswith("  --"):
                stored = entry != "This run"
                continue
            words = " ".join(entry.split())
            name, kind = re.match(r"--(\S+) ?(NAMES|NAME|N|X|KIND|\[PORT\]|[A-Z]+)?\b", words).groups()
            choices = re.search(r"one of ((?:\w+, )+\w+)", words)
            default = re.search(r"; default (\S+)$", words)
            if not LEFT_OUT.fullmatch(name):
                found.append((name, kind, choices and tuple(choices.group(1).split(", ")), default and default.group(1), stored))
        return found

    def value(self, flag):
        """The flag with a value, most often a valid one."""
        name, kind, choices, default, _ = flag
        if kind is None:
            return f"--{name}"
        few = VALUES.get(name) or VALUES.get(name.rpartition("-")[2] if name.endswith(("layers", "heads")) else "") or choices
        if not few:
            few = [0, 1, 2, 3, 4, 8] if kind == "N" else [0, 0.1, 0.3, 0.5, 1]
            few = [*few, default] if default and re.fullmatch(r"[\d.e-]+", default) else few
        return f"--{name} {self.draw.choice(few)}"


def command_of(program, chosen):
    """The program with its flags in PROGRAMS, of which those chosen have other values."""
    names = {flag.split()[0] for flag in chosen}
    usual = [flag for flag in re.findall(r"--\S+ [^-]\S*", PROGRAMS[program]) if flag.split()[0] not in names]
    return " ".join([program, *usual, *chosen])


def together(chosen):
    """The flags chosen, without those that another one refuses."""
    names = {flag.split()[0] for flag in chosen}
    without = lambda *some: [flag for flag in chosen if flag.split()[0] not in some]
    if "--schedule transformer" in chosen:
        return [flag for flag in without("--optimizer", "--lr", "--min-lr", "--stable", "--decay-steps", "--beta1", "--beta2",
                                         "--weight-decay") if "--muon" not in flag and "--no-muon" not in flag]
    if any(name.startswith(("--muon-", "--no-muon-")) for name in names):
        chosen = without("--optimizer") + ["--optimizer muon"]
    if "--vocab" in names:
        chosen = without("--tokenizer") + ["--tokenizer bpe"]
    return chosen


def killed(bench):
    """Kills a run and resumes it; returns what came of it."""
    draw = bench.draw
    program = draw.choice(sorted(PROGRAMS))
    flags = bench.flags(program)
    drawn = draw.sample(flags, draw.randint(1, 5)) + [draw.choice([flag for flag in flags if flag[0] in KEPT])]
    chosen = [bench.value(flag) for flag in dict.fromkeys(drawn) if flag[0] != "eval-every"]
    command = command_of(program, [f"--eval-every {draw.randint(1, 3)}", *together(chosen)])
    crash.write_data(bench.folder)
    begin = time.monotonic()
    expected = bench.run(f"{command} --threads {draw.randint(1, 4)}")
    seconds = time.monotonic() - begin
    if expected is None:
        return "refused"
    run, whole = os.path.join(bench.folder, "run"), os.path.join(bench.folder, "whole")
    os.rename(run, whole)
    next_command = command
    for _ in range(draw.randint(1, 3)):
        process = bench.start(f"{next_command} --threads {draw.randint(1, 4)}")
        time.sleep(draw.uniform(0, seconds))
        process.kill()
        process.communicate()
        has_checkpoint = os.path.exists(os.path.join(run, "checkpoint.safetensors"))
        next_command = f"{program} --resume --out run" if has_checkpoint else f"{command} --overwrite"
    output = bench.run(f"{next_command} --threads {draw.randint(1, 4)}")
    if output is None:
        raise Wrong(f"cannot be resumed: {bench.refusal}")
    differs = crash.difference(whole, run)
    if differs:
        raise Wrong(f"killed and resumed, the folder differs: {differs}")
    if crash.final_line(output) != crash.final_line(expected):
        raise Wrong(f"killed and resumed: {crash.final_line(output)}; else {crash.final_line(expected)}")
    return "same"


def changed(bench):
    """Resumes a run with two other flags; returns what came of it."""
    draw = bench.draw
    program = draw.choice(sorted(PROGRAMS))
    crash.write_data(bench.folder)
    if bench.run(command_of(program, ["--eval-every 1", "--decay-steps 9"])) is None:
        raise Wrong(f"refused: {bench.refusal}")
    run, before = os.path.join(bench.folder, "run"), os.path.join(bench.folder, "before")
    shutil.copytree(run, before)
    flags = bench.flags(program)
    may_change = [f for f in flags if f[0] in ("patience", "lr", "min-lr", "muon-lr", "warmup", "decay-steps", "stable")]
    pair = draw.sample(may_change if draw.random() < 0.5 else flags, 2)
    given = [bench.value(flag) for flag in pair]
    output = bench.run(f"{program} --resume --out run --steps 4 --threads {draw.randint(1, 4)} {' '.join(given)}")
    if output is None:
        differs = crash.difference(before, run)
        if differs:
            raise Wrong(f"refused, but the folder has changed: {differs}")
        return "refused"
    stored = [crash.safetensors(os.path.join(folder, "checkpoint.safetensors"))[0] for folder in (before, run)]
    if stored[0]["step"] == stored[1]["step"]:  # --patience ended it at once: nothing is stored
        return "stopped"
    old, new = (json.loads(metadata["options"]) for metadata in stored)
    said = set(re.findall(r"^changed --(\S+) ", output, re.MULTILINE))
    really = {name.replace("_", "-") for name in new if old.get(name) != new[name]}
    if said != really:
        raise Wrong(f"changed {sorted(really)}, but says {sorted(said)}")
    for (name, kind, _, _, is_stored), word in zip(pair, given):
        if is_stored and kind in ("N", "X") and float(new[name.replace("-", "_")]) != float(word.split()[1]):
            raise Wrong(f"{word} is not honoured: {new[name.replace('-', '_')]}")
    return "honoured"


def damage(bench, folder):
    """Changes one thing in a folder."""
    draw = bench.draw
    names = sorted(name for name in os.listdir(folder) if name != "expected.safetensors")
    kind = draw.choice(["field", "field", "field", "no field", "cut", "flip", "no file"])
    if kind.endswith("field"):
        names = [name for name in names if name.endswith(".json")]
        if draw.random() < 0.6:
            names = ["config.json"]
    path = os.path.join(folder, draw.choice(names))
    if kind == "no file":
        os.remove(path)
    elif kind.endswith("field"):
        with open(path, encoding="utf-8") as f:
            whole = part = json.load(f)
        while True:
            keys = sorted(part) if isinstance(part, dict) else range(len(part))
            key = draw.choice(list(keys))
            deeper = part[key]
            if not (isinstance(deeper, (dict, list)) and deeper and draw.random() < 0.7):
                break
            part = deeper
        bench.said.append(f"{os.path.basename(path)}: {key} was {str(part[key])[:60]}")
        if kind == "field":
            part[key] = draw.choice(ODD)
            bench.said[-1] += f", is {part[key]!r}"
        else:
            del part[key]
        with open(path, "w", encoding="utf-8") as f:
            json.dump(whole, f)
        return
    else:
        with open(path, "rb") as f:
            content = bytearray(f.read())
        at = draw.randrange(min(len(content), draw.choice([64, 10**9])))
        if kind == "cut":
            content = content[:at]
        else:
            content[at] ^= 1 << draw.randrange(8)
        bench.said.append(f"byte {at}")
        with open(path, "wb") as f:
            f.write(content)
    bench.said.append(f"{kind} {os.path.basename(path)}")


def folder(bench):
    """Reads a changed folder of Hugging Face's form; returns what came of it."""
    source = bench.draw.choice(FOLDERS)
    model = os.path.join(bench.folder, "model")
    shutil.copytree(source, model)
    damage(bench, model)
    loaded = bench.run("convert --model model --to other --format gradus") is not None
    if os.path.basename(source) not in ("bert", "vit"):
        generated = bench.run(["generate", "--model", "model", "--prompt", "the", "--tokens", "3"]) is not None
        loaded = loaded or generated
    return "loaded" if loaded else "refused"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="build/bin", help="where the programs are")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first case")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no case begins later")
    options = parser.parse_args()
    scratch = tempfile.mkdtemp(prefix="gradus-runs-")
    counts, wrong, begin = {}, 0, time.monotonic()
    for number in range(options.first, options.first + options.count):
        if time.monotonic() - begin > options.seconds:
            break
        kind = (killed, changed, folder)[number % 3]
        bench = Bench(os.path.abspath(options.bin), os.path.join(scratch, str(number)), number)
        os.makedirs(bench.folder)
        try:
            result = kind(bench)
            shutil.rmtree(bench.folder)
        except Wrong as error:
            result, wrong = "WRONG", wrong + 1
            print("\n  ".join([f"case {number}, {kind.__name__}, in {bench.folder}: {error}", *bench.said]), flush=True)
        counts[kind.__name__, result] = counts.get((kind.__name__, result), 0) + 1
    print(", ".join(f"{kind} {result}: {n}" for (kind, result), n in sorted(counts.items())),
          f"in {time.monotonic() - begin:.0f} s")
    print(f"{sum(counts.values()) - wrong} passed, {wrong} failed")
    if wrong:
        sys.exit(1)
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
