#!/usr/bin/env python3
"""Makes vit.safetensors: a small ViT in PyTorch, its first gradients, and its losses over 20 steps of AdamW.

usage: python3 make_vit_golden.py       (Debian: python3-torch; made with PyTorch 1.13.1)

The model is the benchmark's (../bench/torch_peer.py). The same PyTorch writes the same bytes.
"""
import os
import sys

import torch

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import make_golden
from make_golden import our_name, save
from torch_peer import ViT

STEPS, B, CLASSES = 20, 6, 5


def main():
    torch.manual_seed(8)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    make_golden.OUR_NAMES = {"mlp.0": "mlp.fc", "mlp.2": "mlp.proj"}
    labels = torch.randint(0, CLASSES, (STEPS, B))
    marks = torch.randn(CLASSES, 2, 9, 9)
    images = marks[labels] + torch.randn(STEPS, B, 2, 9, 9)
    out = {"images": images.float(), "labels": labels}
    images = out["images"].double()
    model = ViT(9, 3, 2, 12, 2, 3, CLASSES)
    start = {name: p.clone() for name, p in model.state_dict().items()}
    out.update({"param." + our_name(name): p.clone() for name, p in model.named_parameters()})
    for dtype in (torch.float64, torch.float32):
        model.to(dtype).load_state_dict(start)
        optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.99), weight_decay=0.1)
        losses = []
        for step in range(STEPS):
            loss = model.loss(images[step].to(dtype), labels[step])
            optimiser.zero_grad()
            loss.backward()
            if step == 0 and dtype == torch.float64:
                out.update({"grad." + our_name(name): p.grad.clone() for name, p in model.named_parameters()})
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            losses.append(loss.detach().double())
        out[str(dtype).split(".")[1] + ".losses"] = torch.stack(losses)
    save("vit", out)


if __name__ == "__main__":
    main()
