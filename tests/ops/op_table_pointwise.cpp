// Rows of elementwise ops.

#include <cmath>
#include <numbers>

#include "gradus/core/ops/ops.h"
#include "gradus/core/tensor/autograd.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

const Draw positive = [](const Shape& shape) { return uniform(shape, 0.5, 2.5); };
const Draw off_zero = [](const Shape& shape) { return away_from(shape, {0}); };
const Draw grid = [](const Shape& shape) { return on_grid(shape, 0); };
const Draw between_grid = [](const Shape& shape) { return on_grid(shape, 0.25); };

Tensor truth(const Shape& shape) { return ones(shape, boolean); }

/// Bad calls of any op of two tensors.
template <class F>
std::vector<BadCall> refused_by_two(const std::string& name, F f) {
  return {{[f] {
             f(f32({2, 3}), f32({2}));
           },
           name + ": shapes do not broadcast: (2, 3) and (2,)"},
          {[f] { f(f32({2}), f64({2})); }, name + ": dtypes differ: float32 and float64"},
          {[f] { f(f32({2}), Tensor()); }, "tensor: used before it was given a value"}};
}

template <class F>
OpRow binary_row(const std::string& name, const Draw& first, const Draw& second, F f) {
  return {.name = name,
          .f = of_two(f),
          .samples = two_inputs(first, second),
          .large = two_large(first, second),
          .bad = refused_by_two(name, f)};
}

template <class F>
OpRow unary_row(const std::string& name, const Draw& draw, F f, TensorFunction composed = {}) {
  return {.name = name,
          .f = of_one(f),
          .samples = one_input(draw),
          .large = one_large(draw),
          .composed = std::move(composed),
          .bad = {{[f] { f(i64({2})); }, name + ": expected float32 or float64, got int64"},
                  {[f] { f(truth({2})); }, name + ": expected float32 or float64, got bool"}}};
}

template <class F>
OpRow scalar_row(const std::string& name, const std::string& variant, const Draw& draw, F f,
                 TensorFunction composed) {
  return {.name = name,
          .variant = variant,
          .f = of_one(f),
          .samples = one_input(draw),
          .large = one_large(draw),
          .composed = std::move(composed),
          .bad = {{[f] { f(truth({2})); }, ", got bool"}}};
}

/// Adds rows for a comparison of two tensors, and of a tensor and a number.
template <class F, class G>
void add_comparison(std::vector<OpRow>& rows, const std::string& name, F f, G with_number,
                    TensorFunction composed) {
  OpRow row = binary_row(name, grid, grid, f);
  row.differentiable = false;
  row.composed = std::move(composed);
  rows.push_back(row);
  rows.push_back(
      {.name = name,
       .variant = "a number",
       .f = of_one(with_number),
       .samples = one_input(grid),
       .large = one_large(grid),
       .composed = of_one([f](const Tensor& x) { return f(x, full({}, 0.5, x.dtype())); }),
       .bad = {{[=] { with_number(i64({2})); }, name + ": 0.5 is not an int64"}},
       .differentiable = false});
}

std::vector<OpRow> comparison_rows() {
  std::vector<OpRow> rows;
  auto less = [](const Tensor& a, const Tensor& b) { return lt(a, b); };
  auto equal = [](const Tensor& a, const Tensor& b) { return eq(a, b); };
  auto no = [](auto f) {
    return of_two([f](const Tensor& a, const Tensor& b) { return logical_not(f(a, b)); });
  };
  auto turned = [](auto f) { return [f](const Tensor& a, const Tensor& b) { return f(b, a); }; };
  // Each comparison is composed of another one: a = b unless a < b or b < a, and so on.
  add_comparison(
      rows, "eq", equal, [](const Tensor& x) { return eq(x, 0.5); },
      no([](const Tensor& a, const Tensor& b) { return logical_or(lt(a, b), lt(b, a)); }));
  add_comparison(
      rows, "ne", [](const Tensor& a, const Tensor& b) { return ne(a, b); },
      [](const Tensor& x) { return ne(x, 0.5); }, no(equal));
  add_comparison(
      rows, "lt", less, [](const Tensor& x) { return lt(x, 0.5); },
      of_two([](const Tensor& a, const Tensor& b) { return eq(sign(b - a), 1); }));
  add_comparison(
      rows, "le", [](const Tensor& a, const Tensor& b) { return le(a, b); },
      [](const Tensor& x) { return le(x, 0.5); }, no(turned(less)));
  add_comparison(
      rows, "gt", [](const Tensor& a, const Tensor& b) { return gt(a, b); },
      [](const Tensor& x) { return gt(x, 0.5); }, of_two(turned(less)));
  add_comparison(
      rows, "ge", [](const Tensor& a, const Tensor& b) { return ge(a, b); },
      [](const Tensor& x) { return ge(x, 0.5); }, no(less));
  return rows;
}

