#!/usr/bin/env python3
"""Makes magnitudes.safetensors: outputs and gradients at every magnitude, from 1e-4 to the largest finite value.

All inputs are float32 (except in cases called *_double), and scores computed from them are exact in float32: small
integers times powers of two, close enough to each other at every magnitude for softmax to tell them apart. Results are
float64's for these inputs, with each row's largest score subtracted first; a correct float32 kernel matches them. Where
a sum itself is rounded (a score plus a mask of -1e9), float32 has its own expected result, *32.
tests/ops/magnitude_golden_test.cpp holds the same cases.
"""
import math

import torch
import torch.nn.functional as F

from golden import F64, begin, save

F32 = torch.float32
SIZES = [1e-4, 1e-2, 1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e9, 1e20, 1e30, 3e38]
DOUBLE_SIZES = [1e300, 1.7e308]
OUT = {}


def exact(x):
    """x as it is stored: in float32 if that is exact."""
    narrow = x.detach().to(F32)
    return narrow if x.dtype == F64 and torch.equal(narrow.to(F64), x) else x.detach().clone()


def normal(*shape):
    return torch.randn(shape, dtype=F64).to(F32).to(F64)


# ---- functions of rows ----

COLUMNS = 8


def rows(sizes, dtype):
    """For each size: scores near it, near its negative, all equal to it, and spread between both."""
    bits = 24 if dtype == F32 else 53
    out = []
    for size in sizes:
        last_place = 2.0 ** (math.frexp(size)[1] - bits)
        unit = max(0.25, last_place) if size >= 1 else size / 8
        near = size + unit * torch.randint(-8, 0, (COLUMNS,)).to(F64)
        spread = torch.randint(-4, 5, (COLUMNS,)).to(F64) / 4
        out += [near, -near, torch.full((COLUMNS,), size, dtype=F64), size * spread]
    return torch.stack(out).to(dtype).to(F64)


def logsumexp(x):
    shift = x.detach().max(-1, keepdim=True)[0]
    return (shift + (x - shift).exp().sum(-1, keepdim=True).log()).squeeze(-1)


def layer_norm(x):
    """Layer norm after subtracting each row's first number, so that a row of equal numbers gives 0."""
    x = x - x.detach()[..., :1]
    x = x - x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()


WEIGHTS = torch.tensor([0.5, 2.0, 1.0, 0.25, 1.5, 1.0, 0.75, 3.0], dtype=F64)


def row_functions(targets, probabilities, x_dtype):
    t, p = targets, probabilities

    def entropy(target, **options):
        def f(x):
            if "weight" in options:
                options["weight"] = WEIGHTS.to(x.dtype)
            return F.cross_entropy(x, target if target.dtype == torch.int64 else target.to(x.dtype), reduction="none",
                                   **options)
        return f
    return {
        "softmax": lambda x: x.softmax(-1), "log_softmax": lambda x: x.log_softmax(-1), "logsumexp": logsumexp,
        "cross_entropy": entropy(t), "cross_entropy_smoothing": entropy(t, label_smoothing=0.125),
        "cross_entropy_weights": entropy(t, weight=WEIGHTS, label_smoothing=0.125),
        "cross_entropy_probabilities": entropy(p),
        "bce": lambda x: F.binary_cross_entropy_with_logits(x, p.to(x.dtype), reduction="none"),
        "layer_norm": layer_norm if x_dtype == F64 else lambda x: F.layer_norm(x, (COLUMNS,), eps=1e-5)}


def run(f, x, dy):
    x = x.detach().clone().requires_grad_()
    y = f(x)
    y.backward(dy.to(y.dtype))
    return y.detach(), x.grad


def keep_pytorch(key, truth, own):
    """Stores PyTorch's result in the dtype itself where it overflows although the true one is finite: also accepted."""
    own = own.to(F64)
    own = torch.where(own.isfinite() | ~truth.isfinite(), truth, own)
    if not torch.equal(own, truth):
        OUT[key] = exact(own)


def declare_rows(suffix, sizes, dtype):
    x = rows(sizes, dtype)
    t = torch.randint(0, COLUMNS, x.shape[:1])
    p = torch.randint(1, 9, x.shape).to(F64) / 8
    OUT[f"rows{suffix}.x"], OUT[f"rows{suffix}.t"], OUT[f"rows{suffix}.p"] = exact(x), t, exact(p)
    narrow = row_functions(t, p, F32)
    for name, f in row_functions(t, p, F64).items():
        dy = normal(*f(x).shape)
        y, dx = run(f, x, dy)
        key = f"rows{suffix}.{name}"
        OUT[key + ".dy"], OUT[key + ".out"], OUT[key + ".dx"] = exact(dy), y, dx
        if dtype == F32:
            y32, dx32 = run(narrow[name], x.to(F32), dy)
            keep_pytorch(key + ".out_pytorch", y, y32)
            keep_pytorch(key + ".dx_pytorch", dx, dx32)


