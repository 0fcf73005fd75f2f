// Elementwise ops, reductions and ops that order.

#include "tests/random_programs/ops.h"

namespace gradus::programs {

namespace {

const Propose one = [](Picker& p) { p.any(); };
const Propose positive = [](Picker& p) { p.any(0, 4, Domain::positive); };
const Propose nonzero = [](Picker& p) { p.any(0, 4, Domain::nonzero); };
const Propose two = [](Picker& p) { p.beside(p.any()); };
const Propose distinct_axis = [](Picker& p) { p.axis(p.any(1, 3, Domain::distinct).size()); };
const Propose with_real = [](Picker& p) {
  p.any();
  p.real(-2, 2);
};

}  // namespace

std::vector<Op> pointwise_ops() {
  std::vector<Op> ops{
      {.name = "exp", GRADUS_CALL(exp(x[0])), .propose = one},
      {.name = "expm1", GRADUS_CALL(expm1(x[0])), .propose = one},
      {.name = "log", GRADUS_CALL(log(x[0])), .propose = positive, GRADUS_MARGIN(least(x[0]))},
      {.name = "log1p", GRADUS_CALL(log1p(x[0])), .propose = positive, GRADUS_MARGIN(least(x[0]))},
      {.name = "sqrt", GRADUS_CALL(sqrt(x[0])), .propose = positive, GRADUS_MARGIN(least(x[0]))},
      {.name = "rsqrt", GRADUS_CALL(rsqrt(x[0])), .propose = positive, GRADUS_MARGIN(least(x[0]))},
      {.name = "sin", GRADUS_CALL(sin(x[0])), .propose = one},
      {.name = "cos", GRADUS_CALL(cos(x[0])), .propose = one},
      {.name = "tan",
       GRADUS_CALL(tan(x[0])),
       .propose = [](Picker& p) { p.any(0, 4, Domain::unit); },
       GRADUS_MARGIN(least(abs(cos(x[0]))) - 0.2)},
      {.name = "erf", GRADUS_CALL(erf(x[0])), .propose = one},
      {.name = "softplus", GRADUS_CALL(softplus(x[0])), .propose = one},
      {.name = "tanh", GRADUS_CALL(tanh(x[0])), .propose = one},
      {.name = "sigmoid", GRADUS_CALL(sigmoid(x[0])), .propose = one},
      {.name = "gelu", GRADUS_CALL(gelu(x[0])), .propose = one},
      {.name = "gelu_tanh", GRADUS_CALL(gelu_tanh(x[0])), .propose = one},
      {.name = "silu", GRADUS_CALL(silu(x[0])), .propose = one},
      {.name = "quick_gelu", GRADUS_CALL(quick_gelu(x[0])), .propose = one},
      {.name = "relu",
       GRADUS_CALL(relu(x[0])),
       .propose = nonzero,
       GRADUS_MARGIN(distance_from(x[0], 0))},
      {.name = "relu_squared",
       GRADUS_CALL(relu_squared(x[0])),
       .propose = nonzero,
       GRADUS_MARGIN(distance_from(x[0], 0))},
      {.name = "leaky_relu",
       GRADUS_CALL(leaky_relu(x[0], r[0])),
       .propose = [](Picker& p) { p.any(0, 4, Domain::nonzero), p.real(0, 0.5); },
       GRADUS_MARGIN(distance_from(x[0], 0))},
      {.name = "elu",
       GRADUS_CALL(elu(x[0], r[0])),
       .propose = [](Picker& p) { p.any(0, 4, Domain::nonzero), p.real(0.5, 1.5); },
       GRADUS_MARGIN(distance_from(x[0], 0))},
      {.name = "abs",
       GRADUS_CALL(abs(x[0])),
       .propose = nonzero,
       GRADUS_MARGIN(distance_from(x[0], 0))},
      {.name = "sign",
       GRADUS_CALL(sign(x[0])),
       .propose = nonzero,
       GRADUS_MARGIN(distance_from(x[0], 0))},
      {.name = "floor",
       GRADUS_CALL(floor(x[0])),
       .propose = one,
       GRADUS_MARGIN(distance_from_halves(x[0]))},
      {.name = "ceil",
       GRADUS_CALL(ceil(x[0])),
       .propose = one,
       GRADUS_MARGIN(distance_from_halves(x[0]))},
      {.name = "round",
       GRADUS_CALL(round(x[0])),
       .propose = one,
       GRADUS_MARGIN(distance_from_halves(x[0]))},
      {.name = "neg", GRADUS_CALL(-x[0]), .propose = one},
      {.name = "isnan", GRADUS_CALL(isnan(x[0])), .propose = one}};
  const std::vector<Op> more{
      {.name = "add", GRADUS_CALL(x[0] + x[1]), .propose = two},
      {.name = "sub", GRADUS_CALL(x[0] - x[1]), .propose = two},
      {.name = "mul", GRADUS_CALL(x[0] * x[1]), .propose = two},
      {.name = "square", GRADUS_CALL(square(x[0])), .propose = one},
      {.name = "div",
       GRADUS_CALL(x[0] / x[1]),
       .propose = [](Picker& p) { p.beside(p.any(), Domain::positive); },
       GRADUS_MARGIN(distance_from(x[1], 0) - 0.1)},
      {.name = "pow",
       GRADUS_CALL(pow(x[0], x[1])),
       .propose = [](Picker& p) { p.beside(p.any(0, 4, Domain::positive)); },
       GRADUS_MARGIN(least(x[0]) - 0.1)},
      {.name = "atan2",
       GRADUS_CALL(atan2(x[0], x[1])),
       .propose = [](Picker& p) { p.beside(p.any(), Domain::positive); },
       GRADUS_MARGIN(distance_from(x[1], 0) - 0.1)},
      {.name = "lerp",
       GRADUS_CALL(lerp(x[0], x[1], x[2])),
       .propose =
           [](Picker& p) {
             const Shape s = p.any();
             p.beside(s), p.beside(s);
           }},
      {.name = "lerp_number",
       GRADUS_CALL(lerp(x[0], x[1], r[0])),
       .propose = [](Picker& p) { p.beside(p.any()), p.real(-1, 2); }},
      {.name = "add_scalar", GRADUS_CALL(r[0] + x[0]), .propose = with_real},
      {.name = "mul_scalar", GRADUS_CALL(x[0] * r[0]), .propose = with_real},
      {.name = "scalar_sub", GRADUS_CALL(r[0] - x[0]), .propose = with_real},
      {.name = "scalar_div",
       GRADUS_CALL(r[0] / x[0]),
       .propose = [](Picker& p) { p.any(0, 4, Domain::positive), p.real(-2, 2); },
       GRADUS_MARGIN(distance_from(x[0], 0) - 0.1)},
      {.name = "pow_scalar",
       GRADUS_CALL(pow(x[0], r[0])),
       .propose = [](Picker& p) { p.any(0, 4, Domain::positive), p.real(-1.5, 3); },
       GRADUS_MARGIN(least(x[0]) - 0.1)},
      {.name = "maximum",
       GRADUS_CALL(maximum(x[0], x[1])),
       .propose = two,
       GRADUS_MARGIN(distance_between(x[0], x[1]))},
      {.name = "minimum",
       GRADUS_CALL(minimum(x[0], x[1])),
       .propose = two,
       GRADUS_MARGIN(distance_between(x[0], x[1]))},
      {.name = "maximum_scalar",
       GRADUS_CALL(maximum(x[0], r[0])),
       .propose = with_real,
       GRADUS_MARGIN(distance_from(x[0], r[0]))},
      {.name = "minimum_scalar",
       GRADUS_CALL(minimum(x[0], r[0])),
       .propose = with_real,
       GRADUS_MARGIN(distance_from(x[0], r[0]))},
      {.name = "clamp",
       GRADUS_CALL(clamp(x[0], r[0], r[1])),
       .propose = [](Picker& p) { p.any(), p.real(-1.5, -0.2), p.real(0.1, 1.5); },
       GRADUS_MARGIN(std::min(distance_from(x[0], r[0]), distance_from(x[0], r[1])))},
      {.name = "add_assign",
       GRADUS_CALL(added(x[0] * 1.0, x[1])),
       .propose =
           [](Picker& p) {
             const Shape s = p.any();
             p.like(s);
           }},
      {.name = "mul_assign", GRADUS_CALL(scaled(x[0] * 1.0, r[0])), .propose = with_real},
      {.name = "written",
       GRADUS_CALL(written(x[0], x[1], r[0])),
       .propose = [](Picker& p) { p.like(p.any(1)), p.real(-2, 2); },
       .detaches = true}};
  ops.insert(ops.end(), more.begin(), more.end());
  const std::vector<Op> masks{{.name = "lt",
                               GRADUS_CALL(lt(x[0], x[1])),
                               .propose = two,
                               GRADUS_MARGIN(distance_between(x[0], x[1]))},
                              {.name = "le",
                               GRADUS_CALL(le(x[0], x[1])),
                               .propose = two,
                               GRADUS_MARGIN(distance_between(x[0], x[1]))},
                              {.name = "gt",
                               GRADUS_CALL(gt(x[0], r[0])),
                               .propose = with_real,
                               GRADUS_MARGIN(distance_from(x[0], r[0]))},
                              {.name = "ge",
                               GRADUS_CALL(ge(x[0], x[1])),
                               .propose = two,
                               GRADUS_MARGIN(distance_between(x[0], x[1]))},
                              {.name = "eq",
                               GRADUS_CALL(eq(x[0], r[0])),
                               .propose = with_real,
                               GRADUS_MARGIN(distance_from(x[0], r[0]))},
                              {.name = "ne",
                               GRADUS_CALL(ne(x[0], x[1])),
                               .propose = two,
                               GRADUS_MARGIN(distance_between(x[0], x[1]))},
                              {.name = "logical_not",
                               GRADUS_CALL(logical_not(x[0])),
                               .propose = [](Picker& p) { p.some_bool(); }},
                              {.name = "logical_and",
                               GRADUS_CALL(logical_and(x[0], x[1])),
                               .propose = [](Picker& p) { p.mask(p.some_bool()); }},
                              {.name = "logical_or",
                               GRADUS_CALL(logical_or(x[0], x[1])),
                               .propose = [](Picker& p) { p.mask(p.some_bool()); }},
                              {.name = "where",
                               GRADUS_CALL(where(x[2], x[0], x[1])),
                               .propose =
                                   [](Picker& p) {
                                     const Shape s = p.any();
                                     p.beside(s), p.mask(s);
                                   }},
                              {.name = "masked_fill",
                               GRADUS_CALL(masked_fill(x[0], x[1], r[0])),
                               .propose = [](Picker& p) { p.mask(p.any()), p.real(-2, 2); }}};
  ops.insert(ops.end(), masks.begin(), masks.end());
  return ops;
}

std::vector<Op> reduction_ops() {
  const Propose kept = [](Picker& p) {
    p.axis(p.any(1).size());
    p.option(p.random.whole(0, 1));
  };
  const Propose corrected = [](Picker& p) {
    p.axis(p.any(1).size());
    p.option(p.random.whole(0, 1));
  };
  return {{.name = "sum", GRADUS_CALL(sum(x[0], i[0], i[1] != 0)), .propose = kept},
          {.name = "sum_all", GRADUS_CALL(sum(x[0])), .propose = one},
          {.name = "mean", GRADUS_CALL(mean(x[0], i[0], i[1] != 0)), .propose = kept},
          {.name = "mean_two",
           GRADUS_CALL(mean(x[0], Axes{0, -1})),
           .propose = [](Picker& p) { p.any(2); }},
          {.name = "var", GRADUS_CALL(var(x[0], i[0], i[1])), .propose = corrected},
          {.name = "std_dev",
           GRADUS_CALL(std_dev(x[0], i[0], i[1])),
           .propose = corrected,
           GRADUS_MARGIN(least(std_dev(x[0], i[0], i[1])))},
          {.name = "norm",
           GRADUS_CALL(norm(x[0], i[0], i[1] != 0)),
           .propose = kept,
           GRADUS_MARGIN(least(norm(x[0], i[0])))},
          {.name = "prod", GRADUS_CALL(prod(x[0], i[0], i[1] != 0)), .propose = kept},
          {.name = "prod_all", GRADUS_CALL(prod(x[0])), .propose = one},
          {.name = "any",
           GRADUS_CALL(any(x[0], i[0])),
           .propose =
               [](Picker& p) {
                 const int rank = p.some_bool().size();
                 if (rank > 0)
                   p.axis(rank);
                 else
                   p.failed = true;
               }},
          {.name = "all", GRADUS_CALL(all(x[0])), .propose = [](Picker& p) { p.some_bool(); }},
          {.name = "cumsum", GRADUS_CALL(cumsum(x[0], i[0])), .propose = one_axis},
          {.name = "cumprod", GRADUS_CALL(cumprod(x[0], i[0])), .propose = one_axis},
          {.name = "logsumexp", GRADUS_CALL(logsumexp(x[0], i[0], i[1] != 0)), .propose = kept},
          {.name = "softmax", GRADUS_CALL(softmax(x[0], i[0])), .propose = one_axis},
          {.name = "log_softmax", GRADUS_CALL(log_softmax(x[0], i[0])), .propose = one_axis},
          {.name = "max",
           GRADUS_CALL(both(max(x[0], i[0]))),
           .propose = distinct_axis,
           GRADUS_MARGIN(gap(x[0], i[0]))},
          {.name = "min",
           GRADUS_CALL(both(min(x[0], i[0], keepdim))),
           .propose = distinct_axis,
           GRADUS_MARGIN(gap(x[0], i[0]))},
          {.name = "max_all",
           GRADUS_CALL(max(x[0])),
           .propose = [](Picker& p) { p.any(0, 3, Domain::distinct); },
           GRADUS_MARGIN(gap(x[0].flatten(), 0))},
          {.name = "min_all",
           GRADUS_CALL(min(x[0])),
           .propose = [](Picker& p) { p.any(0, 3, Domain::distinct); },
           GRADUS_MARGIN(gap(x[0].flatten(), 0))},
          {.name = "median",
           GRADUS_CALL(both(median(x[0], i[0]))),
           .propose = distinct_axis,
           GRADUS_MARGIN(gap(x[0], i[0]))},
          {.name = "quantile",
           GRADUS_CALL(quantile(x[0], r[0], i[0], i[1] != 0)),
           .propose =
               [](Picker& p) {
                 p.axis(p.any(1, 3, Domain::distinct).size());
                 p.option(p.random.whole(0, 1)), p.real(0, 1);
               },
           GRADUS_MARGIN(gap(x[0], i[0]))},
          {.name = "argmax",
           GRADUS_CALL(argmax(x[0], i[0])),
           .propose = distinct_axis,
           GRADUS_MARGIN(gap(x[0], i[0]))},
          {.name = "argmin",
           GRADUS_CALL(argmin(x[0], i[0])),
           .propose = distinct_axis,
           GRADUS_MARGIN(gap(x[0], i[0]))},
          {.name = "sort",
           GRADUS_CALL(both(sort(x[0], i[0], i[1] != 0))),
           .propose =
               [](Picker& p) {
                 p.axis(p.any(1, 3, Domain::distinct).size());
                 p.option(p.random.whole(0, 1));
               },
           GRADUS_MARGIN(gap(x[0], i[0]))},
          {.name = "argsort",
           GRADUS_CALL(argsort(x[0], i[0], true)),
           .propose = distinct_axis,
           GRADUS_MARGIN(gap(x[0], i[0]))},
          {.name = "topk",
           GRADUS_CALL(both(topk(x[0], i[1], i[0]))),
           .propose =
               [](Picker& p) {
                 const Shape s = p.any(1, 3, Domain::distinct);
                 p.option(p.random.whole(0, s[static_cast<int>(p.axis(s.size()))]));
               },
           GRADUS_MARGIN(gap(x[0], i[0]))}};
}

}  // namespace gradus::programs
