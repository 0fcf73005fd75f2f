// Rows of matrix products, normalisation and dropout.

#include <cmath>

#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/autograd.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

// ---- products ----

/// The matrix product sum_k a_ik b_kj, from products of shape (..., i, k, j).
Tensor product(const Tensor& a, const Tensor& b) {
  return sum(a.unsqueeze(-1) * b.unsqueeze(-3), -2);
}

OpRow matmul_row() {
  return {.name = "matmul",
          .f = of_two(matmul),
          .samples = {{normal({2, 3}), normal({3, 2})},
                      {normal({2, 2, 2}), normal({2, 1})},
                      {normal({2, 1, 2}), normal({2, 2, 3})},
                      {normal({2, 1, 1, 2}), normal({3, 2, 1})},
                      {normal({1, 2}), normal({2, 2, 2})},
                      {normal({2, 0}), normal({0, 3})},
                      {normal({0, 2}), normal({2, 2})},
                      {normal({2, 2}), normal({2, 0})}},
          .large = {{normal({130, 200}), normal({200, 170})},
                    {normal({9, 41, 30}), normal({9, 30, 53})},
                    {normal({3, 1, 70, 33}), normal({2, 33, 21})},
                    {normal({37, 5, 33}), normal({33, 129})}},
          .composed = of_two(product),
          .bad = {{[] {
                     matmul(f32({3, 4}), f32({5, 6}));
                   },
                   "matmul: inner sizes differ: (3, 4) x (5, 6)"},
                  {[] { matmul(f32({3}), f32({4})); }, "matmul: inner sizes differ: (3,) x (4,)"},
                  {[] {
                     matmul(f32({2, 3, 4}), f32({3, 4, 5}));
                   },
                   "matmul: shapes do not broadcast: (2,) and (3,)"},
                  {[] {
                     matmul(f32({}), f32({2, 2}));
                   },
                   "matmul: expected tensors of rank 1 or more"},
                  {[] {
                     matmul(f32({2, 2}), f64({2, 2}));
                   },
                   "got float32 and float64"},
                  {[] {
                     matmul(i64({2, 2}), i64({2, 2}));
                   },
                   "got int64 and int64"}}};
}

OpRow matmul_of_vectors_row() {
  return {.name = "matmul",
          .variant = "vectors",
          .f =
              [](const Tensors& x) {
                return Tensors{matmul(x[0], x[0]), matmul(x[0], x[1]), matmul(x[1].mT(), x[0])};
              },
          .samples = {{normal({3}), normal({3, 2})},
                      {normal({2}), normal({2, 2, 2})},
                      {normal({1}), normal({1, 1})},
                      {normal({0}), normal({0, 2})}},
          .large = {{normal({1031}), normal({1031, 71})}},
          .composed =
              [](const Tensors& x) {
                const Tensor column = x[0].unsqueeze(1), row = x[0].unsqueeze(0);
                return Tensors{product(row, column).reshape({}), product(row, x[1]).squeeze(-2),
                               product(x[1].mT(), column).squeeze(-1)};
              }};
}

