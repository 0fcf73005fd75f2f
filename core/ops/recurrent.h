#pragma once
// Recurrent networks: single steps, and whole sequences in one op. Sequences are batch first,
// (B, T, C). The input's contribution to the gates, x W_ih^T + b_ih, is not part of these ops:
// `linear` computes it for all steps at once.

#include "gradus/core/ops/activation.h"

namespace gradus {

/// A recurrent cell. Below, G is its number of gates and H its hidden size.
enum class Recurrence { rnn_tanh, rnn_relu, lstm, gru };
namespace core {
/// The number of gates, in the enum's order 1, 1, 4, 3. Weights concatenate gates in PyTorch's
/// order: i, f, g, o (LSTM) and r, z, n (GRU).
int64_t gates_of(Recurrence cell);
}  // namespace core

/// A cell's state: h and c, (B, H) each.
struct RecurrentState {
  Tensor h, c;  ///< c is defined for LSTM only
};

// ---- one step ----
// x_gates and h_gates (B, G H) are the contributions of the input and of the previous h to the
// gates, as `linear` returns them. All tensors have the same dtype.

/// h' = act(x_gates + h_gates) with act tanh or relu: (B, H). Elman 1990.
Tensor rnn_cell(const Tensor& x_gates, const Tensor& h_gates,
                Activation activation = Activation::tanh);
/// c' = f c + i g and h' = o tanh(c'), where i, f and o are the sigmoid and g is the tanh of their
/// gates in x_gates + h_gates; c (B, H). Hochreiter & Schmidhuber 1997; Gers, Schmidhuber, Cummins
/// 2000.
RecurrentState lstm_cell(const Tensor& x_gates, const Tensor& h_gates, const Tensor& c);
/// h' = (1 - z) n + z h with r = sigmoid(x_r + h_r), z = sigmoid(x_z + h_z), n = tanh(x_n + r h_n),
/// where x_r, h_r, ... are the gates in x_gates and h_gates; h (B, H). Cho et al. 2014, arXiv
/// 1406.1078, except that r multiplies h's product with the weights, h_n, instead of h, as in
/// PyTorch and cuDNN.
Tensor gru_cell(const Tensor& x_gates, const Tensor& h_gates, const Tensor& h);

namespace core {
/// One step of `cell`, which reads c (LSTM), h (GRU) or nothing from `state`.
RecurrentState recurrent_cell(Recurrence cell, const Tensor& x_gates, const Tensor& h_gates,
                              const RecurrentState& state);
}  // namespace core

// ---- all steps ----

struct RecurrentOptions {
  Tensor lengths = {};   ///< (B) int64, from 1 to T; a sequence's steps past its length are padding
  bool reverse = false;  ///< run from each sequence's last real step to its first
};
/// The result of running over sequences.
struct RecurrentOutput {
  Tensor output;         ///< h after each step, at that step's position: (B, T, H); 0 in padding
  RecurrentState state;  ///< after the step that each sequence runs last
};
/// Runs `cell` over all steps of x_gates (B, T, G H), T >= 1, starting from the state `first`
/// (zeros if undefined), with h_gates = h weight^T + bias: weight (G H, H), bias (G H) or
/// undefined. Padding is never read and gets gradient 0, as with torch's pack_padded_sequence.
RecurrentOutput recurrent(Recurrence cell, const Tensor& x_gates, const Tensor& weight,
                          const Tensor& bias = {}, const RecurrentState& first = {},
                          const RecurrentOptions& options = {});

}  // namespace gradus
