// Rows of the contrastive losses.

#include "gradus/core/ops/ops.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {

namespace {

Tensor unit(const Tensor& x) { return x / sqrt(sum(x * x, -1, keepdim)); }

/// The mean of -log softmax(s)_i,t_i: s (N, M); `own` (N, M) is true at t_i.
Tensor by_formula(const Tensor& s, const Tensor& own) {
  return mean(log(sum(exp(s), -1)) - sum(s * own.to(s.dtype()), -1));
}

std::vector<OpRow> general_rows() {
  return {{.name = "contrastive_cross_entropy",
           .f = [](const Tensors& x) -> Tensors {
             return {contrastive_cross_entropy(x[0], x[1], x[2],
                                               {.temperature = 0.7, .cosine = false})};
           },
           .samples = {{normal({3, 2}), normal({4, 2}), indices({3}, 4)},
                       {normal({2, 1}), normal({1, 1}), indices({2}, 1)},
                       {normal({1, 3}), normal({2, 3}), indices({1}, 2)}},
           .large = {{uniform({331, 7}, -1, 1), uniform({149, 7}, -1, 1), indices({331}, 149)}},
           .composed = [](const Tensors& x) -> Tensors {
             const Tensor s = matmul(x[0], x[1].mT()) / 0.7;
             return {by_formula(s, x[2].unsqueeze(-1) == arange(s.size(1)))};
           },
           .accepts_empty = false},
          {.name = "contrastive_cross_entropy",
           .variant = "cosine, learned temperature",
           .f = [](const Tensors& x) -> Tensors {
             return {contrastive_cross_entropy(x[0], x[1], x[2], {.learned_temperature = x[3]})};
           },
           .samples = {{normal({3, 2}), normal({4, 2}), indices({3}, 4), uniform({1}, 0.3, 1)},
                       {normal({2, 3}), normal({2, 3}), indices({2}, 2), uniform({}, 0.3, 1)},
                       {normal({2, 2}), normal({3, 2}), indices({2}, 3), uniform({1, 1}, 0.7, 1)}},
           .composed = [](const Tensors& x) -> Tensors {
             const Tensor s = matmul(unit(x[0]), unit(x[1]).mT()) / x[3].reshape({});
             return {by_formula(s, x[2].unsqueeze(-1) == arange(s.size(1)))};
           },
           .accepts_empty = false}};
}

std::vector<OpRow> own_negatives_rows() {
  std::vector<OpRow> rows;
  for (const bool shared : {false, true})
    rows.push_back(
        {.name = "info_nce",
         .variant = shared ? "shared negatives" : "",
         .f = [](const Tensors& x) -> Tensors {
           return {info_nce(x[0], x[1], x[2], {.temperature = 0.8, .cosine = false})};
         },
         .samples =
             {{normal({3, 2}), normal({3, 2}), normal(shared ? Shape{4, 2} : Shape{3, 4, 2})},
              {normal({1, 1}), normal({1, 1}), normal(shared ? Shape{1, 1} : Shape{1, 1, 1})},
              {normal({2, 3}), normal({2, 3}), normal(shared ? Shape{2, 3} : Shape{2, 2, 3})}},
         .large = {{normal({67, 5}), normal({67, 5}),
                    normal(shared ? Shape{131, 5} : Shape{67, 31, 5})}},
         .composed = [](const Tensors& x) -> Tensors {
           const Tensor s =
               cat({sum(x[0] * x[1], -1, keepdim), sum(x[0].unsqueeze(1) * x[2], -1)}, 1);
           return {by_formula(s / 0.8, (arange(s.size(1)) == 0).expand(s.shape()))};
         },
         .accepts_empty = false});
  return rows;
}

std::vector<OpRow> in_batch_rows() {
  return {{.name = "nt_xent",
           .f = of_one([](const Tensor& z) { return nt_xent(z, {.cosine = false}) * 0.1; }),
           .samples = {{normal({4, 2})}, {normal({6, 1})}, {normal({4, 3})}},
           .large = {{uniform({534, 3}, -0.2, 0.2)}},
           .composed = of_one([](const Tensor& z) {
             const Tensor n = arange(z.size(0)), s = matmul(z, z.mT()) / 0.1,
                          other = (n + z.size(0) / 2) - (n >= z.size(0) / 2).to(int64) * z.size(0);
             const Tensor others = masked_fill(exp(s), n.unsqueeze(-1) == n, 0);
             const Tensor own = (other.unsqueeze(-1) == n).to(z.dtype());
             return mean(log(sum(others, -1)) - sum(s * own, -1)) * 0.1;
           }),
           .accepts_empty = false},
          {.name = "nt_xent",
           .variant = "two views, cosine",
           .f = of_two([](const Tensor& a, const Tensor& b) { return nt_xent(a, b); }),
           .samples = {{normal({2, 3}), normal({2, 3})},
                       {normal({2, 2}), normal({2, 2})},
                       {normal({3, 2}), normal({3, 2})}},
           .composed = of_two([](const Tensor& a, const Tensor& b) {
             return nt_xent(cat({unit(a), unit(b)}, 0), {.cosine = false});
           }),
           .accepts_empty = false},
          {.name = "clip_loss",
           .f = of_two([](const Tensor& a, const Tensor& b) {
             return clip_loss(a, b, {.temperature = 0.5, .cosine = false});
           }),
           .samples = {{normal({2, 3}), normal({2, 3})},
                       {normal({3, 1}), normal({3, 1})},
                       {normal({3, 2}), normal({3, 2})}},
           .large = {{uniform({131, 5}, -1, 1), uniform({131, 5}, -1, 1)},
                     {uniform({259, 5}, -1, 1), uniform({259, 5}, -1, 1)}},
           .composed = of_two([](const Tensor& a, const Tensor& b) {
             const Tensor s = matmul(a, b.mT()) / 0.5, own = eye(a.size(0)) == 1;
             return (by_formula(s, own) + by_formula(s.mT(), own)) * 0.5;
           }),
           .accepts_empty = false}};
}

std::vector<BadCall> bad_calls() {
  const Tensor a = ones({3, 2}), b = ones({3, 2}, float64), t = zeros({3}, int64);
  auto with = [=](double temperature) {
    return [=] { nt_xent(cat({a, a}, 0), {.temperature = temperature}); };
  };
  auto learned = [=](const Tensor& temperature) {
    return [=] { clip_loss(a, a, {.learned_temperature = temperature}); };
  };
  const std::string range = ": expected a finite temperature above 0, got ";
  return {{with(0), "nt_xent" + range + "0"},
          {with(-1), "nt_xent" + range + "-1"},
          {with(NAN), "nt_xent" + range},
          {with(INFINITY), "nt_xent" + range + "inf"},
          {with(1e-60), "nt_xent" + range + "0"},  // this temperature is 0 in float32
          {learned(zeros({1})), "clip_loss" + range + "0"},
          {learned(full({}, NAN)), "clip_loss" + range},
          {learned(ones({2})), "temperature of one element"},
          {learned(ones({}, float64)), "clip_loss: dtypes differ: float32 and float64"},
          {[=] { nt_xent(a); }, "nt_xent: expected (2N, D) with N >= 2, got (3, 2)"},
          {[=] {
             nt_xent(ones({2, 5}));
           },
           "nt_xent: expected (2N, D) with N >= 2, got (2, 5)"},
          {[=] {
             nt_xent(ones({2, 5}), ones({3, 5}));
           },
           "nt_xent: shapes differ: (2, 5) and (3, 5)"},
          {[=] {
             nt_xent(ones({1, 5}), ones({1, 5}));
           },
           "nt_xent: expected (2N, D) with N >= 2"},
          {[=] { nt_xent(ones({4})); }, "nt_xent: expected the first input (N, D), got (4,)"},
          {[=] {
             nt_xent(ones({0, 4}));
           },
           "nt_xent: expected N and D of at least 1, got (0, 4)"},
          {[=] {
             clip_loss(ones({1, 5}), ones({1, 5}));
           },
           "clip_loss: expected at least two pairs, got (1, 5)"},
          {[=] {
             clip_loss(a, ones({4, 2}));
           },
           "clip_loss: expected the second input (3, 2), got (4, 2)"},
          {[=] { clip_loss(a, b); }, "clip_loss: dtypes differ: float32 and float64"},
          {[=] { clip_loss(a.to(int64), a.to(int64)); },
           "clip_loss: expected float32 or float64, got int64"},
          {[=] {
             info_nce(a, ones({3, 4}), a);
           },
           "info_nce: expected the second input (3, 2), got (3, 4)"},
          {[=] {
             info_nce(a, a, ones({2, 4, 2}));
           },
           "info_nce: expected negatives (3, K, 2), got (2, 4, 2)"},
          {[=] {
             info_nce(a, a, ones({4, 3}));
           },
           "info_nce: expected negatives (K, 2), got (4, 3)"},
          {[=] { info_nce(a, a, ones({2})); }, "info_nce: expected negatives"},
          {[=] { info_nce(a, a, b); }, "info_nce: dtypes differ: float32 and float64"},
          {[=] {
             contrastive_cross_entropy(a, ones({4, 3}), t);
           },
           "contrastive_cross_entropy: expected the second input (M, 2), got (4, 3)"},
          {[=] { contrastive_cross_entropy(a, a, t.slice(0, 0, 2)); },
           "contrastive_cross_entropy: expected targets of int64 (3,), got int64 (2,)"},
          {[=] { contrastive_cross_entropy(a, a, t.to(float32)); },
           "contrastive_cross_entropy: expected targets of int64 (3,), got float32 (3,)"},
          {[=] { contrastive_cross_entropy(a, a, t + 3); },
           "contrastive_cross_entropy: target 3 is outside [0, 3)"},
          {[=] { contrastive_cross_entropy(a, a, t - 100); },
           "contrastive_cross_entropy: target -100 is outside [0, 3)"}};
}

}  // namespace

std::vector<OpRow> contrastive_rows() {
  std::vector<OpRow> rows = general_rows();
  for (auto make : {own_negatives_rows, in_batch_rows})
    for (OpRow& row : make()) rows.push_back(std::move(row));
  rows[0].bad = bad_calls();
  return rows;
}

}  // namespace gradus::testing
