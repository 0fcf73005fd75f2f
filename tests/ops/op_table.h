#pragma once
// The table of ops: how to call each op, and its sample inputs. op_checks.h declares the checks of
// the rows. A new op needs only a row in this table, and no test of its own.

#include <functional>
#include <string>
#include <vector>

#include "gradus/core/debug/gradcheck.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::testing {

using Tensors = std::vector<Tensor>;

/// An input: its shape, and how it is drawn. Floating inputs are drawn in float64.
struct Input {
  Shape shape;
  std::function<Tensor(const Shape&)> draw;
};
using Sample = std::vector<Input>;

/// Return tensors of ones, as inputs of calls that must throw.
inline Tensor f32(const Shape& shape) { return ones(shape); }
inline Tensor f64(const Shape& shape) { return ones(shape, float64); }
inline Tensor i64(const Shape& shape) { return ones(shape, int64); }

/// A call that must throw an Error whose message contains `message`.
struct BadCall {
  std::function<void()> call;
  std::string message;
};

struct OpRow {
  /// The name of the op's node in the autograd graph. For an op that is composed of other ops and
  /// has no node of its own, the name of the C++ function.
  std::string name;
  std::string variant = "";  ///< distinguishes rows of the same op with different options
  TensorFunction f;
  std::vector<Sample> samples;     ///< small inputs, since each element's gradient is checked
  std::vector<Sample> large = {};  ///< inputs large enough to split parallel loops
  TensorFunction composed = {};    ///< the same function as f, composed of simpler ops
  std::vector<BadCall> bad = {};   ///< calls that must throw
  bool differentiable = true;
  /// Whether the op accepts inputs without elements. If so, `samples` must contain such an input.
  bool accepts_empty = true;
  double eps = 1e-6;  ///< step of central differences; larger for ops that round to float32
};

std::vector<OpRow> arithmetic_rows();
std::vector<OpRow> function_rows();
std::vector<OpRow> shape_rows();
std::vector<OpRow> reduction_rows();
std::vector<OpRow> product_rows();
std::vector<OpRow> ordering_rows();
std::vector<OpRow> indexing_rows();
std::vector<OpRow> position_rows();
std::vector<OpRow> einsum_rows();
std::vector<OpRow> fused_rows();
std::vector<OpRow> fused_loss_rows();
std::vector<OpRow> loss_rows();
std::vector<OpRow> contrastive_rows();
std::vector<OpRow> attention_rows();
std::vector<OpRow> recurrent_rows();
std::vector<OpRow> convolution_rows();
std::vector<OpRow> vision_rows();

/// Returns all rows.
const std::vector<OpRow>& op_table();

// ---- inputs, by how they are drawn ----

Input normal(const Shape& shape);
Input uniform(const Shape& shape, double low, double high);
/// Returns an input of normally distributed values. Adds 0.25 to values within 0.1 of one of
/// `kinks`, the points where the op is not differentiable.
Input away_from(const Shape& shape, std::vector<double> kinks);
/// Returns an input of values at least 0.3 apart, for ops that depend on the order of the values.
Input distinct(const Shape& shape);
/// Returns an input of multiples of 0.5, plus `offset`. An input with offset 0 and one with offset
/// 0.25 have no value in common.
Input on_grid(const Shape& shape, double offset);
/// Returns an input of int64 values in [0, n).
Input indices(const Shape& shape, int64_t n);
/// The value of the losses' option ignore_index, in the rows that set this option.
inline constexpr int64_t ignored = 1;
/// Returns an input of bool values, which are true with probability p.
Input mask(const Shape& shape, double p = 0.5);

// ---- sets of samples for common kinds of ops ----

using Draw = std::function<Input(const Shape&)>;
/// Returns samples of one input each: a matrix, a tensor of rank 0, a tensor with axes of size 1,
/// and a tensor with an empty axis.
std::vector<Sample> one_input(const Draw& draw);
/// Returns samples of two inputs each. The pairs cover equal shapes, broadcasting in both
/// directions, tensors of rank 0, and empty axes.
std::vector<Sample> two_inputs(const Draw& first, const Draw& second);
std::vector<Sample> one_large(const Draw& draw);
std::vector<Sample> two_large(const Draw& first, const Draw& second);

/// of_one() and of_two() convert a function of one or two tensors to the type of OpRow::f.
template <class F>
TensorFunction of_one(F f) {
  return [f](const Tensors& x) { return Tensors{f(x[0])}; };
}
template <class F>
TensorFunction of_two(F f) {
  return [f](const Tensors& x) { return Tensors{f(x[0], x[1])}; };
}

}  // namespace gradus::testing
