#!/usr/bin/env python3
"""Makes bert.safetensors: a small BERT in PyTorch, its first gradients, and both losses over 20 steps of AdamW.

usage: python3 make_bert_golden.py       (Debian: python3-torch; made with PyTorch 1.13.1)

The model is the benchmark's (../bench/torch_peer.py). The same PyTorch writes the same bytes.
"""
import os
import sys

import torch

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import make_golden
from make_golden import our_name, save
from torch_peer import Bert

STEPS, B, T, V = 20, 6, 14, 17


def batches():
    """Sequences in which a token follows from the one before, some shorter than others."""
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
    torch.manual_seed(6)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    make_golden.OUR_NAMES = {"self_attn": "attn", **make_golden.OUR_NAMES}
    data = batches()
    out = dict(zip(("ids", "segments", "mask", "targets", "is_next"), data))
    model = Bert(V, T, 2, 2, 16)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.05 * torch.randn_like(p))
    start = {name: p.clone() for name, p in model.state_dict().items()}
    named = dict(model.named_parameters())
    out.update({"param." + our_name(name): p.clone() for name, p in named.items()})
    for dtype in (torch.float64, torch.float32):
        model.to(dtype).load_state_dict(start)
        optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.99), weight_decay=0.1)
        losses = []
        for step in range(STEPS):
            masked, following = model.losses(*(x[step] for x in data))
            optimiser.zero_grad()
            (masked + following).backward()
            if step == 0 and dtype == torch.float64:
                out.update({"grad." + our_name(name): p.grad.clone() for name, p in model.named_parameters()})
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            losses.append(torch.stack([masked, following]).detach().double())
        out[str(dtype).split(".")[1] + ".losses"] = torch.stack(losses)
    save("bert", out)


if __name__ == "__main__":
    main()
