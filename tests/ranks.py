"""Trains with several ranks under mpirun. They must leave the folder that one process leaves, bit by bit, also when
ranks are killed, stopped or fail and the run is resumed with another number of ranks.

usage: python3 tests/ranks.py [--faults 200] [--seed 1] [--bin build/bin]

Needs libgradus_mpi.so (make MPI=1) and mpirun. A fault at a random time hits a random rank: SIGKILL, SIGTERM, SIGSTOP,
or for rank 0, which writes, a folder that vanishes or a limit on the size of its files. All ranks must end within ten
seconds after the deadline, and what they print must name a rank.
"""
import argparse
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import crash

DEADLINE = 5  # seconds, where faults are expected
BATCHES = 6  # per step: 1, 2, 3 or 6 ranks can divide them among themselves
VIT = crash.IMAGES.replace("--steps 40", "--steps 200").replace("--eval-every 5", "--eval-every 50")
RUNS = {
    "gpt": crash.RUNS["gpt-char"],
    "muon": crash.RUNS["gpt-char"] + " --optimizer muon --stable 0.5 --ema 0.9",
    "vit": "train_vit " + VIT + crash.BLOCKS + "--patch 8",
    "bert": crash.RUNS["bert"],
    "transformer": crash.RUNS["transformer"],
    "digits": crash.RUNS["digits"],
    "cnn": crash.RUNS["cnn"],
}
SHARDED = {"muon", "bert"}  # with --shard-optimizer
FAULTS = ["kill", "term", "stop", "folder", "limit"]


def mpirun(ranks):
    return ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []


class Run(crash.Chain):
    """A run in its own folder, by any number of ranks."""

    batches, sharded = BATCHES, False  # batches per step

    def begin(self, ranks, resume=False, deadline=60):
        command = self.command + ["--overwrite"]
        if resume and os.path.exists(self.checkpoint):
            command = [self.command[0], "--resume", "--out", "run", "--threads", "1"]
        more = ["--accumulate", str(self.batches)] if "--overwrite" in command else []
        if ranks > 1 and self.sharded:
            more.append("--shard-optimizer")
        return self.start(mpirun(ranks) + command + more + ["--deadline", str(deadline)])

    def finish(self, process, seconds=600, stopped=None):
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            if ranks_of(process) == [stopped] and "final:" in self.output():
                # Stopped between MPI_Finalize and the end of its process: only mpirun waits for it.
                os.kill(stopped, signal.SIGCONT)
                process.wait(10)
                return self.output()
            kill_all(process)
            raise RuntimeError(f"not ended after {seconds} s: {self.output()[-4000:]}") from error
        return self.output()


