#pragma once
// Recurrent networks, and the single-head attention of their decoders. Sequences are BATCH FIRST,
// (B, T, input), as in PyTorch with batch_first=True. States of RNN, LSTM and GRU are (layers *
// directions, B, hidden), and those of cells are (B, hidden), as in PyTorch. Names and
// initialisation of the networks' parameters follow PyTorch, so that state dicts can be exchanged.

#include <optional>

#include "gradus/core/ops/recurrent.h"
#include "gradus/nn/layers.h"

namespace gradus::nn {

struct RNNOptions {
  int64_t layers = 1;                          ///< number of stacked layers, from 1 to 2^20
  bool bidirectional = false;                  ///< also run each layer in reverse
  bool bias = true;                            ///< add bias_ih and bias_hh, see RecurrentWeights
  double dropout = 0;                          ///< dropout probability of the output of every layer
                                               ///< but the last
  Activation nonlinearity = Activation::tanh;  ///< RNN: tanh or relu; LSTM and GRU: tanh only
};

/// The parameters of one layer in one direction. `input` is the input size of the layer, `hidden`
/// the size of its state, and `gates` the number of gates stacked in each parameter: 4 for LSTM
/// (PyTorch's i, f, g, o in this order), 3 for GRU (r, z, n) and 1 for RNN.
struct RecurrentWeights {
  const Tensor weight_ih, weight_hh;  ///< (gates * hidden, input); (gates * hidden, hidden)
  const Tensor bias_ih, bias_hh;      ///< (gates * hidden); undefined if constructed without bias
};

/// The common base of RNN, LSTM and GRU.
struct RecurrentLayers : Module {
  const Recurrence cell;                    ///< LSTM, GRU or RNN; the same in every layer
  const int64_t input, hidden, directions;  ///< input size; state size; 2 if bidirectional, else 1
  const Dropout dropout;                    ///< applied to the output of every layer but the last
  const std::vector<RecurrentWeights> weights;  ///< order: layer 0 forward, layer 0 reverse (if
                                                ///< bidirectional), layer 1 forward, and so on

  /// Runs the layers over x (B, T, input), T >= 1. Returns the output (B, T, directions * hidden)
  /// of the last layer and the final state (layers * directions, B, hidden) of all layers. `first`
  /// is the initial state, of the same shape as the final state; undefined means zeros. Only LSTM
  /// has a state c: RNN and GRU throw Error if first.c is defined.
  ///
  /// `lengths` (B) int64 are the lengths of the sequences, in any order; undefined means that all
  /// are T. Throws Error unless each length is from 1 to T. The padding after the end of a sequence
  /// is ignored, and the output there is 0. The forward direction ends at the last step of a
  /// sequence, and the reverse direction starts there, as with torch's pack_padded_sequence and
  /// pad_packed_sequence.
  RecurrentOutput operator()(const Tensor& x, const RecurrentState& first = {},
                             const Tensor& lengths = {}) const;

 protected:
  RecurrentLayers(Recurrence kind, int64_t input, int64_t hidden, const RNNOptions& options);
};
/// RNN, LSTM or GRU: RecurrentLayers with a public constructor.
template <Recurrence kind>
struct RecurrentLayersOf : RecurrentLayers {
  RecurrentLayersOf(int64_t input_, int64_t hidden_, const RNNOptions& options = {})
      : RecurrentLayers(kind, input_, hidden_, options) {}
};
/// The Elman network with tanh or, by option, relu; see rnn_cell(). Elman 1990, "Finding Structure
/// in Time".
using RNN = RecurrentLayersOf<Recurrence::rnn_tanh>;
/// Long short-term memory with a forget gate; see lstm_cell(). Hochreiter & Schmidhuber 1997.
using LSTM = RecurrentLayersOf<Recurrence::lstm>;
/// The gated recurrent unit. As in PyTorch, the reset gate multiplies h weight_hh^T + bias_hh, not
/// h; see gru_cell(). Cho et al. 2014, arXiv 1406.1078.
using GRU = RecurrentLayersOf<Recurrence::gru>;

struct RNNCellOptions {
  bool bias = true;                            ///< add bias_ih and bias_hh, see RecurrentWeights
  Activation nonlinearity = Activation::tanh;  ///< RNNCell: tanh or relu; other cells: tanh only
};

/// One recurrent step, for decoders whose input depends on the previous step. This is the base of
/// RNNCell, LSTMCell and GRUCell.
struct RecurrentCell : Module {
  const Recurrence cell;           ///< LSTM, GRU or RNN
  const RecurrentWeights weights;  ///< parameters of the cell

