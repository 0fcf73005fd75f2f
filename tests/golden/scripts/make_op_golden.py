#!/usr/bin/env python3
"""Makes ops.safetensors: PyTorch's float64 outputs and gradients of single ops and short formulas.

For each case: its inputs in.0, in.1, ...; out; dy, the random gradient of out; grad.0, ... of the inputs
that have one. tests/ops/op_table_golden.cpp holds the same cases.
"""
import math

import torch
import torch.nn.functional as F

from golden import begin, cases, normal, positive, record_cases, save


def case(*inputs):
    """Declares a case: the function's name, and the inputs it is called with."""
    def add(function):
        cases(inputs, {function.__name__: function})
        return function
    return add


def indices(n, *shape):
    return torch.randint(0, n, shape)


# ---- element by element ----


def wide(*shape):
    """Numbers from -12 to 12, which include the functions' tails."""
    return torch.linspace(-12, 12, math.prod(shape), dtype=torch.float64).reshape(shape)


def declare_pointwise():
    cases((wide(7, 9),), {
        "gelu_erf": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "erf": torch.erf,
        "softplus": lambda x: torch.log1p(torch.exp(-x.abs())) + x.clamp(min=0), "sigmoid": torch.sigmoid,
        "tanh": torch.tanh, "sin": torch.sin, "cos": torch.cos, "exp": torch.exp,
        "clamp": lambda x: x.clamp(-1.5, 2.25)})
    cases((positive(5, 6),), {"log": torch.log, "sqrt": torch.sqrt, "pow_scalar": lambda x: x ** 2.7})
    cases((torch.tensor([-1.0, 0.0, 2.0, 0.0], dtype=torch.float64),), {
        "abs_at_0": torch.abs, "relu_at_0": torch.relu, "norm_at_0": lambda x: torch.linalg.norm(x[1::2])})
    tied = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    cases((tied, torch.tensor([2.0, 2.0, 2.0], dtype=torch.float64)), {"maximum_of_equals": torch.maximum,
                                                                     "minimum_of_equals": torch.minimum})
    cases((positive(3, 1, 4), normal(5, 1)), {"pow": torch.pow, "broadcast": lambda a, b: (a - b) / (a * b + 7)})
    cases((normal(4, 5), indices(2, 4, 5).bool()), {
        "masked_fill": lambda x, m: x.masked_fill(m, -3.5), "where": lambda x, m: torch.where(m, x * x, x)})
    cases((normal(4, 5) * 100,), {"to_float32_and_back": lambda x: (x * x).to(torch.float32).to(torch.float64)})


# ---- reductions and orderings ----


def declare_reductions():
    x = normal(4, 5, 3)
    cases((x,), {
        "sum": lambda x: x.sum((0, 2)), "mean": lambda x: x.mean(1, keepdim=True), "mean_of_all": torch.mean,
        "var": lambda x: x.var((0, 2), unbiased=True), "var_biased": lambda x: x.var(1, unbiased=False, keepdim=True),
        "norm": lambda x: torch.linalg.vector_norm(x, dim=(1, 2)), "norm_of_all": torch.linalg.vector_norm,
        "logsumexp": lambda x: x.logsumexp(1), "softmax": lambda x: x.softmax(1),
        "log_softmax": lambda x: x.log_softmax(0), "max": lambda x: x.max(1)[0], "min": lambda x: x.min(-1)[0],
        "max_of_all": torch.max, "topk": lambda x: x.topk(3, 1)[0], "sort": lambda x: x.sort(0, descending=True)[0],
        "tril": lambda x: x.tril(-1), "triu": lambda x: x.triu(1)})
    cases((x.detach().clone(),), {"topk_indices": lambda x: x.topk(3, 1)[1], "argmax": lambda x: x.argmax(0)})


# ---- views and indexing ----


