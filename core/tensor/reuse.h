#pragma once
// Functions with which a backward rule overwrites existing memory instead of allocating new memory.
// Rules written with ops can do without them.

#include "gradus/core/tensor/autograd.h"

namespace gradus::internal {

/// Returns the buffer in which the gradient of the i-th input is being summed, if a kernel may add
/// to it directly: needs(i) is true, the buffer exists, is contiguous and has no other owner, no
/// graph is being recorded, and under AnomalyMode the buffer's elements are finite. Otherwise
/// returns an undefined tensor, and the rule must give() the gradient if needs(i) is true. Throws
/// Error if the op has no i-th input.
Tensor sum_in_place(const core::Backward& back, int i);

/// Returns the saved i-th input and removes it from the graph, so the caller may overwrite it.
/// Returns an undefined tensor if the pass keeps the graph or if the input's storage has another
/// owner. Throws Error in the same cases as Backward::input().
Tensor take_input(const core::Backward& back, int i);

/// Returns the gradient of the i-th output and removes it from the pass. The caller may overwrite
/// it if it is contiguous and is_sole_owner() is true. Throws Error if the op has no i-th output.
Tensor take_grad(const core::Backward& back, int i = 0);

/// Returns x detached and contiguous, for a kernel; undefined if x is undefined.
inline Tensor dense(const Tensor& x) { return x.defined() ? x.detach().contiguous() : x; }

/// Returns a pointer to the first element, or null if x is undefined.
template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

}  // namespace gradus::internal
