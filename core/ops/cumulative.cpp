#include "gradus/core/ops/cumulative.h"

#include <atomic>

#include "gradus/core/ops/axis_rows.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/runtime/ceil_div.h"

namespace gradus {

// ---- sums ----

namespace {

/// Computes y_i = x_0 + ... + x_i along dim or, with `reverse`, the sums from the last element down
/// to x_i. Sums in Acc. Returns true if a sum overflowed.
template <class Acc, class X, class Y>
bool add_up(const Tensor& x, int dim, bool reverse, const Tensor& y) {
  constexpr int64_t tile = 256;  // columns summed side by side
  const Blocks blocks(y.shape(), dim);
  const int64_t n = blocks.n, inner = blocks.inner, tiles = ceil_div(inner, tile);
  const X* from = x.data<X>();
  Y* to = y.data<Y>();
  std::atomic<bool> overflow{false};
  const int64_t grain = kernel::reduction_grain / std::max<int64_t>(n * std::min(inner, tile), 1);
  parallel_for_each(blocks.outer * tiles, grain, [&, n](int64_t unit) {
    const int64_t column = unit % tiles * tile, width = std::min(tile, inner - column);
    Acc total[tile];
    std::fill(total, total + width, Acc{});
    bool over = false;
    auto add = [&](int64_t at, Acc& sum) {
      if constexpr (std::is_integral_v<Acc>)
        over = __builtin_add_overflow(sum, Acc{from[at]}, &sum) || over;
      else
        sum += static_cast<Acc>(from[at]);
      to[at] = static_cast<Y>(sum);
    };
    auto place = [&](int64_t i) {
      return (unit / tiles * n + (reverse ? n - 1 - i : i)) * inner + column;
    };
    if (Acc sum{}; width == 1) {
      for (int64_t i = 0; i < n; ++i) add(place(i), sum);
    } else {
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0, at = place(i); j < width; ++j) add(at + j, total[j]);
    }
    if (over) overflow = true;
  });
  return overflow;
}

Tensor running_sum(const Tensor& x, int dim, bool reverse) {
  ProfileScope scope("cumsum");
  const Tensor from = x.detach().contiguous();
  const Tensor y = empty(x.shape(), x.dtype() == boolean ? int64 : x.dtype());
  dispatch_any("cumsum", x.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_floating_point_v<T>)
      add_up<double, T, T>(from, dim, reverse, y);
    else
      check(!add_up<int64_t, T, int64_t>(from, dim, reverse, y), "cumsum: an int64 sum along axis ",
            dim, " of ", x.shape(), " overflows");
  });
  record("cumsum", {y}, {x}, saves_nothing,
         [dim, reverse](Backward& b) { b.give(0, running_sum(b.grad(), dim, !reverse)); });
  return y;
}

}  // namespace

// y_i = x_0 + ... + x_i                                        dx_i = dy_i + dy_i+1 + ...
Tensor cumsum(const Tensor& x, Axis dim) {
  return running_sum(x, normalize_dim("cumsum", dim, x.rank()), false);
}

// ---- products ----

namespace {

/// Computes y_i = x_0 ... x_i. Returns true if a product of int64 overflowed.
template <class T>
bool multiply_up(const T* x, int64_t n, T* y) {
  std::conditional_t<std::is_floating_point_v<T>, double, int64_t> product = 1;
  bool over = false;
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_floating_point_v<T>)
      product *= static_cast<double>(x[i]);
    else
      over = __builtin_mul_overflow(product, x[i], &product) || over;
    y[i] = static_cast<T>(product);
  }
  return over;
}

/// dx_i = x_0 ... x_i-1 s_i, where s_i = dy_i + x_i+1 s_i+1 sums over the products that x_i is in.
/// In double s_i could overflow where a 0 before it makes dx_i 0.
template <class T>
void cumprod_gradient(const T* x, const T* dy, int64_t n, T* dx) {
  using Wide = long double;
  std::vector<Wide> sums(static_cast<size_t>(n));
  Wide sum = 0;
  for (int64_t i = n - 1; i >= 0; --i) {
    sum = static_cast<Wide>(dy[i]) + (i + 1 < n ? static_cast<Wide>(x[i + 1]) * sum : 0);
    sums[static_cast<size_t>(i)] = sum;
  }
  Wide before = 1;
  for (int64_t i = 0; i < n; ++i) {
    dx[i] = static_cast<T>(before * sums[static_cast<size_t>(i)]);
    before *= static_cast<Wide>(x[i]);
  }
}

/// Doubles the number of factors in each product until all are in: Hillis & Steele 1986.
Tensor composed_cumprod(const Tensor& x, int dim) {
  Tensor y = x.to(float64);
  const int64_t n = y.size(dim);
  for (int64_t factors = 1; factors < n; factors *= 2)
    y = cat({y.slice(dim, 0, factors), y.slice(dim, factors) * y.slice(dim, 0, n - factors)}, dim);
  return y.to(x.dtype());
}

/// Gives x the gradient of cumprod along dim.
void give_cumprod(Backward& b, int dim) {
  const AxisRows x("cumprod", b.input(0), dim), dy("cumprod", b.grad(), dim);
  const Tensor dx = empty(x.tensor.shape(), x.tensor.dtype());
  dispatch_floating("cumprod", dx.dtype(), [&]<class T>(TypeTag<T>) {
    const T* gradient = dy.tensor.data<T>();
    T* out = dx.data<T>();
    x.for_each<T>([&](const T* row, int64_t i) {
      cumprod_gradient(row, gradient + i * x.n, x.n, out + i * x.n);
    });
  });
  b.give(0, x.move_back(dx));
}

}  // namespace

// y_i = x_0 ... x_i        dx_i = sum over j >= i of dy_j dy_j/dx_i
Tensor cumprod(const Tensor& x, Axis dim) {
  if (x.dtype() == boolean) return cumprod(x.to(int64), dim);
  ProfileScope scope("cumprod");
  const AxisRows rows("cumprod", x, dim);
  const Tensor products = empty(rows.tensor.shape(), x.dtype());
  dispatch_number("cumprod", x.dtype(), [&]<class T>(TypeTag<T>) {
    T* out = products.data<T>();
    std::atomic<bool> overflow{false};
    rows.for_each<T>([&](const T* row, int64_t i) {
      if (multiply_up(row, rows.n, out + i * rows.n)) overflow = true;
    });
    check(!overflow, "cumprod: an int64 product along axis ", rows.dim, " of ", x.shape(),
          " overflows");
  });
  const Tensor y = rows.move_back(products);
  record_fused(
      "cumprod", {y}, {x}, saves_nothing,
      [d = rows.dim](auto& in) { return composed_cumprod(in[0], d); },
      [d = rows.dim](Backward& b) { give_cumprod(b, d); });
  return y;
}

}  // namespace gradus
