#pragma once
// For rules that are made of kernels: memory that they may write to instead of setting some aside.
// A rule written with ops needs none of this.

#include "gradus/core/tensor/autograd.h"

namespace gradus::core {

/// The buffer in which the i-th input's gradient is being summed, if a kernel may add straight into
/// it: it exists, is contiguous, nobody else holds it, no graph is being recorded and AnomalyMode
/// is off. Else undefined: then compute the gradient and give() it. Throws Error, as all of these,
/// where the op has no i-th input or output.
Tensor sum_in_place(const Backward& back, int i);

/// The i-th input's saved tensor, given away: its storage may be overwritten. Undefined unless the
/// graph is being freed and nobody else holds the storage.
Tensor take_input(const Backward& back, int i);

/// The gradient of the i-th output, given away: if the result's is_sole_owner(), it may be
/// overwritten.
Tensor take_grad(const Backward& back, int i = 0);

/// x's numbers for a kernel: outside the graph and contiguous; undefined where x is.
inline Tensor dense(const Tensor& x) { return x.defined() ? x.detach().contiguous() : x; }

/// A tensor's numbers, or null where it is undefined.
template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

}  // namespace gradus::core
