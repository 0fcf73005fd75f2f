#pragma once
// Recurrent networks: single steps, and whole sequences in one op. Sequences have shape (B, T, C).
// The contribution of the input to the gates, x W_ih^T + b_ih, is not part of these ops: `linear`
// computes it for all steps at once.

#include "gradus/core/ops/activation.h"

namespace gradus {

/// A recurrent cell. Below, G is the number of its gates and H its hidden size.
enum class Recurrence { rnn_tanh, rnn_relu, lstm, gru };
namespace core {
/// Returns the number of gates: 1, 1, 4, 3 in the order of the enum. Weights concatenate gates in
/// PyTorch's order: i, f, g, o (LSTM) and r, z, n (GRU).
int64_t gates_of(Recurrence cell);
}  // namespace core

/// The state of a cell: h and c, both (B, H).
struct RecurrentState {
  Tensor h, c;  ///< c is defined for LSTM only
};

// ---- one step ----
// x_gates and h_gates, both (B, G H), are the contributions of the input and of the previous h to
// the gates, computed by `linear`. All tensors have the same dtype.

/// Returns h' = act(x_gates + h_gates), (B, H), where act is tanh or relu. Elman 1990.
Tensor rnn_cell(const Tensor& x_gates, const Tensor& h_gates,
                Activation activation = Activation::tanh);
/// Returns c' = f c + i g and h' = o tanh(c') for c (B, H). i, f, g and o are the gates in
/// x_gates + h_gates after their activation: tanh for g, sigmoid for the others. Hochreiter &
/// Schmidhuber 1997; Gers, Schmidhuber, Cummins 2000.
RecurrentState lstm_cell(const Tensor& x_gates, const Tensor& h_gates, const Tensor& c);
/// Returns h' = (1 - z) n + z h for h (B, H). x_gates contains x_r, x_z and x_n, and h_gates
/// contains h_r, h_z and h_n. From these, r = sigmoid(x_r + h_r), z = sigmoid(x_z + h_z) and n =
/// tanh(x_n + r h_n). Cho et al. 2014, arXiv 1406.1078, multiply by r before the product of h and
/// the weights; this op multiplies by r after that product, as PyTorch and cuDNN do.
Tensor gru_cell(const Tensor& x_gates, const Tensor& h_gates, const Tensor& h);

namespace core {
/// Runs one step of `cell`, which reads c (LSTM), h (GRU) or nothing from `state`.
RecurrentState recurrent_cell(Recurrence cell, const Tensor& x_gates, const Tensor& h_gates,
                              const RecurrentState& state);
}  // namespace core

// ---- all steps ----

struct RecurrentOptions {
  Tensor lengths = {};   ///< (B) int64, from 1 to T: number of steps per sequence; the rest is
                         ///< padding. If undefined, all are T
  bool reverse = false;  ///< run from the last real step of each sequence to its first
};
/// The result of running a cell over sequences.
struct RecurrentOutput {
  Tensor output;         ///< (B, T, H): h after each step, at the position of that step; 0 in
                         ///< padding
  RecurrentState state;  ///< the final state: after the last step, or with reverse after the first
};
/// Runs `cell` over all steps of x_gates (B, T, G H), T >= 1, starting from the state `first`
/// (zeros if undefined). At each step h_gates = h weight^T + bias, with weight (G H, H) and bias (G
/// H) or undefined. Padding has no effect and gets gradient 0, as with torch's
/// pack_padded_sequence.
RecurrentOutput recurrent(Recurrence cell, const Tensor& x_gates, const Tensor& weight,
                          const Tensor& bias = {}, const RecurrentState& first = {},
                          const RecurrentOptions& options = {});

}  // namespace gradus
