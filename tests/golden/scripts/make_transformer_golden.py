#!/usr/bin/env python3
"""Makes transformer.safetensors: PyTorch's attention and transformer layers, outputs and all gradients.

Each case holds what golden.record adds: its parameters by our names, inputs in.0, in.1, ..., out, dout, all gradients.
"""
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F

import golden
from golden import F64, LAYER_NAMES, begin, save

B, S, T, C, H = 2, 5, 4, 8, 2
NAMES = {
    "multihead_attn": "cross", "norm3": "ln3", "encoder.layers": "encoder", "decoder.layers": "decoder",
    "encoder.norm": "encoder_norm", "decoder.norm": "decoder_norm", **LAYER_NAMES}
record = functools.partial(golden.record, names=NAMES)


def padding():
    """True for source tokens that are not padding: the second row has two fewer."""
    keep = torch.ones(B, S, dtype=torch.bool)
    keep[1, S - 2:] = False
    return keep


def attention(out, keep):
    for case, options in {"cross": {}, "cross_masked": dict(key_padding_mask=~keep)}.items():
        layer = nn.MultiheadAttention(C, H, batch_first=True)
        record(out, case, layer, [torch.randn(B, T, C), torch.randn(B, S, C)],
               lambda x, memory: layer(x, memory, memory, **options)[0])


def layers(out, keep):
    causal = torch.ones(T, T, dtype=torch.bool).triu(1)
    for order, first in {"post": False, "pre": True}.items():
        for name, activation in {"relu": F.relu, "gelu": F.gelu}.items():
            layer = nn.TransformerEncoderLayer(C, H, 3 * C, 0.0, activation, norm_first=first, batch_first=True)
            record(out, f"encoder_{order}_{name}", layer, [torch.randn(B, S, C)],
                   lambda x: layer(x, src_key_padding_mask=~keep))
            layer = nn.TransformerDecoderLayer(C, H, 3 * C, 0.0, activation, norm_first=first, batch_first=True)
            record(out, f"decoder_{order}_{name}", layer, [torch.randn(B, T, C), torch.randn(B, S, C)],
                   lambda x, memory: layer(x, memory, tgt_mask=causal, memory_key_padding_mask=~keep))


def whole(out, keep):
    """nn.Transformer between embeddings and a head, as our Transformer's inner part."""
    causal = torch.ones(T, T, dtype=torch.bool).triu(1)
    for order, first in {"post": False, "pre": True}.items():
        model = nn.Transformer(C, H, 2, 2, 3 * C, 0.0, norm_first=first, batch_first=True)
        record(out, f"transformer_{order}", model, [torch.randn(B, S, C), torch.randn(B, T, C)],
               lambda s, t: model(s, t, tgt_mask=causal, src_key_padding_mask=~keep, memory_key_padding_mask=~keep))


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.weight


def rotate(x):
    """x (B, heads, T, D): pairs of neighbours as complex numbers, rotated by the angle of their position."""
    steps, dim = x.shape[-2:]
    angles = torch.arange(steps).double()[:, None] / 10000 ** (torch.arange(0, dim, 2).double() / dim)
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2)


class Llama(nn.Module):
    """A block as Touvron et al. 2023 describe it, with two query heads to a key/value head.

    With a window, as Jiang et al. 2023 describe Mistral's: a token attends to itself and the window - 1 before it.
    """

    def __init__(self, dim, heads, kv_heads, hidden, window=None):
        super().__init__()
        self.window = window
        self.heads, self.kv_heads, size = heads, kv_heads, dim // heads
        self.ln1, self.ln2, self.attn, self.mlp = RMSNorm(dim), RMSNorm(dim), nn.Module(), nn.Module()
        self.attn.qkv = nn.Linear(dim, (heads + 2 * kv_heads) * size, bias=False)
        self.attn.proj = nn.Linear(dim, dim, bias=False)
        self.mlp.fc = nn.Linear(dim, 2 * hidden, bias=False)
        self.mlp.proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        sizes = [n * x.shape[-1] // self.heads for n in (self.heads, self.kv_heads, self.kv_heads)]
        q, k, v = (part.unflatten(-1, (n, -1)).transpose(1, 2) for part, n in
                   zip(self.attn.qkv(self.ln1(x)).split(sizes, -1), (self.heads, self.kv_heads, self.kv_heads)))
        q, k = rotate(q), rotate(k)
        k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        everything = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
        hidden = everything.triu(1) | everything.tril(-(self.window or x.shape[1]))
        y = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        x = x + self.attn.proj(y.transpose(1, 2).flatten(2))
        gate, value = self.mlp.fc(self.ln2(x)).chunk(2, -1)
        return x + self.mlp.proj(F.silu(gate) * value)


def main():
    begin(5, F64)
    if hasattr(torch.backends, "mha"):
        torch.backends.mha.set_fastpath_enabled(False)
    out, keep = {}, padding()
    out["keep"] = keep
    attention(out, keep)
    layers(out, keep)
    whole(out, keep)
    record(out, "llama", Llama(16, 4, 2, 24), [torch.randn(B, 7, 16)])
    record(out, "mistral", Llama(16, 4, 2, 24, window=3), [torch.randn(B, 7, 16)])
    save("transformer", out)


if __name__ == "__main__":
    main()
