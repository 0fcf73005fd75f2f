#!/usr/bin/env python3
"""Replays random programs in PyTorch: reads lines of `random_programs --json`, compares values and gradients in
float64, and counts the disagreements by kind: theirs and conventions, which are listed in KNOWN, and others. Prints
the others, each with the first op whose value differs, and fails if there is one. Needs Debian's python3-torch:
  build/bin/random_programs --json --count 100000 | tests/random_programs/replay_torch.py
"""
import json
import math
import re
import sys
from collections import Counter

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
ACTIVATIONS = [lambda x: x, F.relu, torch.tanh, torch.sigmoid, F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu,
               lambda x: x * torch.sigmoid(1.702 * x), lambda x: F.relu(x) ** 2]
REDUCTIONS = ["mean", "sum", "none"]


def as_shape(i):
    return tuple(int(n) for n in i)


def linear(x, w, b=None):
    return F.linear(x, w, b) if b is not None else x @ w.transpose(-1, -2)


def slice_(x, dim, start, end, step):
    return x[(slice(None),) * (dim % x.dim()) + (slice(start, end, step),)]


def pad_slice(x, dim, start, step, shape):
    index = torch.arange(x.shape[dim]) * step + start
    return torch.zeros(shape).index_add(dim, index, x)


def pad(x, i, value):
    return F.pad(x, list(i), value=value) if i else x


def sum_to(x, shape):
    while x.dim() > len(shape):
        x = x.sum(0)
    for d, n in enumerate(shape):
        if x.shape[d] != n:
            x = x.sum(d, keepdim=True)
    return x


def written(x, y, a):
    z = x.detach().clone()
    z[::2] *= a
    return z + a * y.detach()


def rms_norm(x, w=None):
    y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6)
    return y if w is None else y * w


def batch_norm(x, w=None, b=None):
    return F.batch_norm(x, None, None, w, b, True, 0.1, 1e-5)


def layer_norm(x, w=None, b=None):
    return F.layer_norm(x, x.shape[-1:], w, b)


def seen(q, k, causal, mask=None):
    tq, tk = q.shape[-2], k.shape[-2]
    allowed = torch.ones(tq, tk, dtype=torch.bool)
    if causal:
        allowed = torch.arange(tk)[None, :] <= torch.arange(tq)[:, None] + (tk - tq)
    return allowed if mask is None else allowed & mask


def weights(q, k, causal, mask=None):
    k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    allowed = seen(q, k, causal, mask)
    scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~allowed, -1e300)
    return torch.softmax(scores, -1) * allowed