# ---- functions of numbers: value and slope, with their limits where float64 itself overflows ----


def declare_points(suffix, sizes, dtype):
    inf = math.inf
    x = torch.tensor(sizes + ([20.0, 50.0, 90.0, 200.0] if dtype == F32 else []), dtype=dtype).to(F64)
    x = torch.cat([x, -x, torch.tensor([inf, -inf], dtype=F64)])
    OUT[f"points{suffix}.x"] = exact(x)
    functions = {"sigmoid": torch.sigmoid, "softplus": lambda x: x.clamp(min=0) + torch.log1p(torch.exp(-x.abs())),
                 "tanh": torch.tanh, "erf": torch.erf, "gelu_erf": F.gelu,
                 "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}
    flat = {"sigmoid": (1, 0), "tanh": (1, -1), "erf": (1, -1)}
    for name, f in functions.items():
        y, slope = run(f, x, torch.ones_like(x))
        own = run(f, x.to(dtype), torch.ones_like(x))[1]
        for i, number in enumerate(x.tolist()):
            if abs(number) > 1e6:
                high, low = flat.get(name, (number, 0.0))
                y[i] = high if number > 0 else low
                slope[i] = float(name not in flat and number > 0)
        OUT[f"points{suffix}.{name}.out"], OUT[f"points{suffix}.{name}.dx"] = y, slope
        keep_pytorch(f"points{suffix}.{name}.dx_pytorch", slope, own)


def declare_waves(suffix, sizes, dtype):
    numbers = [s * f for s in sizes for f in (1, -0.7, 0.31)]
    x = torch.tensor(numbers, dtype=dtype).to(F64)
    sin = torch.tensor([math.sin(v) for v in x.tolist()] + [math.nan] * 2, dtype=F64)
    cos = torch.tensor([math.cos(v) for v in x.tolist()] + [math.nan] * 2, dtype=F64)
    x = torch.cat([x, torch.tensor([math.inf, -math.inf], dtype=F64)])
    for name, y, slope in (("sin", sin, cos), ("cos", cos, -sin)):
        OUT[f"waves{suffix}.x"] = exact(x)
        OUT[f"waves{suffix}.{name}.out"], OUT[f"waves{suffix}.{name}.dx"] = y, slope


# ---- attention ----


class Rounded(torch.autograd.Function):
    """Rounds x to float32; the gradient passes unchanged."""
    @staticmethod
    def forward(ctx, x):
        return x.to(F32).to(F64)

    @staticmethod
    def backward(ctx, dy):
        return dy


def attend(q, k, v, scale, causal, mask, narrow):
    group = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
    scores = q @ k.transpose(-1, -2) * scale
    if causal:
        Tq, Tk = scores.shape[-2:]
        scores = scores.masked_fill(~torch.ones(Tq, Tk).tril(Tk - Tq).bool(), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    if narrow:
        assert mask is not None or torch.equal(scores.to(F32).to(F64), scores)
        scores = Rounded.apply(scores)
    largest = scores.detach().max(-1, keepdim=True)[0]
    e = torch.exp(scores - torch.where(largest == -math.inf, 0.0, largest))
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, 1.0, total) @ v


def attention(name, size, Tq, Tk, heads=(2, 1), causal=False, mask=None, scale=None):
    """Scores size + r.c for small r and c. Heads have 4 features, so by default a score is half of the product q.k."""
    H, Hk = heads
    bits = 53 if abs(size) > 2.0 ** 127 else 24
    q, k = torch.randint(-2, 3, (1, H, Tq, 4)).to(F64), torch.randint(-2, 3, (1, Hk, Tk, 4)).to(F64)
    factor = 0.5 if scale is None else scale
    k[..., 0], q[..., 0] = 1, size / factor
    if abs(size) > 2.0 ** 20:  # scores then differ by whole units in the last place
        q[..., 1:] *= 2.0 ** (math.frexp(size)[1] - bits) / factor
        q[..., 2:], q[..., 1], k[..., 1] = 0, -q[..., 1].abs(), k[..., 1].abs()
    v, dy = normal(1, Hk, Tk, 4), normal(1, H, Tq, 4) / 16
    for key, x in (("q", q), ("k", k), ("v", v), ("dy", dy)):
        OUT[f"{name}.{key}"] = exact(x)
    if mask is not None:
        OUT[name + ".mask"] = exact(mask) if mask.dtype == F64 else mask
    if scale is not None:
        OUT[name + ".scale"] = torch.tensor(scale, dtype=F64)
    results = {}
    for narrow in (False, True):
        inputs = [x.detach().clone().requires_grad_() for x in (q, k, v)]
        y = attend(*inputs, factor, causal, mask, narrow and bits == 24)
        y.backward(dy)
        results[narrow] = [y] + [x.grad for x in inputs]
        assert all(x.isfinite().all() for x in results[narrow]), name
    for key, wide, narrow in zip(("out", "dq", "dk", "dv"), results[False], results[True]):
        OUT[f"{name}.{key}"] = wide
        if not torch.equal(wide, narrow):
            OUT[f"{name}.{key}32"] = narrow


def declare_attention():
    lengths = {1: 5, 3: 7, 5: 5, 70: 70}
    powers = [-13, -7, 0, 7, 10, 13, 17, 20, 30, 66, 100]
    for power in powers:
        for Tq, Tk in lengths.items():
            if Tq < 70 or power in (0, 17, 20, 66):
                attention(f"attend.2^{power}.t{Tq}", 2.0 ** power, Tq, Tk, (4, 2) if Tq < 70 else (2, 1))
        attention(f"attend.2^{power}.causal.t5", 2.0 ** power, 5, 5, (2, 1), causal=True)
        attention(f"attend.-2^{power}.t3", -2.0 ** power, 3, 7)
    attention("attend.2^20.causal.t70", 2.0 ** 20, 70, 70, causal=True)
    attention("attend.2^127.scale.t5", 2.0 ** 126, 5, 5, scale=1.0)
    attention("attend.2^10.scale.t5", 2.0 ** 10, 5, 5, scale=0.125)
    for power in (1000, 1022):
        attention(f"attend_double.2^{power}.t5", 2.0 ** power, 5, 5, scale=1.0)

    lowest = torch.finfo(F32).min
    for value in (-1e4, -1e9, lowest, -math.inf, 1e4, 1e9, 1e30):
        value = torch.tensor(value, dtype=F32).item()
        for Tq, Tk in lengths.items():
            some = torch.zeros(Tk, dtype=F64)
            some[1::3] = value
            attention(f"attend.mask{value:.0e}.some.t{Tq}", 1.0, Tq, Tk, mask=some)
            if Tq == 1:
                continue
            whole = torch.zeros(Tq, 1, dtype=F64)  # one value for all keys of a row
            whole[1::2] = value
            if value > -math.inf or Tq == 5:
                attention(f"attend.mask{value:.0e}.rows.t{Tq}", 1.0, Tq, Tk, mask=whole)
            if Tq < 70:
                both = torch.zeros(Tq, Tk, dtype=F64)
                both[1], both[0, ::2], both[2] = value, value, torch.arange(Tk) / 4
                attention(f"attend.mask{value:.0e}.both.t{Tq}", 2.0 ** 17, Tq, Tk, mask=both)
                if Tq == Tk:
                    attention(f"attend.mask{value:.0e}.both.causal.t{Tq}", 1.0, Tq, Tk, mask=both, causal=True)
    for Tq, Tk in lengths.items():
        attention(f"attend.bool.t{Tq}", 2.0 ** 20, Tq, Tk, mask=torch.randint(0, 2, (Tq, Tk)).bool())


# ---- NaN, and zero to a power ----


def declare_special():
    nan, inf = math.nan, math.inf
    a = torch.tensor([nan, 1.0, nan, 2.0, 3.0, inf, nan], dtype=F64)
    b = torch.tensor([1.0, nan, nan, 2.0, 1.0, nan, -inf], dtype=F64)
    base = torch.tensor([0.0] * 5 + [-2.0, 0.0, 3.0, inf], dtype=F64)
    power = torch.tensor([-1.0, 0.0, 0.5, 1.0, 2.0] + [0.0] * 4, dtype=F64)
    for name, f, inputs in (("clamp", lambda x: x.clamp(-1.5, 1.5), [a]), ("maximum", torch.maximum, [a, b]),
                            ("minimum", torch.minimum, [a, b]), ("pow", torch.pow, [base, power]),
                            ("pow_0", lambda x: x ** 0.0, [base])):
        inputs = [x.clone().requires_grad_() for x in inputs]
        y = f(*inputs)
        dy = normal(*y.shape)
        y.backward(dy)
        OUT[f"special.{name}.out"], OUT[f"special.{name}.dy"] = y, exact(dy)
        for i, x in enumerate(inputs):
            OUT[f"special.{name}.in.{i}"], OUT[f"special.{name}.grad.{i}"] = exact(x), x.grad


def main():
    begin(12)
    declare_rows("", SIZES, F32)
    declare_rows("_double", DOUBLE_SIZES, F64)
    declare_points("", SIZES, F32)
    declare_points("_double", DOUBLE_SIZES, F64)
    declare_waves("", [1e5, 1e6, 1e9, 1e20, 1e30, 3e38], F32)
    declare_waves("_double", DOUBLE_SIZES, F64)
    declare_attention()
    declare_special()
    save("magnitudes", OUT)


if __name__ == "__main__":
    main()
