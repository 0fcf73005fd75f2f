// Recurrent layers and cells against PyTorch's outputs and gradients (cases from
// golden/scripts/make_recurrent_golden.py), and beyond PyTorch: padding, long sequences, threads.

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <limits>

#include "gradus/core/runtime/parallel.h"
#include "gradus/nn/nn.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"

using Catch::Matchers::Contains;

namespace gradus::testing::recurrent_test {
using namespace gradus::core;

namespace {

/// A layer or cell as a function of x, initial state and lengths.
using Run = std::function<RecurrentOutput(const Tensor&, const RecurrentState&, const Tensor&)>;

void compare(const golden::File& file, const std::string& name, nn::Module& module, const Run& run,
             Dtype dtype) {
  INFO(name << " in " << dtype);
  const double tolerance = dtype == float64 ? 1e-9 : 1e-4;
  module.to(dtype);
  module.load_state_dict(file.with_prefix(name + ".param.", dtype));
  auto get = [&](const char* what) {
    const std::string full = name + "." + what;
    return file.has(full) ? file.get(full, dtype) : Tensor();
  };
  const std::vector<const char*> names{"x", "h0", "c0"};
  Tensor in[3];
  for (size_t i = 0; i < 3; ++i)
    if (in[i] = get(names[i]); in[i].defined()) in[i].requires_grad_();
  const RecurrentOutput out = run(in[0], {in[1], in[2]}, get("lengths"));

  Tensor total;  // the loss whose gradients are compared
  const std::vector<std::pair<std::string, Tensor>> outputs{
      {"output", out.output}, {"h", out.state.h}, {"c", out.state.c}};
  for (const auto& [what, y] : outputs) {
    REQUIRE(y.defined() == get(what.c_str()).defined());
    if (!y.defined()) continue;
    CHECK(golden::difference(y, get(what.c_str())) < tolerance);
    const Tensor term = sum(y * get(("d_" + what).c_str()));
    total = total.defined() ? total + term : term;
  }
  total.backward();
  for (size_t i = 0; i < 3; ++i)
    if (in[i].defined())
      CHECK(golden::difference(in[i].grad(), get((std::string("d") + names[i]).c_str())) <
            tolerance);
  for (const auto& [parameter, tensor] : module.named_parameters()) {
    INFO(parameter);
    CHECK(golden::difference(tensor.grad(), get(("grad." + parameter).c_str())) < tolerance);
  }
}

template <class Layers>
void compare_layers(const golden::File& file, const std::string& name, nn::RNNOptions options) {
  auto one = [&](const char* variant, const nn::RNNOptions& o) {
    for (const Dtype dtype : {float64, float32}) {
      Layers layers(3, 4, o);
      compare(file, name + variant, layers, layers, dtype);
    }
  };
  const nn::RNNOptions plain = options;
  one("_plain", plain);
  one("_lengths", plain);
  options.bias = false;
  one("_no_bias", options);
  options = plain;
  options.layers = 3;
  one("_stacked", options);
  options.layers = 2;
  options.bidirectional = true;
  one("_all", options);
  options.layers = 1;
  one("_both_ways", options);
}

template <class Cell>
void compare_cells(const golden::File& file, const std::string& name, nn::RNNCellOptions options) {
  for (const bool bias : {true, false})
    for (const Dtype dtype : {float64, float32}) {
      options.bias = bias;
      Cell cell(3, 4, options);
      const Run run = [&](const Tensor& x, const RecurrentState& first, const Tensor&) {
        return RecurrentOutput{{}, cell(x, first)};
      };
      compare(file, name + (bias ? "_cell" : "_cell_no_bias"), cell, run, dtype);
    }
}

}  // namespace

TEST_CASE("recurrent layers equal PyTorch's", "[recurrent]") {
  const golden::File file("recurrent");
  compare_layers<nn::RNN>(file, "tanh", {});
  compare_layers<nn::RNN>(file, "relu", {.nonlinearity = Activation::relu});
  compare_layers<nn::LSTM>(file, "lstm", {});
  compare_layers<nn::GRU>(file, "gru", {});
}

TEST_CASE("recurrent cells equal PyTorch's", "[recurrent]") {
  const golden::File file("recurrent");
  compare_cells<nn::RNNCell>(file, "tanh", {});
  compare_cells<nn::RNNCell>(file, "relu", {.nonlinearity = Activation::relu});
  compare_cells<nn::LSTMCell>(file, "lstm", {});
  compare_cells<nn::GRUCell>(file, "gru", {});
}

namespace {

/// Output, final state, and gradients of x and all parameters, as one list.
std::vector<Tensor> everything(nn::RecurrentLayers& layers, const Tensor& x,
                               const Tensor& lengths) {
  layers.zero_grad();
  const Tensor leaf = x.clone().requires_grad_();
  const RecurrentOutput out = layers(leaf, {}, lengths);
  manual_seed(5);
  const Tensor d_output = randn(out.output.shape(), x.dtype());
  const Tensor d_state = randn(out.state.h.shape(), x.dtype());
  (sum(out.output * d_output) + sum(out.state.h * d_state)).backward();
  std::vector<Tensor> all{out.output.detach(), out.state.h.detach(), leaf.grad()};
  for (const Tensor& p : layers.parameters()) all.push_back(p.grad());
  return all;
}

template <class Check>
void on_each_kind(const nn::RNNOptions& options, Check check) {
  nn::RNN rnn(7, 13, options);
  nn::LSTM lstm(7, 13, options);
  nn::GRU gru(7, 13, options);
  check(rnn);
  check(lstm);
  check(gru);
}

}  // namespace

TEST_CASE("recurrent layers ignore the values of padding", "[recurrent]") {
  manual_seed(1);
  on_each_kind({.layers = 2, .bidirectional = true}, [](nn::RecurrentLayers& layers) {
    const Tensor lengths = from_data(std::vector<int64_t>{4, 9, 1});
    const Tensor padding = le(lengths.unsqueeze(1), arange(9)).unsqueeze(2);
    const Tensor x = randn({3, 9, 7});
    const auto zero = everything(layers, masked_fill(x, padding, 0), lengths);
    const auto nan = everything(
        layers, masked_fill(x, padding, std::numeric_limits<double>::quiet_NaN()), lengths);
    for (size_t i = 0; i < zero.size(); ++i) CHECK(golden::same(zero[i], nan[i]));
    const Tensor dx = nan[2], y = nan[0];
    CHECK(sum(abs(dx * padding.to(float32))).item() == 0);
    CHECK(sum(abs(y * padding.to(float32))).item() == 0);
    CHECK(std::isfinite(sum(abs(dx)).item()));
    // Each row alone gives the same.
    const auto alone = everything(layers, x.slice(0, 0, 1).slice(1, 0, 4), {});
    CHECK(difference(alone[0], y.slice(0, 0, 1).slice(1, 0, 4).contiguous()) < 1e-6);
  });
}

TEST_CASE("a recurrent op reads neither padding nor its gradients", "[recurrent]") {
  manual_seed(2);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor lengths = from_data(std::vector<int64_t>{2, 5});
  const Tensor padding = le(lengths.unsqueeze(1), arange(5)).unsqueeze(2);
  for (const Recurrence cell :
       {Recurrence::rnn_tanh, Recurrence::rnn_relu, Recurrence::lstm, Recurrence::gru})
    for (const bool reverse : {false, true}) {
      const int64_t G = gates_of(cell);
      const Tensor weight = randn({G * 3, 3}), bias = randn({G * 3}), dy = randn({2, 5, 3});
      const Tensor gates = randn({2, 5, G * 3});
      auto gradients = [&](double value) {
        const Tensor x = masked_fill(gates, padding, value).requires_grad_();
        const Tensor w = weight.clone().requires_grad_(), b = bias.clone().requires_grad_();
        recurrent(cell, x, w, b, {}, {.lengths = lengths, .reverse = reverse})
            .output.backward(masked_fill(dy, padding, value));
        return std::vector<Tensor>{x.grad(), w.grad(), b.grad()};
      };
      const auto zero = gradients(0), bad = gradients(nan);
      for (size_t i = 0; i < zero.size(); ++i) CHECK(golden::same(zero[i], bad[i]));
    }
}

TEST_CASE("recurrent layers give the same bits on any number of threads", "[recurrent]") {
  manual_seed(3);
  const int before = num_threads();
  on_each_kind({.bidirectional = true}, [](nn::RecurrentLayers& layers) {
    std::vector<int64_t> n;
    for (int64_t b = 0; b < 37; ++b) n.push_back(b * 7 % 21 + 1);
    const Tensor x = randn({37, 21, 7}), lengths = from_data(n);
    set_num_threads(1);
    const auto one = everything(layers, x, lengths);
    for (const int threads : {2, 3, 5}) {
      set_num_threads(threads);
      const auto many = everything(layers, x, lengths);
      for (size_t i = 0; i < one.size(); ++i) CHECK(golden::same(one[i], many[i]));
    }
  });
  set_num_threads(before);
}

TEST_CASE("memory of a recurrent layer grows linearly with time", "[recurrent]") {
  nn::LSTM lstm(8, 16);
  auto peak = [&](int64_t time) {
    const Tensor x = randn({2, time, 8});
    reset_peak_memory();
    const int64_t before = memory_stats().live;
    sum(lstm(x).output).backward();
    lstm.zero_grad();
    return static_cast<double>(memory_stats().peak - before);
  };
  peak(1024);
  const double ratio = peak(8192) / peak(4096);
  CHECK(ratio > 1.8);
  CHECK(ratio < 2.2);
}

TEST_CASE("a plain recurrent op keeps nothing for backward but its inputs and outputs",
          "[recurrent][fused]") {
  const int64_t batch = 4, time = 64, hidden = 16;
  const Tensor x = randn({batch, time, hidden}).requires_grad_();
  const Tensor w = randn({hidden, hidden}).requires_grad_();
  for (const Recurrence cell : {Recurrence::rnn_tanh, Recurrence::rnn_relu}) {
    const int64_t before = memory_stats().live;
    const RecurrentOutput out = recurrent(cell, x, w);
    CHECK(memory_stats().live - before == 4 * batch * hidden * (time + 1));  // output and state.h
  }
}

TEST_CASE("gradients of gradients of a long sequence take linear time", "[recurrent]") {
  auto seconds = [](int64_t time) {
    const Tensor x = randn({1, time, 4}).requires_grad_(), w = randn({4, 1}).requires_grad_();
    const auto start = std::chrono::steady_clock::now();
    const Tensor dx =
        grad({sum(recurrent(Recurrence::lstm, x, w).output)}, {x}, {.create_graph = true})[0];
    sum(dx * dx).backward();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  seconds(64);
  double shorter = 1e9, longer = 1e9;  // minimum of several runs, as other programs may run
  for (int i = 0; i < 3; ++i) {
    shorter = std::min(shorter, seconds(512));
    longer = std::min(longer, seconds(2048));
  }
  CHECK(longer < 9 * shorter);  // 4 if linear, 16 if quadratic
}

TEST_CASE("a cell applied step by step equals its layer", "[recurrent]") {
  manual_seed(4);
  nn::GRU layer(3, 4);
  nn::GRUCell cell(3, 4);
  NamedTensors state;
  for (const auto& [name, tensor] : layer.state_dict())
    state.emplace_back(name.substr(0, name.size() - 3), tensor);  // the name without _l0
  cell.load_state_dict(state);
  const Tensor x = randn({2, 6, 3}), dy = randn({2, 6, 4});
  sum(layer(x).output * dy).backward();
  RecurrentState s;
  std::vector<Tensor> ys;
  for (const Tensor& step : unbind(x, 1)) ys.push_back((s = cell(step, s)).h);
  sum(stack(ys, 1) * dy).backward();
  for (size_t i = 0; i < 4; ++i)
    CHECK(difference(cell.parameters()[i].grad(), layer.parameters()[i].grad()) < 1e-5);
}

TEST_CASE("recurrent layers and cells: without h or without c, an LSTM starts at 0",
          "[recurrent]") {
  manual_seed(6);
  const nn::LSTM lstm(3, 4, {.layers = 2, .bidirectional = true});
  const nn::LSTMCell cell(3, 4);
  const Tensor x = randn({2, 5, 3}), given = randn({4, 2, 4}), zero = zeros({4, 2, 4});
  const Tensor step = x.select(1, 0);
  const auto check_states = [&](const RecurrentState& partial, const RecurrentState& whole) {
    const RecurrentOutput a = lstm(x, partial), b = lstm(x, whole);
    CHECK(difference(a.output, b.output) < 1e-6);
    const auto first = [](const Tensor& t) { return t.defined() ? t[0] : t; };
    const RecurrentState next = cell(step, {first(partial.h), first(partial.c)});
    CHECK(difference(next.c, cell(step, {whole.h[0], whole.c[0]}).c) < 1e-6);
  };
  check_states({given, {}}, {given, zero});
  check_states({{}, given}, {zero, given});
}

TEST_CASE("recurrent layers and cells: one hidden matrix per gate", "[recurrent]") {
  const auto check_rows = [](const nn::Module& module, size_t gates) {
    CHECK(module.hidden_matrices().size() == 2);
    for (const StackedMatrices& matrices : module.hidden_matrices())
      CHECK(matrices.rows == std::vector<int64_t>(gates, 5));
  };
  check_rows(nn::RNN(3, 5), 1), check_rows(nn::RNNCell(3, 5), 1);
  check_rows(nn::GRU(3, 5), 3), check_rows(nn::GRUCell(3, 5), 3);
  check_rows(nn::LSTM(3, 5), 4), check_rows(nn::LSTMCell(3, 5), 4);
}

TEST_CASE("recurrent layers: parameters and dropout", "[recurrent]") {
  const nn::LSTM lstm(3, 4, {.layers = 2, .bidirectional = true});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : lstm.named_parameters()) {
    names.push_back(name);
    CHECK(abs(tensor).max().item() <= 0.5);
    CHECK(abs(tensor).max().item() > 0.2);
  }
  CHECK(names.size() == 16);
  CHECK(names[0] == "weight_ih_l0");
  CHECK(names[7] == "bias_hh_l0_reverse");
  CHECK(names[8] == "weight_ih_l1");
  CHECK(lstm.weights[2].weight_ih.shape() == Shape{16, 8});

  const nn::GRU gru(3, 4, {.layers = 2, .dropout = 0.5});
  const Tensor x = randn({2, 5, 3});
  CHECK(difference(gru(x).output, gru(x).output) > 0);
  {
    const EvalMode eval;
    CHECK(difference(gru(x).output, gru(x).output) == 0);
  }
}

TEST_CASE("recurrent layers: dropout between layers, not behind the last", "[recurrent]") {
  manual_seed(3);
  const Tensor x = randn({3, 5, 4});
  auto check_layers = [&](auto make) {
    const auto single = make(nn::RNNOptions{.bidirectional = true, .dropout = 0.5});
    const Tensor dropped = single(x).output;
    const auto twice = make(nn::RNNOptions{.layers = 2, .dropout = 0.5});
    const auto out = twice(x);
    CHECK(out.output.numel() == 3 * 5 * 6);
    CHECK(min(abs(out.output)).item() > 0);
    CHECK(difference(out.output.select(1, 4), out.state.h[1]) == 0);
    CHECK(difference(twice(x).output, out.output) > 0);
    const EvalMode eval;
    CHECK(difference(single(x).output, dropped) == 0);
  };
  check_layers([](const nn::RNNOptions& o) { return nn::RNN(4, 6, o); });
  check_layers([](const nn::RNNOptions& o) { return nn::LSTM(4, 6, o); });
  check_layers([](const nn::RNNOptions& o) { return nn::GRU(4, 6, o); });
}

TEST_CASE("recurrent layers refuse bad inputs and options", "[recurrent]") {
  const nn::LSTM lstm(3, 4, {.layers = 2, .bidirectional = true});
  const nn::GRU gru(3, 4, {.layers = 2, .dropout = 0.5});
  const Tensor x = randn({2, 5, 3});
  CHECK_THROWS_WITH(
      lstm(ones({2, 5, 4})),
      Contains("LSTM: expected x (B, T, 3), batch first, of at least one step, got (2, 5, 4)"));
  CHECK_THROWS_WITH(lstm(ones({2, 3})), Contains("LSTM: expected x (B, T, 3)"));
  CHECK_THROWS_WITH(
      lstm(ones({2, 0, 3})),
      Contains("LSTM: expected x (B, T, 3), batch first, of at least one step, got (2, 0, 3)"));
  CHECK_THROWS_WITH(gru(x, {ones({1, 2, 4}), {}}),
                    Contains("GRU: expected a first state (layers * directions, B, hidden) = (2, "
                             "2, 4), got (1, 2, 4)"));
  CHECK_THROWS_WITH(gru(x, {}, ones({3}, int64)),
                    Contains("GRU: expected lengths of int64 (2,), got int64 (3,)"));
  CHECK_THROWS_WITH(gru(x, {}, from_data(std::vector<int64_t>{5, 0})),
                    Contains("expected lengths from 1 to 5, got 0"));
  CHECK_THROWS_WITH(gru(x, {ones({2, 2, 4}), ones({2, 2, 4})}),
                    Contains("only LSTM has a state c"));
  for (const int64_t layers : {int64_t{0}, int64_t{1} << 62})
    CHECK_THROWS_WITH(nn::RNN(3, 4, {.layers = layers, .bidirectional = true}),
                      "RNN: expected layers from 1 to 1048576, got " + std::to_string(layers));
  CHECK_THROWS_WITH(nn::RNN(3, 0), Contains("RNN: expected sizes > 0, got input 3, hidden 0"));
  CHECK_THROWS_WITH(nn::RNN(3, 4, {.nonlinearity = Activation::gelu}),
                    Contains("RNN: expected nonlinearity tanh or, for RNN, relu, got gelu"));
  CHECK_THROWS_WITH(nn::GRU(3, 4, {.nonlinearity = Activation::relu}),
                    Contains("GRU: expected nonlinearity tanh or, for RNN, relu, got relu"));
  const nn::LSTMCell cell(3, 4);
  CHECK_THROWS_WITH(cell(ones({2, 5})), Contains("linear: expected x (..., 3)"));
  CHECK_THROWS_WITH(cell(ones({2, 5, 3})), "LSTM: expected x (B, 3), got (2, 5, 3)");
  CHECK_THROWS_WITH(
      cell(ones({2, 3}), {ones({3, 4}), {}}),
      Contains("lstm_cell: expected h_gates of float32 (2, 16), got float32 (3, 16)"));
  const Tensor one = ones({2, 3}), state = ones({2, 4});
  CHECK_THROWS_WITH(nn::GRUCell(3, 4)(one, {state, state}),
                    Contains("GRUCell: only LSTM has a state c"));
  CHECK_THROWS_WITH(nn::RNNCell(3, 4)(one, {{}, state}),
                    Contains("RNNCell: only LSTM has a state c"));
}

}  // namespace gradus::testing::recurrent_test
