#pragma once
// Iterates over several strided arrays of the same shape in row-major order.

#include "gradus/core/tensor/shape.h"

namespace gradus::internal {

/// Steps through N arrays of shape `sizes` together, in row-major order. offset[k] is the position
/// of the current element in array k, whose strides are *strides[k]. `sizes` and these strides must
/// outlive the odometer. This example copies x to y:
///   Odometer<2> at(shape, {&x_strides, &y_strides});
///   for (int64_t i = 0; i < shape.numel(); ++i, at.next()) y[at.offset[1]] = x[at.offset[0]];
template <int N>
class Odometer {
 public:
  std::array<int64_t, N> offset{};

  /// Starts at the element with row-major index `start`.
  Odometer(const Shape& sizes, const std::array<const Shape*, N>& strides, int64_t start = 0)
      : sizes_(sizes), strides_(strides) {
    for (int axis = sizes.size() - 1; axis >= 0 && start > 0; --axis) {
      index_[static_cast<size_t>(axis)] = start % sizes[axis];
      start /= sizes[axis];
      move(axis, index_[static_cast<size_t>(axis)]);
    }
  }

  /// Moves to the next element, or from the last element back to the first.
  void next() {
    for (int axis = sizes_.size() - 1; axis >= 0; --axis) {
      int64_t& i = index_[static_cast<size_t>(axis)];
      move(axis, 1);
      if (++i < sizes_[axis]) return;
      move(axis, -i);
      i = 0;
    }
  }

 private:
  void move(int axis, int64_t steps) {
    for (size_t k = 0; k < N; ++k) offset[k] += steps * (*strides_[k])[axis];
  }

  const Shape& sizes_;
  std::array<const Shape*, N> strides_;
  std::array<int64_t, max_rank> index_{};
};

}  // namespace gradus::internal
