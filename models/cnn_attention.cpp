#include "gradus/models/cnn_attention.h"

#include <algorithm>

#include "gradus/core/internal.h"
#include "gradus/core/ops/attention.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/resampling.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus::models {

namespace {
CNNAttentionConfig checked(CNNAttentionConfig c) {
  CNNAttention::fields(c).check("CNNAttention");
  return c;
}
}  // namespace

SelfAttention2d::SelfAttention2d(int64_t channels)
    : query(child("query", nn::Conv2d(channels, std::max<int64_t>(channels / 8, 1), 1))),
      key(child("key", nn::Conv2d(channels, std::max<int64_t>(channels / 8, 1), 1))),
      value(child("value", nn::Conv2d(channels, channels, 1))),
      gamma(param("gamma", {}, 0)) {}

Tensor SelfAttention2d::operator()(const Tensor& x) const {
  const auto sequence = [](const Tensor& map) {  // (B, D, H, W) -> (B, 1, HW, D)
    return map.flatten(2).mT().unsqueeze(1);
  };
  const Tensor o = scaled_dot_product_attention(sequence(query(x)), sequence(key(x)),
                                                sequence(value(x)), {.scale = 1});
  return x + gamma * o.squeeze(1).mT().reshape(x.shape());
}

Fields CNNAttention::fields(CNNAttentionConfig& c) {
  Fields fields;
  fields.add("image", c.image, 4, 1e5, "height and width of an image");
  fields.add("channels", c.channels, 1, 1e4, "channels of an image");
  fields.add("classes", c.classes, 0, 1e6, "number of classes; 0: no head");
  fields.add("filters", c.filters, 1, 1e5,
             "filters of the first convolution; the second has twice as many");
  fields.add("attention", c.attention, "self-attention over the feature map");
  return fields;
}

CNNAttention::CNNAttention(const CNNAttentionConfig& c)
    : config(checked(c)),
      conv1(child("conv1", nn::Conv2d(c.channels, c.filters, 3, {.padding = 1, .hidden = false}))),
      conv2(child("conv2", nn::Conv2d(c.filters, 2 * c.filters, 3, {.padding = 1}))),
      attention(c.attention ? std::optional(child("attention", SelfAttention2d(2 * c.filters)))
                            : std::nullopt),
      head(c.classes > 0 ? std::optional(child(
                               "head", nn::Linear(feature_size(), c.classes, {.hidden = false})))
                         : std::nullopt) {
  conv1.initialise_for_relu();
  conv2.initialise_for_relu();
}

Tensor CNNAttention::features(const Tensor& images) const {
  check(images.defined() && images.rank() == 4 &&
            images.shape() == Shape{images.size(0), config.channels, config.image, config.image},
        "CNNAttention: expected images (B, ", config.channels, ", ", config.image, ", ",
        config.image, "), got ", images.defined() ? images.shape() : Shape{});
  // max pooling before relu: the same result at a quarter of the cost
  Tensor x = relu(max_pool2d(conv1(images), 2));
  x = relu(max_pool2d(conv2(x), 2));
  if (attention) x = (*attention)(x);
  return x.flatten(1);
}

Tensor CNNAttention::operator()(const Tensor& images) const {
  check(head.has_value(), "CNNAttention: this model has no head: it was built with classes = 0");
  return (*head)(features(images));
}

Tensor CNNAttention::attention_maps(const Tensor& images) const {
  check(attention.has_value(), "CNNAttention: this model has no attention");
  const NoGrad no_grad;
  const AttentionTrace trace;
  features(images);
  const int64_t grid = config.grid();
  return trace.weights().at(0).reshape({images.size(0), grid * grid, grid, grid});
}

}  // namespace gradus::models
