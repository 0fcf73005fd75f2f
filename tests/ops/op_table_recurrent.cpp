// Rows of recurrent cells and sequences, and of additive attention.

#include "gradus/core/ops/ops.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

constexpr Recurrence all_cells[] = {Recurrence::rnn_tanh, Recurrence::rnn_relu, Recurrence::lstm,
                                    Recurrence::gru};

const char* name_of(Recurrence cell) {
  constexpr const char* names[] = {"tanh", "relu", "lstm", "gru"};
  return names[static_cast<int>(cell)];
}

// ---- the papers' formulas, gate by gate ----

/// Gate g of the gates' sums (B, G H).
Tensor gate(const Tensor& x, int64_t g, int64_t H) { return x.slice(1, g * H, (g + 1) * H); }
Tensor logistic(const Tensor& x) { return 1.0 / (1.0 + exp(-x)); }

/// {h} or {h, c} from {x gates, h gates, h or c}.
Tensors cell_by_hand(Recurrence cell, const Tensor& x, const Tensor& z, const Tensor& h,
                     const Tensor& c) {
  const int64_t H = x.size(1) / gates_of(cell);
  if (cell == Recurrence::rnn_tanh) return {tanh(x + z)};
  if (cell == Recurrence::rnn_relu) return {maximum(x + z, 0)};
  auto sum_of = [&](int64_t g) { return gate(x, g, H) + gate(z, g, H); };
  if (cell == Recurrence::gru) {
    const Tensor r = logistic(sum_of(0)), u = logistic(sum_of(1));
    const Tensor n = tanh(gate(x, 2, H) + r * gate(z, 2, H));
    return {n - u * n + u * h};
  }
  const Tensor next = logistic(sum_of(1)) * c + logistic(sum_of(0)) * tanh(sum_of(2));
  return {logistic(sum_of(3)) * tanh(next), next};
}

/// The options of a row.
struct Setting {
  Recurrence cell;
  bool reverse = false, lengths = false, bias = false, state = false;
};

/// Lengths from 1 to `time` that differ from row to row.
std::vector<int64_t> some_lengths(const Setting& s, int64_t batch, int64_t time) {
  std::vector<int64_t> all;
  for (int64_t b = 0; b < batch; ++b) all.push_back(s.lengths ? (b * 5 + 1) % time + 1 : time);
  return all;
}

/// Inputs x (0), weight (1), then bias, h and c if used.
Tensors sequence(const Setting& s, const Tensors& in) {
  size_t next = 2;
  const Tensor bias = s.bias ? in[next++] : Tensor();
  RecurrentState first;
  if (s.state) first.h = in[next++];
  if (s.state && s.cell == Recurrence::lstm) first.c = in[next++];
  const int64_t B = in[0].size(0), T = in[0].size(1);
  RecurrentOptions options{.reverse = s.reverse};
  if (s.lengths) options.lengths = from_data(some_lengths(s, B, T), {B});
  const RecurrentOutput out = recurrent(s.cell, in[0], in[1], bias, first, options);
  Tensors outputs{out.output, out.state.h};
  if (out.state.c.defined()) outputs.push_back(out.state.c);
  return outputs;
}

/// Runs each row of the batch by itself.
Tensors sequence_by_hand(const Setting& s, const Tensors& in) {
  const int64_t B = in[0].size(0), T = in[0].size(1), H = in[1].size(1);
  const auto lengths = some_lengths(s, B, T);
  const bool lstm = s.cell == Recurrence::lstm;
  Tensors ys, hs, cs;
  for (int64_t b = 0; b < B; ++b) {
    size_t next = 2;
    const Tensor bias = s.bias ? in[next++] : Tensor();
    const Tensor none = zeros({1, H}, in[0].dtype());
    Tensor h = s.state ? in[next++].slice(0, b, b + 1) : none;
    Tensor c = s.state && lstm ? in[next++].slice(0, b, b + 1) : none;
    const int64_t n = lengths[static_cast<size_t>(b)];
    Tensors steps(static_cast<size_t>(T), none);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t t = s.reverse ? n - 1 - i : i;
      Tensor z = matmul(h, in[1].transpose(0, 1));
      if (bias.defined()) z = z + bias;
      const Tensors after = cell_by_hand(s.cell, in[0][b].slice(0, t, t + 1), z, h, c);
      h = steps[static_cast<size_t>(t)] = after[0];
      if (lstm) c = after[1];
    }
    ys.push_back(cat(steps));
    hs.push_back(h);
    cs.push_back(c);
  }
  Tensors outputs{stack(ys), cat(hs)};
  if (lstm) outputs.push_back(cat(cs));
  return outputs;
}

Sample sizes(const Setting& s, int64_t B, int64_t T, int64_t H) {
  const int64_t G = gates_of(s.cell);
  Sample sample{normal({B, T, G * H}), uniform({G * H, H}, -0.4, 0.4)};
  if (s.bias) sample.push_back(normal({G * H}));
  if (s.state) sample.push_back(normal({B, H}));
  if (s.state && s.cell == Recurrence::lstm) sample.push_back(normal({B, H}));
  return sample;
}

