#!/usr/bin/env python3
"""Makes gpt_options.safetensors: logits, loss and gradients of small GPTs with the options that save training steps."""
import math

import torch
import torch.nn.functional as F

from golden import F64, begin, save

V, T, LAYERS, HEADS, DIM, HIDDEN = 7, 6, 3, 2, 8, 12  # T is the context, all of which is read
PLAIN = dict(kv_heads=2, gated=False, rotary=False, rms=False, tie=True, eps=1e-5, activation="gelu", qk_norm=False,
             value_shortcut=False, embedding_shortcut=False, logit_cap=0, bigram=False, token_shift=False)
CASES = {
    "qk_norm": dict(qk_norm=True, rotary=True, eps=0.1),
    "relu_squared": dict(activation="relu_squared"),
    "gated": dict(activation="relu_squared", gated=True),
    "value_shortcut": dict(value_shortcut=True, kv_heads=1),
    "embedding_shortcut": dict(embedding_shortcut=True),
    "logit_cap": dict(logit_cap=2.5, tie=False),
    "bigram": dict(bigram=True),
    "token_shift": dict(token_shift=True),
    "all": dict(kv_heads=1, gated=True, rotary=True, rms=True, tie=False, eps=0.01, activation="relu_squared",
                qk_norm=True, value_shortcut=True, embedding_shortcut=True, logit_cap=2.5, bigram=True,
                token_shift=True),
}


def parameters(c):
    """Random parameters, exact in float32, large enough for every option to matter."""
    p = {}

    def add(name, *shape, mean=0.0, std=0.5):
        p[name] = (mean + std * torch.randn(shape)).float().double().requires_grad_()

    head = DIM // HEADS
    add("wte.weight", V, DIM)
    if not c["rotary"]:
        add("wpe.weight", T, DIM)
    for i in range(LAYERS):
        b = f"blocks.{i}."
        add(b + "ln1.weight", DIM, mean=1)
        add(b + "attn.qkv.weight", (HEADS + 2 * c["kv_heads"]) * head, DIM)
        add(b + "attn.proj.weight", DIM, DIM)
        add(b + "ln2.weight", DIM, mean=1)
        add(b + "mlp.fc.weight", HIDDEN * (2 if c["gated"] else 1), DIM)
        add(b + "mlp.proj.weight", DIM, HIDDEN)
        if c["qk_norm"]:
            add(b + "attn.q_norm.weight", head, mean=1)
            add(b + "attn.k_norm.weight", head, mean=1)
        if c["value_shortcut"] and i > 0:
            add(b + "attn.value_shortcut", 2)
        if c["token_shift"]:
            add(b + "shift1", DIM)
            add(b + "shift2", DIM)
    add("ln_f.weight", DIM, mean=1)
    if not c["tie"]:
        add("head.weight", V, DIM)
    if c["embedding_shortcut"]:
        add("stream_mix", LAYERS - 1)
        add("embedding_mix", LAYERS - 1)
    if c["bigram"]:
        add("bigram", V, V)
    return p


def rms_norm(x, weight, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def rotate(x):
    """Rotates the pairs (x_2i, x_2i+1) of x (B, heads, T, D) by t / 10000^(2i/D) at position t."""
    D = x.shape[-1]
    angle = torch.arange(x.shape[2])[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
    sin, cos = angle.sin(), angle.cos()
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(3)


def attention(p, b, x, c, first):
    """The attention of block b and the values that `first`, if not None, is mixed into."""
    B = x.shape[0]
    head, kv = DIM // HEADS, c["kv_heads"]
    q, k, v = F.linear(x, p[b + "attn.qkv.weight"]).split([HEADS * head, kv * head, kv * head], -1)
    q, k, v = (t.view(B, T, -1, head).transpose(1, 2) for t in (q, k, v))
    if c["qk_norm"]:
        q = rms_norm(q, p[b + "attn.q_norm.weight"], c["eps"])
        k = rms_norm(k, p[b + "attn.k_norm.weight"], c["eps"])
    if c["rotary"]:
        q, k = rotate(q), rotate(k)
    if c["value_shortcut"] and first is not None:
        own, shortcut = p[b + "attn.value_shortcut"]
        v = own * v + shortcut * first
    keys, values = (t.repeat_interleave(HEADS // kv, 1) for t in (k, v))
    scores = q @ keys.transpose(-2, -1) / math.sqrt(head)
    scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf"))
    y = (F.softmax(scores, -1) @ values).transpose(1, 2).reshape(B, T, DIM)
    return F.linear(y, p[b + "attn.proj.weight"]), v


def mlp(p, b, x, c):
    act = F.gelu if c["activation"] == "gelu" else lambda z: F.relu(z).square()
    h = F.linear(x, p[b + "mlp.fc.weight"])
    if c["gated"]:
        first, second = h.chunk(2, -1)
        h = act(first) * second
    else:
        h = act(h)
    return F.linear(h, p[b + "mlp.proj.weight"])


def logits(p, ids, c):
    def norm(x, name):
        if c["rms"]:
            return rms_norm(x, p[name], c["eps"])
        return F.layer_norm(x, (DIM,), p[name], None, c["eps"])

    def shift(x, name):
        if not c["token_shift"]:
            return x
        previous = torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), 1)
        return x + p[name] * (previous - x)

    embedded = F.embedding(ids, p["wte.weight"])
    if not c["rotary"]:
        embedded = embedded + p["wpe.weight"]
    x, first = embedded, None
    for i in range(LAYERS):
        b = f"blocks.{i}."
        y, values = attention(p, b, shift(norm(x, b + "ln1.weight"), b + "shift1"), c, first)
        first = values if first is None else first
        x = x + y
        x = x + mlp(p, b, shift(norm(x, b + "ln2.weight"), b + "shift2"), c)
        if c["embedding_shortcut"] and i + 1 < LAYERS:
            x = p["stream_mix"][i] * x + p["embedding_mix"][i] * embedded
    y = F.linear(norm(x, "ln_f.weight"), p["wte.weight" if c["tie"] else "head.weight"])
    if c["bigram"]:
        y = y + p["bigram"][ids]
    if c["logit_cap"]:
        y = c["logit_cap"] * torch.tanh(y / c["logit_cap"])
    return y


def main():
    begin(11, F64)
    out = {}
    for name, options in CASES.items():
        c = {**PLAIN, **options}
        p, text = parameters(c), torch.randint(0, V, (2, T + 1))
        y = logits(p, text[:, :-1], c)
        loss = F.cross_entropy(y.flatten(0, 1), text[:, 1:].flatten())
        loss.backward()
        out[name + ".text"], out[name + ".logits"], out[name + ".loss"] = text.to(torch.uint8), y, loss
        for key, tensor in p.items():
            out[f"{name}.param.{key}"], out[f"{name}.grad.{key}"] = tensor.detach().float(), tensor.grad
    save("gpt_options", out)


if __name__ == "__main__":
    main()
