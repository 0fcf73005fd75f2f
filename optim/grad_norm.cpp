#include "gradus/optim/grad_norm.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/profiler.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/optim/chunks.h"

namespace gradus::optim {

double internal::norm_of(const std::vector<Tensor>& gradients) {
  ProfileScope scope("grad_norm");
  Chunks chunks;
  for (const Tensor& g : gradients) chunks.add(g.numel());
  return std::sqrt(parallel_sum<double>(chunks.count(), 1, [&](int64_t c, int64_t) {
    const std::pair<size_t, int64_t> at = chunks[c];
    const Tensor& gradient = gradients[at.first];
    const int64_t n = std::min(Chunks::grain, gradient.numel() - at.second);
    return dispatch_floating("grad_norm", gradient.dtype(), [&]<class T>(TypeTag<T>) {
      const T* g = gradient.data<T>() + at.second;
      return simd_sum<double>(
          n, [=](int64_t i) { return static_cast<double>(g[i]) * static_cast<double>(g[i]); });
    });
  }));
}

double internal::clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor < 1 || std::isnan(factor) ? factor : 1;
}

void internal::check_max_norm(const char* op, double max_norm) {
  check(max_norm > 0, op, ": expected a maximum gradient norm > 0, got ", max_norm);
}

void internal::check_eps(const char* op, double eps) {
  check(eps >= 0 && std::isfinite(eps), op, ": expected a finite eps >= 0, got ", eps);
}

void internal::check_apart(const char* op, const std::vector<Tensor>& params) {
  for (size_t i = 0; i < params.size(); ++i)
    for (size_t k = 0; k < i; ++k) {
      const TensorImpl &a = params[i].impl(), &b = params[k].impl();
      const bool apart = a.storage != b.storage || a.offset >= b.offset + b.shape.numel() ||
                         b.offset >= a.offset + a.shape.numel();
      check(&a != &b && apart, op, ": parameter ", i, " of shape ", a.shape,
            &a == &b ? " is listed twice, first as" : " shares memory with", " parameter ", k,
            " of shape ", b.shape);
    }
}

void internal::check_counts(const char* op, const NamedTensors& state, const std::string& name) {
  for (const auto& [key, tensor] : state)
    if (('.' + key).ends_with('.' + name) && tensor.defined() && tensor.dtype() == int64)
      for (const int64_t n : tensor.to_vector<int64_t>())
        check(n >= 0 && n <= int64_t{1} << 53, op, ": expected counts from 0 to 2^53 in ", key,
              ", got ", n);
}

double grad_norm(const std::vector<Tensor>& params) {
  NoGrad no_grad;
  std::vector<Tensor> gradients;
  for (const Tensor& p : params)
    if (Tensor g = p.grad(); g.defined()) gradients.push_back(g.contiguous());
  return internal::norm_of(gradients);
}

double clip_grad_norm(const std::vector<Tensor>& params, double max_norm) {
  internal::check_max_norm("clip_grad_norm", max_norm);
  NoGrad no_grad;
  const double norm = grad_norm(params);
  const double factor = internal::clip_factor(norm, max_norm);
  if (factor == 1) return norm;
  // Parameters may share a gradient tensor (a sum passes the same one to both terms), so each
  // gradient is replaced, not scaled in place.
  std::vector<Tensor> scaled;
  for (const Tensor& p : params)
    scaled.push_back(p.grad().defined() ? p.grad() * factor : Tensor());
  for (size_t i = 0; i < params.size(); ++i) params[i].set_grad(scaled[i]);
  return norm;
}

}  // namespace gradus::optim
