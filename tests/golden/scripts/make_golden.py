#!/usr/bin/env python3
"""Makes modules, optimisers, gpt and gpt_bias.safetensors: PyTorch's modules, optimiser steps, and a GPT's training."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from golden import F64, begin, record, save

# ---- modules, in float64 ----


class MLP(nn.Module):
    def __init__(self, dim, approximate, bias):
        super().__init__()
        self.fc, self.proj = nn.Linear(dim, 4 * dim, bias=bias), nn.Linear(4 * dim, dim, bias=bias)
        self.approximate = approximate

    def forward(self, x):
        return self.proj(F.gelu(self.fc(x), approximate=self.approximate))


def modules():
    begin(1, F64)
    B, T, C, H = 2, 5, 8, 2
    out = {}
    record(out, "linear", nn.Linear(6, 4), [torch.randn(3, 5, 6)])
    record(out, "linear_no_bias", nn.Linear(6, 4, bias=False), [torch.randn(7, 6)])
    record(out, "embedding", nn.Embedding(9, 4), [torch.randint(0, 9, (3, 5))])
    record(out, "layer_norm", nn.LayerNorm(C), [3 * torch.randn(B, T, C) + 1])
    record(out, "mlp_erf", MLP(C, "none", True), [torch.randn(B, T, C)])
    record(out, "mlp_tanh", MLP(C, "tanh", False), [torch.randn(B, T, C)])

    causal = torch.ones(T, T, dtype=torch.bool).triu(1)  # PyTorch: True masks out
    keep = torch.rand(T, T) < 0.6
    keep.fill_diagonal_(True)
    added = torch.randn(T, T)
    out["mask.bool"], out["mask.added"] = keep, added
    for case, mask in {"full": None, "causal": causal, "masked": ~keep, "biased": added}.items():
        attention = nn.MultiheadAttention(C, H, batch_first=True)
        record(out, f"attention_{case}", attention, [torch.randn(B, T, C)],
               lambda x: attention(x, x, x, attn_mask=mask, need_weights=False)[0])
    for case, mask in {"full": None, "causal": causal}.items():
        block = nn.TransformerEncoderLayer(C, H, 4 * C, 0.0, F.gelu, norm_first=True, batch_first=True)
        record(out, f"block_{case}", block, [torch.randn(B, T, C)], lambda x: block(x, src_mask=mask))
    save("modules", out)


# ---- optimisers, in float64 ----


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, arXiv 2302.06675, algorithm 2."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                update = beta1 * m + (1 - beta1) * p.grad
                p.sub_(group["lr"] * (update.sign() + group["weight_decay"] * p))
                m.copy_(beta2 * m + (1 - beta2) * p.grad)


def optimisers():
    begin(2, F64)
    cases = {
        "sgd": (torch.optim.SGD, dict(lr=0.1)),
        "sgd_decay": (torch.optim.SGD, dict(lr=0.1, weight_decay=0.1)),
        "sgd_momentum": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, weight_decay=0.1)),
        "sgd_nesterov": (torch.optim.SGD, dict(lr=0.05, momentum=0.9, nesterov=True)),
        "adam": (torch.optim.Adam, dict(lr=0.02)),
        "adam_decay": (torch.optim.Adam, dict(lr=0.02, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1)),
        "adamw": (torch.optim.AdamW, dict(lr=0.02)),
        "adamw_options": (torch.optim.AdamW, dict(lr=0.02, betas=(0.9, 0.95), eps=1e-6, weight_decay=0.3)),
        "rmsprop": (torch.optim.RMSprop, dict(lr=0.02)),
        "rmsprop_momentum": (torch.optim.RMSprop, dict(lr=0.02, alpha=0.9, eps=1e-3, momentum=0.8)),
        "rmsprop_centered": (torch.optim.RMSprop, dict(lr=0.02, alpha=0.8, centered=True, weight_decay=0.1)),
        "rmsprop_all": (torch.optim.RMSprop, dict(lr=0.02, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.2)),
        "adagrad": (torch.optim.Adagrad, dict(lr=0.1)),
        "adagrad_options": (torch.optim.Adagrad, dict(lr=0.1, lr_decay=0.3, initial_accumulator_value=0.5, eps=1e-3,
                                                      weight_decay=0.2)),
        "lion": (Lion, dict(lr=0.02)),
        "lion_options": (Lion, dict(lr=0.02, betas=(0.6, 0.8), weight_decay=0.3)),
    }
    shapes, steps = [(4, 3), (3,), (2, 2)], 20
    start = [torch.randn(s) for s in shapes]
    grads = [[torch.randn(s) for s in shapes] for _ in range(steps)]
    out = {f"start.{i}": p for i, p in enumerate(start)}
    for i in range(len(shapes)):
        out[f"grads.{i}"] = torch.stack([g[i] for g in grads])
    # In steps 3, 7, 11, ... the last parameter has no gradient and is skipped.
    for clip in (False, True):
        for case, (optimiser, options) in cases.items():
            params = [p.clone().requires_grad_() for p in start]
            opt = optimiser(params, **options)
            norms = []
            for step in range(steps):
                for p, g in zip(params, grads[step]):
                    p.grad = g.clone()
                if step % 4 == 3:
                    params[-1].grad = None
                if clip:
                    norms.append(nn.utils.clip_grad_norm_(params, 3.0))
                opt.step()
            case += "_clipped" if clip else ""
            for i, p in enumerate(params):
                out[f"{case}.{i}"] = p
            if clip:
                out["norms"] = torch.stack(norms)
    save("optimisers", out)


# ---- a GPT, its first gradients, and 50 steps of AdamW ----


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.ln1, self.ln2 = LayerNorm(c), LayerNorm(c)
        self.attn = nn.Module()
        self.attn.qkv = nn.Linear(c["dim"], 3 * c["dim"], bias=c["bias"])
        self.attn.proj = nn.Linear(c["dim"], c["dim"], bias=c["bias"])
        self.mlp = MLP(c["dim"], c["approximate"], c["bias"])
        self.heads = c["heads"]

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.attn.qkv(self.ln1(x)).split(C, 2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(C // self.heads)
        scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf"))
        y = (F.softmax(scores, -1) @ v).transpose(1, 2).reshape(B, T, C)
        x = x + self.attn.proj(y)
        return x + self.mlp(self.ln2(x))


class LayerNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(c["dim"]))
        self.bias = nn.Parameter(torch.zeros(c["dim"])) if c["bias"] else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(c["vocab"], c["dim"]), nn.Embedding(c["context"], c["dim"])
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["layers"]))
        self.ln_f = LayerNorm(c)
        if not c["tie"]:
            self.head = nn.Linear(c["dim"], c["vocab"], bias=False)
        self.tie = c["tie"]
        for name, p in self.named_parameters():
            std = 0.02 / math.sqrt(2 * c["layers"]) if name.endswith("proj.weight") else 0.02
            if name.endswith("bias"):
                nn.init.zeros_(p)
            elif p.dim() >= 2:
                nn.init.normal_(p, 0, std)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight if self.tie else self.head.weight)

    def loss(self, ids, targets):
        return F.cross_entropy(self(ids).flatten(0, 1), targets.flatten())


def cosine(step, lr, min_lr, warmup, steps):
    if step < warmup:
        return lr * (step + 1) / (warmup + 1)
    if step > steps:
        return min_lr
    return min_lr + 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) * (lr - min_lr)


def train(model, batches, dtype, out, key):
    """50 steps as train_gpt does them: losses, gradient norms, and the first step's gradients."""
    model = model.to(dtype)
    opt = torch.optim.AdamW(
        [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
         {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}],
        betas=(0.9, 0.99))
    losses, norms = [], []
    for step, batch in enumerate(batches):
        for group in opt.param_groups:
            group["lr"] = cosine(step, 3e-3, 3e-4, 10, 50)
        opt.zero_grad(set_to_none=True)
        loss = model.loss(batch[:, :-1], batch[:, 1:])
        loss.backward()
        if step == 0:
            for name, p in model.named_parameters():
                out[f"{key}.grad.{name}"] = p.grad.clone()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0).double())
        losses.append(loss.detach().double())
        opt.step()
    out[f"{key}.losses"], out[f"{key}.norms"] = torch.stack(losses), torch.stack(norms)


