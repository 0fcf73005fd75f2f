#include <gradus/gradus.h>

#include <memory>

#include "workloads.h"

namespace gradus::bench {

namespace {

/// 32 x 32 x 3 in patches of 4: 6 layers, 3 heads, 192; batch 64.
Workload vit() {
  auto model =
      std::make_shared<models::ViT>(models::ViTConfig{.layers = 6, .heads = 3, .dim = 192});
  const Tensor images = randn({64, 3, 32, 32}), labels = randint(0, 10, {64});
  return trainer(
      *model, [=] { return cross_entropy((*model)(images), labels); }, 64);
}

/// Forward and backward, the image's gradient too.
Workload conv() {
  const nn::Conv2d layer(64, 64, 3, {.padding = 1});
  const Tensor images = randn({32, 64, 32, 32}).requires_grad_(), dy = randn({32, 64, 32, 32});
  return {[=] {
            grad({layer(images)}, {images, layer.weight, layer.bias}, {.grad_outputs = {dy}});
          },
          32, 0};
}

}  // namespace

std::vector<NamedWorkload> vision_workloads() { return {{"vit", vit}, {"conv", conv}}; }

}  // namespace gradus::bench
