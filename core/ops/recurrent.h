#pragma once
// Recurrent networks: single steps, and whole sequences in one op. Sequences have shape (B, T, C):
// B sequences, T steps, C features. These ops take the input's contribution to the gates,
// x W_ih^T + b_ih, as an argument. The caller computes it with `linear`, for all steps at once.

#include "gradus/core/ops/activation.h"

namespace gradus {

/// The kind of a recurrent cell. In this file, G is the number of gates of a cell and H its hidden
/// size.
enum class Recurrence { rnn_tanh, rnn_relu, lstm, gru };
namespace core {
/// Returns the number of gates of the cell: 1 for rnn_tanh and rnn_relu, 4 for lstm, 3 for gru. The
/// weights contain the gates in PyTorch's order: i, f, g, o (LSTM) and r, z, n (GRU).
int64_t gates_of(Recurrence cell);
}  // namespace core

/// The state of a recurrent cell: h and c, both (batch size, hidden size).
struct RecurrentState {
  Tensor h, c;  ///< c is defined for LSTM only
};

// ---- one step ----
// For a cell with G gates and hidden size H, x_gates and h_gates are the contributions of the input
// and of the previous h to the gates. Both are (B, G H), where B is the batch size. The caller
// computes them with `linear`. All tensors have the same dtype.

/// Returns the new state h' = act(x_gates + h_gates), all (B, H), where act is tanh or relu. Elman
/// 1990.
Tensor rnn_cell(const Tensor& x_gates, const Tensor& h_gates,
                Activation activation = Activation::tanh);
/// Returns the new state, c' = f c + i g and h' = o tanh(c'), for the old c (B, H). The sum
/// x_gates + h_gates (B, 4 H) contains the arguments of the gates i, f, g and o, in this order.
/// Gate g is the tanh of its argument, and i, f and o are the sigmoids of their arguments.
/// Hochreiter & Schmidhuber 1997; Gers, Schmidhuber, Cummins 2000.
RecurrentState lstm_cell(const Tensor& x_gates, const Tensor& h_gates, const Tensor& c);
/// Returns the new state h' = (1 - z) n + z h for the old state h (B, H), with r = sigmoid(x_r +
/// h_r), z = sigmoid(x_z + h_z) and n = tanh(x_n + r h_n). x_gates (B, 3 H) contains x_r, x_z and
/// x_n, and h_gates (B, 3 H) contains h_r, h_z and h_n. Cho et al. 2014, arXiv 1406.1078, multiply
/// h by r before the product with the weights. This op multiplies the product by r, as PyTorch and
/// cuDNN do.
Tensor gru_cell(const Tensor& x_gates, const Tensor& h_gates, const Tensor& h);

namespace core {
/// Returns the state after one step of `cell`. `state` is the state before the step: an LSTM reads
/// state.c, a GRU reads state.h, and the other cells read neither.
RecurrentState recurrent_cell(Recurrence cell, const Tensor& x_gates, const Tensor& h_gates,
                              const RecurrentState& state);
}  // namespace core

// ---- all steps ----

struct RecurrentOptions {
  /// The number of steps of each sequence, (B) int64, from 1 to T. Later steps are padding. If
  /// undefined, all sequences have T steps.
  Tensor lengths = {};
  bool reverse = false;  ///< process each sequence backwards, from its last step before padding
};
/// The result of running a cell over sequences.
struct RecurrentOutput {
  Tensor output;         ///< h after each step, (B, T, H); 0 in padding
  RecurrentState state;  ///< the final state; with `reverse`, the state after step 0
};
/// Runs a cell with G gates and hidden size H over T >= 1 steps, starting from the state `first`
/// (zeros if undefined). Returns h after each step, and the final state. x_gates (B, T, G H) is the
/// input's contribution to the gates. The contribution of h is h weight^T + bias, with weight
/// (G H, H), and bias (G H) or undefined. Steps after the end of a sequence (options.lengths) have
/// no effect and get gradient 0, as with torch's pack_padded_sequence.
RecurrentOutput recurrent(Recurrence cell, const Tensor& x_gates, const Tensor& weight,
                          const Tensor& bias = {}, const RecurrentState& first = {},
                          const RecurrentOptions& options = {});

}  // namespace gradus
