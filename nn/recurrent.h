#pragma once
// Recurrent networks. Sequences are BATCH FIRST, (B, T, input), as in PyTorch with
// batch_first=True; states are (layers * directions, B, hidden), as in PyTorch. Parameter names and
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

/// Parameters of one layer in one direction; `input` is the layer's input size. `gates` is 4 for
/// LSTM (i, f, g, o in PyTorch's terms and order), 3 for GRU (r, z, n) and 1 for RNN.
struct RecurrentWeights {
  const Tensor weight_ih, weight_hh;  ///< (gates * hidden, input), (gates * hidden, hidden)
  const Tensor bias_ih, bias_hh;      ///< (gates * hidden) or undefined
};

/// The common base of RNN, LSTM and GRU.
struct RecurrentLayers : Module {
  const Recurrence cell;                    ///< LSTM, GRU or RNN: the same in every layer
  const int64_t input, hidden, directions;  ///< input size, state size; 2 if bidirectional, else 1
  const Dropout dropout;                    ///< of the output of every layer but the last
  const std::vector<RecurrentWeights> weights;  ///< per layer: forward, then reverse if any

  /// x (B, T, input), BATCH FIRST -> output (B, T, directions * hidden) of the last layer, and the
  /// final state (layers * directions, B, hidden); only LSTM has a state c. `first` is the initial
  /// state, zeros if undefined. `lengths` (B) int64 gives the sequence lengths, in any order.
  /// Padding after a sequence's end is not read and its output is 0. The forward direction ends at
  /// the sequence's last step, and the reverse direction starts there, as with torch's
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
  const Recurrence cell;           ///< LSTM, GRU or RNN
  const RecurrentWeights weights;  ///< of one layer and one direction

  /// Returns the next state, whose h is the output, from x (B, input) and the previous state
  /// `before`: h (B, hidden) and, for LSTM, c (B, hidden), each zeros if undefined.
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
