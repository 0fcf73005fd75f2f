#include "gradus/nn/convolution.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/nn/loading.h"

namespace gradus::nn {

namespace {
/// Returns channels / groups. Throws Error unless `groups` divides `in` and `out`.
int64_t per_group(const char* layer, int64_t channels, int64_t in, int64_t out, int64_t groups) {
  check(groups >= 1 && in >= 1 && in % groups == 0 && out % groups == 0, layer,
        ": groups must divide the channels: in ", in, ", out ", out, ", groups ", groups);
  return channels / groups;
}

/// Returns the initialiser that PyTorch uses for the bias of a layer with this weight.
Initialiser uniform_for(const Tensor& weight) {
  return init::uniform_fan_in(weight.numel() / weight.size(0));
}
}  // namespace

Conv2d::Conv2d(int64_t in, int64_t out, Size2d kernel, const Conv2dLayerOptions& o)
    : weight(param("weight",
                   {out, per_group("Conv2d", in, in, out, o.groups), kernel.height, kernel.width},
                   init::kaiming_uniform())),
      bias(o.bias ? param("bias", {out}, uniform_for(weight)) : Tensor()),
      options{o.stride, o.padding, o.dilation, o.groups} {
  if (o.hidden) hidden_weight(weight);
}

Conv1d::Conv1d(int64_t in, int64_t out, int64_t kernel, const Conv1dLayerOptions& o)
    : weight(param("weight", {out, per_group("Conv1d", in, in, out, o.groups), kernel},
                   init::kaiming_uniform())),
      bias(o.bias ? param("bias", {out}, uniform_for(weight)) : Tensor()),
      options{o.stride, o.padding, o.dilation, o.groups} {
  if (o.hidden) hidden_weight(weight);
}

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, Size2d kernel,
                                 const ConvTranspose2dLayerOptions& o)
    : weight(param(
          "weight",
          {in, per_group("ConvTranspose2d", out, in, out, o.groups), kernel.height, kernel.width},
          init::kaiming_uniform())),
      bias(o.bias ? param("bias", {out}, uniform_for(weight)) : Tensor()),
      options{o.stride, o.padding, o.output_padding, o.groups, o.dilation} {
  if (o.hidden) hidden_weight(weight);
}

void Conv2d::initialise_for_relu() {
  initialise([](const std::string& name, const Tensor& p) {
    if (name == "weight")
      p.copy_(init::kaiming_normal(p.shape()));
    else
      p.zero_();
  });
}

BatchNorm::BatchNorm(int64_t channels, const BatchNormOptions& o)
    : weight(o.affine ? param("weight", {channels}, 1) : Tensor()),
      bias(o.affine ? param("bias", {channels}, 0) : Tensor()),
      running_mean(buffer("running_mean", zeros(checked_sizes("BatchNorm", {channels})))),
      running_var(buffer("running_var", ones({channels}))),
      eps(o.eps),
      momentum(o.momentum) {
  check(eps >= 0 && momentum >= 0 && momentum <= 1,
        "BatchNorm: expected eps >= 0 and a momentum from 0 to 1, got ", eps, " and ", momentum);
}

Tensor BatchNorm::operator()(const Tensor& x) const {
  const int64_t channels = running_mean.size(0);
  check(x.rank() >= 2 && x.size(1) == channels && x.dtype() == running_mean.dtype(),
        "BatchNorm: expected ", running_mean.dtype(), " (N, C, ...) with C = ", channels, ", got ",
        x.dtype(), " ", x.shape());
  if (!is_training()) return batch_norm_by(running_mean, running_var, x, weight, bias, eps);
  const BatchNormOutput out = batch_norm(x, weight, bias, eps);
  if (x.numel() == 0 || recomputing()) return out.y;
  const NoGrad no_grad;
  const auto count = static_cast<double>(x.numel() / channels);
  running_mean.mul_(1 - momentum).add_(out.mean, momentum);
  running_var.mul_(1 - momentum).add_(out.var, momentum * count / (count - 1));
  return out.y;
}

GroupNorm::GroupNorm(int64_t groups_, int64_t channels, double eps_)
    : weight(param("weight", {channels}, 1)),
      bias(param("bias", {channels}, 0)),
      groups(groups_),
      eps(eps_) {
  check(groups >= 1 && channels % groups == 0 && eps >= 0,
        "GroupNorm: groups must divide channels and eps be >= 0: channels ", channels, ", groups ",
        groups, ", eps ", eps);
}

}  // namespace gradus::nn
