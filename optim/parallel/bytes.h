#pragma once
// Accesses the elements of a tensor as bytes, to exchange them with other ranks.

#include <span>

#include "gradus/core/internal.h"

namespace gradus::internal {

/// Returns the bytes of a contiguous tensor of float32, float64 or int64.
inline std::span<std::byte> bytes_of(const Tensor& t) {
  const auto n = static_cast<size_t>(t.numel());
  if (t.dtype() == int64) return std::as_writable_bytes(std::span(t.data<int64_t>(), n));
  return dispatch_floating("bytes_of", t.dtype(), [&]<class T>(TypeTag<T>) {
    return std::as_writable_bytes(std::span(t.data<T>(), n));
  });
}

}  // namespace gradus::internal
