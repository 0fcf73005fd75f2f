#include "gradus/models/clip.h"

#include <cmath>

#include "gradus/core/internal.h"
#include "gradus/core/ops/contrastive.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/nn/sequential.h"

namespace gradus::models {

namespace {
CLIPConfig checked(CLIPConfig c) {
  CLIP::fields(c).check("CLIP");
  check(c.image.classes == 0, "CLIP: the image encoder has no head: classes must be 0, got ",
        c.image.classes);
  check(c.text_dim % c.text_heads == 0, "CLIP: text_heads must divide text_dim: ", c.text_heads,
        ", ", c.text_dim);
  return c;
}

const double max_logit_scale = std::log(100.0);
}  // namespace

TextEncoder::TextEncoder(const CLIPConfig& c)
    : tokens(child("tokens", nn::Embedding(c.vocab, c.text_dim))),
      positions(param("positions", {1, c.context, c.text_dim}, 0)),
      blocks(children("blocks", c.text_layers,
                      [&](int64_t) {
                        return nn::Block(c.text_dim, {.heads = c.text_heads,
                                                      .causal = c.causal,
                                                      .dropout = c.image.dropout});
                      })),
      ln_f(child("ln_f", nn::LayerNorm(c.text_dim))),
      causal(c.causal),
      pooling(c.text_pooling),
      recompute(c.image.recompute) {}

Tensor TextEncoder::features(const TextBatch& texts) const {
  const Tensor lengths = detail::checked_lengths("CLIP", texts, positions.size(1));
  const int64_t B = texts.ids.size(0), T = texts.ids.size(1), D = positions.size(2);
  const Tensor real = nn::padding_mask(lengths, B, T);  // (B, 1, 1, T)
  Tensor x = tokens(texts.ids) + positions.slice(1, 0, T);
  x = ln_f(nn::apply_blocks(blocks, recompute, x, causal ? Tensor() : real));
  if (pooling == Pooling::token)
    return index_select(x.reshape({B * T, D}), 0,
                        arange(B) * static_cast<double>(T) + lengths - 1.0);
  return sum(x * real.reshape({B, T, 1}).to(x.dtype()), 1) / lengths.to(x.dtype()).reshape({B, 1});
}

Fields CLIP::fields(CLIPConfig& c) {
  Fields fields = ViT::fields(c.image);
  fields.add("vocab", c.vocab, 1, 1e9, "vocabulary size");
  fields.add("context", c.context, 1, 1e6, "maximum length of a text");
  fields.add("text_layers", c.text_layers, 1, 10000, "transformer blocks of the text encoder");
  fields.add("text_heads", c.text_heads, 1, 1e6,
             "attention heads of the text encoder; must divide text_dim");
  fields.add("text_dim", c.text_dim, 1, 1e6, "embedding size of the text encoder");
  fields.add("causal", c.causal, "causal attention in the text encoder");
  fields.add("text_pooling", c.text_pooling, {"token", "mean"},
             "features of a text: last token or mean");
  fields.add("shared", c.shared, 1, 1e6, "size of the joint embedding");
  return fields;
}

CLIP::CLIP(const CLIPConfig& c)
    : config(checked(c)),
      image(child("image", ViT(c.image))),
      text(child("text", TextEncoder(c))),
      image_projection(child("image_projection",
                             nn::Linear(c.image.dim, c.shared, {.bias = false, .hidden = false}))),
      text_projection(child("text_projection",
                            nn::Linear(c.text_dim, c.shared, {.bias = false, .hidden = false}))),
      logit_scale(param("logit_scale", {}, std::log(1 / 0.07))) {
  detail::initialise_vit(*this);
  text.tokens.initialise(
      [](const std::string&, const Tensor& p) { p.copy_(nn::init::normal(p.shape(), 0, 0.02)); });
}

Tensor CLIP::image_features(const Tensor& images) const {
  return normalize(image_projection(image.features(images)), -1);
}

Tensor CLIP::text_features(const TextBatch& texts) const {
  return normalize(text_projection(text.features(texts)), -1);
}

Tensor CLIP::similarity(const Tensor& images, const Tensor& texts) const {
  check(images.defined() && texts.defined() && images.rank() == 2 && texts.rank() == 2 &&
            images.size(1) == config.shared && texts.size(1) == config.shared,
        "CLIP: expected features (N, ", config.shared, ") of images and (M, ", config.shared,
        ") of texts, got ", images.defined() ? images.shape() : Shape{}, " and ",
        texts.defined() ? texts.shape() : Shape{});
  return matmul(images, texts.mT()) * exp(minimum(logit_scale, max_logit_scale));
}

Tensor CLIP::loss(const Tensor& images, const TextBatch& texts) const {
  const Tensor a = image_features(images), b = text_features(texts);
  check(a.size(0) == b.size(0), "CLIP: ", a.size(0), " images, ", b.size(0), " texts");
  check(a.size(0) >= 2, "CLIP: expected two pairs or more: the other texts are the negatives");
  if (is_training() && logit_scale.item() > max_logit_scale) {
    const NoGrad no_grad;
    logit_scale.fill_(max_logit_scale);
  }
  return clip_loss(a, b, {.learned_temperature = exp(-logit_scale), .cosine = false});
}

}  // namespace gradus::models