def gpt(name, config, seed):
    begin(seed)
    model = GPT(config)
    out = {f"param.{n}": p.detach().clone() for n, p in model.named_parameters()}
    start = {n: p.clone() for n, p in model.state_dict().items()}
    # Each token is a function of the previous one plus noise, so there is something to learn.
    V, T = config["vocab"], config["context"]
    batches = torch.randint(0, V, (50, 4, T + 1))
    for t in range(T):
        follow = torch.rand(50, 4) < 0.8
        batches[:, :, t + 1] = torch.where(follow, (5 * batches[:, :, t] + 3) % V, batches[:, :, t + 1])
    out["batches"] = batches.to(torch.uint8)
    for dtype, key in ((torch.float64, "float64"), (torch.float32, "float32")):
        torch.set_default_dtype(dtype)
        model.load_state_dict(start)
        train(model, batches, dtype, out, key)
    for n in list(out):
        if n.startswith("float32.grad."):
            del out[n]  # float32 is compared with float64's
    model.to(torch.float64).load_state_dict(start)
    out["logits"] = model(batches[0, :, :-1])
    save(name, out)


def main():
    modules()
    optimisers()
    gpt("gpt", dict(vocab=23, context=16, layers=2, heads=2, dim=32, bias=False, tie=True, approximate="none"), 3)
    gpt("gpt_bias", dict(vocab=19, context=12, layers=3, heads=4, dim=24, bias=True, tie=False, approximate="tanh"), 4)


if __name__ == "__main__":
    main()
