#pragma once
// Training a classifier of images: what the programs of all such models share.

#include <string>

#include "examples/pictures/image_pictures.h"
#include "examples/tasks/image_task.h"
#include "gradus/core/ops/loss.h"
#include "gradus/nn/metrics.h"

namespace gradus {

struct ClassifierOptions {
  ImageOptions images;
  double label_smoothing = 0.1;
};

/// --label-smoothing and the images' flags.
inline void add_flags(Flags& flags, ClassifierOptions& o) {
  flags.add("--label-smoothing", o.label_smoothing, 0, 1, "share of a label that all classes have");
  add_flags(flags, o.images);
}

/// A Model's configuration has `image` (height and width), `channels` and `classes`, which the data
/// decide; called with images (B, C, H, W) it gives logits (B, classes). A program says
/// what it is, in info().
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
  /// Draws what it takes for what, and a held-out image for `classify`.
  void show() override {
    const models::ImageData& data = corpus_.part(Split::validation);
    const auto said = over(Split::validation, [this](const Tensor& x) { return model_(x); });
    show_mistakes(training_.out, data, said.features);
    write_example();
  }
  std::string what_next(const std::string& dir) const override { return try_with("classify", dir); }

 protected:
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
                  models::class_names_path(from), ": the classes are not those of --data");
    return c;
  }

  const double label_smoothing_;

 protected:
  Model model_;
};

}  // namespace gradus
