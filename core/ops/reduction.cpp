#include "gradus/core/ops/reduction.h"

#include <cmath>
#include <limits>

#include "gradus/core/autograd.h"
#include "gradus/core/internal.h"
#include "gradus/core/kernels/math.h"
#include "gradus/core/kernels/reduction.h"
#include "gradus/core/ops/axis_rows.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/profiler.h"

namespace gradus {

// ---- sums: sum, mean, var, norm ----

namespace {

/// The axes that a reduction of x goes over, checked.
struct Reduced {
  std::array<bool, max_rank> reduced{};
  Shape with_ones;    // x's shape with 1 for each reduced axis
  Shape without;      // x's shape without the reduced axes
  int64_t count = 1;  // elements that go into one output

  Reduced(const char* op, const Shape& shape, const Axes& dims) {
    for (int64_t dim : dims) {
      bool& is_reduced = reduced[static_cast<size_t>(normalize_dim(op, dim, shape.size()))];
      check(!is_reduced, op, ": axis ", dim, " is given twice in ", dims);
      is_reduced = true;
    }
    if (dims.empty()) reduced.fill(true);
    for (int i = 0; i < shape.size(); ++i) {
      const bool is_reduced = reduced[static_cast<size_t>(i)];
      with_ones.push_back(is_reduced ? 1 : shape[i]);
      if (is_reduced)
        count *= shape[i];
      else
        without.push_back(shape[i]);
    }
  }
  const Shape& output(KeepDim keep) const { return keep.on ? with_ones : without; }
  /// A tensor of the reduced shape as one that broadcasts to the input's.
  Tensor restore(const Tensor& y) const { return y.reshape(with_ones); }
};

/// y_k = finish(sum of term(x_i, k)) over the elements of each output: for floating x.
template <class T, class Y, class Term, class Finish>
void reduce_floating(const Tensor& x, const Reduced& axes, const Tensor& y, const Term& term,
                     const Finish& finish) {
  const kernel::SumPlan plan(x.shape(), x.strides(), axes.reduced);
  kernel::reduce<double>(plan, x.data<T>(), y.data<Y>(), term, finish);
}

/// y = the sum of term(x_i), added up in Acc.
template <class Acc, class T, class Y, class Term>
void reduce_to(const Tensor& x, const Reduced& axes, const Tensor& y, const Term& term) {
  kernel::reduce<Acc>(
      kernel::SumPlan(x.shape(), x.strides(), axes.reduced), x.data<T>(), y.data<Y>(),
      [term](T v, int64_t) { return term(v); }, [](Acc s) { return static_cast<Y>(s); });
}

/// Sums of int64, by halves of 32 bits, which do not overflow as the whole may.
void sum_whole_numbers(const Tensor& x, const Reduced& axes, const Tensor& y) {
  constexpr int64_t half = int64_t{1} << 32;
  const Tensor high = empty_like(y);
  reduce_to<int64_t, int64_t, int64_t>(x, axes, y, [](int64_t v) { return v & (half - 1); });
  reduce_to<int64_t, int64_t, int64_t>(x, axes, high, [](int64_t v) { return v >> 32; });
  int64_t *low = y.data<int64_t>(), *above = high.data<int64_t>();
  for (int64_t k = 0; k < y.numel(); ++k) {
    above[k] += low[k] >> 32;
    check(!__builtin_mul_overflow(above[k], half, &above[k]), "sum: the int64 sum at position ", k,
          " of ", axes.without, " overflows");
    low[k] = above[k] + (low[k] & (half - 1));
  }
}

/// Each element in double: what is summed may leave float32's range, or cancel to its last digit.
template <class T, class Y>
void mean_into(const Tensor& x, const Reduced& axes, const Tensor& y) {
  reduce_floating<T, Y>(
      x, axes, y, [](T v, int64_t) { return static_cast<double>(v); },
      [n = static_cast<double>(axes.count)](double s) { return static_cast<Y>(s / n); });
}

}  // namespace

// x -> sum of x_i                                              dx_i = dy
Tensor sum(const Tensor& x, const Axes& dims, KeepDim keep) {
  ProfileScope scope("sum");
  const Reduced axes("sum", x.shape(), dims);
  const Tensor y = empty(axes.output(keep), x.dtype() == boolean ? int64 : x.dtype());
  if (x.dtype() == int64) {
    sum_whole_numbers(x, axes, y);
  } else if (x.dtype() == boolean) {
    reduce_to<int64_t, bool, int64_t>(x, axes, y, [](bool v) { return int64_t{v}; });
  } else {
    dispatch_floating("sum", x.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      reduce_to<double, T, T>(x, axes, y, [](T v) { return v; });
    });
  }
  record("sum", {y}, {x}, saves_nothing,
         [axes](Backward& b) { b.give(0, axes.restore(b.grad()).expand(b.input_shape(0))); });
  return y;
}

