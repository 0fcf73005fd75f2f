#pragma once
// Code shared by programs that train on images: augmented batches, which are prepared ahead of
// time, and evaluation.

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

/// A training task on images. A program derives a class that adds a model, its loss and score, a
/// function that saves it, and a description of the task:
///   struct MyTask : ImageTask {
///     MyNet net;
///     MyTask(const ImageOptions& images, const TrainOptions& t, const MyNet::Config& config)
///         : ImageTask(images, t), net(fitted(config)) {}
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
  /// Returns an evaluation on --eval-batches batches of a split, the same batches at every call. If
  /// the split has no more images than these batches hold, the evaluation uses all its images, in
  /// order.
  Evaluation estimate(Split part, int64_t step) override;
  Evaluation validation() override;

 protected:
  /// The views of a batch, one ImageBatch per view. All views are of the same images, in the same
  /// order, with equal labels and ids. The images are normalised and may be augmented, differently
  /// in each view.
  using Views = std::vector<models::ImageBatch>;

  /// Reads the images. `views` is the number of views per image in a batch; each view is augmented
  /// independently. With several views, no batch contains an image twice, because a contrastive
  /// loss would treat the second copy as another image. Images are normalised by the statistics in
  /// the folder from which the run starts or, if the run starts from scratch, by those of the
  /// training images. Throws Error if the images cannot be read, or if the statistics in the folder
  /// are for another number of channels.
  ImageTask(const ImageOptions& images, const TrainOptions& training, int64_t views = 1);

  /// Returns batch number `index` of a step. It depends only on the options, step and index.
  Views views(int64_t step, int64_t index) { return batches_.at(step, index); }
  /// Returns the score of the model on a batch of the split `part`, given the views of the batch.
  /// The ids in `views` are indices within that split. estimate() and validation() call this
  /// function with at most --batch images. With one view per image, they do not augment the images.
  /// With several views, they augment the images in the same way at every call.
  virtual Score score(Split part, const Views& views) const = 0;
  /// Returns an evaluation on the given batches of a split, without augmentation. Each batch is a
  /// tensor (B) of image ids.
  Evaluation evaluation(Split part, std::vector<Tensor> batches) const;

  /// Returns f(images) and the labels for the first `most` images of a split, in order. The images
  /// are normalised and not augmented.
  models::LabelledFeatures over(Split part, const std::function<Tensor(const Tensor& images)>& f,
                                int64_t most = std::numeric_limits<int64_t>::max()) const;
  /// Returns `config` with `image` (height and width) and `channels` set from the images. A `patch`
  /// of 0 becomes a quarter of `image`, rounded down, but at least 1. Throws Error unless the
  /// images are square.
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
  /// Writes the model to the folder `dir`, with the names of the classes and the mean and standard
  /// deviation by which images are normalised. Also writes the tokenizer unless it is null.
  template <class Model>
  void write_model(const std::string& dir, const Model& model,
                   const models::Tokenizer* tokenizer = nullptr) const {
    models::save_model(dir, model, tokenizer);
    models::save_image_info(dir, image_info_);
  }
  /// Returns a description of the task. `shape` describes the model, for example "4 layers of width
  /// 64".
  TaskInfo info_of(std::string name, std::string loss, const nn::Module& model,
                   const std::string& shape) const;

  /// Writes a validation image to example.png in the run's folder.
  void write_example() const;
  /// Returns a line that tells how to run `program` with the model in `dir` on the image
  /// `dir`/example.png.
  std::string try_with(const std::string& program, const std::string& dir) const;

  const ImageOptions images_;
  const TrainOptions training_;
  const ImageCorpus corpus_;
  const models::ImageInfo image_info_;  ///< normalisation and class names, saved with the model

 private:
  Evaluation evaluation(Split part, int64_t images) const;
  models::ImageBatch shuffled(const models::ImageData& data, uint64_t seed, int64_t index) const;
  Views make_views(const models::ImageBatch& batch, uint64_t seed, int64_t index,
                   bool changed) const;

  const int64_t views_;
  models::Prefetch<Views> batches_;
};

/// Returns a description of a vision transformer, for example "4 layers of width 64 with 4 heads,
/// patches of 4 x 4 pixels".
std::string shape_of(const models::ViTConfig& config);

/// The main function of a program that trains a Model on images. Returns the exit status. The task
/// is MyTask(options, training, config). `about` is the first lines of --help. `options`,
/// `training` and `config` contain the defaults of the flags. The function add_flags(flags,
/// options) must declare the flags of `options`; in --help they follow the flags of the model.
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
