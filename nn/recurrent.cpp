#include "gradus/nn/recurrent.h"

#include <cmath>
#include <limits>

#include "gradus/core/internal.h"
#include "gradus/core/ops/additive.h"
#include "gradus/core/ops/attention.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/shape.h"

namespace gradus::nn {

namespace {

const char* name_of(Recurrence cell) {
  return cell == Recurrence::lstm ? "LSTM" : cell == Recurrence::gru ? "GRU" : "RNN";
}

/// Returns rnn_relu for an RNN with relu, else `cell`. Throws Error unless the activation is tanh
/// or, for an RNN, relu.
Recurrence with_nonlinearity(Recurrence cell, Activation activation) {
  const bool relu = activation == Activation::relu && cell == Recurrence::rnn_tanh;
  check(relu || activation == Activation::tanh, name_of(cell),
        ": expected nonlinearity tanh or, for RNN, relu, got ", core::name_of(activation));
  return relu ? Recurrence::rnn_relu : cell;
}

/// Creates one layer's weights, each by param(name, shape, initialiser). As in PyTorch, all are
/// uniform in [-1/sqrt(hidden), 1/sqrt(hidden)].
template <class Param>
RecurrentWeights make_weights(Recurrence cell, int64_t input, int64_t hidden, bool bias,
                              const std::string& suffix, Param param) {
  const char* name = name_of(cell);
  check(input > 0 && hidden > 0 && hidden <= INT64_MAX / 4, name,
        ": expected sizes > 0, got input ", input, ", hidden ", hidden);
  const int64_t rows = gates_of(cell) * hidden;
  auto make = [&](const char* what, const Shape& shape) {
    return param(what + suffix, shape, init::uniform_fan_in(hidden));
  };
  const Tensor ih = make("weight_ih", {rows, input}), hh = make("weight_hh", {rows, hidden});
  if (!bias) return {ih, hh, {}, {}};
  const Tensor bias_ih = make("bias_ih", {rows});
  return {ih, hh, bias_ih, make("bias_hh", {rows})};
}

}  // namespace

RecurrentLayers::RecurrentLayers(Recurrence kind, int64_t input_, int64_t hidden_,
                                 const RNNOptions& options)
    : cell(with_nonlinearity(kind, options.nonlinearity)),
      input(input_),
      hidden(hidden_),
      directions(options.bidirectional ? 2 : 1),
      dropout(options.dropout),
      weights([&] {
        constexpr int64_t most = 1 << 20;
        check(options.layers > 0 && options.layers <= most, name_of(cell),
              ": expected layers from 1 to ", most, ", got ", options.layers);
        std::vector<RecurrentWeights> result;
        for (int64_t i = 0; i < options.layers * directions; ++i)
          result.push_back(make_weights(
              cell, i < directions ? input : directions * hidden, hidden, options.bias,
              "_l" + std::to_string(i / directions) + (i % directions == 1 ? "_reverse" : ""),
              [this](const std::string& name, const Shape& shape, const Initialiser& initialiser) {
                return param(name, shape, initialiser, name_of(cell));
              }));
        return result;
      }()) {
  const std::vector<int64_t> rows(static_cast<size_t>(gates_of(cell)), hidden);
  for (const RecurrentWeights& w : weights)
    for (const Tensor& matrix : {w.weight_ih, w.weight_hh}) hidden_weight(matrix, rows);
}

RecurrentOutput RecurrentLayers::operator()(const Tensor& x, const RecurrentState& first,
                                            const Tensor& lengths) const {
  const char* name = name_of(cell);
  check(x.rank() == 3 && x.size(1) > 0 && x.size(2) == input, name, ": expected x (B, T, ", input,
        "), batch first, of at least one step, got ", x.shape());
  const int64_t B = x.size(0), count = std::ssize(weights);
  const Shape state{count, B, hidden};
  for (const Tensor& s : {first.h, first.c})
    check(!s.defined() || s.shape() == state, name,
          ": expected a first state (layers * directions, B, hidden) = ", state, ", got ",
          s.defined() ? s.shape() : Shape{});
  Tensor y = x;
  if (lengths.defined()) {  // keeps padding, NaN included, out of the weights' gradients
    check_tensor(name, "lengths", lengths, int64, {B});
    y = masked_fill(x, le(lengths.unsqueeze(1), arange(x.size(1))).unsqueeze(2), 0);
  }
  std::vector<Tensor> h, c, outputs;
  for (int64_t i = 0; i < count; ++i) {
    const RecurrentWeights& w = weights[static_cast<size_t>(i)];
    // Only GRU keeps its recurrent bias separate: the reset gate multiplies it.
    const bool joined = cell != Recurrence::gru && w.bias_ih.defined();
    const Tensor gates = linear(y, w.weight_ih, joined ? w.bias_ih + w.bias_hh : w.bias_ih);
    const RecurrentOutput out = recurrent(
        cell, gates, w.weight_hh, joined ? Tensor() : w.bias_hh,
        {first.h.defined() ? first.h[i] : first.h, first.c.defined() ? first.c[i] : first.c},
        {.lengths = lengths, .reverse = i % directions == 1});
    h.push_back(out.state.h);
    c.push_back(out.state.c);
    outputs.push_back(out.output);
    if (std::ssize(outputs) < directions) continue;
    y = directions == 1 ? outputs[0] : cat(outputs, -1);
    if (i + 1 < count) y = dropout(y);
    outputs.clear();
  }
  return {y, {stack(h), cell == Recurrence::lstm ? stack(c) : Tensor()}};
}

RecurrentCell::RecurrentCell(Recurrence kind, int64_t input, int64_t hidden,
                             const RNNCellOptions& options)
    : cell(with_nonlinearity(kind, options.nonlinearity)),
      weights(make_weights(
          cell, input, hidden, options.bias, "",
          [this](const std::string& name, const Shape& shape, const Initialiser& initialiser) {
            return param(name, shape, initialiser, name_of(cell));
          })) {
  const std::vector<int64_t> rows(static_cast<size_t>(gates_of(cell)), hidden);
  for (const Tensor& matrix : {weights.weight_ih, weights.weight_hh}) hidden_weight(matrix, rows);
}

RecurrentState RecurrentCell::operator()(const Tensor& x, const RecurrentState& before) const {
  const RecurrentWeights& w = weights;
  check(x.rank() == 2, name_of(cell), ": expected x (B, ", w.weight_ih.size(1), "), got ",
        x.shape());
  check(cell == Recurrence::lstm || !before.c.defined(), name_of(cell),
        "Cell: only LSTM has a state c");
  RecurrentState s = before;
  for (Tensor* t : {&s.h, &s.c})
    if (!t->defined()) *t = zeros({x.size(0), w.weight_hh.size(1)}, x.dtype());
  return recurrent_cell(cell, linear(x, w.weight_ih, w.bias_ih),
                        linear(s.h, w.weight_hh, w.bias_hh), s);
}

// ---- single-head attention ----

namespace {
/// Returns a linear layer for the additive score, nullopt for other scores.
std::optional<Linear> additive_layer(Score score, int64_t in, int64_t out, bool bias) {
  if (score != Score::additive) return std::nullopt;
  return Linear(in, out, {.bias = bias});
}
}  // namespace

Attention::Sizes Attention::checked_sizes(Score score, int64_t query_dim, int64_t key_dim,
                                          int64_t hidden) {
  check(score >= Score::dot && score <= Score::additive, "Attention: unknown score ", int(score));
  check(query_dim > 0 && key_dim > 0, "Attention: expected sizes > 0, got ",
        Shape{query_dim, key_dim});
  check(score == Score::bilinear || score == Score::additive || query_dim == key_dim,
        "Attention: queries and keys of ", query_dim, " and ", key_dim,
        " features have no dot product; use Score::bilinear or Score::additive");
  return {query_dim, key_dim, hidden == 0 ? query_dim : hidden};
}

Attention::Attention(Score score_, int64_t query_dim, int64_t key_dim, int64_t hidden)
    : Attention(score_, checked_sizes(score_, query_dim, key_dim, hidden)) {}

Attention::Attention(Score score_, const Sizes& size)
    : score(score_),
      w(score == Score::bilinear ? param("w", {size.query, size.key}, init::kaiming_uniform())
                                 : Tensor()),
      query(additive_layer(score, size.query, size.hidden, true)),
      key(additive_layer(score, size.key, size.hidden, false)),
      v(score == Score::additive ? param("v", {1, size.hidden}, init::kaiming_uniform())
                                 : Tensor()) {
  if (query) child("query", *query);
  if (key) child("key", *key);
}

Tensor Attention::prepare(const Tensor& keys) const {
  if (score == Score::bilinear) return matmul(keys, w.mT());  // W k
  return key ? (*key)(keys) : keys;
}

AttentionResult Attention::attend(const Tensor& queries, const Tensor& prepared,
                                  const Tensor& values, const Tensor& mask) const {
  check(
      queries.rank() == 3 && prepared.rank() == 3 && values.rank() == 3 &&
          prepared.size(0) == queries.size(0) && values.size(0) == queries.size(0) &&
          prepared.size(1) == values.size(1),
      "Attention: expected queries (B, Tq, D) and as many keys (B, Tk, D) as values (B, Tk, Dv), ",
      "got ", queries.shape(), ", ", prepared.shape(), " and ", values.shape());
  Tensor scores = score == Score::additive
                      ? additive_scores((*query)(queries), prepared, v.reshape({v.size(1)}))
                      : matmul(queries, prepared.mT());
  if (score == Score::scaled_dot)
    scores = scores / std::sqrt(static_cast<double>(queries.size(-1)));
  if (mask.defined()) {
    check(mask.dtype() == boolean, "Attention: expected a mask of bool, got ", mask.dtype());
    check(mask.rank() <= 3, "Attention: expected a mask that broadcasts to ", scores.shape(),
          ", got ", mask.shape());
    scores = masked_fill(scores, !mask, -std::numeric_limits<double>::infinity());
  }
  const Tensor weights = softmax(scores);
  AttentionTrace::add([&] { return weights.unsqueeze(1); });
  return {matmul(weights, values), weights};
}

}  // namespace gradus::nn
