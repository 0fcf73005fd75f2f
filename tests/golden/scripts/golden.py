"""Shared by the generators make_*.py: PyTorch's settings, safetensors files, parameter names, records.

usage: /usr/bin/python3 tests/golden/scripts/make_NAME.py       (Debian: python3-torch)

A generator writes its files into tests/golden. They were made with PyTorch 1.13.1, which writes the same bytes on the
same kind of processor.
"""
import json
import os
import struct
import sys

import torch

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.dirname(HERE)
sys.path.append(os.path.join(HERE, "..", "..", "bench"))  # torch_peer's models

F64 = torch.float64
DTYPES = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32", torch.float64: "F64", torch.int64: "I64", torch.uint8: "U8",
          torch.bool: "BOOL"}

# Parameter names of PyTorch's layers -> ours.
LAYER_NAMES = {
    "in_proj_weight": "qkv.weight", "in_proj_bias": "qkv.bias",
    "out_proj.weight": "proj.weight", "out_proj.bias": "proj.bias",
    "norm1": "ln1", "norm2": "ln2", "linear1": "mlp.fc", "linear2": "mlp.proj", "self_attn": "attn",
}
VIT_NAMES = {"mlp.0": "mlp.fc", "mlp.2": "mlp.proj"}  # of torch_peer's Block


def begin(seed, dtype=torch.float32):
    """Sets the random state, the default dtype, and one thread."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.set_default_dtype(dtype)


def our_name(name, names=LAYER_NAMES):
    """Replaces, in order, each key of names by its value."""
    for theirs, ours in names.items():
        name = name.replace(theirs, ours)
    return name


def save(name, tensors):
    """Writes tests/golden/NAME.safetensors: header length, JSON header, values."""
    header, blobs, at = {}, [], 0
    for key, tensor in tensors.items():
        plain = tensor.detach().contiguous()  # NumPy has no bfloat16
        blob = (plain.view(torch.int16) if plain.dtype == torch.bfloat16 else plain).numpy().tobytes()
        header[key] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(GOLDEN, name + ".safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))
    print(name, 8 + len(text) + at, "bytes")


def perturb(module):
    """Moves all parameters, so that no bias is zero and no norm is the identity."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.1 * torch.randn_like(p))


def record(out, case, module, inputs, call=None, names=LAYER_NAMES):
    """Adds a module's parameters, inputs, output, a random gradient of the output, and all gradients."""
    perturb(module)
    inputs = [x.requires_grad_() if x.is_floating_point() else x for x in inputs]
    y = call(*inputs) if call else module(*inputs)
    dy = torch.randn_like(y)
    y.backward(dy)
    for name, p in module.named_parameters():
        ours = our_name(name, names)
        out[f"{case}.param.{ours}"], out[f"{case}.grad.{ours}"] = p, p.grad
    for i, x in enumerate(inputs):
        out[f"{case}.in.{i}"] = x
        if x.grad is not None:
            out[f"{case}.din.{i}"] = x.grad
    out[f"{case}.out"], out[f"{case}.dout"] = y, dy


def normal(*shape):
    return torch.randn(shape, dtype=F64)


def positive(*shape):
    """Numbers from 0.2 to 1.2."""
    return torch.rand(shape, dtype=F64) + 0.2


CASES = {}  # name: (function, inputs)


def cases(inputs, functions):
    """Declares a case for each function of {name: function}."""
    for name, function in functions.items():
        CASES[name] = (function, inputs)


def record_cases(draw=torch.randn_like):
    """Records in.0, ..., out, dy = draw(out) and the inputs' grad.0, ... of each declared case."""
    out = {}
    for name, (function, given) in CASES.items():
        inputs = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in given]
        y = function(*inputs)
        for i, x in enumerate(inputs):
            out[f"{name}.in.{i}"] = x
        out[name + ".out"] = y
        if not y.requires_grad:
            continue
        dy = draw(y)
        y.backward(dy)
        out[name + ".dy"] = dy
        for i, x in enumerate(inputs):
            if x.grad is not None:
                out[f"{name}.grad.{i}"] = x.grad
    print(len(CASES), "cases")
    return out


def record_training(out, model, steps, losses_of, names):
    """Adds the parameters, the first gradients in float64, and the losses of AdamW steps in float64 and float32.

    losses_of(step, dtype) returns a step's losses as one tensor; their sum is minimised.
    """
    start = {name: p.clone() for name, p in model.state_dict().items()}
    out.update({"param." + our_name(name, names): p.clone() for name, p in model.named_parameters()})
    for dtype in (torch.float64, torch.float32):
        model.to(dtype).load_state_dict(start)
        optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.99), weight_decay=0.1)
        history = []
        for step in range(steps):
            losses = losses_of(step, dtype)
            optimiser.zero_grad()
            losses.sum().backward()
            if step == 0 and dtype == torch.float64:
                out.update({"grad." + our_name(name, names): p.grad.clone() for name, p in model.named_parameters()})
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            history.append(losses.detach().double())
        out[str(dtype).split(".")[1] + ".losses"] = torch.stack(history)
