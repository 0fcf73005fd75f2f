#pragma once
// Code shared by all programs that train on images: augmented batches, prepared during the previous
// step, and evaluation without augmentation.

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "examples/tasks/image_corpus.h"
#include "examples/training/training.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/prefetch.h"
#include "gradus/models/folder/image_info.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/models/probe.h"
#include "gradus/models/vit.h"

namespace gradus {

/// A program derives a class that adds a model, its loss, its score and what it prints:
///   struct MyTask : ImageTask {
///     MyTask(const ImageOptions& images, const TrainOptions& t) : ImageTask(images, t) {}
///     nn::Module& model() override { return net; }
///     TaskInfo info() const override { return info_of("my net", "cross entropy", net, "small"); }
///     void save(const std::string& dir) const override { write_model(dir, net); }
///     Tensor loss(int64_t step, int64_t index) override {
///       const auto [images, labels, ids] = views(step, index)[0];
///       return cross_entropy(net(images), labels);
///     }
///     ...
class ImageTask : public Task {
 public:
  /// --eval-batches batches of a part, the same ones at every call, or all images of the part, in
  /// order, if they make no more batches than that.
  Evaluation estimate(Split part, int64_t step) override;
  Evaluation validation() override;

 protected:
  /// Views of a batch: each holds the same images, normalised, with their labels and ids.
  using Views = std::vector<models::ImageBatch>;

  /// Reads the images. `views`: views per image in a batch, each augmented independently. Images
  /// are normalised by the statistics of the folder that the run starts from, or else of the
  /// training images. Throws Error if that folder's statistics are for another number of channels.
  ImageTask(const ImageOptions& images, const TrainOptions& training, int64_t views = 1);

  /// A step's index-th batch, a function of step, index and seed alone.
  Views views(int64_t step, int64_t index) { return batches_.at(step, index); }
  /// Scores the model on a batch of --batch images or slightly fewer. A single view is not
  /// augmented; several views are augmented, in the same way at every evaluation. Ids are indices
  /// within the part.
  virtual Score score(Split part, const Views& views) const = 0;
  /// Scores the model on the given batches of a part, each a tensor of image ids (B), without
  /// augmentation.
  Evaluation evaluation(Split part, std::vector<Tensor> batches) const;

  /// Returns f(images) for the first `most` images of a part, in order, normalised and not
  /// augmented, and their labels.
  models::LabelledFeatures over(Split part, const std::function<Tensor(const Tensor& images)>& f,
                                int64_t most = std::numeric_limits<int64_t>::max()) const;
  /// Returns `config` with `image` (height and width) and `channels` set from the images. A `patch`
  /// of 0 becomes a quarter of `image`. Throws Error unless the images are square.
  template <class Config>
  Config fitted(Config config) const {
    const Shape shape = corpus_.images.train.shape();
    core::check(shape[2] == shape[3], "--data: expected square images, got ", shape[2], " x ",
                shape[3]);
    config.image = shape[2], config.channels = shape[1];
    if constexpr (requires { config.patch; })
      if (config.patch == 0) config.patch = std::max<int64_t>(config.image / 4, 1);
    return config;
  }
  /// Writes the model to the folder `dir`, with the images' statistics and class names.
  template <class Model>
  void write_model(const std::string& dir, const Model& model,
                   const models::Tokenizer* tokenizer = nullptr) const {
    models::save_model(dir, model, tokenizer);
    models::save_image_info(dir, image_info_);
  }
  /// Describes the task. `shape` describes the model, for example "4 layers of width 64".
  TaskInfo info_of(std::string name, std::string loss, const nn::Module& model,
                   const std::string& shape) const;

  /// Writes a validation image, OUT/example.png. try_with() returns the line that says how to try
  /// the model on it.
  void write_example() const;
  std::string try_with(const std::string& program, const std::string& dir) const;

  const ImageOptions images_;
  const TrainOptions training_;
  const ImageCorpus corpus_;
  const models::ImageInfo image_info_;  ///< saved with the model

 private:
  Evaluation evaluation(Split part, int64_t images) const;
  Views make_views(const models::ImageBatch& batch, uint64_t seed, int64_t index,
                   bool changed) const;

  const int64_t views_;
  models::Prefetch<Views> batches_;
};

/// Describes a vision transformer, for example "4 layers of width 64 with 4 heads, patches of 4 x 4
/// pixels".
std::string shape_of(const models::ViTConfig& config);

/// The main function of a program that trains on images: trains MyTask(options, training, config),
/// whose model is a Model. `about` opens --help; `options`, `training` and `config` hold the
/// defaults. add_flags(flags, options) declares the options' flags, after the model's.
template <class Model, class MyTask, class Options>
int train_on_images(int argc, char** argv, std::string about, Options options,
                    TrainOptions training, typename Model::Config config = {}) {
  Flags flags(std::move(about));
  flags.group("Model", true);
  flags.add(Model::fields(config), {"image", "channels", "classes", "vocab"});  // set from the data
  add_flags(flags, options);
  add_training_flags(flags, training);
  add_recompute_flag(flags, config);
  return run_training(
      argc, argv, flags, training,
      {.kind = Model::kind,
       .config = Model::fields(config),
       .data_flags = {"--data"},
       .make_task = [&] { return std::make_unique<MyTask>(options, training, config); }});
}

}  // namespace gradus
