#!/usr/bin/env python3
"""Makes common_ops.safetensors: PyTorch's outputs and gradients of common ops.

For each case: its inputs in.0, in.1, ...; out; dy, the gradient of out; grad.0, ... of the inputs that have one. Cases
called *_wide have float32 inputs of every magnitude, with zeros, infinities and NaN, and float64 results for these
inputs, which a correct float32 op matches. tests/ops/common_golden_test.cpp holds the same cases.
"""
import math

import torch
import torch.nn.functional as F

from golden import F64, begin, record_functions, save

INF, NAN = math.inf, math.nan
CASES = {}


def cases(inputs, functions):
    for name, function in functions.items():
        CASES[name] = (function, inputs)


def normal(*shape):
    return torch.randn(shape, dtype=F64)


def positive(*shape):
    return torch.rand(shape, dtype=F64) + 0.2


# ---- reductions and orderings ----


def declare_reductions():
    x = normal(4, 5, 3)
    cases((x,), {
        "std": lambda x: x.std((0, 2)), "std_biased": lambda x: x.std(1, unbiased=False, keepdim=True),
        "std_of_all": lambda x: x.std(), "prod": lambda x: x.prod(1), "prod_keepdim": lambda x: x.prod(0, keepdim=True),
        "prod_of_all": lambda x: x.prod(), "cumsum": lambda x: x.cumsum(1), "cumsum_last": lambda x: x.cumsum(-1)})
    zeros = normal(3, 4)
    zeros[0, 1] = zeros[1, 0] = zeros[1, 2] = 0
    cases((zeros,), {"prod_zeros": lambda x: x.prod(1), "prod_zeros_of_all": lambda x: x.prod()})
    cases((torch.full((2, 3), 0.5, dtype=F64),), {"std_of_equals": lambda x: x.std(1)})
    tied = torch.randint(-3, 4, (4, 5, 3))
    cases((tied,), {
        "argmax_of_all": lambda x: x.argmax(), "argmin_of_all": lambda x: x.argmin(), "prod_int": lambda x: x.prod(1),
        "argmin": lambda x: x.argmin(1), "argsort": lambda x: torch.sort(x, dim=1, stable=True)[1],
        "argsort_descending": lambda x: torch.sort(x, dim=0, descending=True, stable=True)[1],
        "cumsum_int": lambda x: x.cumsum(0), "one_hot": lambda x: F.one_hot(x + 3),
        "one_hot_more": lambda x: F.one_hot(x + 3, 9)})
    cases((tied > 0,), {
        "any": lambda x: x.any(1), "all": lambda x: x.all(2, keepdim=True), "any_of_all": lambda x: x.any(),
        "all_of_all": lambda x: x.all(), "prod_bool": lambda x: x.prod(0), "cumsum_bool": lambda x: x.cumsum(2)})


# ---- shapes ----


def declare_shapes():
    cases((normal(3, 4, 2),), {
        "flip": lambda x: x.flip(0, 2), "roll": lambda x: x.roll(1, 1), "roll_back": lambda x: x.roll((-2, 5), (0, 1)),
        "roll_flat": lambda x: x.roll(5), "repeat": lambda x: x.repeat(2, 1, 3, 2), "pad": lambda x: F.pad(x, (1, 2)),
        "pad_more": lambda x: F.pad(x, (0, 1, 2, 0, 1, 1), value=-2.5),
        "unbind": lambda x: x.unbind(1)[0] * x.unbind(1)[2] + x.unbind(1)[3]})


# ---- functions ----


