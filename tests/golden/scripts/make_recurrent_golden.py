#!/usr/bin/env python3
"""Makes recurrent.safetensors: PyTorch's outputs and gradients of recurrent layers and cells, in float64.

For each case: param.NAME and grad.NAME, as PyTorch names them; x and dx; if given h0, c0 and their gradients dh0, dc0;
lengths; output, h and, for LSTM, c, with their random gradients d_output, d_h, d_c. A cell has no output.
tests/nn/recurrent_test.cpp holds the same cases.
"""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from golden import F64, begin, save

B, T, INPUT, HIDDEN = 4, 6, 3, 4
LENGTHS = torch.tensor([3, 6, 1, 4])


def record(out, case, module, inputs, outputs):
    """Records a case: inputs and outputs are by name, and the gradients of outputs are drawn here."""
    gradients = {name: torch.randn_like(y) for name, y in outputs.items()}
    torch.autograd.backward(list(outputs.values()), list(gradients.values()))
    out.update({f"{case}.param.{name}": p for name, p in module.named_parameters()})
    out.update({f"{case}.grad.{name}": p.grad for name, p in module.named_parameters()})
    for name, x in inputs.items():
        out[f"{case}.{name}"], out[f"{case}.d{name}"] = x, x.grad
    for name, y in outputs.items():
        out[f"{case}.{name}"], out[f"{case}.d_{name}"] = y, gradients[name]


def layers(out, case, kind, state, packed, **options):
    module = kind(INPUT, HIDDEN, batch_first=True, **options)
    lstm, rows = kind is nn.LSTM, (1 + module.bidirectional) * module.num_layers
    inputs = {"x": torch.randn(B, T, INPUT, requires_grad=True)}
    if state:
        for name in ("h0", "c0") if lstm else ("h0",):
            inputs[name] = torch.randn(rows, B, HIDDEN, requires_grad=True)
    first = (inputs["h0"], inputs["c0"]) if state and lstm else inputs.get("h0")
    x = inputs["x"]
    if packed:
        out[f"{case}.lengths"] = LENGTHS
        x = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
    y, last = module(x, first)
    if packed:
        y = pad_packed_sequence(y, batch_first=True, total_length=T)[0]
    outputs = {"output": y, "h": last[0], "c": last[1]} if lstm else {"output": y, "h": last}
    record(out, case, module, inputs, outputs)


def cell(out, case, kind, **options):
    module = kind(INPUT, HIDDEN, **options)
    lstm = kind is nn.LSTMCell
    inputs = {"x": torch.randn(B, INPUT, requires_grad=True)}
    for name in ("h0", "c0") if lstm else ("h0",):
        inputs[name] = torch.randn(B, HIDDEN, requires_grad=True)
    last = module(inputs["x"], (inputs["h0"], inputs["c0"]) if lstm else inputs["h0"])
    record(out, case, module, inputs, {"h": last[0], "c": last[1]} if lstm else {"h": last})


def main():
    begin(7, F64)
    out = {}
    kinds = {"tanh": (nn.RNN, nn.RNNCell, {}), "relu": (nn.RNN, nn.RNNCell, {"nonlinearity": "relu"}),
             "lstm": (nn.LSTM, nn.LSTMCell, {}), "gru": (nn.GRU, nn.GRUCell, {})}
    for name, (kind, cell_kind, options) in kinds.items():
        layers(out, f"{name}_plain", kind, False, False, **options)
        layers(out, f"{name}_no_bias", kind, True, False, bias=False, **options)
        layers(out, f"{name}_stacked", kind, True, False, num_layers=3, **options)
        layers(out, f"{name}_both_ways", kind, False, False, bidirectional=True, **options)
        layers(out, f"{name}_lengths", kind, False, True, **options)
        layers(out, f"{name}_all", kind, True, True, num_layers=2, bidirectional=True, **options)
        cell(out, f"{name}_cell", cell_kind, **options)
        cell(out, f"{name}_cell_no_bias", cell_kind, bias=False, **options)
    save("recurrent", out)


if __name__ == "__main__":
    main()