std::vector<OpRow> linear_rows() {
  std::vector<OpRow> rows;
  for (const Activation activation : activations)
    for (const bool biased : {false, true}) {
      OpRow row{.name = "linear",
                .variant = std::string(biased ? "bias" : "no bias") + ", activation " +
                           name_of(activation),
                .f =
                    [=](const Tensors& x) {
                      return Tensors{linear(x[0], x[1], biased ? x[2] : Tensor(), activation)};
                    },
                .samples = {{normal({2, 3}), normal({2, 3})},
                            {normal({2, 1, 2}), normal({1, 2})},
                            {normal({2}), normal({3, 2})},
                            {normal({2, 0}), normal({2, 0})},
                            {normal({0, 2}), normal({2, 2})},
                            {normal({2, 2}), normal({0, 2})}},
                .large = {{normal({150, 200}), normal({130, 200})},
                          {normal({5, 31, 17}), normal({211, 17})}},
                .composed =
                    [=](const Tensors& x) {
                      const Tensor z =
                          product(x[0].rank() == 1 ? x[0].unsqueeze(0) : x[0], x[1].mT());
                      const Tensor flat = x[0].rank() == 1 ? z.squeeze(-2) : z;
                      return Tensors{activate(biased ? flat + x[2] : flat, activation)};
                    }};
      if (biased)
        for (auto* samples : {&row.samples, &row.large})
          for (Sample& sample : *samples) sample.push_back(normal({sample[1].shape[0]}));
      rows.push_back(std::move(row));
    }
  rows[1].bad = {{[] {
                    linear(f32({2, 3}), f32({3}));
                  },
                  "linear: expected a weight of rank 2, (out, in), got (3,)"},
                 {[] {
                    linear(f32({2, 3}), f32({4, 2}));
                  },
                  "linear: expected x (..., 2) for weight (4, 2), got (2, 3)"},
                 {[] {
                    linear(f32({}), f32({4, 2}));
                  },
                  "linear: expected x (..., 2)"},
                 {[] {
                    linear(f32({2, 3}), f64({4, 3}));
                  },
                  "got float32 and float64"},
                 {[] {
                    linear(i64({2, 3}), i64({4, 3}));
                  },
                  "got int64 and int64"},
                 {[] {
                    linear(f32({2, 3}), f32({4, 3}), f32({3}));
                  },
                  "linear: expected bias of float32 (4,), got float32 (3,)"},
                 {[] {
                    linear(f32({2, 3}), f32({4, 3}), f64({4}));
                  },
                  "linear: expected bias of float32 (4,), got float64 (4,)"}};
  return rows;
}

// The inputs are x, W, t, B and, with a bias, b.
std::vector<OpRow> updated_linear_rows() {
  std::vector<OpRow> rows;
  for (const bool biased : {false, true}) {
    OpRow row{
        .name = "updated_linear",
        .variant = biased ? "bias" : "no bias",
        .f =
            [=](const Tensors& x) {
              return Tensors{updated_linear(x[0], x[1], biased ? x[4] : Tensor(), x[2], x[3])};
            },
        .samples = {{normal({2, 3}), normal({4, 3}), normal({2, 1}), normal({4, 1})},
                    {normal({2, 1, 2}), normal({1, 2}), normal({2, 1, 3}), normal({1, 3})},
                    {normal({2}), normal({3, 2}), normal({2}), normal({3, 2})},
                    {normal({2, 0}), normal({2, 0}), normal({2, 1}), normal({2, 1})},
                    {normal({0, 2}), normal({2, 2}), normal({0, 1}), normal({2, 1})},
                    {normal({2, 2}), normal({3, 2}), normal({2, 0}), normal({3, 0})}},
        .large = {{normal({150, 200}), normal({130, 200}), normal({150, 7}), normal({130, 7})},
                  {normal({5, 31, 17}), normal({211, 17}), normal({5, 31, 8}), normal({211, 8})}},
        .composed =
            [=](const Tensors& x) {
              const auto rows_by = [](const Tensor& a, const Tensor& b) {
                const Tensor y = product(a.rank() == 1 ? a.unsqueeze(0) : a, b.mT());
                return a.rank() == 1 ? y.squeeze(-2) : y;
              };
              const Tensor y = rows_by(x[0], x[1]) + rows_by(x[2], x[3]);
              return Tensors{biased ? y + x[4] : y};
            }};
    if (biased)
      for (auto* samples : {&row.samples, &row.large})
        for (Sample& sample : *samples) sample.push_back(normal({sample[1].shape[0]}));
    rows.push_back(std::move(row));
  }
  const auto call = [](const Tensor& t, const Tensor& update) {
    return [=] { updated_linear(f32({2, 3}), f32({4, 3}), {}, t, update); };
  };
  rows[1].bad = {{call(f32({2, 1}), f32({4})),
                  "updated_linear: expected an update of rank 2, (out, rank), got (4,)"},
                 {call(f32({2, 1}), f32({3, 1})),
                  "updated_linear: expected update of float32 (4, 1), got float32 (3, 1)"},
                 {call(f32({2, 2}), f32({4, 1})),
                  "updated_linear: expected t of float32 (2, 1), got float32 (2, 2)"},
                 {call(f64({2, 1}), f32({4, 1})),
                  "updated_linear: expected t of float32 (2, 1), got float64 (2, 1)"},
                 {[] {
                    updated_linear(f32({2, 2}), f32({4, 3}), {}, f32({2, 1}), f32({4, 1}));
                  },
                  "updated_linear: expected x (..., 3) for weight (4, 3), got (2, 2)"}};
  return rows;
}

