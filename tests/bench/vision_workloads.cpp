#include <gradus/gradus.h>

#include <memory>

#include "workloads.h"

namespace gradus::bench {

namespace {

/// A ViT on 32 x 32 x 3 images in patches of 4: 6 layers, 3 heads, width 192, batch 64.
Workload vit() {
  auto model =
      std::make_shared<models::ViT>(models::ViTConfig{.layers = 6, .heads = 3, .dim = 192});
  const Tensor images = randn({64, 3, 32, 32}), labels = randint(0, 10, {64});
  return trainer(
      *model, [=] { return cross_entropy((*model)(images), labels); }, 64);
}

/// SimCLR on 128 pairs of 28 x 28 views: a ViT with patches of 7 (4 layers, 4 heads, width 128) and
/// a projection head.
struct SimCLR : nn::Module {
  models::ViT encoder;
  nn::Linear hidden, out;
  SimCLR()
      : encoder(child("encoder", models::ViT({.image = 28,
                                              .channels = 1,
                                              .patch = 7,
                                              .classes = 0,
                                              .layers = 4,
                                              .heads = 4,
                                              .dim = 128}))),
        hidden(child("hidden", nn::Linear(128, 128))),
        out(child("out", nn::Linear(128, 64))) {}
  Tensor loss(const Tensor& a, const Tensor& b) const {
    return nt_xent(out(hidden(encoder.features(cat({a, b})), Activation::relu)));
  }
};

Workload contrastive() {
  auto model = std::make_shared<SimCLR>();
  const Tensor a = randn({128, 1, 28, 28}), b = randn({128, 1, 28, 28});
  return trainer(
      *model, [=] { return model->loss(a, b); }, 128);
}

/// Two 3 x 3 convolutions with pooling, and a transformer block over the remaining 8 x 8 map.
struct AttentionCNN : nn::Module {
  nn::Conv2d a, b;
  nn::Block block;
  nn::Linear head;
  AttentionCNN()
      : a(child("a", nn::Conv2d(3, 32, 3, {.padding = 1}))),
        b(child("b", nn::Conv2d(32, 64, 3, {.padding = 1}))),
        block(child("block", nn::Block(64, {.heads = 4}))),
        head(child("head", nn::Linear(64, 10))) {}
  Tensor loss(const Tensor& x, const Tensor& y) const {
    const Tensor map = relu(max_pool2d(b(relu(max_pool2d(a(x), 2))), 2));
    return cross_entropy(head(mean(block(map.flatten(2).transpose(1, 2)), 1)), y);
  }
};

Workload cnn_attention() {
  auto model = std::make_shared<AttentionCNN>();
  const Tensor images = randn({64, 3, 32, 32}), labels = randint(0, 10, {64});
  return trainer(
      *model, [=] { return model->loss(images, labels); }, 64);
}

/// A convolution, forward and backward, including the image's gradient.
Workload conv() {
  const nn::Conv2d layer(64, 64, 3, {.padding = 1});
  const Tensor images = randn({32, 64, 32, 32}).requires_grad_(), dy = randn({32, 64, 32, 32});
  return {[=] {
            grad({layer(images)}, {images, layer.weight, layer.bias}, {.grad_outputs = {dy}});
          },
          32, 0};
}

}  // namespace

std::vector<NamedWorkload> vision_workloads() {
  return {
      {"vit", vit}, {"contrastive", contrastive}, {"cnn-attention", cnn_attention}, {"conv", conv}};
}

}  // namespace gradus::bench
