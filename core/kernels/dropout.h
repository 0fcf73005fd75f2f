#pragma once
// Computes the mask of dropout. An element of the mask depends only on the dropout probability, a
// random key and the element's index. The mask is therefore the same however the work is split
// among threads. Backward recomputes it, so it need not be stored.

#include <algorithm>

#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/random.h"

namespace gradus::kernel {

/// Returns the factor by which dropout with probability p scales the elements that it keeps:
/// 1 / (1 - p), or 0 if p = 1.
template <class T>
T kept_scale(double p) {
  return p < 1 ? static_cast<T>(1 / (1 - p)) : T{0};
}

/// Writes the mask of elements [begin, end) for dropout probability p: scale[e - begin] is 0 if
/// element e is dropped, else 1 / (1 - p). Element e is kept if its uniform random number, from
/// word e % 4 of Philox block e / 4, is >= p.
template <class T>
void dropout_scale(RandomKey key, double p, int64_t begin, int64_t end, T* scale) {
  constexpr int64_t blocks = 16;  // Philox blocks in one vector loop
  const T keep = kept_scale<T>(p);
  const auto limit = static_cast<float>(p);
  T buffer[4 * blocks];
  for (int64_t at = begin; at < end;) {
    const int64_t first = at / 4;
    simd_for(blocks, [&buffer, key, keep, limit, first](int64_t i) {
      const auto words = philox(key, static_cast<uint64_t>(first + i));
      for (size_t w = 0; w < 4; ++w)
        buffer[4 * i + static_cast<int64_t>(w)] = uniform_float(words[w]) >= limit ? keep : T{0};
    });
    const int64_t stop = std::min(end, 4 * (first + blocks));
    std::copy(buffer + (at - 4 * first), buffer + (stop - 4 * first), scale + (at - begin));
    at = stop;
  }
}

}  // namespace gradus::kernel
