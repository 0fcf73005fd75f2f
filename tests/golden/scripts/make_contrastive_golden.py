#!/usr/bin/env python3
"""Makes contrastive.safetensors: contrastive losses as F.cross_entropy of the logits, and their gradients.

For each case: its inputs in.0, in.1, ..., of which the last is the temperature; loss; grad.0, ... of the inputs.
tests/ops/contrastive_test.cpp holds the same cases.
"""
import torch
import torch.nn.functional as F

from golden import F64, begin, save

OUT = {}


def unit(x, cosine):
    return F.normalize(x, dim=-1) if cosine else x


def own_negatives(a, p, n, t, cosine):
    a, p, n = unit(a, cosine), unit(p, cosine), unit(n, cosine)
    negatives = torch.einsum("nd,nkd->nk" if n.dim() == 3 else "nd,kd->nk", a, n)
    logits = torch.cat([(a * p).sum(-1, keepdim=True), negatives], 1) / t
    return F.cross_entropy(logits, torch.zeros(len(a), dtype=torch.int64))


def among_keys(q, k, targets, t, cosine):
    return F.cross_entropy(unit(q, cosine) @ unit(k, cosine).T / t, targets)


def nt_xent(z, t, cosine):
    z = unit(z, cosine)
    n = len(z)
    logits = (z @ z.T / t).masked_fill(torch.eye(n, dtype=torch.bool), float("-inf"))
    return F.cross_entropy(logits, torch.arange(n).roll(n // 2))


def clip(a, b, t, cosine):
    logits = unit(a, cosine) @ unit(b, cosine).T / t
    own = torch.arange(len(a))
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


def case(name, function, *shapes, temperature, scale=1, targets=None):
    for cosine in (False, True):
        inputs = [(scale * torch.randn(shape, dtype=F64)).requires_grad_() for shape in shapes]
        t = torch.tensor([temperature], dtype=F64, requires_grad=True)
        middle = [] if targets is None else [targets]
        loss = function(*inputs, *middle, t, cosine)
        grads = torch.autograd.grad(loss, [*inputs, t])
        key = name + ("_cosine." if cosine else "_dot.")
        for i, x in enumerate([*inputs, *middle, t]):
            OUT[f"{key}in.{i}"] = x
        for i, g in enumerate(grads):
            OUT[f"{key}grad.{i}"] = g
        OUT[key + "loss"] = loss


def main():
    begin(1)
    case("own_negatives", own_negatives, (5, 7), (5, 7), (5, 3, 7), temperature=0.5)
    case("shared_negatives", own_negatives, (5, 7), (5, 7), (11, 7), temperature=0.5)
    case("among_keys", among_keys, (67, 5), (131, 5), temperature=0.7, targets=torch.randint(0, 131, (67,)))
    case("nt_xent", nt_xent, (26, 3), temperature=0.2)
    case("nt_xent_blocks", nt_xent, (274, 5), temperature=0.6, scale=0.5)
    case("nt_xent_smallest", nt_xent, (4, 1), temperature=1.5)
    case("clip", clip, (13, 6), (13, 6), temperature=0.3)
    case("clip_blocks", clip, (263, 4), (263, 4), temperature=0.9, scale=0.7)
    save("contrastive", OUT)


if __name__ == "__main__":
    main()
