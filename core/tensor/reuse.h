#pragma once
// Functions with which a backward rule overwrites existing memory instead of allocating new memory.
// Rules that only call ops do not need these functions.

#include "gradus/core/tensor/autograd.h"

namespace gradus::internal {

/// Returns the tensor in which the gradient of the i-th input is being summed, so that a kernel can
/// add to it directly. Throws Error if the op has no i-th input. Returns an undefined tensor if
/// - back.needs(i) is false, or nothing has been added to the gradient yet,
/// - the tensor is not contiguous, or something else refers to its storage,
/// - the backward pass records a graph, or
/// - the tensor contains a NaN or an infinity, in AnomalyMode.
///
/// If the result is undefined and back.needs(i) is true, the rule must call back.give() instead.
Tensor sum_in_place(const core::Backward& back, int i);

/// Returns the saved i-th input and drops the graph's reference to it, so that the caller may
/// overwrite the input. Returns an undefined tensor if the backward pass retains the graph, or if
/// something other than the op's node refers to the input's storage. Throws Error if the input was
/// not saved or was changed in place after the op.
Tensor take_input(const core::Backward& back, int i);

/// Returns the gradient of the i-th output, or zeros if the output received none. The engine gives
/// up its reference to the gradient. The caller may overwrite the result if it is contiguous and
/// its is_sole_owner() returns true. Throws Error if the op has no i-th output.
Tensor take_grad(const core::Backward& back, int i = 0);

/// Returns x as a detached, contiguous tensor, or an undefined tensor if x is undefined.
inline Tensor dense(const Tensor& x) { return x.defined() ? x.detach().contiguous() : x; }

/// Returns a pointer to x's first element, or null if x is undefined.
template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

}  // namespace gradus::internal
