// Rows of the losses with kernels, and of those computed from logits or differences.

#include <cmath>

#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/autograd.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

/// Class indices, some of them `ignored`, but never the first.
Input targets(const Shape& shape, int64_t classes) {
  return {shape, [classes](const Shape& s) {
            const Tensor t = randint(0, classes, s);
            Tensor first = zeros({std::max<int64_t>(s.numel(), 1)}, boolean);
            first[0].fill_(1);
            return where(logical_and(first.slice(0, 0, s.numel()).reshape(s), eq(t, ignored)),
                         t * 0.0, t);
          }};
}

/// -sum_c w_c t_c log p_c with t from one-hot rows; the mean divides as PyTorch's does.
Tensor cross_entropy_by_hand(const Tensor& x, const Tensor& t, const CrossEntropyOptions& options) {
  const Dtype dtype = x.dtype();
  const int64_t classes = x.size(-1);
  const double e = options.label_smoothing;
  const Tensor w = options.class_weights.defined() ? options.class_weights : ones({classes}, dtype);
  const Tensor log_p = x - log(sum(exp(x), -1, keepdim));
  const bool by_index = t.dtype() == int64;
  const Tensor counts = (by_index ? ne(t, static_cast<double>(options.ignore_index))
                                  : ones(x.select(-1, 0).shape(), boolean))
                            .to(dtype);
  const Tensor hot = by_index ? eq(t.unsqueeze(-1), arange(classes)).to(dtype) : t;
  const Tensor smooth = hot * (1 - e) + e / static_cast<double>(classes);
  const Tensor losses = -sum(smooth * log_p * w, -1) * counts;
  if (options.reduction == Reduction::none) return losses;
  const Tensor total = sum(losses);
  if (options.reduction == Reduction::sum) return total;
  return total / (by_index ? sum(sum(hot * w, -1) * counts) : sum(counts));
}

OpRow cross_entropy_row(const std::string& variant, const CrossEntropyOptions& options) {
  auto in_dtype = [options](Dtype dtype) {
    CrossEntropyOptions own = options;
    if (own.class_weights.defined()) own.class_weights = own.class_weights.to(dtype);
    return own;
  };
  return {.name = "cross_entropy",
          .variant = variant,
          .f = of_two([=](const Tensor& x, const Tensor& t) {
            return cross_entropy(x, t, in_dtype(x.dtype()));
          }),
          .samples = {{normal({3, 4}), targets({3}, 4)},
                      {normal({2, 2, 4}), targets({2, 2}, 4)},
                      {normal({4}), targets({}, 4)},
                      {normal({0, 4}), targets({0}, 4)}},
          .large = {{normal({17003, 4}), targets({17003}, 4)}},
          .composed = of_two([=](const Tensor& x, const Tensor& t) {
            return cross_entropy_by_hand(x, t, in_dtype(x.dtype()));
          })};
}

std::vector<OpRow> cross_entropy_rows() {
  const Tensor weights = tensor({0.5, 2, 1, 0.25}, float64);
  std::vector<OpRow> rows{
      cross_entropy_row("", {}),
      cross_entropy_row("sum, weights", {.reduction = Reduction::sum, .class_weights = weights}),
      cross_entropy_row("none, smoothing", {.reduction = Reduction::none, .label_smoothing = 0.1}),
      cross_entropy_row("ignore, weights", {.ignore_index = ignored, .class_weights = weights}),
      cross_entropy_row(
          "none, ignore, weights",
          {.reduction = Reduction::none, .ignore_index = ignored, .class_weights = weights}),
      cross_entropy_row(
          "ignore, smoothing, weights",
          {.ignore_index = ignored, .label_smoothing = 0.2, .class_weights = weights})};
  rows[0].large.push_back({normal({37, 1031}), targets({37}, 1031)});
  const CrossEntropyOptions some{.label_smoothing = 0.1, .class_weights = weights};
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    CrossEntropyOptions options = some;
    options.reduction = reduction;
    OpRow row = cross_entropy_row(
        "probabilities, reduction " + std::to_string(static_cast<int>(reduction)), options);
    row.samples = {{normal({3, 4}), uniform({3, 4}, 0, 1)},
                   {normal({2, 1, 4}), uniform({2, 1, 4}, 0, 1)},
                   {normal({4}), uniform({4}, 0, 1)},
                   {normal({0, 4}), uniform({0, 4}, 0, 1)}};
    row.large = {{normal({17003, 4}), uniform({17003, 4}, 0, 1)}};
    rows.push_back(std::move(row));
  }
  auto ce = [](const Tensor& x, const Tensor& t, const CrossEntropyOptions& o = {}) {
    return [=] { cross_entropy(x, t, o); };
  };
  const Tensor two = tensor({0, 3}, int64), x = f32({2, 3});
  rows[0].bad = {
      {ce(x, two), "cross_entropy: target 3 at position 1 is outside [0, 3)"},
      {ce(x, two * -1.0), "cross_entropy: target -3 at position 1 is outside [0, 3)"},
      {ce(x, i64({3})),
       "cross_entropy: expected targets of int64 (2,) or float32 (2, 3), got int64 (3,)"},
      {ce(x, f64({2, 3})), "got float64 (2, 3)"},
      {ce(f32({}), two), "cross_entropy: expected logits (..., C), got ()"},
      {ce(f32({2, 0}), two), "cross_entropy: expected at least one class, got logits (2, 0)"},
      {ce(i64({2, 3}), two), "cross_entropy: expected float32 or float64, got int64"},
      {ce(x, i64({2}), {.label_smoothing = 1.5}),
       "cross_entropy: expected label smoothing from 0 to 1, got 1.5"},
      {ce(x, i64({2}), {.class_weights = f32({2})}),
       "cross_entropy: expected class weights of float32 (3,), got float32 (2,)"},
      {ce(x, i64({2}), {.class_weights = f32({3}).requires_grad_()}),
       "cross_entropy: class weights cannot require grad; detach them"}};
  return rows;
}

