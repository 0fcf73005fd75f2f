#!/usr/bin/python3
"""Makes muon.safetensors: steps of Muon in float64, written from its definition (Jordan et al. 2024)."""
from golden import F64, begin, save

import torch

# Shapes, and the rows of the matrices that a parameter stacks along its first axis. The three of the third parameter have
# 1, 3 and 2 heads.
PARAMETERS = [((12, 8), [12]), ((6, 20), [6]), ((9, 5), [2, 3, 4]), ((4, 2, 3, 3), [4]), ((1, 7), [1]), ((7, 1), [7]),
              ((24, 24), [24]), ((18, 40), [18]), ((20, 6), [20])]
HEAD_ROWS = {2: [2, 1, 1, 1, 2, 2]}
STEPS = 4
CASES = {
    "default": {},
    "plain": dict(nesterov=False, steps=3, momentum=0.7),
    "decay": dict(weight_decay=0.5, lr=0.1),
    "cautious": dict(weight_decay=0.5, lr=0.1, cautious=True),
    "clipped": dict(max_norm=2.0),
    "polar_express": dict(polar_express=True, steps=4),
    "polar_express_7": dict(polar_express=True, steps=7),
    "per_head": dict(polar_express=True, steps=3, per_head=True),
}
# Amsel et al. 2025, "The Polar Express": quintics of least error for singular values from 0.001 up.
POLAR_EXPRESS = [(8.2373, -23.1577, 16.6806), (4.0819, -2.8929, 0.5253), (3.9224, -2.8538, 0.532),
                 (3.2777, -2.4095, 0.4847), (2.2938, -1.6627, 0.4181)]


def newton_schulz(g, steps, polar_express=False):
    x = g.T if g.shape[0] > g.shape[1] else g
    size = torch.linalg.matrix_norm(x @ x.T).sqrt() if polar_express else x.norm()
    x = x / (size + 1e-7)
    for step in range(steps):
        p, q, r = (3.4445, -4.7750, 2.0315)
        if polar_express:
            p, q, r = POLAR_EXPRESS[step] if step < 5 else (15 / 8, -10 / 8, 3 / 8)
        a = x @ x.T
        x = p * x + (q * a + r * a @ a) @ x
    return x.T if g.shape[0] > g.shape[1] else x


def train(start, gradients, lr=0.02, momentum=0.95, nesterov=True, weight_decay=0.0, cautious=False, steps=5,
          polar_express=False, per_head=False, max_norm=None):
    params = [p.clone() for p in start]
    means = [torch.zeros_like(p) for p in start]
    for grads in gradients:
        scale = 1.0
        if max_norm is not None:
            norm = torch.sqrt(sum((g * g).sum() for g in grads))
            scale = min(1.0, max_norm / (norm.item() + 1e-6))
        for i, (p, m, g, (_, rows)) in enumerate(zip(params, means, grads, PARAMETERS)):
            g = g * scale
            m.copy_(momentum * m + (1 - momentum) * g)
            u = (1 - momentum) * g + momentum * m if nesterov else m
            flat = u.reshape(u.shape[0], -1)
            parts = [newton_schulz(part, steps, polar_express) * max(1.0, part.shape[0] / part.shape[1]) ** 0.5
                     for part in flat.split(HEAD_ROWS.get(i, rows) if per_head else rows)]
            move = torch.cat(parts).reshape(p.shape)
            if cautious:  # float32 must agree on the signs
                assert move.abs().min() > 1e-5 and p.abs().min() > 1e-5
            decayed = (move * p > 0) if cautious else torch.ones_like(p, dtype=torch.bool)
            p.copy_(torch.where(decayed, p * (1 - lr * weight_decay), p) - lr * move)
    return params


def main():
    begin(8, F64)
    start = [torch.randn(shape) for shape, _ in PARAMETERS]
    gradients = [[torch.randn(shape) for shape, _ in PARAMETERS] for _ in range(STEPS)]
    out = {f"start.{i}": p for i, p in enumerate(start)}
    for i in range(len(PARAMETERS)):
        out[f"grads.{i}"] = torch.stack([g[i] for g in gradients])
    for case, options in CASES.items():
        for i, p in enumerate(train(start, gradients, **options)):
            out[f"{case}.{i}"] = p
    for i, (shape, _) in enumerate(PARAMETERS):
        if len(shape) == 2:
            out[f"newton_schulz.{i}"] = newton_schulz(start[i], 5)
    save("muon", out)


main()
