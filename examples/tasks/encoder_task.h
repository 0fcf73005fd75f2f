#pragma once
// Code shared by the programs that train an image encoder without labels. Labels are used only to
// evaluate its features.

#include "examples/tasks/image_task.h"

namespace gradus {

struct EncoderOptions {
  ImageOptions images;
  int64_t probe_images = 10000;
};

/// Declares the images' flags and --probe-images.
void add_flags(Flags& flags, EncoderOptions& options);

/// A program derives a class that adds a model, loss(), score() and save(), as for ImageTask.
class EncoderTask : public ImageTask {
 public:
  /// Scores the loss, and the validation accuracy of three classifiers fitted to the features of
  /// the first --probe-images training images. `probe`: a linear classifier; `neighbours`: nearest
  /// neighbours; `random_probe`: a linear classifier on features of an untrained encoder.
  Evaluation validation() override;
  /// Plots the features of up to 2,000 validation images in the plane: embeddings.png.
  void show() override;

 protected:
  EncoderTask(const EncoderOptions& options, const TrainOptions& training, int64_t views = 1);

  virtual const models::ViT& encoder() const = 0;
  /// Returns `config` with `encoder` fitted to the images, see fitted().
  template <class Config>
  Config with_encoder_fitted(Config config) const {
    config.encoder = fitted(config.encoder);
    return config;
  }

 private:
  /// Features of the first `most` images of a part.
  models::LabelledFeatures features_of(const models::ViT& encoder, Split part, int64_t most) const;
  std::vector<NamedMean> probes() const;

  const int64_t probe_images_;
};

}  // namespace gradus
