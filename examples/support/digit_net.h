#pragma once
// The classifier that the program train_digits trains.

#include "gradus/core/ops/normalization.h"
#include "gradus/models/folder/fields.h"
#include "gradus/nn/layers.h"

namespace gradus {

/// The sizes and options of a DigitNet.
struct DigitNetConfig {
  int64_t pixels = 784, hidden = 256, classes = 10;
  double dropout = 0.2;
  Activation activation = Activation::relu;
};

/// A network with one hidden layer: images (n, height, width) -> logits (n, classes).
struct DigitNet : nn::Module {
  using Config = DigitNetConfig;
  static constexpr const char* kind = "digit-net";
  static models::Fields fields(DigitNetConfig& c) {
    models::Fields fields;
    fields.add("pixels", c.pixels, 1, 1e6, "pixels of an image");
    fields.add("hidden", c.hidden, 1, 1e6, "units of the hidden layer");
    fields.add("classes", c.classes, 1, 256, "number of classes");
    fields.add("dropout", c.dropout, 0, 0.999999, "dropout probability");
    fields.add("activation", c.activation, "activation of the hidden layer");
    return fields;
  }
  const DigitNetConfig config;
  nn::Linear hidden, out;
  explicit DigitNet(const DigitNetConfig& c)
      : config(c),
        hidden(child("hidden", nn::Linear(c.pixels, c.hidden))),
        out(child("out", nn::Linear(c.hidden, c.classes))) {}
  Tensor operator()(const Tensor& images) const {
    return out(dropout(hidden(images.flatten(1), config.activation), config.dropout));
  }
};

}  // namespace gradus
