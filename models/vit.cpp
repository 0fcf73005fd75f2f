#include "gradus/models/vit.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/nn/sequential.h"

namespace gradus::models {

namespace {
ViTConfig checked(ViTConfig c) {
  ViT::fields(c).check("ViT");
  check(c.patch > 0 && c.image % c.patch == 0, "ViT: patch must divide image: image ", c.image,
        ", patch ", c.patch);
  check(c.dim % c.heads == 0, "ViT: heads must divide dim: dim ", c.dim, ", heads ", c.heads);
  return c;
}
}  // namespace

void detail::initialise_vit(nn::Module& module) {
  module.initialise([](const std::string& name, const Tensor& p) {
    if (p.rank() == 2 || p.rank() == 4)
      p.copy_(nn::init::xavier_uniform({p.size(0), p.numel() / p.size(0)}).reshape(p.shape()));
    else if (p.rank() == 3)
      p.copy_(nn::init::normal(p.shape(), 0, 0.3));
    else if (name.ends_with("bias"))
      p.zero_();
  });
}

Fields ViT::fields(ViTConfig& c) {
  Fields fields;
  fields.add("image", c.image, 1, 1e5, "height and width of an image");
  fields.add("channels", c.channels, 1, 1e4, "channels of an image");
  fields.add("patch", c.patch, 0, 1e5,
             "height and width of a patch; must divide image (programs: 0 means image / 4)");
  fields.add("classes", c.classes, 0, 1e6, "number of classes; 0: no head");
  fields.add("layers", c.layers, 1, 10000, "transformer blocks");
  fields.add("heads", c.heads, 1, 1e6, "attention heads of a block; must divide dim");
  fields.add("dim", c.dim, 1, 1e6, "embedding size");
  fields.add("hidden", c.hidden, 0, 1e7, "hidden size of the feed-forward layers; 0: 4 dim");
  fields.add("dropout", c.dropout, 0, 0.999999, "dropout probability");
  fields.add("pooling", c.pooling, {"token", "mean"},
             "features of an image: class token or mean of patches");
  fields.add("norm_eps", c.norm_eps, 0, 1, "added to the variance by the norms").optional = true;
  return fields;
}

ViT::ViT(const ViTConfig& c)
    : config(checked(c)),
      patch(child("patch",
                  nn::Conv2d(c.channels, c.dim, c.patch, {.stride = c.patch, .hidden = false}))),
      class_token(param("class_token", {1, 1, c.dim}, 0)),
      positions(param("positions", {1, 1 + c.patches(), c.dim}, 0)),
      dropout(c.dropout),
      blocks(children(
          "blocks", c.layers,
          [&](int64_t) {
            return nn::Block(
                c.dim,
                {.heads = c.heads, .hidden = c.hidden, .dropout = c.dropout, .eps = c.norm_eps});
          })),
      ln_f(child("ln_f", nn::LayerNorm(c.dim, {.eps = c.norm_eps}))),
      head(c.classes > 0
               ? std::optional(child("head", nn::Linear(c.dim, c.classes, {.hidden = false})))
               : std::nullopt) {
  detail::initialise_vit(*this);
}

Tensor ViT::embed(const Tensor& images) const {
  check(images.defined() && images.rank() == 4 &&
            images.shape() == Shape{images.size(0), config.channels, config.image, config.image},
        "ViT: expected images (B, ", config.channels, ", ", config.image, ", ", config.image,
        "), got ", images.defined() ? images.shape() : Shape{});
  const Tensor x = patch(images).reshape({images.size(0), config.dim, config.patches()});
  return x.transpose(1, 2) + positions.slice(1, 1);
}

Tensor ViT::encode(const Tensor& embedded, Tokens tokens) const {
  const Tensor first = class_token + positions.slice(1, 0, 1);
  const Tensor x = dropout(cat({first.expand({embedded.size(0), 1, config.dim}), embedded}, 1));
  const auto apply = [this, tokens](size_t i, std::vector<Tensor>& state) {
    const bool all = i + 1 < blocks.size() || tokens == Tokens::all;
    state[0] = all ? blocks[i](state[0]) : blocks[i].first(1, state[0]);
  };
  return ln_f(nn::run_stack(blocks.size(), config.recompute, {x}, apply)[0]);
}

Tensor ViT::features(const Tensor& images) const {
  if (config.pooling == Pooling::mean) return mean(encode(embed(images)).slice(1, 1), 1);
  return encode(embed(images), Tokens::class_token).select(1, 0);
}

Tensor ViT::operator()(const Tensor& images) const {
  check(head.has_value(), "ViT: this model has no head: it was built with classes = 0");
  return (*head)(features(images));
}

}  // namespace gradus::models
