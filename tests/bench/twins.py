"""Compares the quality of trained models with PyTorch's of the same size: same initial weights, batches, masks, steps.

usage: /usr/bin/python3 tests/bench/twins.py bert|gpt [--steps N] [--data FILE] [--threads N] [--flags='...']

Trains with train_bert, or with train_gpt on byte pairs; twin_data writes that run's weights and batches; then the
benchmark's PyTorch model (torch_peer.py) trains on them with the same AdamW, learning rates, clipping and dropout.
Prints both models' figure on the whole validation part, the seconds of training, and ours / torch. On a busy machine PyTorch's
two threads wait for each other: use --threads 1. Losses agree to six digits for some hundred steps; then a high
learning rate amplifies rounding, and a BERT's figures differ by up to 5% in both directions: compare several seeds,
--flags='--seed N'.
"""
import argparse
import csv
import json
import math
import os
import re
import shlex
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "golden", "scripts"))
from peers import own_environment, tuned_environment

KINDS = {  # program, its flags, the default of --steps, the figure
    "bert": ("train_bert", [], 2000, "masked_accuracy"),
    "gpt": ("train_gpt", ["--tokenizer", "bpe", "--sample-every", "0"], 2000, "bits_per_byte"),
}
NUMPY = {"F32": "float32", "F64": "float64", "I64": "int64", "BOOL": "bool"}


