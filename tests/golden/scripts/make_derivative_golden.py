#!/usr/bin/env python3
"""Makes derivatives.safetensors: torch.autograd.functional's Jacobians, Hessians and products with vectors.

For each function: its input x and, if its output has one element, a vector v; jacobian; hessian; hvp, the Hessian times
v; third, the gradient of |hvp|^2. tests/core/tensor/derivatives_test.cpp holds the same functions.
"""
import torch
from torch.autograd import functional

from golden import F64, begin, save

FUNCTIONS = {
    "matrix": (lambda x: torch.tanh(x) @ x.mT, (3, 5)), "column": (lambda x: (torch.sin(x) * torch.exp(x)).sum(0), (7, 2)),
    "mixed": (lambda x: (torch.tanh(x) * (x * x).roll(1)).sum(), (3, 5)), "logsumexp": (lambda x: x.exp().sum().log(), (11,))}


def main():
    begin(31)
    out = {}
    for name, (f, shape) in FUNCTIONS.items():
        x, v = torch.randn(shape, dtype=F64), torch.randn(shape, dtype=F64)
        out[name + ".x"], out[name + ".v"] = x, v
        out[name + ".jacobian"] = functional.jacobian(f, x)
        if f(x).dim() > 0:
            continue
        out[name + ".hessian"] = functional.hessian(f, x)
        leaf = x.clone().requires_grad_()
        product = functional.hvp(f, leaf, v, create_graph=True)[1]
        out[name + ".hvp"] = product
        out[name + ".third"], = torch.autograd.grad((product * product).sum(), leaf)
    save("derivatives", out)


if __name__ == "__main__":
    main()
