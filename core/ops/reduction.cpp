#include "gradus/core/ops/reduction.h"

#include "gradus/core/kernels/math.h"
#include "gradus/core/kernels/reduction.h"
#include "gradus/core/ops/axis_rows.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/runtime/ceil_div.h"

namespace gradus {

// ---- sums: sum, mean, var, std_dev, norm ----

namespace {

/// The axes of a reduction, checked, and the shapes that result.
struct Reduced {
  std::array<bool, max_rank> reduced{};
  Shape with_ones;    // x's shape with 1 for each reduced axis
  Shape without;      // x's shape without the reduced axes
  int64_t count = 1;  // elements per output

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
  /// A tensor of the reduced shape, reshaped so that it broadcasts to the input.
  Tensor restore(const Tensor& y) const { return y.reshape(with_ones); }
};

/// y_k = finish(sum of term(x_i, k) over the elements of output k).
template <class T, class Y = T, class Term, class Finish = std::identity>
void reduce_to(const Tensor& x, const Reduced& axes, const Tensor& y, const Term& term,
               const Finish& finish = {}) {
  using Acc = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  kernel::reduce<Acc>(kernel::SumPlan(x.shape(), x.strides(), axes.reduced), x.data<T>(),
                      y.data<Y>(), term, [finish](Acc s) { return static_cast<Y>(finish(s)); });
}

/// Sums int64 in 32-bit halves, so that overflow is detected. int64 holds 2^31 of them.
void sum_whole_numbers(const Tensor& x, const Reduced& axes, const Tensor& y) {
  constexpr int64_t half = int64_t{1} << 32;
  check(axes.count <= half / 2, "sum: expected at most 2^31 int64 elements, got ", axes.count);
  const Tensor high = empty_like(y);
  reduce_to<int64_t>(x, axes, y, [](int64_t v, int64_t) { return v & (half - 1); });
  reduce_to<int64_t>(x, axes, high, [](int64_t v, int64_t) { return v >> 32; });
  int64_t *low = y.data<int64_t>(), *above = high.data<int64_t>();
  for (int64_t k = 0; k < y.numel(); ++k) {
    above[k] += low[k] >> 32;
    check(!__builtin_mul_overflow(above[k], half, &above[k]), "sum: the int64 sum at position ", k,
          " of ", axes.without, " overflows");
    low[k] = above[k] + (low[k] & (half - 1));
  }
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
    reduce_to<bool, int64_t>(x, axes, y, [](bool v, int64_t) { return int64_t{v}; });
  } else {
    dispatch_floating("sum", x.dtype(), [&]<class T>(TypeTag<T>) {
      reduce_to<T>(x, axes, y, [](T v, int64_t) { return v; });
    });
  }
  record("sum", {y}, {x}, saves_nothing,
         [axes](Backward& b) { b.give(0, axes.restore(b.grad()).expand(b.input_shape(0))); });
  return y;
}

// x -> (sum of x_i) / n                                        dx_i = dy / n
Tensor mean(const Tensor& x, const Axes& dims, KeepDim keep) {
  if (x.dtype() == boolean) return mean(x.to(float32), dims, keep);
  ProfileScope scope("mean");
  const Reduced axes("mean", x.shape(), dims);
  const Tensor y = empty(axes.output(keep), x.dtype());
  // Each term is converted to double, because a float32 sum could overflow or lose its digits to
  // cancellation.
  dispatch_floating("mean", x.dtype(), [&]<class T>(TypeTag<T>) {
    reduce_to<T>(
        x, axes, y, [](T v, int64_t) { return static_cast<double>(v); },
        [n = static_cast<double>(axes.count)](double s) { return s / n; });
  });
  record("mean", {y}, {x}, saves_nothing, [axes](Backward& b) {
    // The mean of no elements is NaN; there is no gradient to compute then.
    const Tensor share =
        axes.restore(b.grad()) / static_cast<double>(std::max<int64_t>(axes.count, 1));
    b.give(0, share.expand(b.input_shape(0)));
  });
  return y;
}

namespace {

/// finish(sum of (x_i - mean)^2), summed in double. Each output's first element is subtracted from
/// all of its elements beforehand, so that the result is exactly 0 if they are equal.
template <class Finish>
Tensor of_squared_distances(const char* op, const Tensor& x, const Reduced& axes, KeepDim keep,
                            const Finish& finish) {
  const Tensor y = empty(axes.output(keep), x.dtype()), center = empty(y.shape(), float64);
  Tensor first = x.detach();
  for (int i = 0; i < x.rank(); ++i)
    if (axes.reduced[static_cast<size_t>(i)]) first = first.slice(i, 0, 1);
  first = first.to(float64).contiguous();
  dispatch_floating(op, x.dtype(), [&]<class T>(TypeTag<T>) {
    const double *from = first.data<double>(), *mean = center.data<double>();
    const auto n = static_cast<double>(axes.count);
    reduce_to<T, double>(
        x, axes, center, [from](T v, int64_t k) { return static_cast<double>(v) - from[k]; },
        [n](double s) { return s / n; });
    reduce_to<T>(
        x, axes, y,
        [from, mean](T v, int64_t k) {
          const double centred = (static_cast<double>(v) - from[k]) - mean[k];
          return centred * centred;
        },
        finish);
  });
  return y;
}

/// max(n - correction, 0).
double degrees_of_freedom(const Reduced& axes, int64_t correction) {
  return std::max(static_cast<double>(axes.count) - static_cast<double>(correction), 0.0);
}

}  // namespace

// x -> sum of (x_i - mean)^2 / (n - correction)       dx_i = dy 2 (x_i - mean) / (n - correction)
Tensor var(const Tensor& x, const Axes& dims, int64_t correction, KeepDim keep) {
  ProfileScope scope("var");
  const Reduced axes("var", x.shape(), dims);
  const double divisor = degrees_of_freedom(axes, correction);
  const Tensor y =
      of_squared_distances("var", x, axes, keep, [divisor](double s) { return s / divisor; });
  record("var", {y}, {x}, saves_input(0), [axes, dims, divisor](Backward& b) {
    const Tensor x = b.input(0), dy = axes.restore(b.grad());
    b.give(0, (x - mean(x, dims, keepdim)) * (dy * (axes.count == 0 ? 0 : 2 / divisor)));
  });
  return y;
}

// x -> sqrt(var x)       dx_i = dy (x_i - mean) / (y (n - correction)), 0 where y is 0
Tensor std_dev(const Tensor& x, const Axes& dims, int64_t correction, KeepDim keep) {
  ProfileScope scope("std_dev");
  const Reduced axes("std_dev", x.shape(), dims);
  const double divisor = degrees_of_freedom(axes, correction);
  const Tensor y = of_squared_distances("std_dev", x, axes, keep,
                                        [divisor](double s) { return std::sqrt(s / divisor); });
  record("std_dev", {y}, {x}, {1, 1}, [axes, dims, divisor](Backward& b) {
    // Computed in double, because a deviation much smaller or larger than x would be lost
    // otherwise. Zeros of y are masked before and after the division, so that the division's own
    // gradient is finite. NaN propagates through x - mean.
    const Tensor x = b.input(0).to(float64), y = b.output().to(float64), dy = b.grad().to(float64);
    const Tensor flat = logical_not(gt(y, 0));
    const Tensor ratio = masked_fill(dy / masked_fill(y, flat, 1), flat, 0);
    const double scale = axes.count == 0 ? 0 : 1 / divisor;
    const Tensor dx = (x - mean(x, dims, keepdim)) * (axes.restore(ratio) * scale);
    b.give(0, dx.to(b.grad().dtype()));
  });
  return y;
}

// x -> sqrt(sum of x_i^2)                                      dx_i = dy x_i / y, 0 where y is 0
Tensor norm(const Tensor& x, const Axes& dims, KeepDim keep) {
  ProfileScope scope("norm");
  const Reduced axes("norm", x.shape(), dims);
  const Tensor y = empty(axes.output(keep), x.dtype());
  dispatch_floating("norm", x.dtype(), [&]<class T>(TypeTag<T>) {
    reduce_to<T>(
        x, axes, y, [](T v, int64_t) { return static_cast<double>(v) * static_cast<double>(v); },
        [](double s) { return std::sqrt(s); });
  });
  record("norm", {y}, {x}, saves_inputs_and_output, [axes](Backward& b) {
    const Tensor y = b.output(), is_zero = eq(y, 0);
    // Zeros of y are masked before and after the division, so that its own gradient is finite.
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
  if (std::isinf(top)) {  // top is the result unless there is a NaN, which simd_max skips
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
// (dx is not computed by exp(x_i - y): if the maximum is large, y has rounded the logarithm away)
Tensor logsumexp(const Tensor& x, Axis dim, KeepDim keep) {
  ProfileScope scope("logsumexp");
  const AxisRows rows("logsumexp", x, dim);
  const Tensor y = empty(rows.output(keep), x.dtype());
  dispatch_floating("logsumexp", x.dtype(), [&]<class T>(TypeTag<T>) {
    T* out = y.data<T>();
    rows.for_each<T>([&](const T* row, int64_t i) { out[i] = logsumexp_of(row, rows.n); });
  });
  record("logsumexp", {y}, {x}, saves_inputs, [kept = rows.kept, dim = rows.dim](Backward& b) {
    b.give(0, b.grad().reshape(kept) * softmax(b.input(0), dim));
  });
  return y;
}

// ---- products ----

namespace {

/// A number as mantissa * 2^exponent, so that products neither overflow nor underflow.
struct Scaled {
  double mantissa;  // 0, infinite, NaN or 0.5 <= |mantissa| < 1
  int64_t exponent = 0;

  explicit Scaled(double v) {
    constexpr double least = std::numeric_limits<double>::min();
    int e = 0;  // a denormal number counts as 0, as frexp would flush it
    mantissa = std::abs(v) < least ? v * 0 : std::frexp(v, &e);
    exponent = std::isfinite(v) ? e : 0;
  }
  Scaled operator*(const Scaled& other) const {
    Scaled product(mantissa * other.mantissa);
    product.exponent += exponent + other.exponent;
    return product;
  }
  double value() const {
    return std::ldexp(mantissa, static_cast<int>(std::clamp<int64_t>(exponent, -5000, 5000)));
  }
};

template <class T>
T product_of(const T* x, int64_t n) {
  double p[4] = {1, 1, 1, 1};  // four independent chains of multiplications
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int64_t k = 0; k < 4; ++k) p[k] *= static_cast<double>(x[i + k]);
  for (; i < n; ++i) p[0] *= static_cast<double>(x[i]);
  const double product = (p[0] * p[1]) * (p[2] * p[3]);
  if (std::isnormal(product)) return static_cast<T>(product);
  Scaled exact(1);  // only an intermediate product may have left double's range
  for (i = 0; i < n; ++i) exact = exact * Scaled(static_cast<double>(x[i]));
  return static_cast<T>(exact.value());
}

/// Returns the product of int64 numbers. Its magnitude is computed as an unsigned number, because
/// the magnitude of the smallest int64 does not fit int64.
int64_t product_of(const int64_t* x, int64_t n) {
  if (std::find(x, x + n, 0) != x + n) return 0;
  uint64_t size = 1;
  bool negative = false, overflow = false;
  for (int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<uint64_t>(x[i]);
    negative = negative != (x[i] < 0);
    overflow = __builtin_mul_overflow(size, x[i] < 0 ? -v : v, &size) || overflow;
  }
  overflow = overflow || size > static_cast<uint64_t>(INT64_MAX) + negative;
  check(!overflow, "prod: the int64 product of ", n, " elements overflows");
  return static_cast<int64_t>(negative ? -size : size);
}

/// dx_i = dy * (product of the elements before x_i) * (product of the elements after x_i).
template <class T>
void product_gradient(const T* x, T dy, int64_t n, T* dx) {
  std::vector<Scaled> before(static_cast<size_t>(n), Scaled(1));
  for (int64_t i = 1; i < n; ++i)
    before[static_cast<size_t>(i)] =
        before[static_cast<size_t>(i - 1)] * Scaled(static_cast<double>(x[i - 1]));
  Scaled after(static_cast<double>(dy));
  for (int64_t i = n - 1; i >= 0; --i) {
    dx[i] = static_cast<T>((before[static_cast<size_t>(i)] * after).value());
    after = after * Scaled(static_cast<double>(x[i]));
  }
}

/// Returns the product along dim by repeatedly multiplying the first half with the second. The last
/// of an odd number of elements is kept for the next round.
Tensor prod_composed(const Tensor& x, int dim, const Shape& shape) {
  if (x.size(dim) == 0) return sum(x, dim).reshape(shape) + 1.0;
  Tensor y = x.to(float64);
  for (int64_t n = y.size(dim); n > 1; n = y.size(dim)) {
    const Tensor half = y.slice(dim, 0, n / 2) * y.slice(dim, n / 2, n / 2 * 2);
    y = n % 2 == 0 ? half : cat({half, y.slice(dim, n - 1)}, dim);
  }
  return y.reshape(shape).to(x.dtype());
}

}  // namespace

// y = product of x_i                                           dx_i = dy * product of the others
Tensor prod(const Tensor& x, Axis dim, KeepDim keep) {
  if (x.dtype() == boolean) return prod(x.to(int64), dim, keep);
  ProfileScope scope("prod");
  const AxisRows rows("prod", x, dim);
  const Tensor y = empty(rows.output(keep), x.dtype());
  dispatch_number("prod", x.dtype(), [&]<class T>(TypeTag<T>) {
    T* out = y.data<T>();
    rows.for_each<T>([&](const T* row, int64_t i) { out[i] = product_of(row, rows.n); });
  });
  record_fused(
      "prod", {y}, {x}, saves_nothing,
      [axis = rows.dim, shape = y.shape()](auto& in) { return prod_composed(in[0], axis, shape); },
      [axis = rows.dim](Backward& b) {
        const AxisRows rows("prod", b.input(0), axis);
        const Tensor dx = empty(rows.tensor.shape(), b.grad().dtype());
        const Tensor dy = b.grad().contiguous();
        dispatch_floating("prod", dy.dtype(), [&]<class T>(TypeTag<T>) {
          const T* gradient = dy.data<T>();
          T* out = dx.data<T>();
          rows.for_each<T>([&](const T* row, int64_t i) {
            product_gradient(row, gradient[i], rows.n, out + i * rows.n);
          });
        });
        b.give(0, rows.move_back(dx));
      });
  return y;
}
Tensor prod(const Tensor& x) { return prod(x.reshape({-1}), 0); }

// ---- any and all ----

namespace {
/// finish(number of elements equal to `counted`).
template <class Finish>
Tensor of_count(const char* op, const Tensor& x, const Axes& dims, KeepDim keep, bool counted,
                const Finish& finish) {
  ProfileScope scope(op);
  check(x.dtype() == boolean, op, ": expected a bool tensor, got ", x.dtype());
  const Reduced axes(op, x.shape(), dims);
  const Tensor y = empty(axes.output(keep), boolean);
  reduce_to<bool>(
      x, axes, y, [counted](bool v, int64_t) { return int64_t{v == counted}; }, finish);
  return y;
}
}  // namespace

Tensor any(const Tensor& x, const Axes& dims, KeepDim keep) {
  return of_count("any", x, dims, keep, true, [](int64_t hits) { return hits > 0; });
}
Tensor all(const Tensor& x, const Axes& dims, KeepDim keep) {
  return of_count("all", x, dims, keep, false, [](int64_t misses) { return misses == 0; });
}

}  // namespace gradus
