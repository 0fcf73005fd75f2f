#!/usr/bin/env python3
"""Makes common_ops.safetensors: PyTorch's outputs and gradients of common ops.

For each case: its inputs in.0, in.1, ...; out; dy, the gradient of out; grad.0, ... of the inputs that have one. Cases
called *_wide have float32 inputs of every magnitude, with zeros, infinities and NaN, and float64 results for these
inputs, which a correct float32 op matches. tests/ops/common_golden_test.cpp holds the same cases.
"""
import math

import torch
import torch.nn.functional as F

from golden import F64, begin, cases, normal, positive, record_cases, save

INF, NAN = math.inf, math.nan


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


# ---- einsum, diagonals ----

EINSUMS = {  # name: equation, shapes
    "matmul": ("ij,jk->ik", (3, 4), (4, 5)), "batched": ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    "attention": ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)), "transpose": ("ij->ji", (3, 4)),
    "diagonal": ("ii->i", (4, 4)), "trace": ("ii", (4, 4)), "sum": ("ij->", (3, 4)), "outer": ("i,j", (3,), (4,)),
    "dots": ("...ij,...jk", (2, 1, 3, 4), (5, 4, 2)), "dots_summed": ("...ij,...jk->ik", (2, 3, 4), (2, 4, 2)),
    "dots_inside": ("a...b,b...c->...ac", (2, 3, 4), (4, 3, 5)), "dots_of_none": ("ij,...->j", (3, 4), ()),
    "bilinear": ("bn,anm,bm->ba", (3, 4), (2, 4, 5), (3, 5)), "chain": ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    "five": ("ijk,ilm,njm,nlk,abc->", (2, 3, 4), (2, 5, 2), (3, 3, 2), (3, 5, 4), (2, 2, 2)),
    "implicit": ("bA,Ab,cB", (3, 2), (2, 3), (2, 4)), "size_1": ("ij,jk", (2, 1), (3, 4)),
    "size_1_batch": ("bij,bjk->bik", (1, 3, 4), (5, 4, 2)), "repeated": ("iij,jkk->ik", (3, 3, 2), (2, 4, 4)),
    "no_sum": ("ij,jk->ijk", (3, 4), (4, 2)), "one_summed": ("ij,k->k", (3, 4), (2,)),
    "scalars": (",i->i", (), (3,)), "empty": ("ij,jk->ik", (2, 0), (0, 3)),
    "spaces": (" i j , j k -> i k ", (3, 4), (4, 5)),
}


def declare_einsums():
    for name, (equation, *shapes) in EINSUMS.items():
        cases(tuple(normal(*shape) for shape in shapes), {
            "einsum_" + name: lambda *x, equation=equation: torch.einsum(equation, *x)})
    cases((normal(3), normal(4)), {"outer": torch.outer})
    cases((normal(4, 3),), {f"diag_{k + 3}": lambda x, k=k: torch.diag(x, k) for k in range(-3, 4)})
    cases((normal(3),), {f"diag_of_vector_{k + 2}": lambda x, k=k: torch.diag(x, k) for k in range(-2, 3)})
    cases((normal(3, 4, 2),), {"diagonal": torch.diagonal, "diagonal_above": lambda x: torch.diagonal(x, 1, 1, 0)})


# ---- positions and counts ----


def declare_positions():
    places = torch.stack([torch.randperm(5)[:3] for _ in range(4)])
    cases((normal(4, 5), places, normal(4, 3)), {"scatter": lambda x, i, s: x.scatter(1, i, s)})
    cases((normal(4, 5), torch.randint(0, 4, (6, 3))), {"scatter_value": lambda x, i: x.scatter(0, i, -1.5)})
    tied = torch.randint(-2, 3, (3, 4))
    cases((tied,), {"nonzero": torch.nonzero, "unique": torch.unique,
                    "unique_inverse": lambda x: torch.unique(x, return_inverse=True)[1],
                    "unique_counts": lambda x: torch.unique(x, return_counts=True)[1]})
    cases((torch.randint(0, 6, (9,)),), {
        "bincount": torch.bincount, "bincount_more": lambda x: torch.bincount(x, minlength=9)})
    ids = torch.randint(0, 6, (9,))
    cases((ids, normal(9)), {"bincount_weights": lambda x, w: torch.bincount(x, w.detach())})
    cases((normal(4, 5, 3),), {
        "median": lambda x: x.median(1)[0], "median_even": lambda x: x.median(0, keepdim=True)[0],
        "median_of_all": lambda x: x.median(), "quantile": lambda x: x.quantile(0.3, 1),
        "quantile_keepdim": lambda x: x.quantile(0.9, -1, keepdim=True), "quantile_of_all": lambda x: x.quantile(0.25)})
    cases((normal(4, 5, 3).detach(),), {"median_index": lambda x: x.detach().median(1)[1]})
    with_nan = normal(3, 4)
    with_nan[1, 2] = NAN
    cases((with_nan,), {
        "median_nan": lambda x: x.detach().median(1)[0], "quantile_nan": lambda x: x.detach().quantile(0.6, 1)})


