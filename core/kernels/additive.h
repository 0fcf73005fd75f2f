#pragma once
// Additive attention's scores: nothing of size Tq x Tk x H is ever stored.

#include <algorithm>
#include <cstdint>

#include "gradus/core/allocator.h"
#include "gradus/core/kernels/math.h"
#include "gradus/core/kernels/partials.h"
#include "gradus/core/parallel.h"

namespace gradus::kernel {

struct AdditiveSizes {
  int64_t batch, queries, keys, hidden;
};

/// scores (batch, queries, keys): sum over h of v_h tanh(q_h + k_h).
template <class T>
void additive_scores(const AdditiveSizes& n, const T* q, const T* k, const T* v, T* scores) {
  const int64_t H = n.hidden, grain = (1 << 14) / (n.keys * H + 1) + 1;
  parallel_for(n.batch * n.queries, grain, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t j = 0; j < n.keys; ++j) {
        const T *a = q + row * H, *b = k + (row / n.queries * n.keys + j) * H;
        scores[row * n.keys + j] =
            static_cast<T>(blocked_sum<T>(H, [=](int64_t h) { return v[h] * tanh(a[h] + b[h]); }));
      }
  });
}

/// The gradients of q, k and v from d, that of the scores; written, each may be null. Threads share
/// the work by batch entry and by units of H, whose sums are their own.
template <class T>
void additive_scores_backward(const AdditiveSizes& n, const T* q, const T* k, const T* v,
                              const T* d, T* dq, T* dk, T* dv) {
  constexpr int64_t most = 128;  // units at a time
  const int64_t H = n.hidden, blocks = (H + most - 1) / most;
  const Scratch<T> partials(dv ? n.batch * H : 0);  // of dv: (batch, H)
  T* const sums = dv ? partials.data() : nullptr;
  parallel_for(n.batch * blocks, 1, [=](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t b = part / blocks, from = part % blocks * most, m = std::min(most, H - from);
      T all_keys[most] = {}, none[most] = {};
      T of_query[most], of_v[most];
      for (int64_t j = 0; dk && j < n.keys; ++j)
        std::fill_n(dk + (b * n.keys + j) * H + from, m, T{0});
      for (int64_t i = b * n.queries; i < (b + 1) * n.queries; ++i) {
        std::fill_n(of_query, m, T{0});
        std::fill_n(of_v, m, T{0});
        for (int64_t j = 0; j < n.keys; ++j) {
          const int64_t key = (b * n.keys + j) * H + from;
          T* const of_key = dk ? dk + key : none;
          simd_for(
              m, [
                =, ds = d[i * n.keys + j], qi = q + i * H + from, kj = k + key, vh = v + from,
                query = &of_query[0], value = &of_v[0]
              ](int64_t h) __attribute__((always_inline)) {
                const T t = tanh(qi[h] + kj[h]), g = ds * vh[h] * (1 - t * t);
                query[h] += g;
                of_key[h] += g;
                value[h] += ds * t;
              });
        }
        if (dq) std::copy_n(of_query, m, dq + i * H + from);
        for (int64_t h = 0; h < m; ++h) all_keys[h] += of_v[h];
      }
      if (sums) std::copy_n(all_keys, m, sums + b * H + from);
    }
  });
  if (dv) add_partials(sums, n.batch, H, dv);
}

}  // namespace gradus::kernel