std::vector<OpRow> other_loss_rows() {
  std::vector<OpRow> rows;
  for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    auto reduced = [reduction](const Tensor& losses) {
      return reduction == Reduction::none  ? losses
             : reduction == Reduction::sum ? sum(losses)
                                           : sum(losses) / static_cast<double>(losses.numel());
    };
    const std::vector<Sample> samples{{normal({2, 3}), uniform({2, 3}, 0, 1)},
                                      {normal({}), uniform({}, 0, 1)},
                                      {normal({0, 2}), uniform({0, 2}, 0, 1)}};
    const std::vector<Sample> large{{normal({71, 1031}), uniform({71, 1031}, 0, 1)}};
    const std::string variant = "reduction " + std::to_string(static_cast<int>(reduction));
    rows.push_back({.name = "mse_loss",
                    .variant = variant,
                    .f = of_two([=](const Tensor& x, const Tensor& t) {
                      return mse_loss(x, t, {.reduction = reduction});
                    }),
                    .samples = samples,
                    .large = large,
                    .composed = of_two([=](const Tensor& x, const Tensor& t) {
                      return reduced(x * x - 2.0 * x * t + t * t);
                    })});
    rows.push_back({.name = "binary_cross_entropy_with_logits",
                    .variant = variant,
                    .f = of_two([=](const Tensor& x, const Tensor& t) {
                      return binary_cross_entropy_with_logits(x, t, {.reduction = reduction});
                    }),
                    .samples = samples,
                    .large = large,
                    .composed = of_two([=](const Tensor& x, const Tensor& t) {
                      return reduced(-(t * log(sigmoid(x)) + (1.0 - t) * log(sigmoid(-x))));
                    })});
    rows.push_back(
        {.name = "binary_cross_entropy_with_logits",
         .variant = variant + ", weights",
         .f = of_two([=](const Tensor& x, const Tensor& t) {
           return binary_cross_entropy_with_logits(x, t,
                                                   {.reduction = reduction,
                                                    .weights = full({}, 0.7, x.dtype()),
                                                    .positive_weights = full_like(x, 2.5)});
         }),
         .samples = samples,
         .large = large,
         .composed = of_two([=](const Tensor& x, const Tensor& t) {
           return reduced(-0.7 * (2.5 * t * log(sigmoid(x)) + (1.0 - t) * log(sigmoid(-x))));
         })});
  }
  rows[0].bad = {
      {[] {
         mse_loss(f32({2}), f32({2, 1}));
       },
       "mse_loss: expected a target of float32 (2,), got float32 (2, 1)"},
      {[] { mse_loss(i64({2}), i64({2})); }, "mse_loss: expected float32 or float64, got int64"}};
  rows[1].bad = {
      {[] { binary_cross_entropy_with_logits(f32({2}), f64({2})); },
       "binary_cross_entropy_with_logits: expected targets of float32 (2,), got float64 (2,)"},
      {[] {
         binary_cross_entropy_with_logits(f32({2}), f32({2}), {.weights = f32({2, 2})});
       },
       "binary_cross_entropy_with_logits: expected weights of float32 that broadcast to (2,), got "
       "float32 (2, 2)"},
      {[] { binary_cross_entropy_with_logits(f32({2}), f32({2}), {.positive_weights = f64({2})}); },
       "binary_cross_entropy_with_logits: expected positive weights of float32"},
      {[] {
         binary_cross_entropy_with_logits(f32({2}), f32({2}),
                                          {.weights = f32({2}).requires_grad_()});
       },
       "binary_cross_entropy_with_logits: weights cannot require grad; detach them"}};
  return rows;
}

}  // namespace

std::vector<OpRow> fused_loss_rows() {
  std::vector<OpRow> rows = cross_entropy_rows();
  for (OpRow& row : other_loss_rows()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace gradus::testing