OpRow sequence_row(const Setting& s) {
  std::string variant = name_of(s.cell);
  if (s.reverse) variant += ", reverse";
  if (s.lengths) variant += ", lengths";
  if (s.bias) variant += ", bias";
  if (s.state) variant += ", state";
  const bool by_hand_is_slow = s.reverse && !s.lengths;
  return {.name = "recurrent",
          .variant = variant,
          .f = [s](const Tensors& in) { return sequence(s, in); },
          .samples = {sizes(s, 2, 3, 2), sizes(s, 1, 1, 1), sizes(s, 3, 2, 1)},
          .large = by_hand_is_slow ? std::vector<Sample>{}
                                   : std::vector<Sample>{sizes(s, 67, 3, 37), sizes(s, 5, 7, 131)},
          .composed = [s](const Tensors& in) { return sequence_by_hand(s, in); }};
}

OpRow empty_sequence_row() {
  const Setting s{.cell = Recurrence::gru};
  OpRow row = sequence_row(s);
  row.variant = "no rows";
  row.samples = {sizes(s, 0, 2, 2), sizes(s, 0, 1, 1), sizes(s, 1, 2, 1)};
  row.large = {};
  row.composed = {};
  return row;
}

std::vector<BadCall> refused_sequences() {
  const std::string op = "recurrent: ";
  auto call = [](const Shape& x, const Shape& w, const RecurrentState& first = {},
                 const RecurrentOptions& o = {}) {
    return [=] { recurrent(Recurrence::lstm, ones(x), ones(w), {}, first, o); };
  };
  const Shape x{2, 3, 8}, w{8, 2};
  auto lengths = [&](const Tensor& t) { return call(x, w, {}, {.lengths = t}); };
  return {
      {call(x, {8, 3}), op + "expected weight (12, 3), got (8, 3)"},
      {call(x, {0, 0}), op + "expected at least one hidden unit, got weight (0, 0)"},
      {call({2, 3, 4}, w), op + "expected x_gates (B, T, 8), got (2, 3, 4)"},
      {call({2, 8}, w), op + "expected x_gates (B, T, 8), got (2, 8)"},
      {call({2, 0, 8}, w), op + "expected at least one step, got x_gates (2, 0, 8)"},
      {call(x, w, {ones({2, 3}), {}}), op + "expected h of float32 (2, 2), got float32 (2, 3)"},
      {call(x, w, {{}, ones({2, 2}, float64)}),
       op + "expected c of float32 (2, 2), got float64 (2, 2)"},
      {lengths(from_data(std::vector<int64_t>{1})),
       op + "expected lengths of int64 (2,), got int64 (1,)"},
      {lengths(ones({2})), op + "expected lengths of int64 (2,), got float32 (2,)"},
      {lengths(from_data(std::vector<int64_t>{3, 0})), op + "expected lengths from 1 to 3, got 0"},
      {lengths(from_data(std::vector<int64_t>{4, 1})), op + "expected lengths from 1 to 3, got 4"},
      {[] {
         recurrent(Recurrence::gru, ones({1, 1, 3}), ones({3, 1}), ones({2}));
       },
       op + "expected bias of float32 (3,), got float32 (2,)"},
      {[] {
         recurrent(Recurrence::gru, ones({1, 1, 3}), ones({3, 1}, float64));
       },
       op + "expected weight of float32 (3, 1), got float64 (3, 1)"},
      {[] {
         recurrent(Recurrence::gru, ones({1, 1, 3}, int64), ones({3, 1}, int64));
       },
       op + "expected float32 or float64, got int64"},
      {[] {
         recurrent(Recurrence::gru, ones({1, 1, 3}), ones({3, 1}), {}, {{}, ones({1, 1})});
       },
       op + "only LSTM has a state c"}};
}

Draw gates_of_size(Recurrence cell) {
  return [cell](const Shape& s) { return normal({s[0], s[1] * gates_of(cell)}); };
}

OpRow cell_row(Recurrence cell) {
  const Draw gates = gates_of_size(cell);
  const bool gated = gates_of(cell) > 1, lstm = cell == Recurrence::lstm;
  auto sample = [=](const Shape& s) {
    Sample in{gates(s), gates(s)};
    if (gated) in.push_back(normal(s));
    return in;
  };
  return {
      .name = lstm    ? "lstm_cell"
              : gated ? "gru_cell"
                      : "rnn_cell",
      .variant = gated ? "" : name_of(cell),
      .f =
          [=](const Tensors& x) {
            if (cell == Recurrence::gru) return Tensors{gru_cell(x[0], x[1], x[2])};
            if (!lstm)
              return Tensors{rnn_cell(
                  x[0], x[1], cell == Recurrence::rnn_relu ? Activation::relu : Activation::tanh)};
            const RecurrentState s = lstm_cell(x[0], x[1], x[2]);
            return Tensors{s.h, s.c};
          },
      .samples = {sample({2, 3}), sample({1, 1}), sample({0, 2}), sample({2, 0})},
      .large = {sample({301, 67})},
      .composed =
          [=](const Tensors& x) {
            const Tensor before = gated ? x[2] : Tensor();
            return cell_by_hand(cell, x[0], x[1], before, before);
          }};
}

