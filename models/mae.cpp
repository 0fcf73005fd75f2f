#include "gradus/models/mae.h"

#include <cmath>

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/ordering.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/nn/sequential.h"

namespace gradus::models {

Tensor patchify(const Tensor& images, int64_t patch) {
  check(images.defined() && images.rank() == 4 && patch >= 1 && images.size(2) % patch == 0 &&
            images.size(3) % patch == 0,
        "patchify: expected images (B, C, H, W) with sides that ", patch, " divides, got ",
        images.defined() ? images.shape() : Shape{});
  const int64_t B = images.size(0), C = images.size(1), rows = images.size(2) / patch,
                columns = images.size(3) / patch;
  return images.reshape({B, C, rows, patch, columns, patch})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({B, rows * columns, C * patch * patch});
}

Tensor unpatchify(const Tensor& patches, const Shape& image, int64_t patch) {
  check(image.size() == 3 && patch >= 1 && image[1] % patch == 0 && image[2] % patch == 0,
        "unpatchify: expected an image (C, H, W) with sides that ", patch, " divides, got ", image);
  const int64_t C = image[0], rows = image[1] / patch, columns = image[2] / patch;
  check(patches.defined() && patches.rank() == 3 &&
            patches.shape() == Shape{patches.size(0), rows * columns, C * patch * patch},
        "unpatchify: expected patches (B, ", rows * columns, ", ", C * patch * patch, "), got ",
        patches.defined() ? patches.shape() : Shape{});
  return patches.reshape({patches.size(0), rows, columns, C, patch, patch})
      .permute({0, 3, 1, 4, 2, 5})
      .reshape({patches.size(0), C, image[1], image[2]});
}

namespace {
MAEConfig checked(MAEConfig c) {
  MAE::fields(c).check("MAE");
  check(c.encoder.classes == 0, "MAE: the encoder has no head: classes must be 0, got ",
        c.encoder.classes);
  check(c.decoder_dim % c.decoder_heads == 0,
        "MAE: decoder_heads must divide decoder_dim: ", c.decoder_heads, ", ", c.decoder_dim);
  check(c.encoder.patch > 0, "MAE: expected a patch of 1 or more");
  const int64_t patches = c.encoder.patches();
  check(c.hidden() >= 1 && c.hidden() < patches, "MAE: a mask_ratio of ", c.mask_ratio, " hides ",
        c.hidden(), " of ", patches, " patches; some must be hidden and some visible");
  check(!c.normalise || c.encoder.channels * c.encoder.patch * c.encoder.patch > 1,
        "MAE: a patch of one value cannot be normalised; set normalise = false");
  return c;
}

/// Selects patches of x (B, P, D) by their indices (B, n) within each image: (B, n, D).
Tensor select_patches(const Tensor& x, const Tensor& indices) {
  const int64_t B = x.size(0), P = x.size(1), n = indices.size(1);
  const Tensor rows = indices + arange(B).reshape({B, 1}) * static_cast<double>(P);
  return index_select(x.reshape({B * P, x.size(2)}), 0, rows.reshape({B * n}))
      .reshape({B, n, x.size(2)});
}
}  // namespace

int64_t MAEConfig::hidden() const {
  return std::llround(mask_ratio * static_cast<double>(encoder.patches()));
}

Fields MAE::fields(MAEConfig& c) {
  Fields fields = ViT::fields(c.encoder);
  fields.add("decoder_layers", c.decoder_layers, 1, 10000, "transformer blocks of the decoder");
  fields.add("decoder_heads", c.decoder_heads, 1, 1e6,
             "attention heads of the decoder; must divide decoder_dim");
  fields.add("decoder_dim", c.decoder_dim, 1, 1e6, "embedding size of the decoder");
  fields.add("mask_ratio", c.mask_ratio, 0, 1, "fraction of patches that are hidden");
  fields.add("normalise", c.normalise, "reconstruct patches with mean 0 and deviation 1");
  return fields;
}

MAE::MAE(const MAEConfig& c)
    : config(checked(c)),
      encoder(child("encoder", ViT(c.encoder))),
      decoder_embed(child("decoder_embed", nn::Linear(c.encoder.dim, c.decoder_dim))),
      mask_token(param("mask_token", {1, 1, c.decoder_dim}, 0)),
      decoder_positions(param("decoder_positions", {1, 1 + c.encoder.patches(), c.decoder_dim}, 0)),
      decoder_blocks(children("decoder_blocks", c.decoder_layers,
                              [&](int64_t) {
                                return nn::Block(c.decoder_dim, {.heads = c.decoder_heads,
                                                                 .dropout = c.encoder.dropout});
                              })),
      decoder_norm(child("decoder_norm", nn::LayerNorm(c.decoder_dim))),
      decoder_head(
          child("decoder_head",
                nn::Linear(c.decoder_dim, c.encoder.channels * c.encoder.patch * c.encoder.patch,
                           {.hidden = false}))) {
  detail::initialise_vit(*this);
}

Tensor MAE::order(int64_t batch, uint64_t seed, int64_t step, const Tensor& ids) const {
  check(batch >= 1 && step >= 0, "MAE: expected a batch >= 1 and a step >= 0, got ", batch, " and ",
        step);
  check(!ids.defined() || (ids.dtype() == int64 && ids.shape() == Shape{batch}), "MAE: expected ",
        batch, " ids of int64");
  const std::vector<int64_t> id = (ids.defined() ? ids : arange(batch)).to_vector<int64_t>();
  std::vector<Tensor> rows;
  for (const int64_t i : id) {
    const auto low = static_cast<uint64_t>(i), high = static_cast<uint64_t>(step);
    const auto word = [](uint64_t x) { return static_cast<uint32_t>(x); };
    const auto key = philox4x32({word(low), word(low >> 32), word(high), word(high >> 32)},
                                {word(seed), word(seed >> 32)});
    rows.push_back(randperm(config.encoder.patches(),
                            {uint64_t{key[0]} << 32 | key[1], uint64_t{key[2]} << 32 | key[3]}));
  }
  return stack(rows);
}

std::pair<Tensor, Tensor> MAE::moments(const Tensor& pixels) const {
  return {mean(pixels, -1, keepdim), sqrt(var(pixels, -1, 1, keepdim) + 1e-6)};
}

MAEResult MAE::operator()(const Tensor& images, const Tensor& order) const {
  const Tensor embedded = encoder.embed(images);
  const int64_t B = images.size(0), P = config.encoder.patches(), visible = P - config.hidden();
  check(B >= 1, "MAE: expected at least one image, got ", images.shape());
  check(order.defined() && order.dtype() == int64 && order.shape() == Shape{B, P} &&
            gradus::all(sort(order, 1).values == arange(P)).item<bool>(),
        "MAE: expected an order (", B, ", ", P, ") of int64 that names each patch once");

  const Tensor encoded = encoder.encode(select_patches(embedded, order.slice(1, 0, visible)));
  const Tensor x = decoder_embed(encoded);  // (B, 1 + visible, decoder_dim)
  const Tensor mask_tokens = mask_token.expand({B, P - visible, config.decoder_dim});
  const Tensor rank = argsort(order, 1);  // each patch's position in `order`
  const Tensor unshuffled = select_patches(cat({x.slice(1, 1), mask_tokens}, 1), rank);
  Tensor y = cat({x.slice(1, 0, 1), unshuffled}, 1) + decoder_positions;
  y = nn::apply_blocks(decoder_blocks, config.encoder.recompute, y);
  const Tensor patches = decoder_head(decoder_norm(y).slice(1, 1));

  Tensor target = patchify(images, config.encoder.patch);
  if (config.normalise) {
    const auto [mean, deviation] = moments(target);
    target = (target - mean) / deviation;
  }
  const Tensor hidden = rank >= static_cast<double>(visible);
  const Tensor error = mean(pow(patches - target, 2), -1);  // (B, P)
  return {patches, hidden,
          sum(error * hidden.to(error.dtype())) / static_cast<double>(B * (P - visible))};
}

Tensor MAE::masked(const Tensor& images, const Tensor& hidden, double fill) const {
  const NoGrad no_grad;
  const ViTConfig& c = config.encoder;
  return unpatchify(masked_fill(patchify(images, c.patch), hidden.unsqueeze(-1), fill),
                    {c.channels, c.image, c.image}, c.patch);
}

Tensor MAE::reconstructed(const Tensor& images, const MAEResult& result) const {
  const NoGrad no_grad;
  const ViTConfig& c = config.encoder;
  const Tensor pixels = patchify(images, c.patch);
  Tensor patches = result.patches;
  if (config.normalise) {
    const auto [mean, deviation] = moments(pixels);
    patches = patches * deviation + mean;
  }
  return unpatchify(where(result.hidden.unsqueeze(-1), patches, pixels),
                    {c.channels, c.image, c.image}, c.patch);
}

}  // namespace gradus::models