def declare_indexing():
    cases((normal(4, 6),), {
        "views": lambda x: (x.t()[1:5:2] * x.reshape(6, 4)[::3]).unsqueeze(1).expand(2, 3, 4).flatten(1),
        "split": lambda x: torch.cat([x.chunk(4, 1)[0] * 2, x.split([1, 5], 1)[1], x[:, :1]], 1),
        "stack": lambda x: torch.stack([x, x * x, x.exp()], 1)})
    cases((normal(4, 5), indices(5, 4, 7)), {"gather": lambda x, i: x.gather(1, i)})
    cases((normal(4, 5), indices(4, 6, 5), normal(6, 5)), {"scatter_add": lambda x, i, s: x.scatter_add(0, i, s)})
    cases((normal(4, 5, 2), indices(5, 7)), {"index_select": lambda x, i: x.index_select(1, i)})
    cases((normal(4, 5), indices(5, 7), normal(4, 7)), {"index_add": lambda x, i, s: x.index_add(1, i, s)})
    cases((normal(9, 5), indices(9, 3, 4)), {"embedding": lambda w, i: F.embedding(i, w)})


# ---- products, norms, losses ----


def declare_products():
    cases((normal(2, 1, 3, 4), normal(5, 4, 2)), {"matmul": torch.matmul})
    cases((normal(2, 3, 4), normal(5, 4), normal(5)), {
        "linear": F.linear, "linear_gelu": lambda x, w, b: F.gelu(F.linear(x, w, b)),
        "linear_gelu_tanh": lambda x, w, b: F.gelu(F.linear(x, w, b), approximate="tanh"),
        "linear_relu": lambda x, w, b: F.relu(F.linear(x, w, b))})
    cases((normal(3, 4, 6), normal(6), normal(6)), {"layer_norm": lambda x, w, b: F.layer_norm(x, (6,), w, b, 1e-5)})

    def mlp_penalty(x, w, v):  # a gradient of a gradient
        y = torch.tanh(x @ w) @ v
        g, = torch.autograd.grad(y.sum(), x, create_graph=True)
        return (g * g).sum(-1)
    cases((normal(4, 3), normal(3, 5), normal(5)), {"mlp_penalty": mlp_penalty})

    def layer_norm_penalty(x, w, b):
        y = F.layer_norm(x, (6,), w, b, 1e-5)
        g, = torch.autograd.grad((y * y * y).sum(), x, create_graph=True)
        return (g * g).sum(-1)
    cases((normal(3, 6), normal(6), normal(6)), {"layer_norm_penalty": layer_norm_penalty})


def declare_losses():
    weights = torch.tensor([0.5, 2.0, 1.0, 0.25, 1.5], dtype=torch.float64)
    classes = indices(5, 7)
    classes[3] = 2

    def entropy(**options):
        return lambda x, t: F.cross_entropy(x, t, **options)
    cases((normal(7, 5), classes), {
        "cross_entropy": entropy(), "cross_entropy_sum": entropy(reduction="sum"),
        "cross_entropy_none": entropy(reduction="none"), "cross_entropy_ignore": entropy(ignore_index=2),
        "cross_entropy_weights": entropy(weight=weights), "cross_entropy_smoothing": entropy(label_smoothing=0.1),
        "cross_entropy_all": entropy(weight=weights, label_smoothing=0.1, ignore_index=2),
        "cross_entropy_all_none": entropy(weight=weights, label_smoothing=0.1, ignore_index=2, reduction="none")})
    cases((normal(7, 5), positive(7, 5)), {
        "cross_entropy_probabilities": entropy(),
        "cross_entropy_probabilities_all": entropy(weight=weights, label_smoothing=0.1),
        "cross_entropy_probabilities_none": entropy(weight=weights, reduction="none"),
        "mse_loss": F.mse_loss, "mse_loss_sum": lambda x, t: F.mse_loss(x, t, reduction="sum"),
        "bce": F.binary_cross_entropy_with_logits,
        "bce_none": lambda x, t: F.binary_cross_entropy_with_logits(x * 20, t, reduction="none")})


