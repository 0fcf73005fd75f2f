#include <algorithm>
#include <cmath>

#include "examples/onnx/layers.h"
#include "examples/onnx/models.h"

namespace gradus {

using models::Captioner, models::ChannelStats, models::CLIP, models::CNNAttention, models::ViT;

namespace {

/// Adds the input "images", square ones of c.image pixels, and returns them normalised.
template <class Config>
OnnxValue add_images(OnnxGraph& g, const Config& c, const ChannelStats& stats,
                     const char* batch = "batch") {
  core::check(stats.mean.size() == stats.std.size() &&
                  (stats.mean.empty() || std::ssize(stats.mean) == c.channels),
              "ONNX: expected the statistics of ", c.channels, " channels, got ",
              stats.mean.size());
  const OnnxValue images = g.input("images", float32, {batch, c.channels, c.image, c.image});
  if (stats.mean.empty()) return images;
  const Ints shape{c.channels, 1, 1};
  return g("Div", {g("Sub", {images, g.numbers(stats.mean, shape)}), g.numbers(stats.std, shape)});
}

/// Rows: (B, D, H, W) -> (B, H W, D).
OnnxValue sequence(OnnxGraph& g, const OnnxValue& map, int64_t channels) {
  return g("Transpose", {g("Reshape", {map, g.ints({0, channels, -1})})},
           {{"perm", Ints{0, 2, 1}}});
}

OnnxValue first_token(OnnxGraph& g, const OnnxValue& x) {
  return g("Gather", {x, g.index(0)}, {{"axis", 1}});
}

/// x / max(|x|, 1e-12) over the last axis.
OnnxValue normalized(OnnxGraph& g, const OnnxValue& x) {
  const OnnxValue norm = g("ReduceL2", {x}, {{"axes", Ints{-1}}});
  return g("Div", {x, g("Max", {norm, g.number(1e-12)})});
}

/// ViT::features, (B, dim).
OnnxValue features(OnnxGraph& g, const ViT& model, const OnnxValue& images) {
  const int64_t dim = model.config.dim, tokens = 1 + model.config.patches();
  const OnnxValue patches = sequence(g, onnx_conv(g, model.patch, images), dim);
  const OnnxValue batch = g("Shape", {images}, {{"start", 0}, {"end", 1}});
  const OnnxValue shape = g("Concat", {batch, g.ints({1, dim})}, {{"axis", 0}});
  const OnnxValue first = g("Expand", {g.weight(model.class_token), shape});
  OnnxValue x = g("Add", {g("Concat", {first, patches}, {{"axis", 1}}), g.weight(model.positions)});
  for (const nn::Block& block : model.blocks) x = onnx_block(g, block, x, {});
  x = onnx_norm(g, model.ln_f, x);
  if (model.config.pooling == models::Pooling::token) return first_token(g, x);
  const OnnxValue rest = g("Slice", {x, g.ints({1}), g.ints({tokens}), g.ints({1})});
  return g("ReduceMean", {rest}, {{"axes", Ints{1}}, {"keepdims", 0}});
}

/// SelfAttention2d: x (B, C, H, W) of H = W = grid.
OnnxValue self_attention(OnnxGraph& g, const models::SelfAttention2d& a, const OnnxValue& x,
                         int64_t grid) {
  const int64_t keys = a.key.weight.size(0), channels = a.value.weight.size(0);
  const OnnxValue q = sequence(g, onnx_conv(g, a.query, x), keys),
                  k = g("Reshape", {onnx_conv(g, a.key, x), g.ints({0, keys, -1})}),
                  v = sequence(g, onnx_conv(g, a.value, x), channels);
  const OnnxValue o = g("Transpose", {onnx_attention(g, {q, k, v}, 1)}, {{"perm", Ints{0, 2, 1}}});
  const OnnxValue map = g("Reshape", {o, g.ints({0, channels, grid, grid})});
  return g("Add", {x, g("Mul", {g.weight(a.gamma), map})});
}

/// CNNAttention::features, (B, feature_size).
OnnxValue features(OnnxGraph& g, const CNNAttention& model, const OnnxValue& images) {
  OnnxValue x = images;
  for (const nn::Conv2d* conv : {&model.conv1, &model.conv2})
    x = g("Relu", {g("MaxPool", {onnx_conv(g, *conv, x)},
                     {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}})});
  if (model.attention) x = self_attention(g, *model.attention, x, model.config.grid());
  return g("Flatten", {x});
}

template <class Model>
std::string classifier(const Model& model, const ChannelStats& stats) {
  OnnxGraph g(model);
  const OnnxValue x = features(g, model, add_images(g, model.config, stats));
  if (model.head)
    g.output("logits", onnx_linear(g, *model.head, x), {"batch", model.config.classes});
  else
    g.output("features", x, {"batch", model.feature_size()});
  return g.bytes();
}

/// TextEncoder::features, (M, text_dim).
OnnxValue features(OnnxGraph& g, const models::TextEncoder& model, const OnnxValue& ids,
                   const OnnxValue& lengths) {
  const int64_t dim = model.positions.size(2);
  const OnnxValue positions = onnx_positions(g, ids),
                  column = g("Unsqueeze", {lengths, g.ints({1})});
  const OnnxValue real = g("Less", {positions, column});  // (M, T)
  const OnnxValue table = g("Reshape", {g.weight(model.positions), g.ints({-1, dim})});
  OnnxValue x = g(
      "Add", {g("Gather", {g.weight(model.tokens.weight), ids}), g("Gather", {table, positions})});
  OnnxTokens tokens{.positions = positions};
  if (!model.causal) tokens.mask = g("Unsqueeze", {real, g.ints({1, 2})});
  for (const nn::Block& block : model.blocks) x = onnx_block(g, block, x, tokens);
  x = onnx_norm(g, model.ln_f, x);
  if (model.pooling == models::Pooling::token)
    return g("GatherND", {x, g("Sub", {column, g.index(1)})}, {{"batch_dims", 1}});
  const OnnxValue kept = g("Where", {g("Unsqueeze", {real, g.ints({2})}), x, g.number(0)});
  const OnnxValue sum = g("ReduceSum", {kept, g.ints({1})}, {{"keepdims", 0}});
  return g("Div", {sum, g("Cast", {column}, {{"to", 1}})});  // 1: float32
}

}  // namespace