OpRow additive_row() {
  auto sample = [](int64_t B, int64_t queries, int64_t keys, int64_t H) {
    return Sample{normal({B, queries, H}), normal({B, keys, H}), normal({H})};
  };
  return {
      .name = "additive_scores",
      .f = [](const Tensors& x) { return Tensors{additive_scores(x[0], x[1], x[2])}; },
      .samples = {sample(2, 2, 3, 2), sample(1, 1, 1, 1), sample(0, 1, 2, 1), sample(1, 0, 2, 2),
                  sample(2, 1, 0, 1), sample(1, 2, 2, 0)},
      .large = {sample(3, 17, 23, 131), sample(2, 1, 67, 300)},
      .composed =
          [](const Tensors& x) {
            const Tensor pairs = x[0].unsqueeze(2) + x[1].unsqueeze(1);
            return Tensors{matmul(tanh(pairs), x[2].unsqueeze(1)).squeeze(-1)};
          },
      .bad = {{[] {
                 additive_scores(ones({2, 3}), ones({2, 3, 4}), ones({4}));
               },
               "additive_scores: expected q (B, Tq, H), k (B, Tk, H) and v (H), got (2, 3)"},
              {[] {
                 additive_scores(ones({1, 3, 4}), ones({2, 3, 4}), ones({4}));
               },
               "additive_scores: expected q (B, Tq, H)"},
              {[] {
                 additive_scores(ones({2, 3, 4}), ones({2, 3, 4}), ones({3}));
               },
               "additive_scores: expected q (B, Tq, H)"},
              {[] {
                 additive_scores(ones({2, 3, 4}), ones({2, 3, 4}), ones({4}, float64));
               },
               "additive_scores: expected one dtype"},
              {[] {
                 additive_scores(ones({1, 1, 1}, int64), ones({1, 1, 1}, int64), ones({1}, int64));
               },
               "additive_scores: expected float32 or float64, got int64"}}};
}

}  // namespace

std::vector<OpRow> recurrent_rows() {
  std::vector<OpRow> rows;
  for (const Recurrence cell : all_cells) rows.push_back(cell_row(cell));
  rows[0].bad = {
      {[] {
         rnn_cell(ones({2, 3}), ones({2, 4}));
       },
       "rnn_cell: expected h_gates of float32 (2, 3), got float32 (2, 4)"},
      {[] {
         rnn_cell(ones({2, 3}), ones({2, 3}), Activation::gelu);
       },
       "rnn_cell: expected tanh or relu, got gelu"},
      {[] {
         lstm_cell(ones({2, 6}), ones({2, 6}), ones({2, 1}));
       },
       "lstm_cell: expected x_gates (B, 4 H), got (2, 6)"},
      {[] {
         lstm_cell(ones({2, 8}), ones({2, 8}), ones({2, 3}));
       },
       "lstm_cell: expected c of float32 (2, 2), got float32 (2, 3)"},
      {[] {
         gru_cell(ones({2, 6}), ones({2, 6}), {});
       },
       "gru_cell: expected h_gates and the state before"},
      {[] {
         rnn_cell(ones({2, 3}), {});
       },
       "rnn_cell: expected h_gates and the state before"},
      {[] {
         lstm_cell(ones({2, 8}), ones({2, 8}), {});
       },
       "lstm_cell: expected h_gates and the state before"},
      {[] {
         gru_cell(ones({2, 6}), ones({2, 6}, float64), ones({2, 2}));
       },
       "gru_cell: expected h_gates of float32 (2, 6), got float64 (2, 6)"},
      {[] { rnn_cell(ones({6}), ones({6})); }, "rnn_cell: expected x_gates (B, G H), got (6,)"}};
  for (const Recurrence cell : all_cells) {
    OpRow plain = sequence_row({.cell = cell});
    plain.accepts_empty = false;
    rows.push_back(plain);
    for (const Setting& s :
         {Setting{.cell = cell, .reverse = true, .bias = true},
          Setting{.cell = cell, .lengths = true, .state = true},
          Setting{.cell = cell, .reverse = true, .lengths = true, .bias = true, .state = true}}) {
      rows.push_back(sequence_row(s));
      rows.back().accepts_empty = false;
    }
  }
  rows.push_back(empty_sequence_row());
  rows.back().bad = refused_sequences();
  rows.push_back(additive_row());
  return rows;
}

}  // namespace gradus::testing
