#!/usr/bin/env python3
"""Checks with PyTorch what gradus wrote: of a folder, that its model gives the outputs that make_hugging_face.py
recorded; of weights.py, that every tensor survives both ways.

usage: /usr/bin/python3 check_hugging_face.py gpt2|bert|vit DIR
       /usr/bin/python3 check_hugging_face.py weights DIR          (an empty folder)
"""
import json
import os
import sys

import torch

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [HERE, os.path.join(HERE, "..", "..", "examples")]
import weights
from make_hugging_face import bert_outputs, gpt2_logits, vit_logits


def check_model(kind, folder):
    state, metadata = weights.read_safetensors(os.path.join(folder, "model.safetensors"))
    assert metadata["format"] == "pt", metadata
    expected, _ = weights.read_safetensors(os.path.join(HERE, "hugging_face", kind, "expected.safetensors"))
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
             "scalar": torch.tensor(2.5), "none": torch.empty(0, 3), "yes": torch.tensor([True, False, True])}
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


def main():
    kind, folder = sys.argv[1:]
    check_weights(folder) if kind == "weights" else check_model(kind, folder)
    print("checked", kind)


if __name__ == "__main__":
    main()