std::vector<OpRow> logic_rows() {
  const Draw half = [](const Shape& shape) { return mask(shape); };
  auto product = [](const Tensor& a, const Tensor& b) {
    return (a.to(int64) * b.to(int64)).to(boolean);
  };
  auto total = [](const Tensor& a, const Tensor& b) {
    return (a.to(int64) + b.to(int64)).to(boolean);
  };
  return {
      {.name = "logical_and",
       .f = of_two(logical_and),
       .samples = two_inputs(half, half),
       .large = two_large(half, half),
       .composed = of_two(product),
       .bad = {{[] { logical_and(f32({2}), truth({2})); },
                "logical_and: expected a bool tensor, got float32"},
               {[] { logical_and(truth({2}), f32({2})); }, "logical_and: dtypes differ"}},
       .differentiable = false},
      {.name = "logical_or",
       .f = of_two(logical_or),
       .samples = two_inputs(half, half),
       .large = two_large(half, half),
       .composed = of_two(total),
       .bad = {{[] { logical_or(truth({2}), truth({3})); },
                "logical_or: shapes do not broadcast: (2,) and (3,)"}},
       .differentiable = false},
      {.name = "logical_not",
       .f = of_one(logical_not),
       .samples = one_input(half),
       .large = one_large(half),
       .composed = of_one([](const Tensor& x) { return eq(x, 0.0); }),
       .bad = {{[] { logical_not(i64({2})); }, "logical_not: expected a bool tensor, got int64"}},
       .differentiable = false},
      {.name = "isnan",
       .f = of_one([](const Tensor& x) { return isnan(where(gt(x, 0), x, x * NAN)); }),
       .samples = one_input(off_zero),
       .large = one_large(off_zero),
       .composed = of_one([](const Tensor& x) { return le(x, 0); }),
       .differentiable = false}};
}

std::vector<OpRow> choice_rows() {
  auto spread = [](const Tensor& a, const Tensor& b) { return abs(a - b); };
  std::vector<OpRow> rows{
      binary_row("maximum", grid, between_grid,
                 [](const Tensor& a, const Tensor& b) { return maximum(a, b); }),
      binary_row("minimum", grid, between_grid,
                 [](const Tensor& a, const Tensor& b) { return minimum(a, b); }),
      {.name = "clamp",
       .f = of_one([](const Tensor& x) { return clamp(x, -0.5, 0.75); }),
       .samples = one_input([](const Shape& s) {
         return away_from(s, {-0.5, 0.75});
       }),
       .large = one_large([](const Shape& s) {
         return away_from(s, {-0.5, 0.75});
       }),
       .composed = of_one([](const Tensor& x) {
         return minimum(maximum(x, full({}, -0.5, x.dtype())), full({}, 0.75, x.dtype()));
       }),
       .bad = {{[] { clamp(f32({2}), 1, 0); }, "clamp: low 1 is above high 0"},
               {[] { clamp(f32({2}), NAN, 0); }, "clamp: low nan is above high 0"},
               {[] { clamp(i64({2}), 0, 1); }, "clamp: expected float32 or float64, got int64"}}},
      {.name = "where",
       .f = [](const Tensors& x) { return Tensors{where(x[0], x[1], x[2])}; },
       .samples = {{mask({2, 3}), normal({2, 3}), normal({2, 3})},
                   {mask({2, 1, 1}), normal({3}), normal({2, 1})},
                   {mask({3}), normal({}), normal({2, 1})},
                   {mask({2, 0}), normal({1, 1}), normal({2, 1})}},
       .large = {{mask({71, 1031}), normal({71, 1031}), normal({71, 1})}},
       .composed =
           [](const Tensors& x) {
             const Tensor c = x[0].to(x[1].dtype());
             return Tensors{c * x[1] + (1.0 - c) * x[2]};
           },
       .bad = {{[] { where(f32({2}), f32({2}), f32({2})); },
                "where: expected a bool condition, got float32"},
               {[] { where(truth({2}), f32({2}), f64({2})); },
                "where: dtypes differ: float32 and float64"},
               {[] { where(truth({2}), f32({3}), f32({3})); },
                "where: shapes do not broadcast: (3,) and (2,)"}}},
      {.name = "masked_fill",
       .f = [](const Tensors& x) { return Tensors{masked_fill(x[0], x[1], -2.5)}; },
       .samples = {{normal({2, 3}), mask({2, 3})},
                   {normal({2, 2, 2}), mask({2, 1})},
                   {normal({}), mask({})},
                   {normal({0, 3}), mask({3})}},
       .large = {{normal({71, 1031}), mask({71, 1031})}, {normal({71, 1031}), mask({1031})}},
       .composed =
           [](const Tensors& x) {
             return Tensors{where(x[1], full({}, -2.5, x[0].dtype()), x[0])};
           },
       .bad = {{[] { masked_fill(f32({2}), i64({2}), 0); },
                "masked_fill: expected a bool mask, got int64"},
               {[] {
                  masked_fill(f32({3}), truth({2, 3}), 0);
                },
                "masked_fill: mask of shape (2, 3) does not broadcast to (3,)"},
               {[] { masked_fill(f32({3}), truth({2}), 0); },
                "masked_fill: shapes do not broadcast: (3,) and (2,)"},
               {[] { masked_fill(i64({3}), truth({3}), -INFINITY); },
                "masked_fill: -inf is not an int64"}}}};
  rows[0].composed =
      of_two([spread](const Tensor& a, const Tensor& b) { return (a + b + spread(a, b)) * 0.5; });
  rows[1].composed =
      of_two([spread](const Tensor& a, const Tensor& b) { return (a + b - spread(a, b)) * 0.5; });
  return rows;
}

