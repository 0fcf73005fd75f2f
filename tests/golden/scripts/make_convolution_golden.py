#!/usr/bin/env python3
"""Makes convolution.safetensors: PyTorch's outputs and gradients of convolutions, in float64.

For each case x, weight, bias, y and the gradients dy, dx, dweight, dbias. tests/ops/convolution_test.cpp holds
the same cases.
"""
import torch
import torch.nn.functional as F

from golden import F64, begin, save

# name: x, weight, stride, padding, dilation, groups
CASES = {
    "plain": ((2, 3, 7, 9), (5, 3, 3, 3), 1, 0, 1, 1),
    "same": ((3, 4, 8, 8), (6, 4, 3, 3), 1, 1, 1, 1),
    "one": ((2, 5, 6, 7), (3, 5, 1, 1), 1, 0, 1, 1),
    "patches": ((2, 3, 12, 13), (7, 3, 4, 4), 4, 0, 1, 1),
    "stride": ((2, 2, 11, 10), (3, 2, 3, 5), (2, 3), (1, 2), 1, 1),
    "gaps": ((1, 2, 9, 7), (2, 2, 2, 1), (3, 4), 0, 1, 1),
    "dilation": ((2, 2, 12, 9), (4, 2, 3, 2), (1, 2), (2, 1), (3, 2), 1),
    "groups": ((2, 6, 7, 5), (9, 2, 3, 3), 1, 1, 1, 3),
    "depthwise": ((2, 5, 9, 8), (5, 1, 3, 3), (2, 1), 1, 1, 5),
    "wide_padding": ((1, 2, 3, 2), (2, 2, 2, 2), 1, (3, 4), 1, 1),
}


def main():
    begin(0, F64)
    out = {}
    for name, (x_shape, w_shape, stride, padding, dilation, groups) in CASES.items():
        x, weight = (torch.randn(s, requires_grad=True) for s in (x_shape, w_shape))
        bias = torch.randn(w_shape[0], requires_grad=True)
        y = F.conv2d(x, weight, bias, stride, padding, dilation, groups)
        dy = torch.randn_like(y)
        y.backward(dy)
        for key, t in dict(x=x, weight=weight, bias=bias, y=y, dy=dy, dx=x.grad, dweight=weight.grad,
                           dbias=bias.grad).items():
            out[f"{name}.{key}"] = t
    save("convolution", out)


if __name__ == "__main__":
    main()
