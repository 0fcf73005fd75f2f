#!/usr/bin/env python3
"""Makes gguf/{gpt2,llama,qwen3}.gguf, written with struct alone, and gguf/expected: the tensors by our names and, for
each kind of float16 rounding, gguf/float16.

llama: characters; a type per tensor; biases; Llama 3.1's frequencies, as programs other than gradus leave them.
gpt2: byte pairs; version 2; an alignment of 64; keys that no model needs. qwen3: an own output matrix; words of Llama 3.
"""
import os
import struct

import numpy as np
import torch

from golden import GOLDEN, save

RNG = np.random.default_rng(7)
D, HIDDEN, HEADS, KV = 32, 64, 4, 2
HEAD = D // HEADS


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(s)) + s


U32 = lambda v: struct.pack("<II", 4, v)
F32 = lambda v: struct.pack("<If", 6, v)
FLAG = lambda v: struct.pack("<IB", 7, v)
STR = lambda v: struct.pack("<I", 8) + text(v)
STRS = lambda v: struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(text, v))
INTS = lambda v: struct.pack("<IIQ", 9, 5, len(v)) + struct.pack(f"<{len(v)}i", *v)


def q8_0(x):
    """The bytes and the values that they stand for."""
    blocks = x.reshape(-1, 32).astype(np.float32)
    scale = np.abs(blocks).max(1) / np.float32(127)
    q = np.round(blocks * (np.float32(1) / scale)[:, None]).astype(np.int8)
    half = scale.astype(np.float16)
    raw = b"".join(h.tobytes() + row.tobytes() for h, row in zip(half, q))
    return raw, (half.astype(np.float32)[:, None] * q).reshape(x.shape)


def stored(x, kind):
    x = x.astype(np.float32)
    if kind == "q8_0":
        return (8, *q8_0(x))
    if kind == "f16":
        return 1, x.astype(np.float16).tobytes(), x.astype(np.float16).astype(np.float32)
    if kind == "bf16":
        t = torch.from_numpy(x).bfloat16()
        return 30, t.view(torch.int16).numpy().tobytes(), t.float().numpy()
    return 0, x.tobytes(), x


def write(name, metadata, tensors, version=3, alignment=32):
    pad = lambda b: b + b"\0" * (-len(b) % alignment)
    index, data, values = b"", b"", {}
    for key, (x, kind) in tensors.items():
        number, raw, values[key] = stored(x, kind)
        shape = x.shape[::-1]
        index += text(key) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, len(data))
        data = pad(data + raw)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(text(key) + value for key, value in metadata.items()) + index
    with open(os.path.join(GOLDEN, "gguf", name + ".gguf"), "wb") as f:
        f.write(pad(head) + data)
    return values


def drawn(*shape):
    return RNG.standard_normal(shape) * 0.3


