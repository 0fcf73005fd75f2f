#!/usr/bin/env python3
"""Makes vit.safetensors: a small ViT in PyTorch, its first gradients, and its losses over 20 steps of AdamW.

The model is the benchmark's (../bench/torch_peer.py).
"""
import torch

from golden import F64, VIT_NAMES, begin, record_training, save
from torch_peer import ViT

STEPS, B, CLASSES = 20, 6, 5


def main():
    begin(8, F64)
    labels = torch.randint(0, CLASSES, (STEPS, B))
    marks = torch.randn(CLASSES, 2, 9, 9)
    images = marks[labels] + torch.randn(STEPS, B, 2, 9, 9)
    out = {"images": images.float(), "labels": labels}
    images = out["images"].double()
    model = ViT(9, 3, 2, 12, 2, 3, CLASSES)
    record_training(out, model, STEPS, lambda step, dtype: model.loss(images[step].to(dtype), labels[step]), VIT_NAMES)
    save("vit", out)


if __name__ == "__main__":
    main()
