#!/usr/bin/env python3
"""Moves weights between PyTorch's files (a state_dict in .pt, .pth, pytorch_model.bin) and safetensors.

usage: python3 weights.py to-safetensors IN.bin OUT.safetensors           (or IN.bin.index.json, of several parts)
       python3 weights.py to-torch IN.safetensors OUT.bin

Needs only PyTorch 1.13 or newer, and runs no code from files. Tensors that share memory (tied weights) are written
once and named in the metadata; to-torch ties them again.
"""
import inspect
import json
import math
import os
import struct
import sys

try:
    import torch
except ImportError:  # --help works without it
    torch = None

DTYPES = {name: getattr(torch, dtype, None) for name, dtype in {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}.items()}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def expect(condition, path, what):
    if not condition:
        sys.exit(f"weights.py: {path}: {what}")


# ---- PyTorch's files ----

def parts_in(index):
    """The files named by an index, in its folder."""
    with open(index, "rb") as f:
        try:
            names = set(json.load(f)["weight_map"].values())
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            expect(False, index, "expected a weight_map of names and files")
    expect(all(isinstance(n, str) and n == os.path.basename(n) for n in names), index, "expected files of this folder")
    return [os.path.join(os.path.dirname(index), name) for name in sorted(names)]


def state_dict_in(path):
    if path.endswith(".index.json"):
        state = {}
        for part in parts_in(path):
            more = state_dict_in(part)
            expect(not state.keys() & more.keys(), part, "a name that an earlier part already has")
            state.update(more)
        return state
    # Unpickling runs arbitrary code unless PyTorch is told to read tensors only.
    expect("weights_only" in inspect.signature(torch.load).parameters, path,
           f"PyTorch {torch.__version__} would run code in the file: expected 1.13 or newer")
    with open(path, "rb") as f:
        try:
            state = torch.load(f, map_location="cpu", weights_only=True)
        except Exception as e:  # the type depends on the damage
            why = " ".join(str(e).split("WeightsUnpickler error:")[-1].split())
            expect(False, path, f"expected a state_dict that runs no code: {type(e).__name__}: {why[:200]}")
    for key in ("state_dict", "model"):  # checkpoints hold the state_dict under such a key
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    expect(isinstance(state, dict) and all(isinstance(t, torch.Tensor) for t in state.values()), path,
           "expected a state_dict of names and tensors")
    for name, tensor in state.items():
        expect(isinstance(name, str) and name != "__metadata__", path, f"{name!r}: safetensors cannot store this name")
        expect(tensor.layout == torch.strided and tensor.device.type == "cpu", path,
               f"{name}: expected a dense tensor in memory, got {tensor.layout} on {tensor.device}")
        expect(tensor.dtype in NAMES, path, f"{name}: safetensors has no {tensor.dtype}")
    return state


def to_safetensors(source, target):
    tensors, metadata, seen = {}, {"format": "pt"}, {}
    for name, tensor in state_dict_in(source).items():
        memory = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        first = seen.setdefault(memory, name) if tensor.numel() else name
        if first == name or name == "format":  # "format" has another meaning in the metadata
            tensors[name] = tensor.detach()
        else:
            metadata[name] = first
    # Large elements first, so that each tensor is aligned.
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


# ---- safetensors ----

def once_each(pairs):
    if len(dict(pairs)) < len(pairs):
        raise ValueError("duplicate name")
    return dict(pairs)


def are_counts(numbers):
    return isinstance(numbers, list) and all(type(n) is int and 0 <= n < 2**63 for n in numbers)


def tensor_in(path, name, entry, data):
    """The tensor described by an entry of the header, and the begin and end of its bytes."""
    expect(isinstance(entry, dict) and entry.keys() == {"dtype", "shape", "data_offsets"}, path,
           f"{name}: expected dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    expect(isinstance(kind, str) and kind in DTYPES, path, f"{name}: PyTorch has no {kind}")
    expect(are_counts(shape), path, f"{name}: expected a shape of integers >= 0, got {shape}")
    expect(are_counts(offsets) and len(offsets) == 2 and offsets[0] <= offsets[1] <= len(data), path,
           f"{name}: data_offsets: expected a begin and an end in the {len(data)} bytes, got {offsets}")
    begin, end = offsets
    size = torch.empty(0, dtype=DTYPES[kind]).element_size() * math.prod(shape)
    expect(size == end - begin, path, f"{name}: a {kind} of shape {shape} has {size} bytes, data_offsets {end - begin}")
    flat = torch.frombuffer(data[begin:end], dtype=DTYPES[kind]) if size else torch.empty(0, dtype=DTYPES[kind])
    return flat.reshape(shape), (begin, end)


def read_safetensors(path):
    """Tensors by name, and the metadata."""
    with open(path, "rb") as f:
        head, left = f.read(8), os.fstat(f.fileno()).st_size - 8
        expect(len(head) == 8 and struct.unpack("<Q", head)[0] <= left, path, "expected safetensors: the header is truncated")
        try:
            header = json.loads(f.read(struct.unpack("<Q", head)[0]), object_pairs_hook=once_each)
        except (ValueError, RecursionError) as e:
            expect(False, path, f"expected safetensors: the header is not JSON: {e}")
        data = bytearray(f.read())
    expect(isinstance(header, dict), path, "expected safetensors: the header is not an object")
    metadata = header.pop("__metadata__", {})
    expect(isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values()), path,
           "__metadata__: expected strings")
    tensors, ranges = {}, []
    for name, entry in header.items():
        tensors[name], byte_range = tensor_in(path, name, entry, data)
        ranges.append(byte_range)
    at = 0
    for begin, end in sorted(ranges):
        expect(begin == at, path, f"expected contiguous tensors: one ends at byte {at}, the next begins at {begin}")
        at = end
    expect(at == len(data), path, f"{len(data) - at} bytes after the last tensor")
    return tensors, metadata


def to_torch(source, target):
    tensors, metadata = read_safetensors(source)
    for name, first in metadata.items():
        if first in tensors and name not in tensors and name != "format":
            tensors[name] = tensors[first]
    with open(target + ".tmp", "wb") as f:
        torch.save(tensors, f)
    os.replace(target + ".tmp", target)


def main():
    commands = {"to-safetensors": to_safetensors, "to-torch": to_torch}
    if "--help" in sys.argv or "-h" in sys.argv:
        print(__doc__)
        return
    if len(sys.argv) != 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    if torch is None:
        sys.exit("weights.py: needs PyTorch, which this Python lacks: " + sys.executable)
    try:
        commands[sys.argv[1]](sys.argv[2], sys.argv[3])
    except OSError as e:
        sys.exit(f"weights.py: {e.filename or sys.argv[3]}: {e.strerror}")


if __name__ == "__main__":
    main()