// The inputs are x, W1, W2 and, with biases, b1, b2.
std::vector<OpRow> feed_forward_rows() {
  std::vector<OpRow> rows;
  for (const Activation activation : activations)
    for (const bool biased : {false, true}) {
      OpRow row{.name = "feed_forward",
                .variant = std::string(biased ? "bias" : "no bias") + ", activation " +
                           name_of(activation),
                .f =
                    [=](const Tensors& x) {
                      return Tensors{feed_forward(x[0], x[1], biased ? x[3] : Tensor(), activation,
                                                  x[2], biased ? x[4] : Tensor())};
                    },
                .samples = {{normal({2, 3}), normal({4, 3}), normal({2, 4})},
                            {normal({2, 1, 2}), normal({1, 2}), normal({3, 1})},
                            {normal({0, 2}), normal({2, 2}), normal({2, 2})},
                            {normal({2, 2}), normal({0, 2}), normal({2, 0})}},
                .large = {{normal({150, 40}), normal({260, 40}), normal({70, 260})},
                          {normal({5, 31, 17}), normal({33, 17}), normal({17, 33})}},
                .composed =
                    [=](const Tensors& x) {
                      const Tensor z = product(x[0], x[1].mT());
                      const Tensor h = activate(biased ? z + x[3] : z, activation);
                      const Tensor y = product(h, x[2].mT());
                      return Tensors{biased ? y + x[4] : y};
                    }};
      if (biased)
        for (auto* samples : {&row.samples, &row.large})
          for (Sample& sample : *samples)
            for (size_t i : {1, 2}) sample.push_back(normal({sample[i].shape[0]}));
      rows.push_back(std::move(row));
    }
  rows[0].bad = {{[] {
                    feed_forward(f32({2, 3}), f32({4, 2}), {}, Activation::relu, f32({3, 4}), {});
                  },
                  "feed_forward: expected x (..., 2) for weight (4, 2), got (2, 3)"},
                 {[] {
                    feed_forward(f32({2, 3}), f32({4, 3}), {}, Activation::relu, f32({3, 5}), {});
                  },
                  "feed_forward: expected x (..., 5) for weight (3, 5), got (2, 4)"}};
  return rows;
}

OpRow tied_row() {
  return {.name = "linear",
          .variant = "x is the weight, and the bias made of it",
          .f = of_one([](const Tensor& x) {
            return linear(x, x, sum(x, 1), Activation::gelu_tanh) +
                   embedding(x, arange(x.size(0))) * sum(x);
          }),
          .samples = {{normal({2, 2})}, {normal({1, 1})}, {normal({0, 0})}},
          .large = {{normal({203, 203})}},
          .composed = of_one([](const Tensor& x) {
            return gelu_tanh(product(x, x.mT()) + sum(x, 1)) + x * sum(x);
          })};
}

// ---- rows ----

