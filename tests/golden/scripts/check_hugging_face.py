#!/usr/bin/env python3
"""Checks with PyTorch what gradus wrote: a folder's model gives the outputs that make_hugging_face.py recorded;
weights.py converts every tensor in both directions, and refuses bad files.

usage: /usr/bin/python3 check_hugging_face.py gpt2|bert|vit DIR
       /usr/bin/python3 check_hugging_face.py weights DIR          (an empty folder)
"""
import json
import os
import pickle
import struct
import sys
import zipfile

import torch

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, os.path.join(HERE, "..", "..", "..", "examples")]
import weights
from make_hugging_face import bert_outputs, gpt2_logits, vit_logits


def check_model(kind, folder):
    state, metadata = weights.read_safetensors(os.path.join(folder, "model.safetensors"))
    assert metadata["format"] == "pt", metadata
    expected, _ = weights.read_safetensors(os.path.join(HERE, "..", "hugging_face", kind, "expected.safetensors"))
    with open(os.path.join(folder, "config.json")) as f:
        c = json.load(f)
    assert c["model_type"] == kind
    if kind == "gpt2":
        state = {name.replace("transformer.", "", 1): t for name, t in state.items()}
        got = {"logits": gpt2_logits(state, expected["ids"], c["n_head"], c["n_layer"], c["layer_norm_epsilon"])}
    elif kind == "bert":
        got = bert_outputs(state, expected["ids"], expected["segments"], expected["mask"], c["num_attention_heads"],
                           c["num_hidden_layers"], c["layer_norm_eps"])
    else:
        got = {"logits": vit_logits(state, expected["images"], c["patch_size"], c["num_attention_heads"],
                                    c["num_hidden_layers"], c["layer_norm_eps"])}
    for name, tensor in got.items():
        worst = (tensor - expected[name]).abs().max().item()
        assert worst < 1e-4, f"{name} differs by {worst}"


def check_weights(folder):
    table = torch.randn(5, 4)
    state = {"embedding": table, "head": table, "part": table[1:3], "turned": table.T, "strided": table[:, ::2],
             "format": table, "pt": table[:2] * 2, "scalar": torch.tensor(2.5), "none": torch.empty(0, 3), "yes": torch.tensor([True, False, True])}
    for dtype in weights.NAMES:
        state[str(dtype)] = torch.tensor([[1, 0, 1], [0, 1, 1]]).to(dtype)
    paths = [os.path.join(folder, name) for name in ("a.bin", "b.safetensors", "c.bin")]
    torch.save({"state_dict": state, "epoch": 3}, paths[0])
    weights.to_safetensors(paths[0], paths[1])
    with open(paths[1], "rb") as f:
        assert int.from_bytes(f.read(8), "little") % 8 == 0
    weights.to_torch(paths[1], paths[2])
    back = torch.load(paths[2])
    assert back.keys() == state.keys(), back.keys() ^ state.keys()
    for name, tensor in state.items():
        assert tensor.dtype == back[name].dtype and torch.equal(tensor, back[name]), name
    assert back["head"].data_ptr() == back["embedding"].data_ptr()
    torch.save({"pt": table}, paths[0])  # "format": "pt" in the metadata ties nothing
    weights.to_safetensors(paths[0], paths[1])
    weights.to_torch(paths[1], paths[2])
    assert list(torch.load(paths[2])) == ["pt"]
    index = paths[0] + ".index.json"
    with open(index, "w") as f:
        json.dump({"weight_map": {"pt": "a.bin", "b": "c.bin"}}, f)
    torch.save({"b": table * 3}, paths[2])
    weights.to_safetensors(index, paths[1])
    both, _ = weights.read_safetensors(paths[1])
    assert torch.equal(both["pt"], table) and torch.equal(both["b"], table * 3) and len(both) == 2


def refused(command, source, what):
    """Expects one line that names the file and has `what` in it."""
    before = sys.argv
    sys.argv = ["weights.py", command, source, source + ".out"]
    try:
        weights.main()
    except SystemExit as e:
        text = str(e.code)
        assert text.startswith(f"weights.py: {source}: ") and what in text and "\n" not in text, text
    else:
        assert False, f"taken: {source}, expected: {what}"
    sys.argv = before


