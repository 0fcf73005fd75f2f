#pragma once
// Memory that the backward rule of a fused op may overwrite instead of allocating. Rules written
// with ops do not need these functions.

#include "gradus/core/tensor/autograd.h"

namespace gradus::internal {

/// Returns the buffer in which the gradient of the i-th input is being summed, if a kernel may add
/// to it directly: the buffer exists, is contiguous, has no other owner, and no graph is being
/// recorded. Otherwise returns an undefined tensor, and the rule must compute the gradient and
/// give() it. Like the functions below, throws Error if the op has no i-th input or output.
Tensor sum_in_place(const core::Backward& back, int i);

/// Passes the saved tensor of the i-th input to the caller, who may overwrite its storage. Returns
/// an undefined tensor unless the graph is being freed and the storage has no other owner.
Tensor take_input(const core::Backward& back, int i);

/// Passes the gradient of the i-th output to the caller, who may overwrite it if is_sole_owner() is
/// true.
Tensor take_grad(const core::Backward& back, int i = 0);

/// Returns x detached and contiguous, for a kernel; undefined if x is undefined.
inline Tensor dense(const Tensor& x) { return x.defined() ? x.detach().contiguous() : x; }

/// Returns a pointer to the first element, or null if x is undefined.
template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

}  // namespace gradus::internal