std::vector<OpRow> softmax_rows() {
  std::vector<OpRow> rows;
  for (int64_t dim : {-1, 0}) {
    const std::string variant = "along " + std::to_string(dim);
    const std::vector<Sample> samples{{normal({2, 3})}, {normal({2, 1, 2})}, {normal({4})},
                                      {normal({1, 1})}, {normal({0, 2})},    {normal({2, 0})}};
    const std::vector<Sample> large{{normal({71, 1031})}, {normal({3, 40009})}};
    rows.push_back({.name = "softmax",
                    .variant = variant,
                    .f = of_one([dim](const Tensor& x) { return softmax(x, dim); }),
                    .samples = samples,
                    .large = large,
                    .composed = of_one(
                        [dim](const Tensor& x) { return exp(x) / sum(exp(x), dim, keepdim); })});
    rows.push_back({.name = "log_softmax",
                    .variant = variant,
                    .f = of_one([dim](const Tensor& x) { return log_softmax(x, dim); }),
                    .samples = samples,
                    .large = large,
                    .composed = of_one(
                        [dim](const Tensor& x) { return x - log(sum(exp(x), dim, keepdim)); })});
  }
  rows[0].bad = {{[] { softmax(f32({})); }, "softmax: axis -1 is out of range for rank 0"},
                 {[] { softmax(f32({2}), 1); }, "softmax: axis 1 is out of range for rank 1"},
                 {[] { softmax(i64({2})); }, "softmax: expected float32 or float64, got int64"}};
  rows[1].bad = {
      {[] { log_softmax(f32({2}), -2); }, "log_softmax: axis -2 is out of range for rank 1"},
      {[] { log_softmax(i64({2})); }, "log_softmax: expected float32 or float64, got int64"}};
  return rows;
}

std::vector<OpRow> layer_norm_rows() {
  auto normalized = [](const Tensor& x) {
    return (x - mean(x, -1, keepdim)) / sqrt(var(x, {-1}, 0, keepdim) + 1e-5);
  };
  std::vector<OpRow> rows{
      {.name = "layer_norm",
       .f = [](const Tensors& x) { return Tensors{layer_norm(x[0], x[1], x[2])}; },
       .samples = {{normal({2, 4}), normal({4}), normal({4})},
                   {normal({2, 1, 3}), normal({3}), normal({3})},
                   {normal({3}), normal({3}), normal({3})},
                   {normal({0, 3}), normal({3}), normal({3})},
                   {normal({2, 0}), normal({0}), normal({0})}},
       .large = {{normal({71, 1031}), normal({1031}), normal({1031})},
                 {normal({2003, 33}), normal({33}), normal({33})}},
       .composed = [=](const Tensors& x) { return Tensors{normalized(x[0]) * x[1] + x[2]}; },
       .bad = {{[] { layer_norm(f32({})); }, "layer_norm: expected x (..., C), got ()"},
               {[] { layer_norm(i64({3})); }, "layer_norm: expected float32 or float64, got int64"},
               {[] {
                  layer_norm(f32({2, 3}), f32({2}));
                },
                "layer_norm: expected weight of float32 (3,), got float32 (2,)"},
               {[] {
                  layer_norm(f32({2, 3}), f32({3}), f64({3}));
                },
                "layer_norm: expected bias of float32 (3,), got float64 (3,)"},
               {[] { layer_norm(f32({3}), {}, {}, -1); },
                "layer_norm: expected eps >= 0, got -1"}}},
      {.name = "layer_norm",
       .variant = "no weight, no bias",
       .f = of_one([](const Tensor& x) { return layer_norm(x); }),
       .samples = {{normal({2, 4})}, {normal({3})}, {normal({0, 3})}},
       .large = {{normal({71, 1031})}},
       .composed = of_one(normalized)},
      {.name = "layer_norm",
       .variant = "no bias, large eps, beside a residual",
       .f = [](const Tensors& x) { return Tensors{x[0] + layer_norm(x[0], x[1], {}, 0.5)}; },
       .samples = {{normal({2, 3}), normal({3})},
                   {normal({2, 1}), normal({1})},
                   {normal({0, 2}), normal({2})}},
       .large = {{normal({71, 1031}), normal({1031})}},
       .composed =
           [](const Tensors& x) {
             const Tensor centred = x[0] - mean(x[0], -1, keepdim);
             return Tensors{x[0] +
                            centred * pow(mean(centred * centred, -1, keepdim) + 0.5, -0.5) * x[1]};
           }}};
  return rows;
}

