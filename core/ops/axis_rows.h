#pragma once
// Rearranges a tensor so that its elements along one axis are contiguous rows. Internal to core,
// for ops that work along an axis.

#include "gradus/core/kernels/reduction.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::core {

/// A shape flattened to three axes, (outer, n, inner): n is the size of axis `dim`, and outer and
/// inner are the products of the sizes before and after `dim`.
struct Blocks {
  int64_t outer = 1, n, inner = 1;
  Blocks(const Shape& shape, int dim) : n(shape[dim]) {
    for (int i = 0; i < dim; ++i) outer *= shape[i];
    for (int i = dim + 1; i < shape.size(); ++i) inner *= shape[i];
  }
};

/// The elements of a tensor x, detached, as a contiguous tensor with axis `dim` moved to the end:
/// `rows` rows of n elements.
struct AxisRows {
  Tensor tensor;
  int dim;
  int64_t rows, n;
  Shape shape, kept;  // x's shape, and x's shape with size 1 along dim

  AxisRows(const char* op, const Tensor& x, int64_t axis)
      : dim(normalize_dim(op, axis, x.rank())), n(x.shape()[dim]), shape(x.shape()), kept(shape) {
    Shape order;
    for (int i = 0; i < x.rank(); ++i)
      if (i != dim) order.push_back(i);
    order.push_back(dim);
    tensor = x.detach().permute(order).contiguous();
    kept[dim] = 1;
    rows = kept.numel();
  }
  Shape output(KeepDim keep) const { return keep.on ? kept : kept.without(dim); }
  /// Returns the shape of `tensor`, but with k elements per row.
  Shape rows_of(int64_t k) const { return tensor.shape().with(-1, k); }
  /// Returns y as a contiguous tensor with its last axis moved back to position `dim`. y must have
  /// the shape of `tensor`, but its last axis may have any size.
  Tensor move_back(const Tensor& y) const {
    Shape order;
    for (int i = 0; i + 1 < y.rank(); ++i) order.push_back(i);
    order.insert(dim, y.rank() - 1);
    return y.permute(order).contiguous();
  }
  /// Calls body(row, i) for each i in [0, rows), in parallel. `row` points to the elements of
  /// row i.
  template <class T, class Body>
  void for_each(const Body& body) const {
    const T* x = tensor.data<T>();
    const int64_t grain = kernel::reduction_grain / std::max<int64_t>(n, 1);
    parallel_for_each(rows, grain, [&, this](int64_t row) { body(x + row * n, row); });
  }
};

}  // namespace gradus::core
