// Trains a vision transformer to tell what images show, and draws what it takes for what and where it
// looks.
//
//   build/bin/train_vit --data mnist:DIR|cifar10:DIR|shapes:N --out DIR

#include <gradus/gradus.h>

#include <cstdio>

#include "examples/support/classifier_task.h"
#include "examples/support/cli.h"

using namespace gradus;
using models::ViT, models::ViTConfig;

namespace {

class ViTTask : public ClassifierTask<ViT> {
 public:
  ViTTask(const ClassifierOptions& options, const TrainOptions& training, const ViTConfig& c)
      : ClassifierTask(options, training, c, "ViT",
                       std::to_string(c.layers) + " layers of width " + std::to_string(c.dim) +
                           " with " + std::to_string(c.heads) + " heads, patches of " +
                           std::to_string(c.patch) + " x " + std::to_string(c.patch) + " pixels") {}

  void show() override {
    ClassifierTask::show();
    const models::ImageData& data = corpus_.part(Part::validation);
    const Tensor images = data.range(0, 16).images;
    const std::string path = training_.out + "/attention.png";
    draw_attention(path, images, attention(models::normalize(images, image_info_.stats)));
    std::printf("attention: %s\n", path.c_str());
  }

 private:
  /// What the class token attends to in the last layer, the heads' mean: (B, C, H, W) -> (B, patches
  /// down, patches across). Without a class token's answer: what the patches attend to.
  Tensor attention(const Tensor& images) const {
    const AttentionTrace trace;
    model_(images);
    const ViTConfig& c = model_.config;
    const Tensor weights = mean(trace.weights().back(), 1);  // (B, 1 + patches, 1 + patches)
    const Tensor rows =
        c.pooling == models::Pooling::token ? weights.slice(1, 0, 1) : weights.slice(1, 1);
    return mean(rows, 1).slice(1, 1).reshape({-1, c.image / c.patch, c.image / c.patch});
  }
};

int run(int argc, char** argv) {
  ClassifierOptions o;
  o.images.augment = {.shift = 1, .rotate = 5, .zoom = 0.05};
  ViTConfig model;
  TrainOptions training;
  training.steps = 2500, training.lr = 2e-3, training.warmup = 100, training.weight_decay = 0.05;
  training.out = "out/vit";
  Flags flags(
      "Trains a vision transformer to tell what images show.\n"
      "  train_vit --data mnist:DIR --out DIR");
  flags.group("What is trained", true);
  flags.add(ViT::fields(model), {"image", "channels", "classes"});
  flags.add("--label-smoothing", o.label_smoothing, 0, 1, "share of a label that all classes have");
  add_image_flags(flags, o.images);
  add_training_flags(flags, training);
  return run_training(
      argc, argv, flags, training,
      {.kind = ViT::kind, .config = ViT::fields(model), .data_flags = {"--data"}, .make_task = [&] {
         return std::make_unique<ViTTask>(o, training, model);
       }});
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_vit", argc, argv, run); }
