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
    "sequence": ((2, 3, 9), (5, 3, 3), 1, 0, 1, 1),
    "sequence_options": ((3, 4, 13), (6, 2, 3), 2, 3, 2, 2),
    "sequence_patches": ((2, 3, 12), (5, 3, 4), 4, 0, 1, 1),
}
# name: x, weight, stride, padding, output_padding, groups, dilation
TRANSPOSED = {
    "transposed": ((2, 3, 4, 5), (3, 5, 3, 3), 1, 0, 0, 1, 1),
    "doubled": ((3, 4, 5, 6), (4, 2, 4, 4), 2, 1, 0, 1, 1),
    "transposed_options": ((2, 4, 5, 3), (4, 3, 3, 2), (2, 3), (1, 0), (1, 2), 2, (2, 1)),
    "transposed_gaps": ((1, 2, 3, 4), (2, 2, 2, 1), (3, 4), 0, (0, 3), 1, 1),
    "transposed_dilation": ((2, 2, 5, 4), (2, 4, 3, 2), 1, (2, 1), (1, 0), 1, (3, 2)),
    "transposed_depthwise": ((2, 5, 4, 3), (5, 1, 3, 3), 2, 1, 1, 5, 1),
}


def main():
    begin(0, F64)
    out = {}
    for name, (x_shape, w_shape, *options) in {**CASES, **TRANSPOSED}.items():
        x, weight = (torch.randn(s, requires_grad=True) for s in (x_shape, w_shape))
        transposed = name in TRANSPOSED
        bias = torch.randn(w_shape[1] * options[3] if transposed else w_shape[0], requires_grad=True)
        convolve = F.conv_transpose2d if transposed else F.conv1d if len(x_shape) == 3 else F.conv2d
        y = convolve(x, weight, bias, *options)
        dy = torch.randn_like(y)
        y.backward(dy)
        for key, t in dict(x=x, weight=weight, bias=bias, y=y, dy=dy, dx=x.grad, dweight=weight.grad,
                           dbias=bias.grad).items():
            out[f"{name}.{key}"] = t
    save("convolution", out)


if __name__ == "__main__":
    main()
