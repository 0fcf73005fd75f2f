#pragma once
// Training an encoder of images without labels: what the programs share that do. Labels only say how
// good its features are.

#include "examples/tasks/image_task.h"

namespace gradus {

struct EncoderOptions {
  ImageOptions images;
  int64_t probe_images = 10000;
};

/// The images' flags and --probe-images.
void add_flags(Flags& flags, EncoderOptions& options);

/// A program adds a model, its loss, its score() and save(), as in ImageTask.
class EncoderTask : public ImageTask {
 public:
  /// With, beside the loss, how often classifiers of features of the training part (the first
  /// --probe-images of it) are right on the held-out part: `probe` a linear one, `neighbours` the
  /// nearest ones, `random_probe` a linear one on features of an encoder that was not trained.
  Evaluation validation() override;
  /// Draws features of held-out images, up to 2,000, in the plane: embeddings.png.
  void show() override;

 protected:
  EncoderTask(const EncoderOptions& options, const TrainOptions& training, int64_t views = 1);

  virtual const models::ViT& encoder() const = 0;
  /// A configuration whose `encoder` is for these images.
  template <class Config>
  Config with_encoder_fitted(Config config) const {
    config.encoder = fitted(config.encoder);
    return config;
  }

 private:
  /// Of the first images of a part, `most` or all.
  models::LabelledFeatures features_of(const models::ViT& encoder, Split part, int64_t most) const;
  std::vector<NamedMean> probes() const;

  const int64_t probe_images_;
};

}  // namespace gradus
