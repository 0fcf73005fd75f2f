#pragma once
// Recurrent networks: single steps, and whole sequences in one op. Batch first: a sequence is
// (B, T, C), as everywhere here. What the input contributes to the gates, x W_ih^T + b_ih, is not
// part of these ops: `linear` works it out for all steps at once.

#include "gradus/core/ops/activation.h"

namespace gradus {

/// A recurrent cell. `G` below is its number of gates.
enum class Recurrence { rnn_tanh, rnn_relu, lstm, gru };
namespace core {
/// 1, 1, 4, 3: gates stand side by side in weights, in PyTorch's order: i, f, g, o and r, z, n.
int64_t gates_of(Recurrence cell);
}  // namespace core

/// What a cell hands on to its next step: h and, of LSTM alone, c; (B, H) each.
struct RecurrentState {
  Tensor h, c;  ///< c undefined but of LSTM
};

// ---- one step ----
// x_gates and h_gates (B, G H) are what the input and the last h contribute to the gates, both as
// `linear` gives them; one dtype throughout.

/// h' = act(x + h), act tanh or relu: (B, H). Elman 1990.
Tensor rnn_cell(const Tensor& x_gates, const Tensor& h_gates,
                Activation activation = Activation::tanh);
/// c' = f c + i g and h' = o tanh(c') with i, f, o = sigmoid and g = tanh of the sums of the gates;
/// c (B, H). Hochreiter & Schmidhuber 1997; Gers, Schmidhuber, Cummins 2000.
RecurrentState lstm_cell(const Tensor& x_gates, const Tensor& h_gates, const Tensor& c);
/// h' = (1 - z) n + z h with r, z = sigmoid(x + h) and n = tanh(x_n + r h_n); h (B, H). Cho et al.
/// 2014, arXiv 1406.1078, with r applied after the product, as PyTorch and cuDNN do.
Tensor gru_cell(const Tensor& x_gates, const Tensor& h_gates, const Tensor& h);

namespace core {
/// Any of them. Of `state` the cell reads c (LSTM), h (GRU) or nothing.
RecurrentState recurrent_cell(Recurrence cell, const Tensor& x_gates, const Tensor& h_gates,
                              const RecurrentState& state);
}  // namespace core

// ---- all steps ----

struct RecurrentOptions {
  Tensor lengths = {};   ///< (B) int64, each from 1 to T: what follows in a row is padding
  bool reverse = false;  ///< from each row's last real step to its first
};
/// What a sequence leaves behind.
struct RecurrentOutput {
  Tensor output;         ///< h of each step, where its x stood: (B, T, H); 0 in padding
  RecurrentState state;  ///< after each row's own last step
};
/// The cell through all steps of x_gates (B, T, G H), T >= 1, from `first` (undefined: zeros), with
/// h_gates = h weight^T + bias: weight (G H, H), bias (G H) or undefined. Padding is never read and
/// has gradient 0, whatever stands there: as torch's pack_padded_sequence and back.
RecurrentOutput recurrent(Recurrence cell, const Tensor& x_gates, const Tensor& weight,
                          const Tensor& bias = {}, const RecurrentState& first = {},
                          const RecurrentOptions& options = {});

}  // namespace gradus