def ranks_of(process):
    """The process numbers of mpirun's ranks, in their order."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                parent = int(f.read().rpartition(")")[2].split()[1])
            with open(f"/proc/{pid}/environ", "rb") as f:
                rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", f.read())
        except (OSError, IndexError):
            continue
        if parent == process.pid and rank:
            found[int(rank.group(1))] = int(pid)
    return [found[rank] for rank in sorted(found)]


def kill_all(process):
    for pid in ranks_of(process) + [process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    process.wait()


def inject(fault, pid, folder):
    if fault == "kill":
        os.kill(pid, signal.SIGKILL)
    if fault == "term":
        os.kill(pid, signal.SIGTERM)
    if fault == "stop":
        os.kill(pid, signal.SIGSTOP)
    if fault == "folder":
        os.rename(os.path.join(folder, "run"), os.path.join(folder, "gone"))
    if fault == "limit":
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (100, 100))


def trained(binaries, name, ranks, batches, scratch):
    """The folder of a whole run by `ranks` ranks; trains it once."""
    folder = os.path.join(scratch, f"{name}-{batches}-{ranks}")
    if not os.path.exists(folder):
        run = Run(binaries, RUNS[name], folder, random.Random(1))
        run.batches, run.sharded = batches, name in SHARDED
        output = run.finish(run.begin(ranks))
        if "final:" not in output:
            raise RuntimeError(output[-4000:])
    return os.path.join(folder, "run")


def same_bits(binaries, name, ranks, batches, scratch):
    """A description of how `ranks` ranks differ from one, or None."""
    try:
        return crash.difference(*(trained(binaries, name, size, batches, scratch) for size in (1, ranks)))
    except RuntimeError as error:
        return str(error)


def expected_message(fault, rank, output):
    """Whether the output names the fault. A rank that ends by a signal is named by mpirun, and one that is stopped by
    the others."""
    if fault == "stop":
        return re.search(rf"rank {rank} \(\S+\) did not send .* within {DEADLINE} s|not all ranks have started", output)
    if fault in ("kill", "limit"):
        return re.search(rf"rank {rank}\b", output)
    if fault == "folder":
        return "rank 0: " in output
    return "interrupted: saved at step" in output or "told to end" in output or "exited on signal 15" in output


def broken_run(binaries, draw, whole, seconds, faults, scratch, count):
    """Hits a run with up to `faults` faults and resumes it. Returns their number, and what went wrong or None."""
    run = Run(binaries, RUNS["gpt"], os.path.join(scratch, "gpt", str(count)), draw)
    done = 0
    process, ranks = run.begin(3, deadline=DEADLINE), 3
    while done < faults:
        time.sleep(0.5 + draw.uniform(0, seconds))
        pids = ranks_of(process)
        if process.poll() is not None or len(pids) < ranks:
            break
        fault = draw.choice(FAULTS)
        rank = 0 if fault in ("folder", "limit") else draw.randrange(ranks)
        try:
            inject(fault, pids[rank], run.folder)
        except OSError:
            break
        begin = time.monotonic()
        output = run.finish(process, 120, pids[rank] if fault == "stop" else None)
        took = time.monotonic() - begin
        gone = os.path.join(run.folder, "gone")
        if os.path.exists(gone):
            shutil.rmtree(os.path.join(run.folder, "run"), ignore_errors=True)
            os.rename(gone, os.path.join(run.folder, "run"))
        done += 1
        if "final:" not in output:  # else the run was complete
            # It may compute to its end, or to the next time that it writes, before it meets the fault.
            if fault in ("kill", "stop") and took > DEADLINE + 10:
                return done, f"{fault} of rank {rank}: ended after {took:.0f} s: {output[-4000:]}"
            if not expected_message(fault, rank, output):
                return done, f"{fault} of rank {rank} of {ranks}: {output[-4000:]}"
        ranks, run.sharded = draw.choice([2, 3, 6]), draw.random() < 0.5
        process = run.begin(ranks, True, DEADLINE)
    output = run.finish(process, 120)
    if "final:" not in output:
        return done, f"after {done} faults: {output[-4000:]}"
    # A run that was told to end has saved at that step, which is then the previous checkpoint's.
    wrong = crash.difference(whole, os.path.join(run.folder, "run"), ["checkpoint.previous.safetensors"])
    if wrong is None:
        shutil.rmtree(run.folder)
    return done, wrong


def refusals(binaries, scratch):
    """Runs that must be refused: what each prints instead of what it should, if it does."""
    gpt = os.path.join(binaries, "train_gpt") + " --data text.txt --steps 2 "
    cases = {
        "--accumulate 3: that many batches per step cannot be divided among 2 ranks":
            ["-n", "2", *gpt.split(), "--accumulate", "3"],
        'rank 1 differs from rank 0: --lr is "0.5" instead of "0.25"':
            ["-n", "1", *gpt.split(), "--lr", "0.25", ":", "-n", "1", *gpt.split(), "--lr", "0.5"],
        "rank 0: read_file: /nowhere: No such file or directory": ["-n", "3", *gpt.split(), "--data", "/nowhere"],
    }
    crash.write_data(scratch)
    for expected, arguments in cases.items():
        said = subprocess.run(["mpirun", "--oversubscribe"] + arguments, cwd=scratch, capture_output=True, text=True,
                              check=False).stderr
        if expected not in said or said.count("train_") != 1:
            yield f"expected once: {expected}\ngot {said}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="build/bin", help="where the programs are")
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--runs", nargs="*", default=list(RUNS), help="compared with one process; default: all")
    parser.add_argument("--quick", action="store_true", help="only 3 ranks, not 2 and 8")
    parser.add_argument("--seed", type=int, default=1, help="of the times and kinds of faults")
    options = parser.parse_args()
    binaries, passed, harm = os.path.abspath(options.bin), 0, []
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    scratch = tempfile.mkdtemp(prefix="gradus-ranks-")
    for name in options.runs:
        for ranks, batches in ((2, BATCHES), (3, BATCHES), (8, 8)) if not options.quick else ((3, BATCHES),):
            wrong = same_bits(binaries, name, ranks, batches, scratch)
            print(f"{name:12} {ranks} ranks: {wrong or 'the bits of one'}", flush=True)
            passed += wrong is None
            harm += [f"{name}, {ranks} ranks: {wrong}"] if wrong else []

    for wrong in refusals(binaries, scratch):
        harm.append(wrong)
        print(wrong, flush=True)
    draw, done, count = random.Random(options.seed), 0, 0
    if options.faults:
        begin = time.monotonic()
        trained(binaries, "gpt", 6, BATCHES, scratch)
        seconds = time.monotonic() - begin
        whole = trained(binaries, "gpt", 1, BATCHES, scratch)
    while done < options.faults:
        count += 1
        hit, wrong = broken_run(binaries, draw, whole, max(seconds, 1), min(draw.randint(1, 4), options.faults - done),
                                scratch, count)
        done += hit
        seconds *= 1 if hit else 0.8
        passed += hit if wrong is None else 0
        harm += [wrong] if wrong else []
        if wrong:
            print(wrong, flush=True)
    if options.faults:
        print(f"{done} faults in {count} runs")
    print(f"{passed} passed, {len(harm)} failed")
    if not harm:
        shutil.rmtree(scratch)
    sys.exit(bool(harm))


if __name__ == "__main__":
    main()
