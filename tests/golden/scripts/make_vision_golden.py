#!/usr/bin/env python3
"""Makes vision.safetensors: PyTorch's outputs and gradients of pooling, interpolation and norms of channels, in float64.

For each op: x, y, dy (the gradient that y is given) and dx. For each norm the same for three steps of training (x.0 ...,
their gradients summed in grad.NAME), running statistics after each, then x.eval in evaluation; param.NAME. nearest.N.M are
the positions that nearest interpolation from N to M takes in float32 and in float64. tests/ops/resampling_test.cpp and
tests/ops/batch_norm_test.cpp hold the same cases.
"""
import torch
import torch.nn.functional as F
from torch import nn

from golden import F64, begin, save

OPS = {
    "max_2": lambda x: F.max_pool2d(x, 2),
    "max_padded": lambda x: F.max_pool2d(x, (3, 2), stride=(2, 1), padding=1),
    "max_dilated": lambda x: F.max_pool2d(x, (2, 3), stride=1, padding=(0, 1), dilation=(3, 2)),
    "mean_2": lambda x: F.avg_pool2d(x, 2),
    "mean_padded": lambda x: F.avg_pool2d(x, (3, 2), stride=(2, 1), padding=1),
    "mean_not_counted": lambda x: F.avg_pool2d(x, (3, 2), stride=(2, 1), padding=1, count_include_pad=False),
    "adaptive_less": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive_more": lambda x: F.adaptive_avg_pool2d(x, (11, 1)),
    "nearest_less": lambda x: F.interpolate(x, size=(3, 5)),
    "nearest_more": lambda x: F.interpolate(x, size=(16, 9)),
    "bilinear_less": lambda x: F.interpolate(x, size=(3, 5), mode="bilinear", align_corners=False),
    "bilinear_more": lambda x: F.interpolate(x, size=(16, 9), mode="bilinear", align_corners=False),
    "corners_less": lambda x: F.interpolate(x, size=(3, 1), mode="bilinear", align_corners=True),
    "corners_more": lambda x: F.interpolate(x, size=(16, 9), mode="bilinear", align_corners=True),
}
NORMS = {
    "batch_1d": (nn.BatchNorm1d(3), (5, 3)),
    "batch_1d_long": (nn.BatchNorm1d(3, momentum=0.3), (4, 3, 7)),
    "batch_2d": (nn.BatchNorm2d(3, eps=1e-3), (2, 3, 5, 4)),
    "batch_plain": (nn.BatchNorm2d(3, affine=False), (2, 3, 5, 7)),
    "group": (nn.GroupNorm(3, 6), (2, 6, 5, 3)),
}


def main():
    begin(11, F64)
    out = {}
    for name, op in OPS.items():
        # relu makes ties; of equal maxima the first gets the gradient
        x = torch.randn(2, 2, 7, 8).relu().requires_grad_()
        y = op(x)
        dy = torch.randn_like(y)
        y.backward(dy)
        for key, tensor in {"x": x, "y": y, "dy": dy, "dx": x.grad}.items():
            out[f"{name}.{key}"] = tensor
    for name, (module, shape) in NORMS.items():
        module = module.double()
        for key, p in module.named_parameters():
            with torch.no_grad():
                p.add_(0.3 * torch.randn_like(p))
            out[f"{name}.param.{key}"] = p.detach().clone()
        for step in (0, 1, 2, "eval"):
            module.train(step != "eval")
            x = (torch.randn(shape) * 2 + 1).requires_grad_()
            y = module(x)
            dy = torch.randn_like(y)
            y.backward(dy)
            for key, tensor in {"x": x, "y": y, "dy": dy, "dx": x.grad}.items():
                out[f"{name}.{key}.{step}"] = tensor
            for key, tensor in module.named_buffers():
                if key != "num_batches_tracked":
                    out[f"{name}.{key}.{step}"] = tensor.clone()
        for key, p in module.named_parameters():
            out[f"{name}.grad.{key}"] = p.grad
    for n, m in ((2, 82), (2, 98), (3, 7), (7, 3), (41, 29), (7, 147), (49, 101), (100, 41), (53, 230)):
        for dtype, kind in ((torch.float32, "single"), (torch.float64, "double")):
            places = F.interpolate(torch.arange(n, dtype=dtype).reshape(1, 1, 1, n), size=(1, m))
            out[f"nearest.{n}.{m}.{kind}"] = places.flatten().long()
    save("vision", out)


if __name__ == "__main__":
    main()