OpRow rms_norm_row() {
  return {
      .name = "rms_norm",
      .f =
          [](const Tensors& x) {
            return Tensors{rms_norm(x[0], x[1], 1e-3), rms_norm(x[0])};
          },
      .samples = {{normal({2, 4}), normal({4})},
                  {normal({2, 1, 3}), normal({3})},
                  {normal({3}), normal({3})},
                  {normal({0, 3}), normal({3})},
                  {normal({2, 0}), normal({0})}},
      .large = {{normal({71, 1031}), normal({1031})}, {normal({2003, 33}), normal({33})}},
      .composed =
          [](const Tensors& x) {
            const Tensor square = mean(x[0] * x[0], -1, keepdim);
            return Tensors{x[0] * pow(square + 1e-3, -0.5) * x[1], x[0] * pow(square + 1e-6, -0.5)};
          },
      .bad = {{[] { rms_norm(f32({})); }, "rms_norm: expected x (..., C), got ()"},
              {[] { rms_norm(i64({3})); }, "rms_norm: expected float32 or float64, got int64"},
              {[] {
                 rms_norm(f32({2, 3}), f32({2}));
               },
               "rms_norm: expected weight of float32 (3,), got float32 (2,)"},
              {[] { rms_norm(f32({3}), {}, -1); }, "rms_norm: expected eps >= 0, got -1"}}};
}

/// The gradient of a fused op under create_graph, whose graph starts at aliases of the op's inputs.
OpRow alias_row() {
  auto gradient_of = [](auto normalized) {
    return of_one([=](const Tensor& x) {
      const Tensor y = normalized(x);
      return grad({sum(y * y * y * x)}, {x}, {.create_graph = true})[0];
    });
  };
  return {.name = "alias",
          .f = gradient_of([](const Tensor& x) { return layer_norm(x, {}, {}, 0.1); }),
          .samples = {{normal({2, 3})}, {normal({2})}, {normal({2, 1, 2})}, {normal({0, 3})}},
          .large = {{normal({71, 1031})}},
          .composed = gradient_of([](const Tensor& x) {
            return (x - mean(x, -1, keepdim)) / sqrt(var(x, {-1}, 0, keepdim) + 0.1);
          })};
}

std::vector<OpRow> dropout_rows() {
  const RandomKey key{3, 5};
  return {{.name = "dropout",
           .f = of_one([=](const Tensor& x) { return dropout(x, 0.4, key); }),
           .samples = one_input([](const Shape& s) { return normal(s); }),
           .large = one_large([](const Shape& s) { return normal(s); }),
           .composed = of_one([=](const Tensor& x) {
             const Tensor kept = gt(dropout(ones(x.shape()), 0.4, key), 0);
             return where(kept, x / 0.6, zeros_like(x));
           }),
           .bad = {{[] { dropout(f32({2}), 1.5); },
                    "dropout: expected a probability from 0 to 1, got 1.5"},
                   {[] { dropout(f32({2}), -0.1, {}); },
                    "dropout: expected a probability from 0 to 1, got -0.1"},
                   {[] { dropout(f32({2}), NAN); }, "dropout: expected a probability"},
                   {[] { dropout(i64({2}), 0.5); },
                    "dropout: expected float32 or float64, got int64"}}},
          {.name = "dropout",
           .variant = "from the thread's generator",
           .f = of_one([=](const Tensor& x) {
             default_generator().set_state(key);
             return dropout(x, 0.4);
           }),
           .samples = one_input([](const Shape& s) { return normal(s); }),
           .composed = of_one([=](const Tensor& x) { return dropout(x, 0.4, key); })}};
}

}  // namespace

std::vector<OpRow> fused_rows() {
  std::vector<OpRow> rows{matmul_row(), matmul_of_vectors_row(), tied_row(), alias_row(),
                          rms_norm_row()};
  for (auto some : {linear_rows, updated_linear_rows, feed_forward_rows, softmax_rows,
                    layer_norm_rows, dropout_rows, fused_loss_rows})
    for (OpRow& row : some()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace gradus::testing
