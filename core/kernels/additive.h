#pragma once
// Computes the scores of additive attention, and their gradients, without storing a tensor of shape
// (batch, queries, keys, hidden). The composed form, written with basic ops, is composed_scores in
// core/ops/additive.cpp. It stores three tensors of that shape and keeps one of them for backward.

#include "gradus/core/kernels/math.h"
#include "gradus/core/kernels/partials.h"
#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/ceil_div.h"

namespace gradus::kernel {

struct AdditiveSizes {
  int64_t batch, queries, keys, hidden;
};

/// Writes scores[b, i, j] = sum over h of v[h] tanh(q[b, i, h] + k[b, j, h]), for q (batch,
/// queries, hidden), k (batch, keys, hidden) and v (hidden).
template <class T>
void additive_scores(const AdditiveSizes& n, const T* q, const T* k, const T* v, T* scores) {
  const int64_t H = n.hidden, grain = (1 << 14) / (n.keys * H + 1) + 1;
  parallel_for_each(n.batch * n.queries, grain, [=](int64_t row) {
    for (int64_t j = 0; j < n.keys; ++j) {
      const T *a = q + row * H, *b = k + (row / n.queries * n.keys + j) * H;
      scores[row * n.keys + j] =
          static_cast<T>(blocked_sum<T>(H, [=](int64_t h) { return v[h] * tanh(a[h] + b[h]); }));
    }
  });
}

/// Overwrites dq, dk and dv with the gradients of q, k and v, where d is the gradient of the
/// scores. A parallel task handles one batch entry and one block of hidden units. It writes its own
/// elements of dq and dk, and a partial sum of dv. At the end the partial sums are added up.
// Long parameter list: one parameter per array of the formula.
template <class T>
void additive_scores_backward(const AdditiveSizes& n, const T* q, const T* k, const T* v,
                              const T* d, T* dq, T* dk, T* dv) {
  constexpr int64_t most = 128;  // hidden units in a block
  const int64_t H = n.hidden, blocks = internal::ceil_div(H, most);
  const Scratch<T> partials(n.batch * H);  // partial sums of dv: (batch, H)
  std::fill_n(dq, n.batch * n.queries * H, T{0});
  std::fill_n(dk, n.batch * n.keys * H, T{0});
  parallel_for_each(n.batch * blocks, 1, [&](int64_t part) {
    const int64_t b = part / blocks, from = part % blocks * most, m = std::min(most, H - from);
    T of_all[most] = {};
    for (int64_t i = b * n.queries; i < (b + 1) * n.queries; ++i) {
      T of_row[most] = {};
      for (int64_t j = 0; j < n.keys; ++j) {
        const T ds = d[i * n.keys + j], *qi = q + i * H + from, *vh = v + from;
        const int64_t key = (b * n.keys + j) * H + from;
        simd_for(
            m, [ =, kj = k + key, dqi = dq + i * H + from, dkj = dk + key,
                 sum = &of_row[0] ](int64_t h) __attribute__((always_inline)) {
              const T t = tanh(qi[h] + kj[h]), g = ds * vh[h] * (1 - t * t);
              dqi[h] += g;
              dkj[h] += g;
              sum[h] += ds * t;
            });
      }
      for (int64_t h = 0; h < m; ++h) of_all[h] += of_row[h];
    }
    std::copy_n(of_all, m, partials.data() + b * H + from);
  });
  add_partials(partials.data(), n.batch, H, dv);
}

}  // namespace gradus::kernel
