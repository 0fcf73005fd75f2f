#pragma once
// Compares tensors bit for bit.

#include <cstring>

#include "gradus/core/tensor/tensor.h"

/// Returns whether two tensors have the same shape, dtype and bits, or are both undefined. Elements
/// of bfloat16 and int8 are compared after conversion to float32.
inline bool same_bits(const gradus::Tensor& a, const gradus::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  if (gradus::is_compressed(a.dtype()))
    return same_bits(a.to(gradus::float32), b.to(gradus::float32));
  const gradus::Tensor x = a.detach().contiguous(), y = b.detach().contiguous();
  const auto bytes = static_cast<size_t>(x.numel() * gradus::size_of(x.dtype()));
  return gradus::dispatch_any("same_bits", x.dtype(), [&]<class T>(gradus::TypeTag<T>) {
    return bytes == 0 || std::memcmp(x.data<T>(), y.data<T>(), bytes) == 0;
  });
}
