#pragma once
// Recurrent networks. Everything here is BATCH FIRST: sequences are (B, T, C), what PyTorch calls
// batch_first=True; states are (layers * directions, B, H), as PyTorch's are in either case. Names
// and initialisation of parameters are PyTorch's, so that state dicts can be exchanged.

#include "gradus/core/ops/recurrent.h"
#include "gradus/nn/layers.h"

namespace gradus::nn {

struct RNNOptions {
  int64_t layers = 1;                          ///< one upon the other
  bool bidirectional = false;                  ///< beside each layer one that reads from the end
  bool bias = true;                            ///< in the input's part and in the state's
  double dropout = 0;                          ///< of each layer's output but the last's
  Activation nonlinearity = Activation::tanh;  ///< of RNN: tanh or relu
};

/// One layer's parameters in one direction, G gates (4 of LSTM, 3 of GRU, 1 of RNN), in PyTorch's
/// order: i, f, g, o and r, z, n.
struct RecurrentWeights {
  const Tensor weight_ih, weight_hh;  ///< (G H, in), (G H, H)
  const Tensor bias_ih, bias_hh;      ///< (G H) or undefined
};

/// What RNN, LSTM and GRU share.
struct RecurrentLayers : Module {
  const Recurrence cell;                    ///< of every layer
  const int64_t input, hidden, directions;  ///< numbers of an input, of a state; 2 if bidirectional
  const Dropout dropout;                    ///< of each layer's output but the last's
  const std::vector<RecurrentWeights> weights;  ///< (layers * directions), forward before reverse

  /// x (B, T, input), BATCH FIRST -> output (B, T, directions * H), of the last layer, and the
  /// state after the last step, (layers * directions, B, H); c is LSTM's alone. `first`: the state
  /// before the first step, likewise; undefined: zeros. `lengths` (B) int64: the rows' true
  /// lengths, in any order; what follows in x may be anything and is not read, output there is 0,
  /// the state is that after each row's own last step, and the reverse direction begins there. As
  /// with torch's pack_padded_sequence and pad_packed_sequence. Throws Error unless 1 <= length <=
  /// T.
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
  bool bias = true;                            ///< in the input's part and in the state's
  Activation nonlinearity = Activation::tanh;  ///< of RNNCell: tanh or relu
};

/// One step: for decoders, whose input depends on the step before. What RNNCell, LSTMCell and
/// GRUCell share.
struct RecurrentCell : Module {
  const Recurrence cell;           ///< its kind
  const RecurrentWeights weights;  ///< of its one step

  /// x (B, input) and the state before, h (B, H) and, of LSTM, c (B, H); undefined: zeros. The state
  /// after, of which h is the output.
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
