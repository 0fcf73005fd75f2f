#include "gradus/nn/recurrent.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/shape.h"
#include "gradus/nn/init.h"

namespace gradus::nn {

namespace {

/// param(name, value) registers each. All are uniform within 1/sqrt(hidden), as PyTorch's.
template <class Param>
RecurrentWeights make_weights(const char* name, Recurrence cell, int64_t input, int64_t hidden,
                              bool bias, const std::string& suffix, Param param) {
  check(input > 0 && hidden > 0 && hidden <= INT64_MAX / 4, name,
        ": expected sizes > 0, got input ", input, ", hidden ", hidden);
  const int64_t rows = gates_of(cell) * hidden;
  auto make = [&](const char* what, const Shape& shape) {
    return param(what + suffix, init::uniform_fan_in(init::parameter_shape(name, shape), hidden));
  };
  const Tensor ih = make("weight_ih", {rows, input}), hh = make("weight_hh", {rows, hidden});
  if (!bias) return {ih, hh, {}, {}};
  const Tensor bias_ih = make("bias_ih", {rows});
  return {ih, hh, bias_ih, make("bias_hh", {rows})};
}

Recurrence elman(const char* name, Activation activation) {
  check(activation == Activation::tanh || activation == Activation::relu, name,
        ": expected tanh or relu as nonlinearity, got ", name_of(activation));
  return activation == Activation::relu ? Recurrence::rnn_relu : Recurrence::rnn_tanh;
}

/// LSTM and GRU have no choice.
Recurrence gated(const char* name, Recurrence cell, Activation activation) {
  check(activation == Activation::tanh, name, ": only RNN has a choice of nonlinearity");
  return cell;
}

/// The state (count, B, H), checked, as one for each layer and direction.
std::vector<Tensor> unpacked(const char* name, const char* which, const Tensor& state,
                             const Shape& expected) {
  if (!state.defined()) return std::vector<Tensor>(static_cast<size_t>(expected[0]));
  check(state.shape() == expected, name, ": expected ", which,
        " (layers * directions, B, hidden) = ", expected, ", got ", state.shape());
  return unbind(state, 0);
}

}  // namespace

// ---- layers ----

RecurrentLayers::RecurrentLayers(const char* name, Recurrence cell_, int64_t input_,
                                 int64_t hidden_, const RNNOptions& options)
    : cell(cell_),
      input(input_),
      hidden(hidden_),
      directions(options.bidirectional ? 2 : 1),
      dropout(options.dropout),
      weights([&] {
        check(options.layers > 0, name, ": expected layers > 0, got ", options.layers);
        std::vector<RecurrentWeights> made;
        for (int64_t layer = 0; layer < options.layers; ++layer)
          for (int64_t d = 0; d < directions; ++d)
            made.push_back(make_weights(
                name, cell, layer == 0 ? input : directions * hidden, hidden, options.bias,
                "_l" + std::to_string(layer) + (d == 1 ? "_reverse" : ""),
                [this](const std::string& n, const Tensor& value) { return param(n, value); }));
        return made;
      }()),
      name_(name) {}

RecurrentOutput RecurrentLayers::operator()(const Tensor& x, const RecurrentState& first,
                                            const Tensor& lengths) const {
  check(x.rank() == 3 && x.size(2) == input, name_, ": expected x (B, T, ", input,
        "), batch first, got ", x.shape());
  check(x.size(1) > 0, name_, ": expected sequences of at least one step, got x ", x.shape());
  const int64_t B = x.size(0), T = x.size(1), count = static_cast<int64_t>(weights.size());
  check(!lengths.defined() || (lengths.shape() == Shape{B} && lengths.dtype() == int64), name_,
        ": expected lengths ", Shape{B}, " of int64, got ",
        lengths.defined() ? lengths.shape() : Shape{});
  const auto h = unpacked(name_, "h", first.h, {count, B, hidden});
  const auto c = unpacked(name_, "c", first.c, {count, B, hidden});
  Tensor y = x;
  if (lengths.defined())  // so that the weights' gradients do not meet what stands in padding
    y = masked_fill(x, le(lengths.unsqueeze(1), arange(T)).unsqueeze(2), 0);
  std::vector<Tensor> last_h, last_c;
  for (int64_t i = 0; i < count; i += directions) {
    std::vector<Tensor> outputs;
    for (int64_t d = 0; d < directions; ++d) {
      const auto at = static_cast<size_t>(i + d);
      const RecurrentWeights& w = weights[at];
      // GRU alone needs the second bias apart: r is applied to it.
      const bool joined = cell != Recurrence::gru && w.bias_ih.defined();
      const Tensor gates = linear(y, w.weight_ih, joined ? w.bias_ih + w.bias_hh : w.bias_ih);
      const RecurrentOutput out =
          recurrent(cell, gates, w.weight_hh, joined ? Tensor() : w.bias_hh, {h[at], c[at]},
                    {.lengths = lengths, .reverse = d == 1});
      outputs.push_back(out.output);
      last_h.push_back(out.state.h);
      last_c.push_back(out.state.c);
    }
    y = directions == 1 ? outputs[0] : cat(outputs, -1);
    if (i + directions < count) y = dropout(y);
  }
  return {y, {stack(last_h), cell == Recurrence::lstm ? stack(last_c) : Tensor()}};
}

RNN::RNN(int64_t input, int64_t hidden, const RNNOptions& options)
    : RecurrentLayers("RNN", elman("RNN", options.nonlinearity), input, hidden, options) {}
LSTM::LSTM(int64_t input, int64_t hidden, const RNNOptions& options)
    : RecurrentLayers("LSTM", gated("LSTM", Recurrence::lstm, options.nonlinearity), input, hidden,
                      options) {}
GRU::GRU(int64_t input, int64_t hidden, const RNNOptions& options)
    : RecurrentLayers("GRU", gated("GRU", Recurrence::gru, options.nonlinearity), input, hidden,
                      options) {}

// ---- cells ----

RecurrentCell::RecurrentCell(const char* name, Recurrence cell_, int64_t input, int64_t hidden,
                             const RNNCellOptions& options)
    : cell(cell_),
      weights(make_weights(
          name, cell, input, hidden, options.bias, "",
          [this](const std::string& n, const Tensor& value) { return param(n, value); })) {}

RecurrentState RecurrentCell::operator()(const Tensor& x, const RecurrentState& before) const {
  const RecurrentWeights& w = weights;
  check(x.rank() == 2, "RecurrentCell: expected x (B, ", w.weight_ih.size(1), "), got ", x.shape());
  const Shape shape{x.size(0), w.weight_hh.size(1)};
  RecurrentState s = before;
  if (!s.h.defined()) s.h = zeros(shape, x.dtype());
  if (!s.c.defined() && cell == Recurrence::lstm) s.c = zeros(shape, x.dtype());
  check(s.h.shape() == shape, "RecurrentCell: expected h ", shape, ", got ", s.h.shape());
  return recurrent_cell(cell, linear(x, w.weight_ih, w.bias_ih),
                        linear(s.h, w.weight_hh, w.bias_hh), s);
}

RNNCell::RNNCell(int64_t input, int64_t hidden, const RNNCellOptions& options)
    : RecurrentCell("RNNCell", elman("RNNCell", options.nonlinearity), input, hidden, options) {}
LSTMCell::LSTMCell(int64_t input, int64_t hidden, const RNNCellOptions& options)
    : RecurrentCell("LSTMCell", gated("LSTMCell", Recurrence::lstm, options.nonlinearity), input,
                    hidden, options) {}
GRUCell::GRUCell(int64_t input, int64_t hidden, const RNNCellOptions& options)
    : RecurrentCell("GRUCell", gated("GRUCell", Recurrence::gru, options.nonlinearity), input,
                    hidden, options) {}

}  // namespace gradus::nn
