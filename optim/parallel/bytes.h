#pragma once
// Accesses the memory of a tensor as bytes, to exchange it with other ranks.

#include <span>

#include "gradus/core/tensor/autograd.h"

namespace gradus::internal {

/// Returns the memory of a contiguous tensor's elements. For int8, the scales are not included.
inline std::span<std::byte> bytes_of(const Tensor& t) {
  const int64_t size = size_of(t.dtype());
  if (t.numel() == 0) return {};
  return {t.impl().storage->data() + t.impl().offset * size, static_cast<size_t>(t.numel() * size)};
}

/// Calls f(bytes) with the memory of a contiguous tensor's elements. If the tensor is int8, also
/// calls f with the memory of its scales.
template <class F>
void for_memory_of(const Tensor& t, F f) {
  f(bytes_of(t));
  if (t.dtype() == int8) f(bytes_of(t.impl().scales));
}

}  // namespace gradus::internal