std::string to_onnx(const ViT& model, const ChannelStats& stats) {
  return classifier(model, stats);
}

std::string to_onnx(const CNNAttention& model, const ChannelStats& stats) {
  return classifier(model, stats);
}

std::string to_onnx(const CLIP& model, const ChannelStats& stats) {
  OnnxGraph g(model);
  const int64_t shared = model.config.shared;
  const OnnxValue images = add_images(g, model.image.config, stats, "images"),
                  ids = g.input("ids", int64, {"texts", "length"}),
                  lengths = g.input("lengths", int64, {"texts"});
  const OnnxValue a = normalized(
                      g, onnx_linear(g, model.image_projection, features(g, model.image, images))),
                  b = normalized(g, onnx_linear(g, model.text_projection,
                                                features(g, model.text, ids, lengths)));
  const OnnxValue cosines = g("MatMul", {a, g("Transpose", {b}, {{"perm", Ints{1, 0}}})});
  const OnnxValue scale =
      g("Exp", {g("Min", {g.weight(model.logit_scale), g.number(std::log(100.0))})});
  g.output("image_features", a, {"images", shared});
  g.output("text_features", b, {"texts", shared});
  g.output("similarity", g("Mul", {cosines, scale}), {"images", "texts"});
  return g.bytes();
}

std::string to_onnx(const Captioner& model, const ChannelStats& stats) {
  OnnxGraph g(model);
  const auto& c = model.config;
  OnnxValue x = add_images(g, c, stats);
  for (const nn::Conv2d& conv : model.convolutions) x = g("Relu", {onnx_conv(g, conv, x)});
  const OnnxValue a = sequence(g, x, c.features()),
                  mean = g("ReduceMean", {a}, {{"axes", Ints{1}}, {"keepdims", 0}});
  g.output("annotations", a, {"batch", c.grid() * c.grid(), c.features()});
  g.output("state", onnx_linear(g, model.first, mean, Activation::tanh),
           {"batch", model.first.weight.size(0)});
  return g.bytes();
}

std::string to_onnx(const DigitNet& model) {
  OnnxGraph g(model);
  const OnnxValue images = g.input("images", float32, {"batch", "height", "width"});
  const OnnxValue hidden =
      onnx_linear(g, model.hidden, g("Flatten", {images}), model.config.activation);
  g.output("logits", onnx_linear(g, model.out, hidden), {"batch", model.config.classes});
  return g.bytes();
}

}  // namespace gradus