def pairs(x):
    """Rows of heads from halves a_0 a_1 ... b_0 b_1 ... to our pairs a_0 b_0 a_1 b_1 ...."""
    return x.reshape(-1, 2, HEAD // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def sizes(arch, **more):
    all = {"context_length": U32(24), "embedding_length": U32(D), "block_count": U32(1), "feed_forward_length": U32(HIDDEN),
           "attention.head_count": U32(HEADS), **more}
    return {arch + "." + key: value for key, value in all.items()}


def byte_tokens():
    """GPT-2's spelling of the bytes 0 to 255."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return [chr(b if b in plain else next(other)) for b in range(256)]


def llama():
    tokens = ["[UNK]", "\\n", " ", "\\\\", "a", "é"]
    meta = {"general.architecture": STR("llama"),
            **sizes("llama", **{"attention.head_count_kv": U32(KV), "attention.layer_norm_rms_epsilon": F32(1e-3),
                                "rope.freq_base": F32(1e6), "rope.dimension_count": U32(HEAD)}),
            "tokenizer.ggml.model": STR("rwkv"), "tokenizer.ggml.tokens": STRS(tokens),
            "tokenizer.ggml.token_type": INTS([3] + [1] * 5)}
    base = 1e6 ** (-np.arange(0, HEAD, 2) / HEAD)
    turns = 8192 * base / (2 * np.pi)
    kept = np.clip((turns - 1) / 3, 0, 1)
    t = {"token_embd.weight": (drawn(6, D), "f32"), "output_norm.weight": (1 + drawn(D), "f32")}
    b = "blk.0."
    t |= {b + "attn_norm.weight": (1 + drawn(D), "f32"), b + "attn_q.weight": (drawn(D, D), "q8_0"),
          b + "attn_k.weight": (drawn(KV * HEAD, D), "f16"), b + "attn_v.weight": (drawn(KV * HEAD, D), "bf16"),
          b + "attn_q.bias": (drawn(D), "f32"), b + "attn_k.bias": (drawn(KV * HEAD), "f32"),
          b + "attn_v.bias": (drawn(KV * HEAD), "f32"), b + "attn_output.weight": (drawn(D, D), "f32"),
          b + "attn_output.bias": (drawn(D), "f32"), b + "ffn_norm.weight": (1 + drawn(D), "f32"),
          b + "ffn_gate.weight": (drawn(HIDDEN, D), "q8_0"), b + "ffn_gate.bias": (drawn(HIDDEN), "f32"),
          b + "ffn_up.weight": (drawn(HIDDEN, D), "q8_0"), b + "ffn_up.bias": (drawn(HIDDEN), "f32"),
          b + "ffn_down.weight": (drawn(D, HIDDEN), "f16"), b + "ffn_down.bias": (drawn(D), "f32"),
          "rope_freqs.weight": (1 / (kept + (1 - kept) / 8), "f32")}
    v = write("llama", meta, t)
    join = lambda *names: np.concatenate([v[b + n] for n in names])
    own = {"wte.weight": v["token_embd.weight"], "ln_f.weight": v["output_norm.weight"]}
    for kind in ("weight", "bias"):
        own |= {f"blocks.0.attn.qkv.{kind}": join(*(f"attn_{n}.{kind}" for n in "qkv")),
                f"blocks.0.attn.proj.{kind}": v[b + f"attn_output.{kind}"],
                f"blocks.0.mlp.fc.{kind}": join(f"ffn_gate.{kind}", f"ffn_up.{kind}"),
                f"blocks.0.mlp.proj.{kind}": v[b + f"ffn_down.{kind}"]}
    return own | {"blocks.0.ln1.weight": v[b + "attn_norm.weight"], "blocks.0.ln2.weight": v[b + "ffn_norm.weight"]}


def gpt2():
    tokens = byte_tokens() + ["Ġt", "he", "Ġthe", "<|endoftext|>", "<spare>"]
    meta = {"general.architecture": STR("gpt2"), "general.alignment": U32(64), "general.name": STR("\xff\n"),
            **sizes("gpt2", **{"attention.layer_norm_epsilon": F32(1e-5)}),
            "tokenizer.ggml.model": STR("gpt2"), "tokenizer.ggml.pre": STR("gpt-2"), "tokenizer.ggml.tokens": STRS(tokens),
            "tokenizer.ggml.token_type": INTS([1] * 259 + [3, 5]), "tokenizer.ggml.merges": STRS(["Ġ t", "h e", "Ġt he"]),
            "tokenizer.ggml.bos_token_id": U32(259), "tokenizer.ggml.add_bos_token": FLAG(0)}
    b = "blk.0."
    t = {"token_embd.weight": (drawn(261, D), "q8_0"), "position_embd.weight": (drawn(24, D), "f32")}
    for name, rows, columns, kind in (("attn_qkv", 3 * D, D, "bf16"), ("attn_output", D, D, "q8_0"),
                                      ("ffn_up", HIDDEN, D, "q8_0"), ("ffn_down", D, HIDDEN, "q8_0")):
        t |= {b + name + ".weight": (drawn(rows, columns), kind), b + name + ".bias": (drawn(rows), "f32")}
    for name in (b + "attn_norm", b + "ffn_norm", "output_norm"):
        t |= {name + ".weight": (1 + drawn(D), "f32"), name + ".bias": (drawn(D), "f32")}
    v = write("gpt2", meta, t, version=2, alignment=64)
    own = {"wte": "token_embd", "wpe": "position_embd", "blocks.0.attn.qkv": b + "attn_qkv", "blocks.0.attn.proj": b + "attn_output",
           "blocks.0.mlp.fc": b + "ffn_up", "blocks.0.mlp.proj": b + "ffn_down", "blocks.0.ln1": b + "attn_norm",
           "blocks.0.ln2": b + "ffn_norm", "ln_f": "output_norm"}
    return {ours + kind: v[theirs + kind] for ours, theirs in own.items() for kind in (".weight", ".bias") if theirs + kind in v}


def qwen3():
    tokens = byte_tokens() + ["he", "llo", "hello", "<|begin_of_text|>"]
    meta = {"general.architecture": STR("qwen3"),
            **sizes("qwen3", **{"attention.head_count_kv": U32(KV), "attention.key_length": U32(HEAD),
                                "attention.value_length": U32(HEAD), "attention.layer_norm_rms_epsilon": F32(1e-6)}),
            "tokenizer.ggml.model": STR("gpt2"), "tokenizer.ggml.pre": STR("llama-bpe"), "tokenizer.ggml.tokens": STRS(tokens),
            "tokenizer.ggml.token_type": INTS([1] * 259 + [3]), "tokenizer.ggml.merges": STRS(["h e"]),
            "tokenizer.ggml.bos_token_id": U32(259), "tokenizer.ggml.add_bos_token": FLAG(1)}
    b = "blk.0."
    t = {"token_embd.weight": (drawn(260, D), "q8_0"), "output.weight": (drawn(260, D), "q8_0"),
         "output_norm.weight": (1 + drawn(D), "f32"), b + "attn_norm.weight": (1 + drawn(D), "f32"),
         b + "attn_q_norm.weight": (1 + drawn(HEAD), "f32"), b + "attn_k_norm.weight": (1 + drawn(HEAD), "f32"),
         b + "ffn_norm.weight": (1 + drawn(D), "f32")}
    for name, rows, columns in (("attn_q", D, D), ("attn_k", KV * HEAD, D), ("attn_v", KV * HEAD, D), ("attn_output", D, D),
                                ("ffn_gate", HIDDEN, D), ("ffn_up", HIDDEN, D), ("ffn_down", D, HIDDEN)):
        t[b + name + ".weight"] = (drawn(rows, columns), "f16")
    v = {key.removeprefix(b).removesuffix(".weight"): value for key, value in write("qwen3", meta, t).items()}
    own = {"wte": v["token_embd"], "head": v["output"], "ln_f": v["output_norm"], "blocks.0.ln1": v["attn_norm"],
           "blocks.0.ln2": v["ffn_norm"], "blocks.0.attn.q_norm": pairs(v["attn_q_norm"]), "blocks.0.attn.k_norm": pairs(v["attn_k_norm"]),
           "blocks.0.attn.qkv": np.concatenate([pairs(v["attn_q"]), pairs(v["attn_k"]), v["attn_v"]]),
           "blocks.0.attn.proj": v["attn_output"], "blocks.0.mlp.fc": np.concatenate([v["ffn_gate"], v["ffn_up"]]),
           "blocks.0.mlp.proj": v["ffn_down"]}
    return {name + ".weight": value for name, value in own.items()}


def float16():
    """Values of all magnitudes, ties among them, and the float16 that NumPy rounds them to."""
    halves = np.arange(0, 0x7c00, 37, dtype=np.uint16).view(np.float16).astype(np.float64)
    middle = (halves[:-1] + halves[1:]) / 2
    ties = (np.arange(0, 0x7c00 - 1, 41, dtype=np.uint16).view(np.float16).astype(np.float64)
            + np.arange(1, 0x7c00, 41, dtype=np.uint16).view(np.float16).astype(np.float64)) / 2
    x = np.concatenate([halves, middle, ties, ties * (1 + 2e-7), ties * (1 - 2e-7), [1e-9, 65519.9]]).astype(np.float32)
    x = np.concatenate([x, -x])
    return {"x": x, "rounded": x.astype(np.float16).astype(np.float32)}


if __name__ == "__main__":
    os.makedirs(os.path.join(GOLDEN, "gguf"), exist_ok=True)
    everything = {f"{f.__name__}.{name}": x for f in (llama, gpt2, qwen3, float16) for name, x in f().items()}
    save("gguf/expected", {name: torch.from_numpy(np.ascontiguousarray(x, np.float32)) for name, x in everything.items()})