class Expm1(torch.autograd.Function):
    """torch.expm1 with the gradient dy e^x: PyTorch's dy (y + 1) loses its digits far below 0."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.expm1(x)

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.saved_tensors[0].exp()


def elu(x, alpha):
    """torch.nn.functional.elu, with expm1 instead of exp(x) - 1."""
    return torch.where(x > 0, x, alpha * Expm1.apply(torch.where(x > 0, 0, x)))


FUNCTIONS = {
    "log1p": torch.log1p, "rsqrt": torch.rsqrt, "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "floor": torch.floor, "ceil": torch.ceil, "round": torch.round}


def declare_functions():
    cases((positive(5, 6) * 3,), {**FUNCTIONS, "expm1": torch.expm1})
    cases((normal(5, 6) * 2,), {"elu": lambda x: F.elu(x, 1.5), "leaky_relu_default": F.leaky_relu,
                                "elu_default": F.elu})
    sizes = [1e-37, 1e-30, 1e-20, 1e-9, 1e-7, 1e-4, 0.1, 0.4142, 0.5, 0.9999999, 1, 1.5, 2.5, 10, 17, 30, 87.5, 88.7, 1e3,
             8388609, 1e10, 1e20, 3.4e38]
    wide = torch.tensor([s * v for v in sizes for s in (1, -1)] + [0.0, -0.0, INF, -INF, NAN], dtype=torch.float32)
    cases((wide.to(F64),), {**{name + "_wide": f for name, f in FUNCTIONS.items()},
                            "expm1_wide": Expm1.apply, "elu_wide": lambda x: elu(x, 1.5)})


# ---- lengths and angles ----


def cosine(a, b, dim, eps):
    """torch.nn.functional.cosine_similarity, except for the gradient of vectors shorter than eps."""
    return (F.normalize(a, dim=dim, eps=eps) * F.normalize(b, dim=dim, eps=eps)).sum(dim)


def declare_lengths():
    x = normal(4, 5, 3)
    x[1, :, 0] = 0
    cases((x,), {"normalize": F.normalize, "normalize_last": lambda x: F.normalize(x, dim=-1)})
    cases((normal(4, 5),), {"normalize_short": lambda x: F.normalize(x, dim=0, eps=2.0)})
    cases((normal(4, 5),), {
        "normalize_1": lambda x: F.normalize(x, p=1), "normalize_3": lambda x: F.normalize(x, p=3),
        "normalize_infinity": lambda x: F.normalize(x, p=INF)})
    cases((normal(4, 5, 3), normal(5, 3)), {
        "cosine": F.cosine_similarity, "cosine_last": lambda a, b: F.cosine_similarity(a, b, dim=-1)})
    b = normal(4, 5)
    b[2] = 0
    cases((normal(4, 5), b), {"cosine_at_0": F.cosine_similarity})
    cases((normal(4, 5), normal(4, 5) * 0.1), {"cosine_short": lambda a, b: cosine(a, b, 1, 0.3)})
    unit = positive(12, 4)
    sizes = torch.tensor([1e-36, 1e-30, 1e-20, 1e-13, 1e-12, 1e-9, 1e-7, 1, 1e10, 1e19, 1e30, 2e38], dtype=F64)
    wide = (unit * sizes.unsqueeze(1)).float().to(F64)
    wide[0, 1:] = 0
    cases((wide,), {"normalize_wide": F.normalize, "normalize_1_wide": lambda x: F.normalize(x, p=1)})
    other = (positive(12, 4) * sizes.flip(0).unsqueeze(1)).float().to(F64)
    cases((wide, other), {"cosine_wide": lambda a, b: cosine(a, b, 1, 1e-8)})
    # intermediate squares leave float32's range
    cases(((normal(5, 7) * torch.tensor([1e-30, 1e-20, 1, 1e20, 1e37], dtype=F64).unsqueeze(1)).float().to(F64),),
          {"std_wide": lambda x: x.std(1), "cumsum_wide": lambda x: x.cumsum(1)})
    factors = torch.tensor([[1e30, 1e30, 1e-30, 1e-30], [1e-37, 1e37, 3, -1], [1e20, 0, 1e20, 1e20], [3, 2, 1, 1]],
                           dtype=torch.float32).to(F64)
    cases((factors,), {"prod_wide": lambda x: x.prod(1)})


def main():
    begin(12)
    for declare in (declare_reductions, declare_shapes, declare_functions, declare_lengths):
        declare()
    save("common_ops", record_functions(CASES, lambda y: torch.randn_like(y).float().to(F64)))


if __name__ == "__main__":
    main()
