#include "gradus/optim/weight_average.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/optim/chunks.h"
#include "gradus/optim/grad_norm.h"

namespace gradus::optim {

namespace {

constexpr const char* applied_error =
    "WeightAverage: expected no Applied, which swaps the weights and the means, but one exists";

/// Calls body(param, mean, n), which writes the means, for chunks of n elements of each parameter
/// and its mean, on all threads.
void for_each_chunk(const std::vector<Tensor>& params, const std::vector<Tensor>& means,
                    const auto& body) {
  Chunks chunks;
  for (size_t i = 0; i < params.size(); ++i) {
    check(params[i].dtype() == means[i].dtype(), "WeightAverage: parameter ", i, " has become ",
          params[i].dtype());
    chunks.add(params[i].numel());
  }
  for (const Tensor& mean : means) begin_in_place("WeightAverage", mean);
  parallel_for_each(chunks.count(), 1, [&](int64_t c) {
    const std::pair<size_t, int64_t> at = chunks[c];
    const Tensor &param = params[at.first], &mean = means[at.first];
    const int64_t n = std::min(Chunks::grain, param.numel() - at.second);
    dispatch_floating("WeightAverage", param.dtype(), [&]<class T>(TypeTag<T>) {
      body(param.data<T>() + at.second, mean.data<T>() + at.second, n);
    });
  });
}

}  // namespace

WeightAverage::WeightAverage(std::vector<Tensor> params, double decay)
    : params_(std::move(params)), decay_(decay) {
  check(decay >= 0 && decay < 1, "WeightAverage: expected 0 <= decay < 1, got ", decay);
  std::erase_if(params_, [](const Tensor& p) { return p.defined() && is_compressed(p.dtype()); });
  const NoGrad no_grad;
  for (size_t i = 0; i < params_.size(); ++i) {
    const Tensor& p = params_[i];
    check(p.defined() && is_floating(p.dtype()) && p.is_contiguous(), "WeightAverage: parameter ",
          i, ": expected a contiguous tensor of float32 or float64");
    means_.push_back(p.detach().clone());
  }
  internal::check_apart("WeightAverage", params_);
}

void WeightAverage::update() {
  check(!applied_, applied_error);
  const NoGrad no_grad;
  const double t = static_cast<double>(updates_ + 1), decay = std::min(decay_, t / (9 + t));
  for_each_chunk(params_, means_, [=]<class T>(const T* param, T* mean, int64_t n) {
    const T keep = static_cast<T>(decay), rest = static_cast<T>(1 - decay);
    if (decay < 0.1)  // the other form would keep the rounding error of a large mean
      simd_for(n, [=](int64_t i) { mean[i] = keep * mean[i] + rest * param[i]; });
    else
      simd_for(n, [=](int64_t i) { mean[i] += rest * (param[i] - mean[i]); });
  });
  ++updates_;
}

void WeightAverage::exchange(bool apply) {
  check(!(apply && applied_), applied_error);
  const NoGrad no_grad;
  for (const Tensor& p : params_) begin_in_place("WeightAverage", p);
  for_each_chunk(params_, means_, []<class T>(T* param, T* mean, int64_t n) {
    for (int64_t i = 0; i < n; ++i) std::swap(param[i], mean[i]);
  });
  applied_ = apply;
}

NamedTensors WeightAverage::state_dict() const {
  check(!applied_, applied_error);
  NamedTensors state{{"updates", from_data(std::vector<int64_t>{updates_}, {1})}};
  for (size_t i = 0; i < means_.size(); ++i)
    state.emplace_back("mean." + std::to_string(i), means_[i]);
  return state;
}

void WeightAverage::load_state_dict(const NamedTensors& state) {
  internal::check_counts("WeightAverage", state, "updates");
  NamedTensors own = state_dict();
  load_named("WeightAverage", own, state);
  updates_ = own.front().second.data<int64_t>()[0];
}

}  // namespace gradus::optim
