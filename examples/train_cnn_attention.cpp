// Trains a small convolutional net with self-attention over its feature map to classify images, and
// draws its confusion matrix and attention maps.
//
//   build/bin/train_cnn_attention --data mnist:DIR|cifar10:DIR|shapes:N --out DIR

#include <gradus/gradus.h>

#include "examples/support/cli.h"
#include "examples/tasks/classifier_task.h"

using namespace gradus;
using models::CNNAttention, models::CNNAttentionConfig;

namespace {

class CNNAttentionTask : public ClassifierTask<CNNAttention> {
 public:
  using ClassifierTask::ClassifierTask;

  TaskInfo info() const override {
    const CNNAttentionConfig& c = model_.config;
    return info_of("CNN", "cross entropy", model_,
                   "convolutions of " + std::to_string(c.filters) + " and " +
                       std::to_string(2 * c.filters) + " filters" +
                       (c.attention ? ", self-attention" : ""));
  }

 protected:
  /// Averaged over the queries.
  Tensor attention(const Tensor& images) const override {
    const CNNAttentionConfig& c = model_.config;
    if (!c.attention || c.image % c.grid() != 0) return {};  // the map would not align with pixels
    return mean(model_.attention_maps(images), 1);
  }
};

int run(int argc, char** argv) {
  return train_on_images<CNNAttention, CNNAttentionTask>(
      argc, argv,
      "Trains a convolutional net with self-attention to classify images.\n"
      "  train_cnn_attention --data mnist:DIR --out DIR",
      ClassifierOptions{.images = {.augment = {.shift = 2, .rotate = 10, .zoom = 0.1}}},
      {.steps = 2000, .lr = 2e-3, .weight_decay = 0.05, .out = "out/cnn_attention"});
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_cnn_attention", argc, argv, run); }
