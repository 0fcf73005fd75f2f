#pragma once
// What a linear layer does around its matrix product: bias and activation on each tile of the
// output while it is in cache, and the gradient of both in one pass.

#include <algorithm>
#include <cstdint>

#include "gradus/core/kernels/math.h"
#include "gradus/core/parallel.h"

namespace gradus::kernel {

// Activations: the value at pre-activation z and the slope there. GELU's slope is kept for
// backward, since the forward pass has what it is made of at hand; ReLU's is seen from the output.
struct Identity {
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T z) {
    return {z, T{1}};
  }
};
struct Relu {
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T z) {
    return {z > 0 || z != z ? z : T{0}, z > 0 ? T{1} : T{0}};
  }
};
struct GeluErf {
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T z) {
    return gelu_erf_with_slope(z);
  }
};
struct GeluTanh {
  template <class T>
  [[gnu::always_inline]] static ValueAndSlope<T> at(T z) {
    return gelu_tanh_with_slope(z);
  }
};

/// y[j] = act(z(j)) for one row of n and, where `slope` is not null, slope[j] = act' there.
template <class Act, class T, class PreActivation>
void activation_row(int64_t n, T* y, T* slope, PreActivation z) {
  if (slope)
    simd_for(n, [=](int64_t j) {
      const auto [value, derivative] = Act::at(z(j));
      y[j] = value;
      slope[j] = derivative;
    });
  else
    simd_for(n, [=](int64_t j) { y[j] = Act::at(z(j)).value; });
}

/// y = act(y + bias) and, where `slope` is not null, slope = act' there, over a tile of rows at
/// distance `stride`. bias may be null.
template <class Act, class T>
void bias_activation(int64_t rows, int64_t cols, int64_t stride, const T* bias, T* y, T* slope) {
  for (int64_t i = 0; i < rows; ++i, y += stride, slope += slope ? stride : 0) {
    if (bias)
      activation_row<Act>(cols, y, slope, [=](int64_t j) { return y[j] + bias[j]; });
    else
      activation_row<Act>(cols, y, slope, [=](int64_t j) { return y[j]; });
  }
}

/// z += bias and h = act(z) over a tile of rows at distance `stride`. bias may be null.
template <class Act, class T>
void bias_activation_apart(int64_t rows, int64_t cols, int64_t stride, const T* bias, T* z, T* h) {
  for (int64_t i = 0; i < rows; ++i, z += stride, h += stride) {
    if (bias) simd_for(cols, [=](int64_t j) { z[j] += bias[j]; });
    simd_for(cols, [=](int64_t j) { h[j] = Act::at(z[j]).value; });
  }
}

/// dz = dy factor(i, j), and dbias += the sum of dz over the rows, for contiguous rows of n whose
/// elements `factor` numbers through. dbias may be null, dz may be dy.
template <class T, class Factor>
void bias_activation_backward(int64_t rows, int64_t n, const T* dy, T* dz, T* dbias,
                              Factor factor) {
  for (int64_t at = 0; at < rows * n; at += n) {
    if (dbias)
      simd_for(n, [=](int64_t j) {
        const T g = dy[at + j] * factor(at + j);
        dz[at + j] = g;
        dbias[j] += g;
      });
    else
      simd_for(n, [=](int64_t j) { dz[at + j] = dy[at + j] * factor(at + j); });
  }
}

}  // namespace gradus::kernel
