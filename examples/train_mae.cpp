// Trains a masked autoencoder: a vision transformer that sees a quarter of an image's patches, and
// a decoder that reconstructs the rest. Labels are used only to evaluate the features.
//
//   build/bin/train_mae --data mnist:DIR|cifar10:DIR|shapes:N --out DIR

#include <gradus/gradus.h>

#include <cstdio>

#include "examples/pictures/plot.h"
#include "examples/support/cli.h"
#include "examples/tasks/encoder_task.h"

using namespace gradus;
using models::MAE, models::MAEConfig;

namespace {

class MAETask : public EncoderTask {
 public:
  MAETask(const EncoderOptions& options, const TrainOptions& training, const MAEConfig& config)
      : EncoderTask(options, training), model_(with_encoder_fitted(config)) {}

  nn::Module& model() override { return model_; }
  TaskInfo info() const override {
    const MAEConfig& c = model_.config;
    return info_of("MAE", "squared error of hidden patches", model_,
                   shape_of(c.encoder) + ", " + std::to_string(c.hidden()) + " of " +
                       std::to_string(c.encoder.patches()) + " hidden; a decoder of " +
                       std::to_string(c.decoder_layers) + " layers of width " +
                       std::to_string(c.decoder_dim));
  }
  Tensor loss(int64_t step, int64_t index) override {
    const models::ImageBatch batch = views(step, index)[0];
    return paint(batch.images, batch.ids, training_.seed, step * training_.accumulate + index).loss;
  }
  void save(const std::string& dir) const override { write_model(dir, model_); }
  void show() override {
    EncoderTask::show();
    const auto& [images, labels, ids] = corpus_.part(Split::validation).range(0, 8);
    const Tensor x = models::normalize(images, image_info_.stats);
    const models::MAEResult painted = paint(x, ids, ~training_.seed, 0);
    const std::vector<Tensor> columns{
        images, model_.masked(images, painted.hidden, 0.5),
        models::denormalize(model_.reconstructed(x, painted), image_info_.stats)};
    const char *first = "image", *second = "visible patches", *third = "reconstruction";
    const Tiles tiles{.path = training_.out + "/painted.png",
                      .title = "Held-out images, reconstructed from their visible patches",
                      .images = stack(columns, 1).flatten(0, 1),
                      .across = 6,
                      .headings = {first, second, third, first, second, third}};
    std::printf("painted: %s\n", draw_or_write(tiles).c_str());
  }

 protected:
  const models::ViT& encoder() const override { return model_.encoder; }
  Score score(Split, const Views& views) const override {
    const auto& [images, labels, ids] = views[0];
    return {.loss = paint(images, ids, ~training_.seed, 0).loss.item(),
            .examples = static_cast<double>(images.size(0))};
  }

 private:
  models::MAEResult paint(const Tensor& images, const Tensor& ids, uint64_t seed,
                          int64_t step) const {
    return model_(images, model_.order(images.size(0), seed, step, ids));
  }

  MAE model_;
};

int run(int argc, char** argv) {
  // Patches are not normalised: in drawings most are empty, with no deviation to divide by.
  MAEConfig model{.normalise = false};
  model.encoder.pooling = models::Pooling::mean;
  return train_on_images<MAE, MAETask>(
      argc, argv,
      "Trains a masked autoencoder on images without labels.\n"
      "  train_mae --data mnist:DIR --out DIR",
      EncoderOptions{.images = {.batch = 128, .augment = {.shift = 2}}},
      {.steps = 2000, .warmup = 200, .lr = 2e-3, .weight_decay = 0.05, .out = "out/mae"}, model);
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_mae", argc, argv, run); }