def attention(q, k, v, i, mask=None):
    return weights(q, k, i[0], mask) @ v.repeat_interleave(q.shape[-3] // v.shape[-3], -3)


def self_attention(x, i):
    b, t, c = x.shape
    q, k, v = (p.reshape(b, t, i[1], -1).transpose(1, 2) for p in x.chunk(3, -1))
    return attention(q, k, v, i).transpose(1, 2).reshape(b, t, c // 3)


def rotary(x, positions, heads):
    d = x.shape[-1]
    # Each pair's sine and cosine stand side by side.
    s, c = positions[:, 0::2], positions[:, 1::2]
    s, c = s[:, None, :], c[:, None, :]
    a, b = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)
    return torch.cat([turned[..., :heads, :], x[..., heads:, :]], -2)


def cell(kind, xg, hg, h, c):
    if kind == 0:
        return torch.tanh(xg + hg), c
    if kind == 2:
        i, f, g, o = (xg + hg).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c
    xr, xz, xn = xg.chunk(3, -1)
    hr, hz, hn = hg.chunk(3, -1)
    r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
    n = torch.tanh(xn + r * hn)
    return (1 - z) * n + z * h, c


def cells(i, xg, w, h, c=None):
    for _ in range(i[1]):
        h, c = cell(i[0], xg, h @ w.T, h, c)
    return [h, c if i[0] == 2 else h]


def recurrent(i, xg, w, h, c=None):
    steps = range(xg.shape[1])
    outputs = [None] * xg.shape[1]
    for t in reversed(steps) if i[1] else steps:
        h, c = cell(i[0], xg[:, t], h @ w.T, h, c)
        outputs[t] = h
    return [torch.stack(outputs, 1), h] + ([c] if i[0] == 2 else [])


def cosines(a, b):
    return F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T / 0.5


def info_nce(a, p, n):
    own = (F.normalize(a, dim=-1) * F.normalize(p, dim=-1)).sum(-1, keepdim=True) / 0.5
    return F.cross_entropy(torch.cat([own, cosines(a, n)], 1), torch.zeros(len(a), dtype=torch.int64))


def nt_xent(a, b):
    z, n = torch.cat([a, b]), len(a)
    scores = cosines(z, z).masked_fill(torch.eye(2 * n, dtype=torch.bool), -1e300)
    return F.cross_entropy(scores, torch.arange(2 * n).roll(n))


def clip_loss(a, b):
    s, t = cosines(a, b), torch.arange(len(a))
    return (F.cross_entropy(s, t) + F.cross_entropy(s.T, t)) / 2


def hinge(x, y, reduction):
    return reduced(F.relu(1 - x * y), reduction)


def reduced(x, reduction):
    return x if reduction == 2 else x.mean() if reduction == 0 else x.sum()


EINSUMS = [
    "ij,jk->ik", "bij,bjk->bki", "iij->ji", "ij,jk,kl->", "bi,oij,bj->bo", "ij,jk->ijk", "iij,jkk->k", "i,j,ij->"]


def scatter(x, dim, index, src):
    """torch.scatter, whose order is not specified, entry by entry: the last one wins."""
    for k in range(index.shape[dim]):
        part = index.narrow(dim, k, 1)
        x = x.scatter(dim, part, src.narrow(dim, k, 1))
    return x


def bincount(ids, weights, least):
    n = max(least, int(ids.max()) + 1 if len(ids) else 0)
    return torch.zeros(n).index_add(0, ids, weights)


def lerp(a, b, w):
    return a * (1 - w) + b * w


def norm(x, i):
    return (x * x).sum(i[0], keepdim=bool(i[1])).sqrt()


OPS = {  # name: what PyTorch calls it; x: the arguments, i and r: the options
    "log1p": lambda x, i, r: torch.log1p(x[0]), "gelu_tanh": lambda x, i, r: ACTIVATIONS[5](x[0]),
    "quick_gelu": lambda x, i, r: ACTIVATIONS[7](x[0]), "relu_squared": lambda x, i, r: ACTIVATIONS[8](x[0]),
    "gelu": lambda x, i, r: F.gelu(x[0]), "silu": lambda x, i, r: F.silu(x[0]),
    "softplus": lambda x, i, r: F.softplus(x[0]), "relu": lambda x, i, r: F.relu(x[0]),
    "leaky_relu": lambda x, i, r: F.leaky_relu(x[0], r[0]), "elu": lambda x, i, r: F.elu(x[0], r[0]),
    "add": lambda x, i, r: x[0] + x[1], "sub": lambda x, i, r: x[0] - x[1], "mul": lambda x, i, r: x[0] * x[1],
    "square": lambda x, i, r: x[0] * x[0], "atan2": lambda x, i, r: torch.atan2(x[0], x[1]),
    "lerp": lambda x, i, r: lerp(*x), "lerp_number": lambda x, i, r: lerp(x[0], x[1], r[0]),
    "div": lambda x, i, r: x[0] / x[1], "pow": lambda x, i, r: x[0] ** x[1],
    "add_scalar": lambda x, i, r: r[0] + x[0], "mul_scalar": lambda x, i, r: x[0] * r[0],
    "scalar_sub": lambda x, i, r: r[0] - x[0], "scalar_div": lambda x, i, r: r[0] / x[0],
    "pow_scalar": lambda x, i, r: x[0] ** r[0], "maximum": lambda x, i, r: torch.maximum(x[0], x[1]),
    "minimum": lambda x, i, r: torch.minimum(x[0], x[1]), "maximum_scalar": lambda x, i, r: x[0].clamp(min=r[0]),
    "minimum_scalar": lambda x, i, r: x[0].clamp(max=r[0]), "clamp": lambda x, i, r: x[0].clamp(r[0], r[1]),
    "add_assign": lambda x, i, r: x[0] + x[1], "mul_assign": lambda x, i, r: x[0] * r[0],
    "written": lambda x, i, r: written(x[0], x[1], r[0]), "lt": lambda x, i, r: x[0] < x[1],
    "le": lambda x, i, r: x[0] <= x[1], "gt": lambda x, i, r: x[0] > r[0], "ge": lambda x, i, r: x[0] >= x[1],
    "eq": lambda x, i, r: x[0] == r[0], "ne": lambda x, i, r: x[0] != x[1],
    "logical_and": lambda x, i, r: x[0] & x[1], "logical_or": lambda x, i, r: x[0] | x[1],
    "where": lambda x, i, r: torch.where(x[2], x[0], x[1]),
    "masked_fill": lambda x, i, r: torch.where(x[1], torch.tensor(r[0]), x[0]),
    "sum": lambda x, i, r: x[0].sum(i[0], keepdim=bool(i[1])), "sum_all": lambda x, i, r: x[0].sum(),
    "mean": lambda x, i, r: x[0].mean(i[0], keepdim=bool(i[1])),
    "mean_two": lambda x, i, r: x[0].mean((0, -1)), "var": lambda x, i, r: x[0].var(i[0], unbiased=bool(i[1])),
    "std_dev": lambda x, i, r: x[0].std(i[0], unbiased=bool(i[1])), "norm": lambda x, i, r: norm(x[0], i),
    "prod": lambda x, i, r: x[0].prod(i[0], keepdim=bool(i[1])), "prod_all": lambda x, i, r: x[0].prod(),
    "any": lambda x, i, r: x[0].any(i[0]), "all": lambda x, i, r: x[0].all(),
    "cumsum": lambda x, i, r: x[0].cumsum(i[0]), "cumprod": lambda x, i, r: x[0].cumprod(i[0]),
    "median": lambda x, i, r: list(x[0].median(i[0])),
    "quantile": lambda x, i, r: x[0].quantile(r[0], i[0], keepdim=bool(i[1])),
    "max": lambda x, i, r: list(x[0].max(i[0])),
    "logsumexp": lambda x, i, r: x[0].logsumexp(i[0], keepdim=bool(i[1])),
    "softmax": lambda x, i, r: x[0].softmax(i[0]), "log_softmax": lambda x, i, r: x[0].log_softmax(i[0]),
    "min": lambda x, i, r: list(x[0].min(i[0], keepdim=True)), "max_all": lambda x, i, r: x[0].max(),
    "min_all": lambda x, i, r: x[0].min(), "argmax": lambda x, i, r: x[0].argmax(i[0]),
    "argmin": lambda x, i, r: x[0].argmin(i[0]), "sort": lambda x, i, r: list(x[0].sort(i[0], bool(i[1]))),
    "argsort": lambda x, i, r: x[0].argsort(i[0], True), "topk": lambda x, i, r: list(x[0].topk(i[1], i[0])),
    "reshape": lambda x, i, r: x[0].reshape(as_shape(i)), "flatten": lambda x, i, r: x[0].flatten(),
    "transpose": lambda x, i, r: x[0].transpose(i[0], i[1]), "permute": lambda x, i, r: x[0].permute(as_shape(i)),
    "slice": lambda x, i, r: slice_(x[0], *i), "select": lambda x, i, r: x[0].select(i[0], i[1]),
    "expand": lambda x, i, r: x[0].expand(as_shape(i)), "split": lambda x, i, r: list(x[0].split(i[1:], i[0])),
    "chunk": lambda x, i, r: list(x[0].chunk(i[1], i[0])), "unbind": lambda x, i, r: list(x[0].unbind(i[0])),
    "cat": lambda x, i, r: torch.cat(x, i[0]), "stack": lambda x, i, r: torch.stack(x, i[0]),
    "contiguous": lambda x, i, r: x[0].contiguous(), "to": lambda x, i, r: x[0],
    "flip": lambda x, i, r: x[0].flip(i[0]), "roll": lambda x, i, r: x[0].roll(i[1], i[0]),
    "repeat": lambda x, i, r: x[0].repeat(as_shape(i)), "pad": lambda x, i, r: pad(x[0], i, r[0]),
    "pad_slice": lambda x, i, r: pad_slice(x[0], i[0], i[1], i[2], as_shape(i[3:])),
    "sum_to": lambda x, i, r: sum_to(x[0], as_shape(i)), "tril": lambda x, i, r: x[0].tril(i[0]),
    "triu": lambda x, i, r: x[0].triu(i[0]), "gather": lambda x, i, r: x[0].gather(i[0], x[1]),
    "scatter_add": lambda x, i, r: x[0].scatter_add(i[0], x[1], x[2]),
    "scatter": lambda x, i, r: scatter(x[0], i[0], x[1], x[2]),
    "bincount": lambda x, i, r: bincount(x[1], x[0], i[0]),
    "diagonal": lambda x, i, r: x[0].diagonal(*i), "diag": lambda x, i, r: x[0].diag(i[0]),
    "outer": lambda x, i, r: torch.outer(x[0], x[1]), "einsum": lambda x, i, r: torch.einsum(EINSUMS[i[0]], *x),
    "scatter_sum": lambda x, i, r: torch.zeros(as_shape(i[1:])).scatter_add(i[0], x[1], x[0]),
    "index_select": lambda x, i, r: x[0].index_select(i[0], x[1]),
    "index_add": lambda x, i, r: x[0].index_add(i[0], x[1], x[2]),
    "index_sum": lambda x, i, r: torch.zeros(as_shape(i[1:])).index_add(i[0], x[1], x[0]),
    "embedding": lambda x, i, r: F.embedding(x[1], x[0]), "at": lambda x, i, r: x[0][x[1]],
    "one_hot": lambda x, i, r: F.one_hot(x[0], 4) * x[1].sum(), "matmul": lambda x, i, r: x[0] @ x[1],
    "linear": lambda x, i, r: ACTIVATIONS[i[0]](linear(*x)),
    "tied_linear": lambda x, i, r: linear(torch.tanh(linear(x[0], x[1])), x[1]),
    "feed_forward": lambda x, i, r: linear(ACTIVATIONS[i[0]](linear(x[0], x[1], x[2])), x[3], x[4]),
    "gated": lambda x, i, r: ACTIVATIONS[i[0]](x[0].chunk(2, -1)[0]) * x[0].chunk(2, -1)[1],
    "group_norm": lambda x, i, r: F.group_norm(x[0], i[0], *x[1:]),
    "layer_norm": lambda x, i, r: layer_norm(*x), "rms_norm": lambda x, i, r: rms_norm(*x),
    "batch_norm": lambda x, i, r: batch_norm(*x), "normalize": lambda x, i, r: F.normalize(x[0], dim=i[0]),
    "cosine_similarity": lambda x, i, r: F.cosine_similarity(x[0], x[1], dim=i[0]),
    "cross_entropy": lambda x, i, r: F.cross_entropy(x[0], x[1], reduction=REDUCTIONS[i[0]], label_smoothing=r[0]),
    "nll_loss": lambda x, i, r: F.nll_loss(x[0], x[1], reduction=REDUCTIONS[i[0]]),
    "kl_div": lambda x, i, r: reduced(F.kl_div(x[0], x[1], reduction="none"), i[0]),
    "l1_loss": lambda x, i, r: F.l1_loss(x[0], x[1], reduction=REDUCTIONS[i[0]]),
    "smooth_l1_loss": lambda x, i, r: F.smooth_l1_loss(x[0], x[1], reduction=REDUCTIONS[i[0]]),
    "mse_loss": lambda x, i, r: F.mse_loss(x[0], x[1], reduction=REDUCTIONS[i[0]]),
    "hinge_loss": lambda x, i, r: hinge(x[0], x[1], i[0]),
    "multi_margin_loss": lambda x, i, r: F.multi_margin_loss(x[0], x[1], reduction=REDUCTIONS[i[0]]),
    "binary_cross_entropy": lambda x, i, r: reduced(
        -(torch.sigmoid(x[1]) * F.logsigmoid(x[0]) + torch.sigmoid(-x[1]) * F.logsigmoid(-x[0])), i[0]),
    "binary_cross_entropy_with_logits": lambda x, i, r: F.binary_cross_entropy_with_logits(
        x[0], torch.sigmoid(x[1]), reduction=REDUCTIONS[i[0]]),
    "contrastive_cross_entropy": lambda x, i, r: F.cross_entropy(cosines(x[0], x[2]), x[1]),
    "info_nce": lambda x, i, r: info_nce(*x), "nt_xent": lambda x, i, r: nt_xent(*x),
    "clip_loss": lambda x, i, r: clip_loss(*x),
    "conv2d": lambda x, i, r: F.conv2d(x[0], x[1], x[2] if len(x) > 2 else None, *i),
    "conv1d": lambda x, i, r: F.conv1d(x[0], x[1], x[2] if len(x) > 2 else None, *i),
    "conv_transpose2d": lambda x, i, r: F.conv_transpose2d(x[0], x[1], x[2] if len(x) > 2 else None, *i),
    "max_pool2d": lambda x, i, r: F.max_pool2d(x[0], *i), "avg_pool2d": lambda x, i, r: F.avg_pool2d(x[0], *i),
    "adaptive_avg_pool2d": lambda x, i, r: F.adaptive_avg_pool2d(x[0], (i[0], i[1])),
    "interpolate": lambda x, i, r: as_images(lambda y: F.interpolate(
        y, (i[0], i[1]), mode="bilinear", align_corners=bool(i[2])), x[0]),
    "interpolate_nearest": lambda x, i, r: as_images(lambda y: F.interpolate(y, (i[0], i[1])), x[0]),
    "scaled_dot_product_attention": lambda x, i, r: attention(*x[:3], i, *x[3:]),
    "attention_weights": lambda x, i, r: weights(x[0], x[1], i[0]),
    "self_attention": lambda x, i, r: self_attention(x[0], i),
    "additive_scores": lambda x, i, r: torch.tanh(x[0][:, :, None] + x[1][:, None]) @ x[2],
    "rotary": lambda x, i, r: rotary(x[0], x[1], i[0]), "cells": lambda x, i, r: cells(i, *x),
    "recurrent": lambda x, i, r: recurrent(i, *x),
    "batch_norm_by": lambda x, i, r: batch_norm_by(*x),
}


def batch_norm_by(x, mean, var, w, b):
    shape = (1, -1) + (1,) * (x.dim() - 2)
    return (x - mean.view(shape)) / (var.view(shape) + 1e-5).sqrt() * w.view(shape) + b.view(shape)


def as_images(f, x):
    return f(x[None])[0] if x.dim() == 3 else f(x)


for name in ("exp expm1 log sqrt rsqrt sin cos tan erf tanh sigmoid abs sign floor ceil round neg isnan clone detach "
             "squeeze logical_not").split():
    OPS[name] = lambda x, i, r, name=name: getattr(torch, name)(x[0])
OPS["unsqueeze"] = lambda x, i, r: x[0].unsqueeze(i[0])
# Their masks are drawn from another generator: they are read off the outputs.
MASKED = {"dropout", "dropout_by_mode"}
DTYPES = {"float64": torch.float64, "int64": torch.int64, "bool": torch.bool}


def outputs_of(ops, step, values, ours):
    x = [values[s][k] for s, k in step["args"]]
    if step["op"] in MASKED:
        p, y = step["r"][0], torch.tensor(ours[0]).reshape(x[0].shape)
        evaluating = step["island"] == 3 and step["op"] == "dropout_by_mode"
        if not evaluating and bool((x[0] == 0).any()):
            raise LookupError("a mask that cannot be read off")
        mask = torch.ones(y.shape) if evaluating else (y != 0) / (1 - p)
        return [x[0].detach() * mask if step["island"] == 1 else x[0] * mask]
    if step["island"] == 1:
        with torch.no_grad():
            out = ops[step["op"]](x, step["i"], step["r"])
        return [y.detach() for y in (out if isinstance(out, list) else [out])]
    else:
        out = ops[step["op"]](x, step["i"], step["r"])
    return out if isinstance(out, list) else [out]


THEIRS, CONVENTION = "theirs", "convention"
UNREADABLE = "dropout: the mask cannot be read off"
# What PyTorch 1.13 is known to do differently: the result of replay(), the kind, the reason.
KNOWN = [
    (r"conv[12]d: .*Only zero batch or zero channel inputs", THEIRS, "conv refuses images of size 0"),
    (r"(max|avg)_pool2d: .*Expected 3D or 4D .* with optional 0 dim batch", THEIRS, "pooling refuses empty inputs"),
    (r"interpolate(_nearest)?: .*Non-empty 4D data tensor expected", THEIRS, "interpolate refuses empty images"),
    (r"gradient: .*adaptive_avg_pool2d_backward.*non-zero size", THEIRS, "adaptive_avg_pool2d of an empty input "
     "has no gradient"),
    (r"quantile: .*must be non-empty", THEIRS, "quantile refuses empty inputs, even along an axis of size > 0"),
    (r"pad: .*negative padding 0 and 0", THEIRS, "pad refuses to leave an axis of size 0 as it is"),
    (r"diag: .*integer multiplication overflow", THEIRS, "diag overflows beyond the last diagonal of some matrices"),
    (r"gradient: group_norm's", THEIRS, "group_norm of an empty input gives weight and bias NaN instead of 0"),
    (r"gradient: batch_norm's", THEIRS, "batch_norm's gradient reads a strided weight as if it were contiguous "
     "(torch.autograd.gradcheck fails)"),
    (UNREADABLE, CONVENTION, "dropout draws other masks, and a mask cannot be read off where the input is 0"),
]


def kind_of(result):
    """Its kind and the row's number, or "other" and -1."""
    for row, (pattern, kind, _) in enumerate(KNOWN):
        if re.match(pattern, result):
            return kind, row
    return "other", -1


def distance(ours, theirs):
    theirs = theirs.detach().to(torch.float64).reshape(-1)
    ours = torch.tensor([float(v) for v in ours], dtype=torch.float64)
    if ours.shape != theirs.shape:
        return math.inf
    return float((ours - theirs).norm() / (1 + theirs.norm())) if len(ours) else 0.0


def group_norm(x, groups, w=None, b=None):
    if x.numel() > 0 or w is None:
        return F.group_norm(x, groups, w, b)
    shape = (1, -1) + (1,) * (x.dim() - 2)
    return x * w.view(shape) + b.view(shape)


# Ops whose gradient is wrong in PyTorch 1.13 for some inputs, in a form that is right.
CORRECTED = {
    "group_norm": lambda x, i, r: group_norm(x[0], i[0], *x[1:]),
    "batch_norm": lambda x, i, r: batch_norm(*(y.contiguous() for y in x)),
}


def replay(line):
    """None, or what differs first."""
    record = json.loads(line)
    result = compare(record, OPS)
    if result is not None and result.startswith("gradient: differs"):
        for name, op in CORRECTED.items():
            if compare(record, {**OPS, name: op}) is None:
                return f"gradient: {name}'s"
    return result


def compare(record, ops):
    """None, or what differs first from PyTorch's results with these ops."""
    program, values = record["program"], []
    for s, step in enumerate(program["steps"]):
        if "op" not in step:
            x = torch.tensor(step["values"], dtype=DTYPES[step["dtype"]]).reshape(step["shape"])
            values.append([x.requires_grad_() if step["grad"] else x])
            continue
        try:
            values.append(outputs_of(ops, step, values, record["values"].get(str(s))))
        except LookupError:
            return UNREADABLE
        except Exception as e:
            return f"{step['op']}: PyTorch throws: {str(e)[:100]}"
        for k, ours in enumerate(record["values"].get(str(s), [])):
            d = distance(ours, values[s][k])
            if not d < 1e-8:
                return f"{step['op']}: output {k} differs by {d:.2g}"
    terms = [(values[s][k] * torch.tensor(f).reshape(values[s][k].shape)).sum()
             for (s, k), f in zip(program["outputs"], record["factors"]) if values[s][k].requires_grad]
    if terms:
        try:
            sum(terms).backward()
        except RuntimeError as e:
            return f"gradient: PyTorch throws: {str(e)[:100]}"
    largest = max([1.0] + [float(v[0].grad.norm()) for v in values if v[0].is_leaf and v[0].grad is not None])
    for s, step in enumerate(program["steps"]):
        if "op" in step or not step["grad"]:
            continue
        ours, theirs = record["gradients"].get(str(s)), values[s][0].grad
        if theirs is None:
            theirs = torch.zeros(step["shape"])
        d = distance(ours if ours is not None else [0.0] * theirs.numel(), theirs) / largest
        if not d < 1e-8:
            names = sorted({t["op"] for t in program["steps"] if "op" in t})
            return f"gradient: differs by {d:.2g} in a program of {', '.join(names)}"
    return None


def main():
    counts, rows, agree = Counter(), Counter(), 0
    for line in sys.stdin:
        result = replay(line)
        if result is None:
            agree += 1
            continue
        kind, row = kind_of(result)
        counts[kind] += 1
        rows[row] += 1
        if kind == "other":
            print(f"seed {json.loads(line)['program']['seed']}: {result}", flush=True)
    for row, (_, kind, reason) in enumerate(KNOWN):
        print(f"{rows[row]:6} {kind}: {reason}")
    print(f"{agree} agree, {counts[THEIRS]} theirs, {counts[CONVENTION]} convention, {counts['other']} other")
    return counts["other"] > 0


if __name__ == "__main__":
    sys.exit(main())
