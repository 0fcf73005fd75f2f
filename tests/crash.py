"""Kills training programs at random moments. Each run, resumed until it ends, must leave the same folder, bit by bit,
as an uninterrupted run.

usage: python3 tests/crash.py [run ...] [--kills 200] [--seed 1] [--bin build/bin]

Each run is first executed without interruption. Then it is started again, killed with SIGKILL (at a random time
between start and end, or while a file is being saved), resumed with --resume, which may be killed as well, and so on;
finally its folder is compared with the first one. Only seconds may differ.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

COMMON = "--warmup 2 --eval-batches 2 --seed 5 --threads 1 --decay-steps 1000 "
BLOCKS = "--layers 1 --heads 2 --dim 16 --dropout 0.1 "
IMAGES = COMMON + "--data shapes:60 --batch 8 --steps 40 --eval-every 5 "
GPT = COMMON + BLOCKS + "--recipe nanogpt --data text.txt --context 16 --batch 4 --steps 200 --eval-every 20 "
PAIRS = COMMON + "--pairs pairs.tsv --dim 16 --batch 16 --dropout 0.1 --steps 60 --eval-every 6 "

RUNS = {
    "gpt-char": "train_gpt " + GPT + "--sample-every 30",
    "gpt-bpe": "train_gpt " + GPT + "--tokenizer bpe --vocab 300",
    "gpt-disk": "train_gpt " + GPT + "--tokenizer bpe --vocab 300 --on-disk --accumulate 2",
    "bert": "train_bert " + COMMON + BLOCKS + "--data text.txt --context 16 --batch 8 --steps 80 --eval-every 8",
    "rnn": "train_translator --model rnn " + PAIRS + "--hidden 16",
    "transformer": "train_translator --model transformer --layers 1 --heads 2 " + PAIRS,
    "digits": "train_digits " + COMMON + "--hidden 8 --batch 16 --steps 200 --eval-every 20",
    "vit": "train_vit " + IMAGES + BLOCKS + "--patch 8",
    "cnn": "train_cnn_attention " + IMAGES + "--filters 4 --noise 0.01",
    "contrastive": "train_contrastive " + IMAGES + BLOCKS + "--patch 8 --probe-images 40",
    "mae": "train_mae " + IMAGES + BLOCKS + "--patch 8 --decoder-layers 1 --decoder-heads 2 --decoder-dim 16 --probe-images 40",
    "clip": "train_clip " + IMAGES + "--layers 1 --heads 2 --dim 8 --patch 8 --text-layers 1 --text-heads 2 --text-dim 8 --shared 8",
    "caption": "train_caption " + IMAGES + "--filters 4 --convolutions 2 --dim 8 --hidden 16 --dropout 0.1",
}


def write_data(folder):
    with open(os.path.join(folder, "text.txt"), "w", encoding="utf-8") as f:
        for i in range(1500):
            f.write(f"line {i * 7919 % 1000} of the text\n" + ("\n" if i % 10 == 9 else ""))
    with open(os.path.join(folder, "pairs.tsv"), "w", encoding="utf-8") as f:
        for i in range(100):
            word = "".join(chr(ord("a") + i // k % 5) for k in (1, 5, 25))
            f.write(f"{word} {word[0]}\t{word[::-1]}\n")


def safetensors(path):
    """The file's metadata without times, and the rest of the file."""
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    metadata = header.pop("__metadata__")
    if metadata.pop("seconds", None) is not None:
        del metadata["gradus.checksum"]
    return metadata, header, data


def content(path):
    if path.endswith(".safetensors"):
        return safetensors(path)
    with open(path, "rb") as f:
        bytes_ = f.read()
    if path.endswith("steps.csv"):
        return [line.rpartition(b",")[0] for line in bytes_.splitlines()]
    return bytes_


def files(folder):
    return sorted(os.path.relpath(os.path.join(path, name), folder)
                  for path, _, names in os.walk(folder) for name in names)


def difference(whole, folder, ignored=()):
    """The first difference between two runs' folders, or None. The contents of `ignored` files may differ."""
    if files(whole) != files(folder):
        return f"files {sorted(set(files(whole)) ^ set(files(folder)))}"
    for name in files(whole):
        if name not in ignored and content(os.path.join(whole, name)) != content(os.path.join(folder, name)):
            return name
    return None


def final_line(output):
    lines = [line for line in output.splitlines() if line.startswith("final:")]
    return lines[-1].rpartition(" seconds")[0] if lines else ""


def is_saving(folder):
    return any(name.endswith(".tmp") for path, _, names in os.walk(folder) for name in names)