class Runs:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def check_pickles_refused(folder):
    path, ran = os.path.join(folder, "bad.bin"), os.path.join(folder, "ran")
    inner = pickle.dumps(Runs(ran), 2)[2:-1]
    # The first pickle raises a TypeError where only tensors are read: an OrderedDict whose state is a pair. The second
    # one is the code itself.
    for body in (b"ccollections\nOrderedDict\n)RN}\x86b0" + inner + b"0}", inner):
        with zipfile.ZipFile(path, "w") as f:
            f.writestr("archive/data.pkl", b"\x80\x02" + body + b".")
            f.writestr("archive/version", "3\n")
        refused("to-safetensors", path, "runs no code")
        assert not os.path.exists(ran), "a pickle ran code"
    for state, what in (({"a": torch.ones(2).to_sparse()}, "a: expected a dense tensor"),
                        ({"a": torch.empty(2, device="meta")}, "a: expected a dense tensor"),
                        ({"a": torch.ones(2, dtype=torch.complex64)}, "a: safetensors has no torch.complex64"),
                        ({"__metadata__": torch.ones(2)}, "'__metadata__': safetensors cannot store"),
                        ({3: torch.ones(2)}, "3: safetensors cannot store"), ([1], "names and tensors"),
                        ({"a": 1}, "names and tensors")):
        torch.save(state, path)
        refused("to-safetensors", path, what)
    for junk in (b"", b"x", b"PK\x03\x04", b"\x80\x02}"):
        with open(path, "wb") as f:
            f.write(junk)
        refused("to-safetensors", path, "expected a state_dict")
    refused("to-safetensors", path + "missing", "No such file")
    load = torch.load
    torch.load = lambda f, map_location=None: load(f)
    refused("to-safetensors", path, "would run code")
    torch.load = load


def check_safetensors_refused(folder):
    path = os.path.join(folder, "bad.safetensors")

    def entry(shape, begin, end, kind="F32"):
        return json.dumps({"dtype": kind, "shape": shape, "data_offsets": [begin, end]})

    def bad(header, what, size=8):
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(header)) + header.encode() + bytes(size))
        refused("to-torch", path, what)

    def bad_tensor(shape, begin, end, what, size=8):
        bad(f'{{"a": {entry(shape, begin, end)}}}', what, size)

    bad_tensor([-1], 0, 8, "a: expected a shape of integers >= 0")
    bad_tensor([2.0], 0, 8, "a: expected a shape of integers >= 0")
    bad_tensor([3], 0, 8, "a: a F32 of shape [3] has 12 bytes")
    bad_tensor([2], -8, 0, "a: data_offsets: expected")
    bad_tensor([2], 8, 0, "a: data_offsets: expected")
    bad_tensor([4], 0, 16, "a: data_offsets: expected")
    bad_tensor([1], 0, 4, "4 bytes after the last tensor")
    bad_tensor([1], 4, 8, "ends at byte 0, the next begins at 4")
    bad(f'{{"a": {entry([2], 0, 8)}, "b": {entry([1], 4, 8)}}}', "ends at byte 8, the next begins at 4")
    bad(f'{{"a": {entry([2], 0, 8, "U64")}}}', "a: PyTorch has no U64")
    bad(f'{{"a": {entry([1], 0, 4)}, "a": {entry([1], 4, 8)}}}', "duplicate name")
    bad('{"a": 3}', "a: expected dtype, shape and data_offsets")
    bad('{"__metadata__": {"a": 1}}', "__metadata__: expected strings")
    bad("[]", "the header is not an object")
    bad("{", "the header is not JSON")
    bad("\xff", "the header is not JSON")
    for junk in (b"", b"abc", struct.pack("<Q", 1 << 60) + b"{}"):
        with open(path, "wb") as f:
            f.write(junk)
        refused("to-torch", path, "truncated")
    refused("to-torch", path + "missing", "No such file")


def main():
    kind, folder = sys.argv[1:]
    if kind == "weights":
        check_weights(folder)
        check_pickles_refused(folder)
        check_safetensors_refused(folder)
    else:
        check_model(kind, folder)
    print("checked", kind)


if __name__ == "__main__":
    main()