// x -> (sum of x_i) / n                                        dx_i = dy / n
Tensor mean(const Tensor& x, const Axes& dims, KeepDim keep) {
  ProfileScope scope("mean");
  const Reduced axes("mean", x.shape(), dims);
  check(is_floating(x.dtype()), "mean: expected float32 or float64, got ", x.dtype());
  const Tensor y = empty(axes.output(keep), x.dtype());
  dispatch_floating("mean", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    mean_into<T, T>(x, axes, y);
  });
  record("mean", {y}, {x}, saves_nothing, [axes](Backward& b) {
    // Of no elements the mean is NaN, but none has a gradient.
    const Tensor share =
        axes.restore(b.grad()) / static_cast<double>(std::max<int64_t>(axes.count, 1));
    b.give(0, share.expand(b.input_shape(0)));
  });
  return y;
}

// x -> sum of (x_i - mean)^2 / (n - correction)       dx_i = dy 2 (x_i - mean) / (n - correction)
Tensor var(const Tensor& x, const Axes& dims, int64_t correction, KeepDim keep) {
  ProfileScope scope("var");
  const Reduced axes("var", x.shape(), dims);
  check(is_floating(x.dtype()), "var: expected float32 or float64, got ", x.dtype());
  const double divisor = static_cast<double>(std::max<int64_t>(axes.count - correction, 0));
  const Tensor y = empty(axes.output(keep), x.dtype()), center = empty(y.shape(), float64);
  dispatch_floating("var", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    mean_into<T, double>(x, axes, center);
    reduce_floating<T, T>(
        x, axes, y,
        [m = center.data<double>()](T v, int64_t k) {
          const double centred = static_cast<double>(v) - m[k];
          return centred * centred;
        },
        [divisor](double s) { return static_cast<T>(s / divisor); });
  });
  record("var", {y}, {x}, saves_input(0), [axes, dims, divisor](Backward& b) {
    const Tensor x = b.input(0), dy = axes.restore(b.grad());
    b.give(0, (x - mean(x, dims, keepdim)) * (dy * (axes.count == 0 ? 0 : 2 / divisor)));
  });
  return y;
}

// x -> sqrt(sum of x_i^2)                                      dx_i = dy x_i / y, 0 where y is 0
Tensor norm(const Tensor& x, const Axes& dims, KeepDim keep) {
  ProfileScope scope("norm");
  const Reduced axes("norm", x.shape(), dims);
  check(is_floating(x.dtype()), "norm: expected float32 or float64, got ", x.dtype());
  const Tensor y = empty(axes.output(keep), x.dtype());
  dispatch_floating("norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduce_floating<T, T>(
        x, axes, y, [](T v, int64_t) { return static_cast<double>(v) * static_cast<double>(v); },
        [](double s) { return static_cast<T>(std::sqrt(s)); });
  });
  record("norm", {y}, {x}, saves_inputs_and_output, [axes](Backward& b) {
    const Tensor y = b.output(), is_zero = eq(y, 0);
    // Masked before and after the division, so that its own gradient is finite too.
    const Tensor ratio = masked_fill(b.grad() / masked_fill(y, is_zero, 1), is_zero, 0);
    b.give(0, b.input(0) * axes.restore(ratio));
  });
  return y;
}

// ---- along one axis ----

namespace {

template <class T>
T logsumexp_of(const T* x, int64_t n) {
  const T top = simd_max(n, -std::numeric_limits<T>::infinity(), [=](int64_t i) { return x[i]; });
  if (std::isinf(top)) {  // the largest says it all, but for a NaN that simd_max passed over
    const bool any_nan = std::any_of(x, x + n, [](T v) { return v != v; });
    return any_nan ? std::numeric_limits<T>::quiet_NaN() : top;
  }
  constexpr int64_t block = 512;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += block)
    total += simd_sum<T>(std::min(block, n - begin),
                         [=](int64_t i) { return kernel::exp(x[begin + i] - top); });
  return top + static_cast<T>(std::log(total));
}

}  // namespace

// y = log(sum of exp x_i) = max + log(sum of exp(x_i - max))   dx = dy softmax(x)
// (exp(x_i - y) would lose the logarithm beside a large maximum)
Tensor logsumexp(const Tensor& x, Axis dim, KeepDim keep) {
  ProfileScope scope("logsumexp");
  check(is_floating(x.dtype()), "logsumexp: expected float32 or float64, got ", x.dtype());
  const AxisRows rows("logsumexp", x, dim);
  const Tensor y = empty(rows.output(keep), x.dtype());
  dispatch_floating("logsumexp", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = y.data<T>();
    rows.for_each<T>([&](const T* row, int64_t i) { out[i] = logsumexp_of(row, rows.n); });
  });
  record("logsumexp", {y}, {x}, saves_inputs, [kept = rows.kept, dim = rows.dim](Backward& b) {
    b.give(0, b.grad().reshape(kept) * softmax(b.input(0), dim));
  });
  return y;
}

}  // namespace gradus
