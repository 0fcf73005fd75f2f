// Tensor methods that call the op of the same name.

#include "gradus/core/internal.h"
#include "gradus/core/ops/activation.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/reduction.h"

namespace gradus {

Tensor Tensor::operator[](const Tensor& index) const {
  check(rank() >= 1, "[]: a tensor of rank 0 has no first axis");
  Shape sizes = index.shape();
  for (int i = 1; i < rank(); ++i) sizes.push_back(shape()[i]);
  return index_select(*this, 0, index.reshape({index.numel()})).reshape(sizes);
}
Tensor Tensor::sum(const Axes& dims, KeepDim keep) const { return gradus::sum(*this, dims, keep); }
Tensor Tensor::mean(const Axes& dims, KeepDim keep) const {
  return gradus::mean(*this, dims, keep);
}
Tensor Tensor::var(const Axes& dims, int64_t correction, KeepDim keep) const {
  return gradus::var(*this, dims, correction, keep);
}
Tensor Tensor::norm(const Axes& dims, KeepDim keep) const {
  return gradus::norm(*this, dims, keep);
}
Tensor Tensor::max() const { return gradus::max(*this); }
Tensor Tensor::min() const { return gradus::min(*this); }
ValuesAndIndices Tensor::max(Axis dim, KeepDim keep) const { return gradus::max(*this, dim, keep); }
ValuesAndIndices Tensor::min(Axis dim, KeepDim keep) const { return gradus::min(*this, dim, keep); }
Tensor Tensor::argmax() const { return gradus::argmax(*this); }
Tensor Tensor::argmax(Axis dim, KeepDim keep) const { return gradus::argmax(*this, dim, keep); }
Tensor Tensor::exp() const { return gradus::exp(*this); }
Tensor Tensor::log() const { return gradus::log(*this); }
Tensor Tensor::sqrt() const { return gradus::sqrt(*this); }
Tensor Tensor::abs() const { return gradus::abs(*this); }
Tensor Tensor::pow(double exponent) const { return gradus::pow(*this, exponent); }
Tensor Tensor::pow(const Tensor& exponent) const { return gradus::pow(*this, exponent); }
Tensor Tensor::tanh() const { return gradus::tanh(*this); }
Tensor Tensor::sigmoid() const { return gradus::sigmoid(*this); }
Tensor Tensor::relu() const { return gradus::relu(*this); }
Tensor Tensor::softmax(int64_t dim) const { return gradus::softmax(*this, dim); }
Tensor Tensor::log_softmax(int64_t dim) const { return gradus::log_softmax(*this, dim); }
Tensor Tensor::matmul(const Tensor& other) const { return gradus::matmul(*this, other); }
Tensor Tensor::clamp(double low, double high) const { return gradus::clamp(*this, low, high); }
Tensor Tensor::masked_fill(const Tensor& mask, double value) const {
  return gradus::masked_fill(*this, mask, value);
}

}  // namespace gradus