std::vector<OpRow> power_rows() {
  auto number = [](double p, const Draw& draw, TensorFunction composed) {
    OpRow row = unary_row(
        "pow_scalar", draw, [p](const Tensor& x) { return pow(x, p) + x; }, std::move(composed));
    row.variant = std::to_string(p);
    return row;
  };
  std::vector<OpRow> rows{
      binary_row("pow", positive, normal,
                 [](const Tensor& a, const Tensor& b) { return pow(a, b); }),
      number(3, normal, of_one([](const Tensor& x) { return x * x * x + x; })),
      number(-1.5, positive, of_one([](const Tensor& x) { return 1.0 / (x * sqrt(x)) + x; })),
      number(1, normal, of_one([](const Tensor& x) { return x + x; })),
      number(0, normal, of_one([](const Tensor& x) { return 1.0 + x; })),
      scalar_row(
          "mul", "pow(x, 2)", normal, [](const Tensor& x) { return pow(x, 2); },
          of_one([](const Tensor& x) { return x * x; }))};
  rows[0].composed = of_two([](const Tensor& a, const Tensor& b) { return exp(b * log(a)); });
  rows[1].bad.push_back(
      {[] { pow(i64({2}), 2); }, "pow_scalar: expected float32 or float64, got int64"});
  rows[0].bad.push_back(
      {[] { pow(i64({2}), i64({2})); }, "pow: expected float32 or float64, got int64"});
  return rows;
}

}  // namespace

