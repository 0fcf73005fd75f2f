#pragma once
// Elementwise loops over strided, broadcast tensors, used by every pointwise op. Axes that are
// contiguous for all operands are merged, so most calls are one vector loop without index
// arithmetic.

#include <type_traits>

#include "gradus/core/runtime/parallel.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::kernel {

/// Elements per chunk of work: enough to be worth a thread, few enough for a core's L2 cache.
inline constexpr int64_t elementwise_grain = 16384;

/// The nested loops over the elements of N operands. Operand 0 is the output. Operands 1 to N - 1
/// are the inputs, which broadcast to the shape of the output. Axes are merged where the strides of
/// all operands allow it.
template <int N>
struct Walk {
  Shape shape;                   // sizes of the merged axes, at least one
  std::array<Shape, N> strides;  // in elements; 0 where an operand is broadcast
  // Returns the number of iterations of an inner loop.
  int64_t inner() const { return shape.back(); }
  // Returns the number of inner loops, or 0 if the output has no elements.
  int64_t outer() const { return shape.numel() / std::max<int64_t>(inner(), 1); }

  explicit Walk(const std::array<const Tensor*, N>& operands) {
    const Shape& full = operands[0]->shape();
    const int rank = full.size();
    for (int axis = 0; axis < rank; ++axis) {
      if (full[axis] == 1) continue;
      std::array<int64_t, N> s;
      for (size_t k = 0; k < N; ++k) {
        const int own = axis - (rank - operands[k]->rank());
        s[k] = own < 0 || operands[k]->shape()[own] == 1 ? 0 : operands[k]->strides()[own];
      }
      bool merge = !shape.empty();
      for (size_t k = 0; merge && k < N; ++k) merge = strides[k].back() == s[k] * full[axis];
      if (merge) {
        shape.back() *= full[axis];
        for (size_t k = 0; k < N; ++k) strides[k].back() = s[k];
      } else {
        shape.push_back(full[axis]);
        for (size_t k = 0; k < N; ++k) strides[k].push_back(s[k]);
      }
    }
    if (shape.empty()) {
      shape.push_back(1);
      for (auto& s : strides) s.push_back(0);
    }
  }

  /// Returns each operand's offset, in elements, at the start of inner loop `row`.
  std::array<int64_t, N> offsets(int64_t row) const {
    std::array<int64_t, N> at{};
    for (int axis = shape.size() - 2; axis >= 0; --axis) {
      const int64_t i = row % shape[axis];
      row /= shape[axis];
      for (size_t k = 0; k < N; ++k) at[k] += i * strides[k][axis];
    }
    return at;
  }
};

namespace detail {
/// Computes y[i] = f(x[i]...) for i < n, with vector loops for the common strides. sy is the stride
/// of y; each x is a pointer and a stride. [[gnu::flatten]] inlines f, because a call to f would
/// prevent vectorisation.
template <class Y, class F, class... X>
[[gnu::flatten]] void loop(int64_t n, const F& f, Y* y, int64_t sy,
                           std::pair<const X*, int64_t>... x) {
  if (sy == 1 && ((x.second == 1) && ...)) {
    simd_for(n, [=](int64_t i) { y[i] = f(x.first[i]...); });
    return;
  }
  if constexpr (sizeof...(X) == 2) {  // one operand is contiguous, the other is broadcast
    auto [p, q] = std::make_pair(x...);
    if (sy == 1 && p.second == 1 && q.second == 0) {
      simd_for(n, [=, u = p.first, v = *q.first](int64_t i) { y[i] = f(u[i], v); });
      return;
    }
    if (sy == 1 && p.second == 0 && q.second == 1) {
      simd_for(n, [=, u = *p.first, v = q.first](int64_t i) { y[i] = f(u, v[i]); });
      return;
    }
  }
  for (int64_t i = 0; i < n; ++i) y[i * sy] = f(x.first[i * x.second]...);
}

template <class Y, class... X, class F, size_t... I>
void map(std::index_sequence<I...>, const F& f, const Tensor& y,
         const std::array<const Tensor*, sizeof...(X) + 1>& operands) {
  const Walk<sizeof...(X) + 1> walk(operands);
  Y* out = y.data<Y>();
  const std::tuple<const X*...> in{operands[I + 1]->template data<X>()...};
  const int64_t inner = walk.inner(), outer = walk.outer();
  auto run = [&](int64_t row, int64_t begin, int64_t end) {
    const auto at = walk.offsets(row);
    loop<Y, F, X...>(end - begin, f, out + at[0] + begin * walk.strides[0].back(),
                     walk.strides[0].back(),
                     {std::get<I>(in) + at[I + 1] + begin * walk.strides[I + 1].back(),
                      walk.strides[I + 1].back()}...);
  };
  if (outer <= 1) {
    parallel_for(outer * inner, elementwise_grain,
                 [&](int64_t begin, int64_t end) { run(0, begin, end); });
    return;
  }
  parallel_for_each(outer, elementwise_grain / std::max<int64_t>(inner, 1),
                    [&](int64_t row) { run(row, 0, inner); });
}
}  // namespace detail

/// Computes y = f(x...), elementwise. Y and X... are the element types of y and of each x. Each x
/// broadcasts to the shape of y. y may be one of the x, or share memory with an x if corresponding
/// elements have the same addresses. For example:
///   map<float, float, float>(y, a, b, [](float a, float b) { return a + b; });
template <class Y, class... X, class F>
void map(const Tensor& y, const std::conditional_t<true, Tensor, X>&... x, const F& f) {
  detail::map<Y, X...>(std::index_sequence_for<X...>{}, f, y, {&y, &x...});
}

/// The type in which arithmetic on T is done: unsigned for int64, so that overflow wraps around.
template <class T>
using Wrapping = std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, T>;

/// Copies x to y, converted to y's dtype and broadcast to y's shape. Values that are converted to
/// int64 must not be NaN or out of range. Throws Error if a dtype is bfloat16 or int8; the message
/// begins with `op`.
void convert(const char* op, const Tensor& x, const Tensor& y);

}  // namespace gradus::kernel