# ---- functions of two tensors, cumulative products ----


def declare_pairs():
    cases((normal(4, 5), normal(5)), {"atan2": torch.atan2})
    cases((normal(4, 5), normal(5), normal(4, 1)), {"lerp": torch.lerp})
    cases((normal(4, 5), normal(4, 5)), {"lerp_number": lambda a, b: torch.lerp(a, b, 0.3),
                                         "lerp_beyond": lambda a, b: torch.lerp(a, b, -1.5)})
    cases((normal(4, 5),), {"square": torch.square, "tan": torch.tan})
    x = normal(4, 5, 3)
    cases((x,), {"cumprod": lambda x: x.cumprod(1), "cumprod_last": lambda x: x.cumprod(-1)})
    zeros = x.clone()
    zeros[0, 1] = zeros[1, 0] = zeros[2, 1:3] = zeros[3, 4] = 0
    cases((zeros,), {"cumprod_zeros": lambda x: x.cumprod(1)})
    cases((torch.randint(-3, 4, (3, 5)),), {
        "cumprod_int": lambda x: x.cumprod(1), "cumprod_bool": lambda x: (x > 0).cumprod(0)})
    near = torch.tensor([1.0, -2.0, INF, 1e-9, 0.0], dtype=F64)
    for name, other in {"same": near, "1e_6": near * (1 + 1e-6), "1e_4": near * (1 + 1e-4), "opposite": -near}.items():
        cases((near, other), {"allclose_" + name: lambda a, b: torch.tensor(torch.allclose(a, b)),
                              f"allclose_{name}_loose": lambda a, b: torch.tensor(torch.allclose(a, b, 1e-3, 0))})
    nan = torch.tensor([NAN, 1.0], dtype=F64)
    cases((nan, nan), {"allclose_nan": lambda a, b: torch.tensor(torch.allclose(a, b)),
                       "allclose_equal_nan": lambda a, b: torch.tensor(torch.allclose(a, b, equal_nan=True))})
    wide = torch.tensor([s * v for v in (1e-37, 1e-20, 1e-4, 0.3, 1, 1.5707964, 3.1415927, 100, 1e5, 1e10, 1e20, 3.4e38)
                         for s in (1, -1)] + [0.0, INF, NAN], dtype=torch.float32).to(F64)
    cases((wide,), {"tan_wide": torch.tan})
    sizes = 10.0 ** (torch.rand(60, dtype=F64) * 70 - 35)
    others = (sizes * 10.0 ** (normal(60) * 3)).clamp(max=1e37)
    cases(((sizes * normal(60)).float().to(F64), (others * normal(60)).float().to(F64)), {"atan2_wide": torch.atan2})
    factors = torch.tensor([[1e30, 1e30, 1e-30, 1e-30], [1e-30, 1e-30, 1e30, 3], [1e20, 0, 1e20, 1e20], [3, 2, 1, 1]],
                           dtype=torch.float32).to(F64)
    cases((factors,), {"cumprod_wide": lambda x: x.cumprod(1)})


def main():
    begin(12)
    for declare in (declare_reductions, declare_shapes, declare_functions, declare_lengths, declare_einsums,
                    declare_positions, declare_pairs):
        declare()
    save("common_ops", record_cases(lambda y: torch.randn_like(y).float().to(F64)))


if __name__ == "__main__":
    main()