std::vector<OpRow> arithmetic_rows() {
  auto plus = [](const Tensor& a, const Tensor& b) { return a + b; };
  auto minus = [](const Tensor& a, const Tensor& b) { return a - b; };
  auto times = [](const Tensor& a, const Tensor& b) { return a * b; };
  auto over = [](const Tensor& a, const Tensor& b) { return a / b; };
  auto number = [](auto op, double s) {
    return of_one([=](const Tensor& x) { return op(x, full({}, s, x.dtype())); });
  };
  auto number_first = [](auto op, double s) {
    return of_one([=](const Tensor& x) { return op(full({}, s, x.dtype()), x); });
  };
  std::vector<OpRow> rows{binary_row("add", normal, normal, plus),
                          binary_row("sub", normal, normal, minus),
                          binary_row("mul", normal, normal, times),
                          binary_row("div", normal, off_zero, over),
                          scalar_row(
                              "add_scalar", "x + 1.5", normal,
                              [](const Tensor& x) { return x + 1.5; }, number(plus, 1.5)),
                          scalar_row(
                              "add_scalar", "x - 1.5", normal,
                              [](const Tensor& x) { return x - 1.5; }, number(minus, 1.5)),
                          scalar_row(
                              "add_scalar", "1.5 - x", normal,
                              [](const Tensor& x) { return 1.5 - x; }, number_first(minus, 1.5)),
                          scalar_row(
                              "mul_scalar", "x * 1.5", normal,
                              [](const Tensor& x) { return x * 1.5; }, number(times, 1.5)),
                          scalar_row(
                              "mul_scalar", "-x", normal, [](const Tensor& x) { return -x; },
                              of_one([](const Tensor& x) { return x - x - x; })),
                          scalar_row(
                              "div_scalar", "x / 1.5", normal,
                              [](const Tensor& x) { return x / 1.5; }, number(over, 1.5)),
                          scalar_row(
                              "scalar_div", "1.5 / x", off_zero,
                              [](const Tensor& x) { return 1.5 / x; }, number_first(over, 1.5))};
  rows[3].bad.push_back(
      {[] { i64({2}) / i64({2}); }, "div: expected float32 or float64, got int64"});
  rows[4].bad.push_back({[] { i64({2}) + 0.5; }, "add_scalar: 0.5 is not an int64"});
  rows[4].bad.push_back(
      {[] { truth({2}) + 1.0; }, "add_scalar: expected float32, float64 or int64, got bool"});
  rows[7].bad.push_back({[] { i64({2}) * 1e30; }, "mul_scalar: 1e+30 is not an int64"});
  rows[9].bad.push_back({[] { i64({2}) / 2.0; }, "div: expected float32 or float64, got int64"});
  for (auto more : {power_rows, choice_rows, comparison_rows, logic_rows})
    for (OpRow& row : more()) rows.push_back(std::move(row));
  return rows;
}

namespace {

std::vector<OpRow> rounding_rows() {
  const Draw near_0 = [](const Shape& shape) { return uniform(shape, -0.6, 3); };
  auto below = [](const Tensor& x) {
    const Tensor cut = x.to(int64).to(x.dtype());
    return where(gt(cut, x), cut - 1.0, cut);
  };
  auto to_even = [below](const Tensor& x) {
    const Tensor under = below(x), odd = ne(below(under / 2) * 2.0, under);
    const Tensor up =
        logical_or(gt(x - under, 0.5), logical_and(eq(x - under, 0.5), odd)).to(x.dtype());
    return under + up;
  };
  std::vector<OpRow> rows{
      unary_row("floor", grid, floor, of_one(below)),
      unary_row("ceil", grid, ceil, of_one([below](const Tensor& x) { return -below(-x); })),
      unary_row("round", grid, round, of_one(to_even))};
  for (OpRow& row : rows) row.differentiable = false;
  rows.push_back(
      unary_row("rsqrt", positive, rsqrt, of_one([](const Tensor& x) { return 1.0 / sqrt(x); })));
  rows.push_back(
      unary_row("log1p", near_0, log1p, of_one([](const Tensor& x) { return log(1.0 + x); })));
  rows.push_back(
      unary_row("expm1", normal, expm1, of_one([](const Tensor& x) { return exp(x) - 1.0; })));
  return rows;
}

std::vector<OpRow> bent_rows() {
  return {unary_row(
              "leaky_relu", off_zero, [](const Tensor& x) { return leaky_relu(x, 0.2); },
              of_one([](const Tensor& x) { return maximum(x, x * 0.2); })),
          unary_row(
              "elu", off_zero, [](const Tensor& x) { return elu(x, 1.5); },
              of_one([](const Tensor& x) { return relu(x) + (exp(-relu(-x)) - 1.0) * 1.5; }))};
}

/// A point, as two tensors y and x, that is not near 0.
std::vector<OpRow> angle_rows() {
  const Draw below_half_pi = [](const Shape& shape) { return uniform(shape, -1.3, 1.3); };
  std::vector<OpRow> rows{
      unary_row("tan", below_half_pi, tan, of_one([](const Tensor& x) { return sin(x) / cos(x); })),
      binary_row("atan2", off_zero, off_zero,
                 [](const Tensor& y, const Tensor& x) { return atan2(y, x); })};
  rows[1].bad.push_back(
      {[] { atan2(i64({2}), i64({2})); }, "atan2: expected float32 or float64, got int64"});
  return rows;
}

std::vector<OpRow> mixing_rows() {
  auto by_terms = [](const Tensor& a, const Tensor& b, const Tensor& w) {
    return a * (1.0 - w) + b * w;
  };
  return {
      {.name = "lerp",
       .f = [](const Tensors& x) { return Tensors{lerp(x[0], x[1], x[2])}; },
       .samples = {{normal({2, 3}), normal({2, 3}), normal({2, 3})},
                   {normal({2, 1, 2}), normal({3, 1}), uniform({2}, 0, 1)},
                   {normal({}), normal({3}), normal({})},
                   {normal({0, 3}), normal({3}), normal({1, 1})}},
       .large = {{normal({71, 1031}), normal({1031}), uniform({71, 1}, 0, 1)}},
       .composed = [=](const Tensors& x) { return Tensors{by_terms(x[0], x[1], x[2])}; },
       .bad = {{[] {
                  lerp(f32({2, 3}), f32({2}), f32({3}));
                },
                "lerp: shapes do not broadcast: (2, 3) and (2,)"},
               {[] {
                  lerp(f32({2, 3}), f32({3}), f32({2}));
                },
                "lerp: shapes do not broadcast: (2, 3) and (2,)"},
               {[] { lerp(f32({2}), f64({2}), 0.5); }, "lerp: dtypes differ: float32 and float64"},
               {[] { lerp(f32({2}), f32({2}), f64({2})); },
                "lerp: dtypes differ: float32 and float64"},
               {[] { lerp(i64({2}), i64({2}), 1); },
                "lerp: expected float32 or float64, got int64"}}},
      {.name = "lerp",
       .variant = "a number",
       .f = of_two([](const Tensor& a, const Tensor& b) { return lerp(a, b, -0.7); }),
       .samples = two_inputs(normal, normal),
       .large = two_large(normal, normal),
       .composed = of_two([=](const Tensor& a, const Tensor& b) {
         return by_terms(a, b, full({}, -0.7, a.dtype()));
       })},
      {.name = "square",
       .f = of_one(square),
       .samples = one_input(normal),
       .large = one_large(normal),
       .composed = of_one([](const Tensor& x) { return abs(x) * abs(x); }),
       .bad = {{[] { square(truth({2})); }, "mul: expected float32, float64 or int64, got bool"}}}};
}

}  // namespace

