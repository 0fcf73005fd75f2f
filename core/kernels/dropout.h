#pragma once
// The mask of dropout. An element's value depends only on the dropout probability, a random key and
// the element's index. The mask is therefore the same however the work is split among threads, and
// backward recomputes it, so that it need not be stored.

#include <algorithm>

#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/random.h"

namespace gradus::kernel {

/// Writes scale[e - begin] = 0 if dropout drops element e, else 1 / (1 - p), for e in [begin, end).
/// Element e uses word e % 4 of Philox block e / 4 and is kept if its uniform number is >= p.
template <class T>
void dropout_scale(RandomKey key, double p, int64_t begin, int64_t end, T* scale) {
  constexpr int64_t blocks = 16;  // Philox blocks in one vector loop
  const T keep = p < 1 ? static_cast<T>(1 / (1 - p)) : T{0};
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
