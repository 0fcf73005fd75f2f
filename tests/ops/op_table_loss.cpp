// Rows of the losses composed of other ops; op_table_fused_loss.cpp has those with kernels.

#include "gradus/core/ops/ops.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {

namespace {

constexpr Reduction reductions[] = {Reduction::mean, Reduction::sum, Reduction::none};

std::string variant_of(Reduction reduction) {
  return "reduction " + std::to_string(static_cast<int>(reduction));
}

Tensor reduced(const Tensor& losses, Reduction reduction) {
  return reduction == Reduction::none  ? losses
         : reduction == Reduction::sum ? sum(losses)
                                       : sum(losses) / static_cast<double>(losses.numel());
}

Input classes(const Shape& shape, int64_t n) {
  return {shape, [n](const Shape& s) {
            const Tensor t = randint(0, n, s);
            if (t.numel() > 0) t.reshape({-1})[0].fill_(0);  // at least one target is not ignored
            return t;
          }};
}

/// int64 targets of -1 or 1.
Input signs(const Shape& shape) {
  return {shape, [](const Shape& s) { return randint(0, 2, s) * 2 - 1; }};
}

Tensor class_rows(const Tensor& t, int64_t n, Dtype dtype) {
  return (t.unsqueeze(-1) == arange(n)).to(dtype);
}

std::vector<OpRow> nll_rows() {
  std::vector<OpRow> rows;
  const Tensor weights = tensor({0.5, 2, 1, 0.25}, float64);
  for (Reduction reduction : reductions)
    for (bool weighted : {false, true})
      rows.push_back(
          {.name = "nll_loss",
           .variant = variant_of(reduction) + (weighted ? ", weights" : ""),
           .f = of_two([=](const Tensor& x, const Tensor& t) {
             return nll_loss(x, t,
                             {.reduction = reduction,
                              .ignore_index = weighted ? ignored : -100,
                              .class_weights = weighted ? weights.to(x.dtype()) : Tensor()});
           }),
           .samples = {{normal({3, 4}), classes({3}, 4)},
                       {normal({2, 2, 4}), classes({2, 2}, 4)},
                       {normal({4}), classes({}, 4)},
                       {normal({0, 4}), classes({0}, 4)}},
           .large = {{normal({17003, 4}), classes({17003}, 4)}},
           .composed = of_two([=](const Tensor& x, const Tensor& t) {
             const Tensor counts =
                 weighted ? (t != ignored).to(x.dtype()) : ones(t.shape(), x.dtype());
             const Tensor hot = class_rows(t, 4, x.dtype());
             const Tensor w = weighted ? sum(hot * weights.to(x.dtype()), -1) * counts : counts;
             const Tensor losses = -sum(hot * x, -1) * w;
             return reduction == Reduction::mean ? sum(losses) / sum(w)
                                                 : reduced(losses, reduction);
           })});
  const Tensor x = ones({2, 3});
  rows[0].bad = {
      {[=] {
         nll_loss(x, tensor({0, 3}, int64));
       },
       "nll_loss: target 3 at position 1 is outside [0, 3)"},
      {[=] { nll_loss(x, x); }, "nll_loss: expected targets of int64 (2,), got float32 (2, 3)"},
      {[=] { nll_loss(x, ones({3}, int64)); },
       "nll_loss: expected targets of int64 (2,), got int64 (3,)"},
      {[=] { nll_loss(scalar(1), scalar(1, int64)); },
       "nll_loss: expected log-probabilities (..., C), got ()"},
      {[=] { nll_loss(x, zeros({2}, int64), {.class_weights = ones({2})}); },
       "nll_loss: expected class weights of float32 (3,), got float32 (2,)"}};
  return rows;
}

std::vector<OpRow> margin_rows() {
  std::vector<OpRow> rows;
  for (Reduction reduction : reductions) {
    rows.push_back({.name = "hinge_loss",
                    .variant = variant_of(reduction),
                    .f =
                        [=](const Tensors& x) {
                          return Tensors{
                              hinge_loss(x[0], x[1].to(x[0].dtype()), {.reduction = reduction})};
                        },
                    .samples = {{away_from({2, 3}, {-1, 1}), signs({2, 3})},
                                {away_from({}, {-1, 1}), signs({})},
                                {away_from({0, 2}, {-1, 1}), signs({0, 2})}},
                    .large = {{normal({71, 1031}), signs({71, 1031})}},
                    .composed =
                        [=](const Tensors& x) {
                          const Tensor short_of = 1.0 - x[0] * x[1].to(x[0].dtype());
                          return Tensors{reduced((short_of + abs(short_of)) * 0.5, reduction)};
                        }});
    rows.push_back({.name = "multi_margin_loss",
                    .variant = variant_of(reduction),
                    .f = of_two([=](const Tensor& x, const Tensor& t) {
                      return multi_margin_loss(x, t, {.reduction = reduction, .margin = 0.7});
                    }),
                    .samples = {{on_grid({3, 4}, 0.1), classes({3}, 4)},
                                {on_grid({2, 1, 2}, 0.1), classes({2, 1}, 2)},
                                {on_grid({3}, 0.1), classes({}, 3)},
                                {on_grid({1, 1}, 0), classes({1}, 1)},
                                {on_grid({0, 4}, 0), classes({0}, 4)}},
                    .large = {{on_grid({1703, 40}, 0.1), classes({1703}, 40)}},
                    .composed = of_two([=](const Tensor& x, const Tensor& t) {
                      const Tensor hot = class_rows(t, x.size(-1), x.dtype());
                      const Tensor d = 0.7 - sum(hot * x, -1, keepdim) + x;
                      const Tensor above = (d + abs(d)) * 0.5;
                      return reduced(mean(above * (1.0 - hot), -1), reduction);
                    })});
    rows.push_back({.name = "multi_margin_loss",
                    .variant = variant_of(reduction) + ", squares, weights",
                    .f = of_two([=](const Tensor& x, const Tensor& t) {
                      return multi_margin_loss(x, t,
                                               {.reduction = reduction,
                                                .margin = 0.8,
                                                .p = 2,
                                                .class_weights = arange(0.5, 4, 1, x.dtype())});
                    }),
                    .samples = {{on_grid({3, 4}, 0.1), classes({3}, 4)},
                                {on_grid({4}, 0.1), classes({}, 4)},
                                {on_grid({0, 4}, 0), classes({0}, 4)}},
                    .large = {{on_grid({17003, 4}, 0.1), classes({17003}, 4)}},
                    .composed = of_two([=](const Tensor& x, const Tensor& t) {
                      const Tensor hot = class_rows(t, 4, x.dtype());
                      const Tensor d = 0.8 - sum(hot * x, -1, keepdim) + x;
                      const Tensor above = (d + abs(d)) * 0.5 * (1.0 - hot);
                      const Tensor w = sum(hot * arange(0.5, 4, 1, x.dtype()), -1);
                      return reduced(mean(above * above, -1) * w, reduction);
                    })});
  }
  rows[0].bad = {{[] {
                    hinge_loss(ones({3}), tensor({0.5, -1, 1}));
                  },
                  "hinge_loss: expected targets -1 or 1, got 0.5 at position 0"},
                 {[] {
                    hinge_loss(ones({2, 2}), tensor({{1, -1}, {2, 3}}).mT());
                  },
                  "hinge_loss: expected targets -1 or 1, got 2 at position 1"},
                 {[] { hinge_loss(ones({3}), ones({2})); },
                  "hinge_loss: expected targets of float32 (3,), got float32 (2,)"}};
  rows[1].bad = {
      {[] {
         multi_margin_loss(ones({1, 3}), tensor({-1}, int64));
       },
       "multi_margin_loss: target -1 at position 0 is outside [0, 3)"},
      {[] {
         multi_margin_loss(ones({1, 3}), tensor({1}, int64), {.margin = INFINITY});
       },
       "multi_margin_loss: expected a finite margin, got inf"},
      {[] {
         multi_margin_loss(ones({1, 3}), tensor({1}, int64), {.p = 3});
       },
       "multi_margin_loss: expected p = 1 or 2, got 3"},
      {[] {
         multi_margin_loss(ones({1, 3}), tensor({1}, int64), {.class_weights = ones({2})});
       },
       "multi_margin_loss: expected class weights of float32 (3,), got float32 (2,)"}};
  return rows;
}

/// A loss of an input and a target of the same shape.
OpRow row_of(const std::string& name, const std::string& variant,
             const std::function<Tensor(const Tensor&, const Tensor&)>& f,
             const std::function<Tensor(const Tensor&, const Tensor&)>& composed, const Draw& x,
             const Draw& t) {
  return {.name = name,
          .variant = variant,
          .f = of_two(f),
          .samples = {{x({2, 3}), t({2, 3})},
                      {x({}), t({})},
                      {x({1, 4}), t({1, 4})},
                      {x({0, 2}), t({0, 2})}},
          .large = {{x({71, 1031}), t({71, 1031})}},
          .composed = of_two(composed)};
}

}  // namespace