def declare_loss_options():
    """Each option of the losses away from its default."""
    weights = torch.tensor([0.5, 2.0, 1.0, 0.25, 1.5], dtype=torch.float64)
    x, t = normal(7, 5), positive(7, 5) * 0.4
    rows = torch.tensor([[3.0], [0.5], [1.0], [0.0], [2.0], [0.25], [1.5]], dtype=torch.float64)
    with_logits, of_probabilities = F.binary_cross_entropy_with_logits, F.binary_cross_entropy
    cases((x, t), {
        "bce_weights": lambda x, t: with_logits(x, t, weight=rows),
        "bce_positive": lambda x, t: with_logits(x, t, pos_weight=weights, reduction="sum"),
        "bce_all": lambda x, t: with_logits(x, t, weight=rows, pos_weight=weights, reduction="none"),
        "bce_probabilities": lambda x, t: of_probabilities(torch.sigmoid(x), t),
        "bce_probabilities_all": lambda x, t: of_probabilities(torch.sigmoid(x), t, weight=rows, reduction="sum"),
        "l1_sum": lambda x, t: F.l1_loss(x, t, reduction="sum"),
        "smooth_l1": lambda x, t: F.smooth_l1_loss(x, t, beta=0.4, reduction="none"),
        "kl_div_sum": lambda x, t: F.kl_div(x, t, reduction="sum"),
        "kl_div_log_target": lambda x, t: F.kl_div(x, t, reduction="none", log_target=True)})
    classes = indices(5, 7)
    margins, nll = F.multi_margin_loss, F.nll_loss
    cases((normal(7, 5), classes), {
        "margin": margins, "margin_half": lambda x, t: margins(x, t, margin=0.5, reduction="sum"),
        "margin_weights": lambda x, t: margins(x, t, weight=weights),
        "margin_all": lambda x, t: margins(x, t, p=2, margin=0.75, weight=weights, reduction="none"),
        "nll": nll, "nll_all": lambda x, t: nll(x, t, weight=weights, ignore_index=2, reduction="sum")})


# ---- attention ----


def attend(q, k, v, seen, bias=0, scale=None):
    """softmax(q k^T scale + bias) v over the keys that are seen; 0 where none is."""
    group = q.shape[-3] // k.shape[-3]
    k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
    scores = q @ k.transpose(-1, -2) * (scale or q.shape[-1] ** -0.5) + bias
    e = torch.exp(scores) * seen
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, 1.0, total) @ v


def declare_attention():
    q, k, v = normal(2, 4, 3, 5), normal(2, 2, 6, 5), normal(2, 2, 6, 4)
    everything = torch.ones(3, 6, dtype=torch.float64)
    seen = indices(2, 2, 1, 3, 6).bool()
    seen[:, :, 1] = False
    bias = normal(4, 3, 6)
    cases((q, k, v), {"attention": lambda q, k, v: attend(q, k, v, everything),
                      "attention_causal": lambda q, k, v: attend(q, k, v, everything.tril(3)),
                      "attention_scale": lambda q, k, v: attend(q, k, v, everything, scale=0.7)})
    cases((q, k, v, seen), {"attention_mask": lambda q, k, v, m: attend(q, k, v, m.double()),
                            "attention_causal_mask": lambda q, k, v, m: attend(q, k, v, m.double().tril(3))})
    cases((q, k, v, bias), {"attention_bias": lambda q, k, v, b: attend(q, k, v, everything, b)})

    def self_attention(qkv):
        q, k, v = (qkv[..., a:b].unflatten(-1, (-1, 4)).transpose(1, 2) for a, b in ((0, 16), (16, 24), (24, 32)))
        y = attend(q, k, v, torch.ones(5, 5, dtype=torch.float64).tril())
        return y.transpose(1, 2).flatten(2)
    cases((normal(2, 5, 32),), {"self_attention": self_attention})


def main():
    begin(11)
    for declare in (declare_pointwise, declare_reductions, declare_indexing, declare_products, declare_losses,
                    declare_attention, declare_loss_options):
        declare()
    save("ops", record_cases())


if __name__ == "__main__":
    main()
