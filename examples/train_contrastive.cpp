// Trains a vision transformer without labels, by SimCLR: two augmented views of an image attract,
// views of other images repel. Labels are used only to evaluate the features.
//
//   build/bin/train_contrastive --data mnist:DIR|cifar10:DIR|shapes:N --out DIR

#include <gradus/gradus.h>

#include "examples/support/cli.h"
#include "examples/tasks/encoder_task.h"

using namespace gradus;
using models::ViT;

namespace {

using Model = models::SimCLR<ViT>;

class ContrastiveTask : public EncoderTask {
 public:
  ContrastiveTask(const EncoderOptions& options, const TrainOptions& training,
                  const Model::Config& config)
      : EncoderTask(options, training, 2), model_(with_encoder_fitted(config)) {
    core::check(
        options.images.batch >= 3 && corpus_.part(Split::validation).size() >= 2,
        "--batch, --data: expected batches of at least 3 images and at least 2 for validation");
    const int64_t train = corpus_.part(Split::train).size();
    core::check(options.images.batch <= train, "--batch ", options.images.batch,
                ": expected at most the ", train, " training images: a batch must not repeat one");
  }

  nn::Module& model() override { return model_; }
  TaskInfo info() const override {
    return info_of("SimCLR", "NT-Xent", model_, shape_of(model_.config.encoder));
  }
  Tensor loss(int64_t step, int64_t index) override { return loss_of(views(step, index)); }
  void save(const std::string& dir) const override { write_model(dir, model_); }

 protected:
  const ViT& encoder() const override { return model_.encoder; }
  Score score(Split, const Views& views) const override {
    return {.loss = loss_of(views).item(),
            .examples = static_cast<double>(views[0].images.size(0))};
  }

 private:
  Tensor loss_of(const Views& views) const { return model_.loss(views[0].images, views[1].images); }

  Model model_;
};

int run(int argc, char** argv) {
  Model::Config model{.temperature = 0.2};
  model.encoder.layers = 3, model.encoder.dim = 96, model.encoder.patch = 0;
  model.encoder.pooling = models::Pooling::mean;
  return train_on_images<Model, ContrastiveTask>(
      argc, argv,
      "Trains a vision transformer on images without labels, by SimCLR.\n"
      "  train_contrastive --data mnist:DIR --out DIR",
      EncoderOptions{.images = {.batch = 256,
                                .augment = {.shift = 3,
                                            .crop_scale = 0.5,
                                            .crop_aspect = 1.3,
                                            .rotate = 15,
                                            .zoom = 0.15,
                                            .shear = 15,
                                            .brightness = 0.3,
                                            .contrast = 0.3,
                                            .erase = 0.5,
                                            .erase_area = 0.2}}},
      {.steps = 1000,
       .warmup = 100,
       .lr = 3e-3,
       .weight_decay = 0.05,
       .eval_batches = 4,
       .out = "out/contrastive"},
      model);
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_contrastive", argc, argv, run); }
