#pragma once
// SimCLR: an encoder learns without labels. For each view of an image, it must recognise the other
// view of the same image among views of many images. Chen et al. 2020, arXiv 2002.05709.

#include <concepts>

#include "gradus/core/ops/contrastive.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/folder/fields.h"
#include "gradus/models/vit.h"

namespace gradus::models {

/// A model that SimCLR can train: it maps images to features, and save_model() can save it. With
/// config.classes = 0 it must have no classification head, because SimCLR would not train one.
template <class E>
concept ImageEncoder = std::derived_from<E, nn::Module> &&
    requires(const E& encoder, typename E::Config& config, const Tensor& images) {
  { encoder.features(images) } -> std::same_as<Tensor>;  // (B, feature_size())
  { encoder.feature_size() } -> std::convertible_to<int64_t>;
  { E::fields(config) } -> std::same_as<Fields>;
  { config.classes } -> std::convertible_to<int64_t>;
};

/// The projection head g(h) = out(relu(in(h))) of features h: dim -> hidden -> projection. It is
/// discarded after training: its output loses information that h keeps, such as colour and
/// orientation (Chen et al. 2020, section 4.2).
struct ProjectionHead : nn::Module {
  nn::Linear in, out;  ///< with biases
  ProjectionHead(int64_t dim, int64_t hidden, int64_t projection)
      : in(child("in", nn::Linear(dim, hidden))),
        out(child("out", nn::Linear(hidden, projection, {.hidden = false}))) {}
  Tensor operator()(const Tensor& h) const { return out(in(h, Activation::relu)); }
};

template <class E>
struct SimCLRConfig {
  typename E::Config encoder = without_head();  ///< encoder.classes must be 0
  int64_t projection_hidden = 128;              ///< hidden size of the projection head
  int64_t projection = 64;                      ///< output size of the projection head
  double temperature = 0.5;                     ///< divides the cosine similarities in the loss

  /// Returns the encoder's default configuration with classes = 0.
  static typename E::Config without_head() {
    typename E::Config config;
    config.classes = 0;
    return config;
  }
};

/// The model z = g(f(x)) with an encoder f and a projection head g. It is trained on two views x of
/// each image. The loss (nt_xent) makes the two z of an image more similar to each other than to
/// the z of other images. Example:
///   SimCLR<ViT> model({.encoder = {.classes = 0}});
///   model.loss(augment(images, options, seed, 2 * step),
///              augment(images, options, seed, 2 * step + 1))
template <ImageEncoder E>
struct SimCLR : nn::Module {
  using Config = SimCLRConfig<E>;
  static constexpr const char* kind = "simclr";
  static Fields fields(Config& c) {
    Fields fields = E::fields(c.encoder);
    fields.add("projection_hidden", c.projection_hidden, 1, 1e6, "hidden size of the head");
    fields.add("projection", c.projection, 1, 1e6, "output size of the head");
    fields.add("temperature", c.temperature, 1e-6, 1e6, "divides the similarities");
    return fields;
  }

  const Config config;
  E encoder;            ///< f, kept after training; its features h are encoder.features(images)
  ProjectionHead head;  ///< g, discarded after training
  explicit SimCLR(const Config& c)
      : config(checked(c)),
        encoder(child("encoder", E(c.encoder))),
        head(child("head",
                   ProjectionHead(encoder.feature_size(), c.projection_hidden, c.projection))) {}

  /// Returns the projections of images: (B, projection), not normalised.
  Tensor operator()(const Tensor& images) const { return head(encoder.features(images)); }
  /// Returns the NT-Xent loss of two views a and b of each image, both (B, C, H, W). Throws Error
  /// if B < 2.
  Tensor loss(const Tensor& a, const Tensor& b) const {
    check_views(a, b);
    return nt_xent((*this)(cat({a, b}, 0)), {.temperature = config.temperature});
  }

 private:
  static Config checked(Config c) {
    fields(c).check("SimCLR");
    core::check(c.encoder.classes == 0, "SimCLR: the encoder has no head: classes must be 0, got ",
                c.encoder.classes);
    return c;
  }
  static void check_views(const Tensor& a, const Tensor& b) {
    core::check(a.defined() && b.defined() && a.rank() == 4 && a.shape() == b.shape(),
                "SimCLR: expected two views (B, C, H, W) of each image, got ",
                a.defined() ? a.shape() : Shape{}, " and ", b.defined() ? b.shape() : Shape{});
    core::check(a.size(0) >= 2, "SimCLR: expected two images or more, got ", a.size(0),
                ": the views of other images are the negatives");
  }
};

}  // namespace gradus::models
