#pragma once
// What all programs that learn from images share: batches of changed images, made while the step
// runs, and estimates on images as they are.

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

/// A program adds a model, its loss, its score and what it shows:
///   struct MyTask : ImageTask {
///     MyTask(const ImageOptions& images, const TrainOptions& t) : ImageTask(images, t), net(...) {}
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
  /// --eval-batches batches of a part, the same ones each time; all of it, in its order, if it has
  /// no more.
  Evaluation estimate(Split part, int64_t step) override;
  Evaluation validation() override;

 protected:
  /// The views of a batch's images: normalised tensors of the same images, labels and ids.
  using Views = std::vector<models::ImageBatch>;

  /// Reads the images. `views`: how many a batch has of each image, each changed as drawn for it.
  /// Statistics are those of the folder that the run begins with or, if there is none, of the
  /// images that train. Throws Error if that folder's are of another number of channels.
  ImageTask(const ImageOptions& images, const TrainOptions& training, int64_t views = 1);

  /// A step's index-th batch: a function of these and the seed.
  Views views(int64_t step, int64_t index) { return batches_.at(step, index); }
  /// How good the model is on a batch, of --batch images or a few less. One view: of images as they
  /// are; several: each changed, but in the same way each time. Ids are places in that part.
  virtual Score score(Split part, const Views& views) const = 0;
  /// The scores of batches of a part's images as they are, given by their ids (B).
  Evaluation evaluation(Split part, std::vector<Tensor> batches) const;

  /// f(images) of the first images of a part, `most` or all, as they are, normalised and in their
  /// order: f's rows joined, and the images' labels.
  models::LabelledFeatures over(Split part, const std::function<Tensor(const Tensor& images)>& f,
                                int64_t most = std::numeric_limits<int64_t>::max()) const;
  /// A model's configuration with `image` (height and width) and `channels` as the images have
  /// them, and a quarter of that for a `patch` of 0. Throws Error unless they are square.
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
  /// Writes the model's folder, with what it must know of images.
  template <class Model>
  void write_model(const std::string& dir, const Model& model,
                   const models::Tokenizer* tokenizer = nullptr) const {
    models::save_model(dir, model, tokenizer);
    models::save_image_info(dir, image_info_);
  }
  /// The texts; `shape`: a few words on the model, "4 layers of width 64".
  TaskInfo info_of(std::string name, std::string loss, const nn::Module& model,
                   const std::string& shape) const;

  /// A held-out image, OUT/example.png, to try the model on; and the line that names both.
  void write_example() const;
  std::string try_with(const std::string& program, const std::string& dir) const;

  const ImageOptions images_;
  const TrainOptions training_;
  const ImageCorpus corpus_;
  const models::ImageInfo image_info_;  ///< what save() writes with the model

 private:
  Evaluation evaluation(Split part, int64_t images) const;
  Views make_views(const models::ImageBatch& batch, uint64_t seed, int64_t place,
                   bool changed) const;

  const int64_t views_;
  models::Prefetch<Views> batches_;
};

/// A few words on a vision transformer: "4 layers of width 64 with 4 heads, patches of 4 x 4 pixels".
std::string shape_of(const models::ViTConfig& config);

/// The frame of a program that learns from images: trains MyTask(options, training, config), whose
/// model is a Model. `about` is what --help says first; `options`, `training` and `config` hold the
/// defaults. add_flags(flags, options) declares the options' flags, under the model's.
template <class Model, class MyTask, class Options>
int train_on_images(int argc, char** argv, std::string about, Options options,
                    TrainOptions training, typename Model::Config config = {}) {
  Flags flags(std::move(about));
  flags.group("What is trained", true);
  flags.add(Model::fields(config), {"image", "channels", "classes", "vocab"});  // the data decide
  add_flags(flags, options);
  add_training_flags(flags, training);
  return run_training(
      argc, argv, flags, training,
      {.kind = Model::kind,
       .config = Model::fields(config),
       .data_flags = {"--data"},
       .make_task = [&] { return std::make_unique<MyTask>(options, training, config); }});
}

}  // namespace gradus