std::vector<OpRow> function_rows() {
  const double k = std::sqrt(2 / std::numbers::pi);
  std::vector<OpRow> rows{
      unary_row("exp", normal, exp, of_one([](const Tensor& x) {
                  return pow(full({}, std::numbers::e, x.dtype()), x);
                })),
      unary_row("log", positive, log),
      unary_row("sqrt", positive, sqrt, of_one([](const Tensor& x) { return exp(log(x) * 0.5); })),
      unary_row("sin", normal, sin,
                of_one([](const Tensor& x) { return cos(x - std::numbers::pi / 2); })),
      unary_row("cos", normal, cos,
                of_one([](const Tensor& x) { return 1.0 - 2.0 * pow(sin(x / 2), 2); })),
      unary_row("tanh", normal, tanh,
                of_one([](const Tensor& x) { return 1.0 - 2.0 / (exp(2.0 * x) + 1.0); })),
      unary_row("sigmoid", normal, sigmoid,
                of_one([](const Tensor& x) { return 1.0 / (1.0 + exp(-x)); })),
      unary_row("softplus", normal, softplus,
                of_one([](const Tensor& x) { return log(1.0 + exp(x)); })),
      unary_row("relu", off_zero, relu, of_one([](const Tensor& x) { return (x + abs(x)) * 0.5; })),
      unary_row("abs", off_zero, abs, of_one([](const Tensor& x) { return x * sign(x); })),
      unary_row("sign", off_zero, sign),
      unary_row("erf", normal, erf),
      unary_row("silu", normal, silu, of_one([](const Tensor& x) { return x / (1.0 + exp(-x)); })),
      unary_row("quick_gelu", normal, quick_gelu,
                of_one([](const Tensor& x) { return x / (1.0 + exp(x * -1.702)); })),
      unary_row("relu_squared", off_zero, relu_squared,
                of_one([](const Tensor& x) { return x * (x + abs(x)) * 0.5; })),
      unary_row("gelu", normal, gelu,
                of_one([](const Tensor& x) { return x * (1.0 + erf(x / std::sqrt(2))) / 2; })),
      unary_row("gelu_tanh", normal, gelu_tanh, of_one([k](const Tensor& x) {
                  return x * 0.5 * (1.0 + tanh(k * (x + 0.044715 * (x * x * x))));
                }))};
  for (OpRow& row : rows) row.differentiable = row.name != "sign";
  for (auto more : {rounding_rows, bent_rows, angle_rows, mixing_rows})
    for (OpRow& row : more()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace gradus::testing
