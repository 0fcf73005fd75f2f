#pragma once
// Code shared by train_vit and train_cnn_attention, which train image classifiers.

#include <cstdio>
#include <string>

#include "examples/page/probes.h"
#include "examples/pictures/image_pictures.h"
#include "examples/tasks/image_task.h"
#include "gradus/core/ops/loss.h"
#include "gradus/nn/metrics.h"

namespace gradus {

struct ClassifierOptions {
  ImageOptions images;
  double label_smoothing = 0.1;
};

/// Declares --label-smoothing and the flags of the images.
inline void add_flags(Flags& flags, ClassifierOptions& o) {
  flags.add("--label-smoothing", o.label_smoothing, 0, 1, "label smoothing");
  add_flags(flags, o.images);
}

/// A task that trains a Model, which maps images (B, C, H, W) to logits (B, classes). The
/// constructor sets the fields `image` (height and width), `channels` and `classes` of the
/// configuration from the data, and also `patch` if it is 0. It throws Error if the images are not
/// square, or if the run starts from a model with other class names. A program derives a class that
/// adds info().
template <class Model>
class ClassifierTask : public ImageTask {
 public:
  ClassifierTask(const ClassifierOptions& options, const TrainOptions& training,
                 const typename Model::Config& config)
      : ImageTask(options.images, training),
        label_smoothing_(options.label_smoothing),
        model_(of_data(config)) {}

  nn::Module& model() override { return model_; }
  Tensor loss(int64_t step, int64_t index) override {
    const models::ImageBatch batch = views(step, index)[0];
    return cross_entropy(model_(batch.images), batch.labels, {.label_smoothing = label_smoothing_});
  }
  void save(const std::string& dir) const override { write_model(dir, model_); }
  /// Draws PNG files into the run's folder: confusion.png, the confusion matrix; mistakes.png, the
  /// misclassified images, if any; and attention.png, if the model has attention maps. Also writes
  /// example.png, a validation image on which the user can try the program `classify`.
  void show() override {
    const models::ImageData& data = corpus_.part(Split::validation);
    const auto outputs = over(Split::validation, [this](const Tensor& x) { return model_(x); });
    show_mistakes(training_.out, data, outputs);
    const models::ImageBatch first = data.range(0, 16);
    const Tensor maps = attention(models::normalize(first.images, image_info_.stats)),
                 predicted = outputs.features.argmax(1).slice(0, 0, first.labels.numel());
    if (maps.defined())
      std::printf("attention: %s\n",
                  draw_or_write(attention_tiles(training_.out + "/attention.png", first, maps,
                                                predicted, image_info_.class_names))
                      .c_str());
    write_example();
  }
  std::string what_next(const std::string& dir) const override { return try_with("classify", dir); }
  std::string probe(const Question&) override {
    constexpr int64_t most = 256;
    const models::ImageData& data = corpus_.part(Split::validation);
    const Tensor images = data.range(0, most).images;
    const auto found = over(
        Split::validation, [this](const Tensor& x) { return model_(x); }, most);
    return gradus::probe(Classified{.images = images,
                                    .labels = found.labels,
                                    .logits = found.features,
                                    .maps = attention(models::normalize(images, image_info_.stats)),
                                    .class_names = image_info_.class_names});
  }

 protected:
  /// Returns the attention maps of normalised images: (B, C, H, W) -> (B, h, w), where h divides H
  /// and w divides W. Returns an undefined tensor if the model has no attention maps.
  virtual Tensor attention(const Tensor&) const { return {}; }
  Score score(Split, const Views& views) const override {
    const auto& [images, labels, ids] = views[0];
    const Tensor logits = model_(images);
    const auto n = static_cast<double>(labels.numel());
    return {.loss = cross_entropy(logits, labels).item(),
            .examples = n,
            .more = {{"accuracy", nn::accuracy(logits, labels), n}}};
  }

 private:
  typename Model::Config of_data(const typename Model::Config& config) const {
    typename Model::Config c = fitted(config);
    c.classes = std::ssize(image_info_.class_names);
    if (const std::string& from = training_.begins_with(); !from.empty())
      core::check(models::load_image_info(from).class_names == image_info_.class_names,
                  models::class_names_path(from), ": its classes differ from those of --data");
    return c;
  }

  const double label_smoothing_;

 protected:
  Model model_;
};

}  // namespace gradus