class Chain:
    """A run that is killed and resumed, in its own folder."""

    def __init__(self, binaries, command, folder, draw):
        self.command = [os.path.join(binaries, command.split()[0])] + command.split()[1:] + ["--out", "run"]
        self.folder = folder
        self.checkpoint = os.path.join(folder, "run", "checkpoint.safetensors")
        self.draw = draw
        self.early = self.torn = 0  # kills before the first checkpoint, and during a write
        os.makedirs(folder)
        write_data(folder)

    def start(self, command):
        with open(os.path.join(self.folder, "output"), "wb") as out:
            return subprocess.Popen(command, cwd=self.folder, stdout=out, stderr=subprocess.STDOUT)

    def output(self):
        with open(os.path.join(self.folder, "output"), encoding="utf-8") as f:
            return f.read()

    def wait(self, process):
        if process.wait() != 0:
            raise RuntimeError(f"status {process.returncode}: {self.output()[-500:]}")
        return self.output()

    def resumed(self):
        """The command to continue with. If there is no checkpoint yet, --resume must say so clearly."""
        resume = [self.command[0], "--resume", "--out", "run"]
        if os.path.exists(self.checkpoint):
            return resume
        said = self.start(resume)
        if said.wait() != 1 or "run holds no checkpoint" not in self.output():
            raise RuntimeError(f"without a checkpoint --resume says: {self.output()[-500:]}")
        return self.command + ["--overwrite"]

    def kill_within(self, process, seconds):
        """Kills it at a random time, or while it saves. False if it ended before."""
        end = time.monotonic() + self.draw.uniform(0, seconds)
        if self.draw.random() < 0.4:
            while process.poll() is None and not (time.monotonic() > end and is_saving(self.folder)):
                time.sleep(0.0002)
            time.sleep(self.draw.choice([0, 0, 0.0005, 0.002]))
        while process.poll() is None and time.monotonic() < end:
            time.sleep(max(0, min(0.01, end - time.monotonic())))
        if process.poll() is not None:
            return False
        process.send_signal(signal.SIGKILL)
        if process.wait() != -signal.SIGKILL:
            return False
        self.torn += is_saving(self.folder)
        self.early += not os.path.exists(self.checkpoint)
        return True

    def run(self, kills, seconds):
        """Kills it up to `kills` times and lets it end. Returns the number of kills, and its output."""
        done = 0
        process = self.start(self.command)
        while done < kills and self.kill_within(process, seconds):
            done += 1
            process = self.start(self.resumed())
        return done, self.wait(process)


def test(binaries, name, kills, seed, scratch):
    """Kills a run `kills` times. Returns the numbers of harmless kills, of all kills, of kills before the first
    checkpoint and of kills during a write, and a description of the harm."""
    draw = random.Random(f"{seed} {name}")
    whole = Chain(binaries, RUNS[name], os.path.join(scratch, name, "whole"), draw)
    begin = time.monotonic()
    expected = final_line(whole.wait(whole.start(whole.command)))
    seconds = time.monotonic() - begin
    done, harmless, early, torn, chains, harm = 0, 0, 0, 0, 0, []
    while done < kills:
        chains += 1
        chain = Chain(binaries, RUNS[name], os.path.join(scratch, name, str(chains)), draw)
        killed, wrong = 0, None
        try:
            killed, output = chain.run(min(draw.randint(1, 4), kills - done), seconds)
            wrong = difference(os.path.join(whole.folder, "run"), os.path.join(chain.folder, "run"))
            if final_line(output) != expected:
                wrong = f"{final_line(output)} instead of {expected}"
        except (RuntimeError, OSError, ValueError) as error:
            killed, wrong = max(killed, 1), str(error)
        done, early, torn = done + killed, early + chain.early, torn + chain.torn
        if killed == 0:  # it ended sooner than the first run
            seconds *= 0.8
        if wrong is None:
            harmless += killed
            shutil.rmtree(chain.folder)
        else:
            harm.append(f"{chain.folder}: {wrong}")
    print(f"{name:12} {seconds:5.1f} s undisturbed; {harmless} of {done} kills, in {chains} runs, did no harm",
          flush=True)
    return [harmless, done, early, torn], harm


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", metavar="run", help="default: all, " + ", ".join(RUNS))
    parser.add_argument("--bin", default="build/bin", help="where the programs are")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the times and numbers of kills")
    options = parser.parse_args()
    unknown = [name for name in options.runs if name not in RUNS]
    if unknown:
        sys.exit(f"crash: expected runs among {', '.join(RUNS)}, got {', '.join(unknown)}")
    runs = options.runs or list(RUNS)
    scratch = tempfile.mkdtemp(prefix="gradus-crash-")
    counts, harm = [0, 0, 0, 0], []
    for i, name in enumerate(runs):
        kills = options.kills * (i + 1) // len(runs) - options.kills * i // len(runs)
        these, more = test(os.path.abspath(options.bin), name, kills, options.seed, scratch)
        counts, harm = [a + b for a, b in zip(counts, these)], harm + more
    harmless, done, early, torn = counts
    print(f"{harmless} of {done} ({early} before a first checkpoint, {torn} amid the writing of a file)")
    if harm:
        sys.exit("\n".join(harm))
    shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
