#pragma once
// Recurrent networks and the single-head attention of their decoders. Sequences are BATCH FIRST, (B, T, input), as in PyTorch with
// batch_first=True; states are (layers * directions, B, hidden), as in PyTorch. Parameter names and
// initialisation follow PyTorch's, so that state dicts can be exchanged.

#include <optional>

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

// ---- single-head attention ----

/// The score of a query q and a key k. dot and bilinear: Luong et al. 2015, arXiv 1508.04025,
/// section 3.1; scaled_dot: Vaswani et al. 2017, arXiv 1706.03762; additive: Bahdanau et al. 2015,
/// arXiv 1409.0473, appendix A.1.2. w, v and the layers query and key are Attention's.
enum class Score {
  dot,         ///< q . k
  scaled_dot,  ///< q . k / sqrt(query_dim)
  bilinear,    ///< q^T w k
  additive     ///< v . tanh(query(q) + key(k))
};

/// Attention's output and weights, for Tq queries, Tk keys and values of Dv features.
struct AttentionResult {
  Tensor output;   ///< (B, Tq, Dv)
  Tensor weights;  ///< (B, Tq, Tk); each query's sum to 1; 0 if it has no key to attend to
};

/// Single-head attention: output = softmax(scores) values.
struct Attention : Module {
  Score score;                       ///< the score function
  const Tensor w;                    ///< for bilinear: (query_dim, key_dim)
  std::optional<Linear> query, key;  ///< for additive: layers with `hidden` outputs
  const Tensor v;                    ///< for additive: (1, hidden)
  /// dot and scaled_dot require query_dim == key_dim. Only additive uses `hidden`; 0: query_dim.
  Attention(Score score, int64_t query_dim, int64_t key_dim, int64_t hidden = 0);

  /// queries (B, Tq, query_dim), keys (B, Tk, key_dim), values (B, Tk, Dv). The bool mask
  /// broadcasts to (B, Tq, Tk): true where a query may attend to a key. A query with no key to
  /// attend to gets weights and output 0.
  AttentionResult operator()(const Tensor& queries, const Tensor& keys, const Tensor& values,
                             const Tensor& mask = {}) const {
    return attend(queries, prepare(keys), values, mask);
  }
  /// Does the score's work on the keys once for any number of calls to attend(). Returns (B, Tk,
  /// query_dim) or, for additive, (B, Tk, hidden).
  Tensor prepare(const Tensor& keys) const;
  /// As operator(), but with the result of prepare(keys) for the keys.
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
