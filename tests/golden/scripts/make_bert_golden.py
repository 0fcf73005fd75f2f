#!/usr/bin/env python3
"""Makes bert.safetensors: a small BERT in PyTorch, its first gradients, and both losses over 20 steps of AdamW.

The model is the benchmark's (../bench/torch_peer.py).
"""
import torch

from golden import F64, LAYER_NAMES, begin, record_training, save
from torch_peer import Bert

STEPS, B, T, V = 20, 6, 14, 17


def batches():
    """Sequences of different lengths, in which most tokens are a function of the previous one."""
    ids = torch.randint(5, V, (STEPS, B, T))
    for t in range(1, T):
        ids[:, :, t] = torch.where(torch.rand(STEPS, B) < 0.8, 5 + (3 * ids[:, :, t - 1] + 1) % (V - 5), ids[:, :, t])
    lengths = torch.randint(T // 2, T + 1, (STEPS, B, 1))
    mask = torch.arange(T) < lengths
    segments = (torch.arange(T) >= lengths // 2).long()
    targets = torch.where((torch.rand(ids.shape) < 0.3) & mask, ids, torch.tensor(-100))
    ids = torch.where(targets != -100, torch.tensor(4), ids) * mask
    return ids, segments, mask, targets, torch.randint(0, 2, (STEPS, B))


def main():
    begin(6, F64)
    data = batches()
    out = dict(zip(("ids", "segments", "mask", "targets", "is_next"), data))
    model = Bert(V, T, 2, 2, 16)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.05 * torch.randn_like(p))
    record_training(out, model, STEPS, lambda step, _: torch.stack(model.losses(*(x[step] for x in data))),
                    {"self_attn": "attn", **LAYER_NAMES})
    save("bert", out)


if __name__ == "__main__":
    main()