  /// Returns the next state from x (B, input) and the previous state `before`. The h of the
  /// returned state is the output of the cell. `before` contains h (B, hidden) and, for LSTM, c (B,
  /// hidden); undefined means zeros. RNNCell and GRUCell throw Error if before.c is defined.
  RecurrentState operator()(const Tensor& x, const RecurrentState& before = {}) const;

 protected:
  RecurrentCell(Recurrence kind, int64_t input, int64_t hidden, const RNNCellOptions& options);
};
/// RNNCell, LSTMCell or GRUCell: RecurrentCell with a public constructor.
template <Recurrence kind>
struct RecurrentCellOf : RecurrentCell {
  RecurrentCellOf(int64_t input, int64_t hidden, const RNNCellOptions& options = {})
      : RecurrentCell(kind, input, hidden, options) {}
};
///@{
/// One step of an RNN, LSTM or GRU.
using RNNCell = RecurrentCellOf<Recurrence::rnn_tanh>;
using LSTMCell = RecurrentCellOf<Recurrence::lstm>;
using GRUCell = RecurrentCellOf<Recurrence::gru>;
///@}

// ---- single-head attention ----

/// The function that computes the score of a query q and a key k. w, v, query and key in the
/// formulas are members of Attention. dot and bilinear: Luong et al. 2015, arXiv 1508.04025,
/// section 3.1. scaled_dot: Vaswani et al. 2017, arXiv 1706.03762. additive: Bahdanau et al. 2015,
/// arXiv 1409.0473, appendix A.1.2.
enum class Score {
  dot,         ///< q . k
  scaled_dot,  ///< q . k / sqrt(query_dim)
  bilinear,    ///< q^T w k, with the matrix w of Attention
  additive     ///< v . tanh(query(q) + key(k)), with v, query and key of Attention
};

/// The output and the weights of Attention: each of Tq queries attends to Tk keys, and each key has
/// a value of Dv features.
struct AttentionResult {
  Tensor output;   ///< (B, Tq, Dv)
  Tensor weights;  ///< (B, Tq, Tk): sum to 1 per query, or are 0 if the query may attend to no key
};

/// Single-head attention: output = softmax(scores) values.
struct Attention : Module {
  Score score;                       ///< the score function
  const Tensor w;                    ///< bilinear score: (query_dim, key_dim); else undefined
  std::optional<Linear> query, key;  ///< additive score: map to `hidden` features; else empty
  const Tensor v;                    ///< additive score: (1, hidden); else undefined
  /// `hidden` is the hidden size of the additive score; 0 means query_dim. Other scores ignore
  /// `hidden`. Throws Error if query_dim or key_dim is below 1, or if `score` is dot or scaled_dot
  /// and query_dim != key_dim.
  Attention(Score score, int64_t query_dim, int64_t key_dim, int64_t hidden = 0);

  /// Computes attention for queries (B, Tq, query_dim), keys (B, Tk, key_dim) and values (B, Tk,
  /// Dv). The mask must be bool and broadcast to (B, Tq, Tk). It is true where a query may attend
  /// to a key. If a query may attend to no key, its weights and output are 0.
  AttentionResult operator()(const Tensor& queries, const Tensor& keys, const Tensor& values,
                             const Tensor& mask = {}) const {
    return attend(queries, prepare(keys), values, mask);
  }
  /// Returns the part of the score that depends only on keys (B, Tk, key_dim), so that several
  /// calls of attend() can share it. The shape is (B, Tk, query_dim) or, for additive, (B, Tk,
  /// hidden).
  Tensor prepare(const Tensor& keys) const;
  /// Returns the result of operator() for the same queries, values and mask. `prepared` must be the
  /// result of prepare(keys).
  AttentionResult attend(const Tensor& queries, const Tensor& prepared, const Tensor& values,
                         const Tensor& mask = {}) const;

 private:
  struct Sizes {
    int64_t query, key, hidden;
  };
  static Sizes checked_sizes(Score score, int64_t query_dim, int64_t key_dim, int64_t hidden);
  Attention(Score score, const Sizes& size);
};

}  // namespace gradus::nn