std::vector<OpRow> loss_rows() {
  std::vector<OpRow> rows = nll_rows();
  for (OpRow& row : margin_rows()) rows.push_back(std::move(row));
  const Draw near = [](const Shape& s) { return uniform(s, -0.4, 0.4); };
  const Draw even = [](const Shape& s) { return on_grid(s, 0); };
  const Draw odd = [](const Shape& s) { return on_grid(s, 0.2); };
  const Draw positive = [](const Shape& s) { return uniform(s, 0.1, 1); };
  const Draw inside = [](const Shape& s) { return uniform(s, 0.1, 0.9); };
  using X = const Tensor&;
  for (Reduction reduction : reductions) {
    const std::string variant = variant_of(reduction);
    rows.push_back(row_of(
        "l1_loss", variant, [=](X x, X t) { return l1_loss(x, t, {.reduction = reduction}); },
        [=](X x, X t) { return reduced(where(x > t, x - t, t - x), reduction); }, even, odd));
    rows.push_back(row_of(
        "smooth_l1_loss", variant,
        [=](X x, X t) { return smooth_l1_loss(x, t, {.reduction = reduction, .beta = 0.9}); },
        [=](X x, X t) {
          const Tensor d = x - t;
          return reduced(where(abs(d) < 0.9, d * d / 1.8, abs(d) - 0.45), reduction);
        },
        even, odd));
    rows.push_back(row_of(
        "binary_cross_entropy", variant,
        [=](X x, X t) { return binary_cross_entropy(x, t, {.reduction = reduction}); },
        [=](X x, X t) { return reduced(-(t * log(x) + (1 - t) * log(1 - x)), reduction); }, inside,
        inside));
    rows.push_back(row_of(
        "binary_cross_entropy", variant + ", weights",
        [=](X x, X t) {
          return binary_cross_entropy(x, t, {.reduction = reduction, .weights = full_like(x, 3)});
        },
        [=](X x, X t) { return reduced(-3.0 * (t * log(x) + (1 - t) * log(1 - x)), reduction); },
        inside, inside));
    rows.push_back(row_of(
        "kl_div", variant, [=](X x, X t) { return kl_div(x, t, {.reduction = reduction}); },
        [=](X x, X t) { return reduced(-(t * (x - log(t))), reduction); }, near, positive));
    rows.push_back(row_of(
        "kl_div", variant + ", log_target",
        [=](X x, X t) { return kl_div(x, t, {.reduction = reduction, .log_target = true}); },
        [=](X x, X t) { return reduced(exp(t) * t - exp(t) * x, reduction); }, near, near));
  }
  const Tensor x = ones({2});
  rows.back().bad = {
      {[=] { kl_div(x, ones({3})); },
       "kl_div: expected a target of float32 (2,), got float32 (3,)"},
      {[=] {
         l1_loss(x, ones({2, 1}));
       },
       "l1_loss: expected a target of float32 (2,)"},
      {[=] { smooth_l1_loss(x, ones({2}, float64)); }, "smooth_l1_loss: expected a target"},
      {[=] { smooth_l1_loss(x, x, {.beta = -1}); },
       "smooth_l1_loss: expected a finite beta >= 0, got -1"},
      {[=] { smooth_l1_loss(x, x, {.beta = INFINITY}); },
       "smooth_l1_loss: expected a finite beta >= 0, got inf"},
      {[=] { smooth_l1_loss(x, x, {.beta = NAN}); },
       "smooth_l1_loss: expected a finite beta >= 0, got nan"},
      {[=] {
         binary_cross_entropy(x * tensor({0.5, 1.5}), x);
       },
       "binary_cross_entropy: expected probabilities from 0 to 1, got 1.5 at position 1"},
      {[=] { binary_cross_entropy(x * -1.0, x); }, "got -1 at position 0"},
      {[=] { binary_cross_entropy(full_like(x, NAN), x); }, "got nan at position 0"},
      {[=] {
         binary_cross_entropy(x, x, {.weights = ones({3, 1})});
       },
       "binary_cross_entropy: expected weights of float32 that broadcast to (2,), got float32 (3, "
       "1)"},
      {[=] { l1_loss(x.to(int64), x.to(int64)); },
       "l1_loss: expected float32 or float64, got int64"}};
  return rows;
}

}  // namespace gradus::testing
