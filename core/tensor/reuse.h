#pragma once
// Memory that a backward rule which calls kernels may overwrite instead of allocating. A rule
// written with ops needs none of this.

#include "gradus/core/tensor/autograd.h"

namespace gradus::internal {

/// Returns the buffer in which the i-th input's gradient is being summed if a kernel may add to it
/// directly: it exists, is contiguous, has no other owner, and no graph is being recorded.
/// Otherwise returns an undefined tensor, and the rule must compute the gradient and give() it.
/// Like the functions below, throws Error if the op has no i-th input or output.
Tensor sum_in_place(const core::Backward& back, int i);

/// Releases the i-th input's saved tensor to the caller, who may overwrite its storage. Returns an
/// undefined tensor unless the graph is being freed and the storage has no other owner.
Tensor take_input(const core::Backward& back, int i);

/// Releases the gradient of the i-th output to the caller, who may overwrite it if it
/// is_sole_owner().
Tensor take_grad(const core::Backward& back, int i = 0);

/// Returns x detached and contiguous, for a kernel; undefined if x is undefined.
inline Tensor dense(const Tensor& x) { return x.defined() ? x.detach().contiguous() : x; }

/// Pointer to the first element, or null if x is undefined.
template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

}  // namespace gradus::internal
