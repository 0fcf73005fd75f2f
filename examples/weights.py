#!/usr/bin/env python3
"""Moves weights between PyTorch's files (a state_dict in .pt, .pth, pytorch_model.bin) and safetensors.

usage: python3 weights.py to-safetensors IN.bin OUT.safetensors
       python3 weights.py to-torch IN.safetensors OUT.bin

Needs PyTorch and nothing else. A tensor that is the same memory as another (tied weights) is written once; the
metadata name it, and to-torch ties it again.
"""
import json
import os
import struct
import sys

import torch

NAMES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
         torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL"}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


def state_dict_in(path):
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except TypeError:  # PyTorch before 1.13
        state = torch.load(path, map_location="cpu")
    for key in ("state_dict", "model"):  # checkpoints hold it beside other things
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(isinstance(t, torch.Tensor) for t in state.values()):
        sys.exit(f"weights.py: {path}: expected a state_dict, names and tensors")
    return state


def to_safetensors(source, target):
    tensors, metadata, seen = {}, {"format": "pt"}, {}
    for name, tensor in state_dict_in(source).items():
        if tensor.dtype not in NAMES:
            sys.exit(f"weights.py: {source}: {name}: safetensors holds no {tensor.dtype}")
        memory = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        first = seen.setdefault(memory, name) if tensor.numel() else name
        if first == name:
            tensors[name] = tensor.detach()
        else:
            metadata[name] = first
    # Large elements first, so that each tensor is aligned to its own.
    names = sorted(tensors, key=lambda name: -tensors[name].element_size())
    header, at = {"__metadata__": metadata}, 0
    for name in names:
        size = tensors[name].numel() * tensors[name].element_size()
        header[name] = {"dtype": NAMES[tensors[name].dtype], "shape": list(tensors[name].shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(target + ".tmp", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            f.write(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    os.replace(target + ".tmp", target)


def read_safetensors(path):
    """Tensors by name, and the metadata."""
    with open(path, "rb") as f:
        length, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(length))
        data = bytearray(f.read())
    metadata, tensors = header.pop("__metadata__", {}), {}
    for name, entry in header.items():
        if entry["dtype"] not in DTYPES:
            sys.exit(f"weights.py: {path}: {name}: PyTorch holds no {entry['dtype']}")
        dtype, (begin, end) = DTYPES[entry["dtype"]], entry["data_offsets"]
        flat = torch.frombuffer(data[begin:end], dtype=dtype) if end > begin else torch.empty(0, dtype=dtype)
        tensors[name] = flat.reshape(entry["shape"])
    return tensors, metadata


def to_torch(source, target):
    tensors, metadata = read_safetensors(source)
    for name, first in metadata.items():
        if first in tensors and name not in tensors:
            tensors[name] = tensors[first]
    torch.save(tensors, target)


def main():
    commands = {"to-safetensors": to_safetensors, "to-torch": to_torch}
    if len(sys.argv) != 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](sys.argv[2], sys.argv[3])


if __name__ == "__main__":
    main()
