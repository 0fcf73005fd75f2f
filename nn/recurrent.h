#pragma once
// Recurrent networks. Everything here is BATCH FIRST: sequences are (B, T, C), as in PyTorch with
// batch_first=True; states are (layers * directions, B, H), as in PyTorch. Parameter names and
// initialisation follow PyTorch's, so that state dicts can be exchanged.

#include "gradus/core/ops/recurrent.h"
#include "gradus/nn/layers.h"

namespace gradus::nn {

struct RNNOptions {
  int64_t layers = 1;                          ///< stacked layers
  bool bidirectional = false;                  ///< also run each layer in reverse
  bool bias = true;                            ///< add input and recurrent biases
  double dropout = 0;                          ///< of the output of every layer but the last
  Activation nonlinearity = Activation::tanh;  ///< RNN only: tanh or relu
};

/// Parameters of one layer in one direction, with G gates (LSTM 4, GRU 3, RNN 1) in PyTorch's
/// order: i, f, g, o and r, z, n.
struct RecurrentWeights {
  const Tensor weight_ih, weight_hh;  ///< (G H, in), (G H, H)
  const Tensor bias_ih, bias_hh;      ///< (G H) or undefined
};

/// The common base of RNN, LSTM and GRU.
struct RecurrentLayers : Module {
  const Recurrence cell;                        ///< kind of every layer
  const int64_t input, hidden, directions;      ///< input size, state size, 1 or 2 directions
  const Dropout dropout;                        ///< of the output of every layer but the last
  const std::vector<RecurrentWeights> weights;  ///< (layers * directions), forward before reverse

  /// x (B, T, input), BATCH FIRST -> output (B, T, directions * H) of the last layer, and the final
  /// state (layers * directions, B, H); only LSTM has a state c. `first` is the initial state;
  /// undefined: zeros. `lengths` (B) int64 gives the sequence lengths, in any order. Padding after
  /// a sequence's end is not read and its output is 0; the final state is the one after the
  /// sequence's last step, and the reverse direction starts there, as with torch's
  /// pack_padded_sequence and pad_packed_sequence. Throws Error unless 1 <= length <= T.
  RecurrentOutput operator()(const Tensor& x, const RecurrentState& first = {},
                             const Tensor& lengths = {}) const;

 protected:
  RecurrentLayers(Recurrence kind, int64_t input, int64_t hidden, const RNNOptions& options);
};
/// An RNN, LSTM or GRU.
template <Recurrence kind>
struct RecurrentLayersOf : RecurrentLayers {
  RecurrentLayersOf(int64_t input_, int64_t hidden_, const RNNOptions& options = {})
      : RecurrentLayers(kind, input_, hidden_, options) {}
};
/// Elman 1990, "Finding Structure in Time".
using RNN = RecurrentLayersOf<Recurrence::rnn_tanh>;
/// Hochreiter & Schmidhuber 1997, with a forget gate.
using LSTM = RecurrentLayersOf<Recurrence::lstm>;
/// Cho et al. 2014, arXiv 1406.1078.
using GRU = RecurrentLayersOf<Recurrence::gru>;

struct RNNCellOptions {
  bool bias = true;                            ///< add input and recurrent biases
  Activation nonlinearity = Activation::tanh;  ///< RNNCell only: tanh or relu
};

/// One recurrent step, for decoders whose input depends on the previous step. The common base of
/// RNNCell, LSTMCell and GRUCell.
struct RecurrentCell : Module {
  const Recurrence cell;           ///< kind of cell
  const RecurrentWeights weights;  ///< see RecurrentWeights

  /// Returns the next state, whose h is the output, from x (B, input) and the previous state
  /// `before`: h (B, H) and, for LSTM, c (B, H); undefined: zeros.
  RecurrentState operator()(const Tensor& x, const RecurrentState& before = {}) const;

 protected:
  RecurrentCell(Recurrence kind, int64_t input, int64_t hidden, const RNNCellOptions& options);
};
/// An RNNCell, LSTMCell or GRUCell.
template <Recurrence kind>
struct RecurrentCellOf : RecurrentCell {
  RecurrentCellOf(int64_t input, int64_t hidden, const RNNCellOptions& options = {})
      : RecurrentCell(kind, input, hidden, options) {}
};
///@{
/// One step of RNN, LSTM or GRU.
using RNNCell = RecurrentCellOf<Recurrence::rnn_tanh>;
using LSTMCell = RecurrentCellOf<Recurrence::lstm>;
using GRUCell = RecurrentCellOf<Recurrence::gru>;
///@}

}  // namespace gradus::nn
