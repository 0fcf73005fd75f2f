#pragma once
// Code shared by the programs that train an image encoder without labels. Labels are used only to
// evaluate the encoder's features.

#include "examples/tasks/image_task.h"

namespace gradus {

struct EncoderOptions {
  ImageOptions images;
  int64_t probe_images = 10000;
};

/// Declares the flags of the images and --probe-images.
void add_flags(Flags& flags, EncoderOptions& options);

/// A task that trains an image encoder without labels. A program derives a class that adds
/// encoder() and the functions that ImageTask does not define: model(), info(), loss(), score() and
/// save().
class EncoderTask : public ImageTask {
 public:
  /// Returns an evaluation on the validation split: the loss, and the accuracy of three
  /// classifiers. The classifiers are fitted to the features of the first --probe-images training
  /// images: "probe" is a linear classifier, "neighbours" a nearest-neighbour classifier, and
  /// "random_probe" a linear classifier on the features of an untrained encoder.
  Evaluation validation() override;
  /// Plots the features of up to 2,000 validation images in two dimensions in embeddings.png. If
  /// drawing fails, writes the points to embeddings.csv instead.
  void show() override;

 protected:
  EncoderTask(const EncoderOptions& options, const TrainOptions& training, int64_t views = 1);

  virtual const models::ViT& encoder() const = 0;
  /// Returns `config` with config.encoder replaced by fitted(config.encoder), which sets its image
  /// size, channels and patch size from the images.
  template <class Config>
  Config with_encoder_fitted(Config config) const {
    config.encoder = fitted(config.encoder);
    return config;
  }

 private:
  /// Returns the features of the first `most` images of a split.
  models::LabelledFeatures features_of(const models::ViT& encoder, Split part, int64_t most) const;
  std::vector<NamedMean> probes() const;

  const int64_t probe_images_;
};

}  // namespace gradus