def read_safetensors(path):
    """Tensors by name, and the metadata."""
    import numpy
    import torch
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        blob = f.read()
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = numpy.frombuffer(blob[begin:end], NUMPY[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors, metadata


def part(data, prefix):
    return {name[len(prefix):]: tensor for name, tensor in data.items() if name.startswith(prefix)}


def our_parameter_name(name):
    from golden import our_name
    return our_name(name).replace("mlp.0", "mlp.fc").replace("mlp.2", "mlp.proj")


def make_model(kind, config):
    from torch_peer import GPT, Bert
    sizes = [config[key] for key in ("vocab", "context", "layers", "heads", "dim")]
    same = config["activation"] == "gelu" and config["hidden"] in (0, 4 * config["dim"])
    if kind == "bert":
        assert same and config["segments"] == 2, "twins: the PyTorch model has no such options"
        return Bert(*sizes, dropout=config["dropout"])
    same = same and config["positions"] == "learned" and config["norm"] == "layer" and config["tie"]
    same = same and not config["gated"] and config["dropout"] == 0 and config["kv_heads"] in (0, config["heads"])
    same = same and config["window"] == 0
    assert same, "twins: the PyTorch model has no such options"
    return GPT(*sizes, bias=config["bias"])


def load(model, weights):
    """Loads our weights into the twin. Biases that only the twin has stay 0."""
    import torch
    left = dict(weights)
    with torch.no_grad():
        for name, p in model.named_parameters():
            ours = left.pop(our_parameter_name(name), None)
            if ours is not None:
                p.copy_(ours)
            else:
                assert name.endswith("bias"), f"twins: {name} has no weights"
                p.zero_().requires_grad_(False)
    assert not left, f"twins: {sorted(left)} have no place in the twin"


def loss_of(kind, model, batch):
    if kind == "gpt":
        return model.loss(batch["ids"], batch["targets"])
    return sum(model.losses(*(batch[key] for key in ("ids", "segments", "mask", "targets", "is_next"))))


def figure_of(kind, model, data):
    """masked_accuracy or bits_per_byte on the validation part."""
    import torch
    import torch.nn.functional as F
    total = count = 0.0
    with torch.no_grad():
        for first in range(0, len(data["ids"]), 64):
            rows = {key: value[first:first + 64] for key, value in data.items() if key != "bytes"}
            if kind == "gpt":
                logits = model(rows["ids"])
                total += F.cross_entropy(logits.flatten(0, 1), rows["targets"].flatten(), reduction="sum").item()
                continue
            hidden = model.hidden(rows["ids"], rows["segments"], rows["mask"])
            places = rows["targets"] != -100
            total += (model.word_logits(hidden[places]).argmax(-1) == rows["targets"][places]).sum().item()
            count += places.sum().item()
    return total / count if kind == "bert" else total / math.log(2) / data["bytes"].item()


def train_twin(kind, run, out):
    """Trains the twin of the run in a folder, and prints its figure and seconds as JSON."""
    import torch
    options = json.loads(read_safetensors(f"{run}/checkpoint.safetensors")[1]["options"])
    with open(f"{run}/config.json", encoding="utf-8") as f:
        config = json.load(f)
    with open(f"{run}/steps.csv", encoding="utf-8") as f:
        steps = list(csv.DictReader(f))
    torch.manual_seed(options["seed"])
    torch.set_flush_denormal(True)
    model = make_model(kind, config)
    load(model, read_safetensors(f"{out}/weights.safetensors")[0])
    data = read_safetensors(f"{out}/data.safetensors")[0]
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW([{"params": [p for p in params if p.dim() >= 2]},
                                   {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}],
                                  betas=(options["beta1"], options["beta2"]), weight_decay=options["weight_decay"])
    batches, start, first = part(data, "train."), time.perf_counter(), None
    for i, step in enumerate(steps):
        for group in optimizer.param_groups:
            group["lr"] = float(step["lr"])
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(kind, model, {key: value[i] for key, value in batches.items()})
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, options["clip"] or math.inf)
        optimizer.step()
        first = loss.item() if first is None else first
    seconds = time.perf_counter() - start
    apart = abs(first / float(steps[0]["loss"]) - 1)  # dropout masks differ
    assert apart < (0.02 if config["dropout"] > 0 else 1e-4), \
        f"twins: the first loss is {first:.6f}, ours was {steps[0]['loss']}: not the same data or weights"
    model.eval()
    print(json.dumps({"figure": figure_of(kind, model, part(data, "validation.")), "seconds": seconds}))


def call(command, env):
    result = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", check=False)
    if result.returncode != 0:
        sys.exit(f"twins: {' '.join(command)} failed:\n{result.stdout[-500:]}{result.stderr.strip()}")
    return result.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--steps", type=int, help="default: 2000")
    parser.add_argument("--data", help="a text; default: gradus's own source")
    parser.add_argument("--bin", default="build/bin", help="where our programs are")
    parser.add_argument("--out", default="out/twins")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--torch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--flags", default="", help="of the training program, in one text: --flags='--dropout 0'")
    options = parser.parse_args()
    out = os.path.join(options.out, options.kind)
    run = os.path.join(out, "run")
    if options.torch:
        return train_twin(options.kind, run, out)
    program, flags, steps, figure = KINDS[options.kind]
    steps = options.steps or steps
    command = [os.path.join(options.bin, program), *flags, "--steps", str(steps), "--eval-every", str(steps),
               "--threads", str(options.threads), "--out", run, "--overwrite", *shlex.split(options.flags)]
    command += ["--data", options.data] if options.data else []
    said = call(command, own_environment()).splitlines()[-1]
    call([os.path.join(options.bin, "twin_data"), run, out], own_environment())
    theirs = json.loads(call([sys.executable, os.path.abspath(__file__), options.kind, "--torch",
                              "--out", options.out], tuned_environment(options.threads)).splitlines()[-1])
    with open(f"{run}/steps.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    per_step = (float(rows[-1]["seconds"]) - float(rows[0]["seconds"])) / max(1, steps - 1)
    for name, ours, torch_ in ((figure, float(re.search(figure + r" (\S+)", said)[1]), theirs["figure"]),
                               ("seconds", per_step * steps, theirs["seconds"])):
        print(f"{name:16s} ours {ours:9.4f}   torch {torch_:9.4f}   ours / torch {ours / torch_:.4f}", flush=True)


if __name__ == "__main__":
    main()
