// Trains a vision transformer to classify images, and draws its confusion matrix and attention
// maps.
//
//   build/bin/train_vit --data mnist:DIR|cifar10:DIR|shapes:N --out DIR

#include <gradus/gradus.h>

#include "examples/support/cli.h"
#include "examples/tasks/classifier_task.h"

using namespace gradus;
using models::ViT;

namespace {

class ViTTask : public ClassifierTask<ViT> {
 public:
  using ClassifierTask::ClassifierTask;

  TaskInfo info() const override {
    return info_of("ViT", "cross entropy", model_, shape_of(model_.config));
  }

 protected:
  /// Attention of the class token in the last layer, averaged over heads: (B, C, H, W) -> (B,
  /// patches down, patches across). With mean pooling it is averaged over the patches' queries.
  Tensor attention(const Tensor& images) const override {
    const AttentionTrace trace;
    model_.encode(model_.embed(images));  // all tokens, also in the last layer
    const models::ViTConfig& c = model_.config;
    const Tensor weights = mean(trace.weights().back(), 1);  // (B, 1 + patches, 1 + patches)
    const Tensor rows =
        c.pooling == models::Pooling::token ? weights.slice(1, 0, 1) : weights.slice(1, 1);
    return mean(rows, 1).slice(1, 1).reshape({-1, c.image / c.patch, c.image / c.patch});
  }
};

int run(int argc, char** argv) {
  return train_on_images<ViT, ViTTask>(
      argc, argv,
      "Trains a vision transformer to classify images.\n"
      "  train_vit --data mnist:DIR --out DIR",
      ClassifierOptions{.images = {.augment = {.shift = 1, .rotate = 5, .zoom = 0.05}}},
      {.steps = 2500, .lr = 2e-3, .weight_decay = 0.05, .eval_every = 500, .out = "out/vit"});
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_vit", argc, argv, run); }
