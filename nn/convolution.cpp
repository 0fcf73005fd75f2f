#include "gradus/nn/convolution.h"

#include "gradus/core/internal.h"

namespace gradus::nn {

namespace {
Shape filter_shape(int64_t in, int64_t out, Size2d kernel, int64_t groups) {
  check(groups >= 1 && in >= 1 && in % groups == 0 && out % groups == 0,
        "Conv2d: groups must divide the channels: in ", in, ", out ", out, ", groups ", groups);
  return {out, in / groups, kernel.height, kernel.width};
}
}  // namespace

Conv2d::Conv2d(int64_t in, int64_t out, Size2d kernel, const Conv2dLayerOptions& o)
    : weight(param("weight", filter_shape(in, out, kernel, o.groups), init::kaiming_uniform())),
      bias(o.bias ? param("bias", {out}, init::uniform_fan_in(weight.numel() / out)) : Tensor()),
      options{o.stride, o.padding, o.dilation, o.groups} {}

void Conv2d::initialise_for_relu() {
  initialise([](const std::string& name, const Tensor& p) {
    if (name == "weight")
      p.copy_(init::kaiming_normal(p.shape()));
    else
      p.zero_();
  });
}

}  // namespace gradus::nn
