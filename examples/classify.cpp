// Classifies images with a model trained by train_vit or train_cnn_attention.
//
//   build/bin/classify --model DIR IMAGE.png ...

#include <gradus/gradus.h>

#include <algorithm>
#include <cstdio>

#include "examples/pictures/heat_map.h"
#include "examples/support/cli.h"
#include "examples/support/picture_file.h"
#include "examples/support/text.h"

using namespace gradus;
using models::ImageInfo;

namespace {

/// One line per class, most likely first: "  0.9731  a red circle".
std::string likeliest(const Tensor& probs, int64_t most, const std::vector<std::string>& names) {
  const auto [values, indices] = topk(probs, std::min(most, probs.numel()));
  const std::vector<double> p = values.to_vector<double>();
  const std::vector<int64_t> classes = indices.to_vector<int64_t>();
  std::string lines;
  for (size_t i = 0; i < p.size(); ++i) {
    char number[16];
    std::snprintf(number, sizeof number, "  %.4f  ", p[i]);
    lines += number + visible(names[static_cast<size_t>(classes[i])], false) + '\n';
  }
  return lines;
}

template <class Model>
PictureReader load(const std::string& dir, int64_t top) {
  const auto model = std::make_shared<Model>(models::load_model<Model>(dir));
  model->to(float32);
  const ImageInfo info = models::load_image_info(dir);
  core::check(std::ssize(info.class_names) == model->config.classes, models::class_names_path(dir),
              ": ", info.class_names.size(), " classes, the model has ", model->config.classes);
  return {model->config.image, model->config.channels, info, [=](const Tensor& picture) {
            return '\n' + likeliest(softmax((*model)(picture))[0], top, info.class_names);
          }};
}

/// Loads a classifier of either kind.
PictureReader load_any(const std::string& dir, int64_t top) {
  const std::string kind = models::model_kind(dir);
  if (kind == models::ViT::kind) return load<models::ViT>(dir, top);
  if (kind == models::CNNAttention::kind) return load<models::CNNAttention>(dir, top);
  core::fail(models::config_path(dir),
             ": expected a classifier of images (vit, cnn_attention), got ", shown(kind));
}

int run(int argc, char** argv) {
  int64_t top = 5;
  Flags flags(
      "Classifies images with a model trained by train_vit or train_cnn_attention: prints the "
      "most\n"
      "likely classes of each image with their probabilities.\n"
      "  classify --model DIR IMAGE.png ...");
  flags.group("Flags");
  flags.add("--top", top, 1, 1e15, "number of classes to print");
  return read_pictures(argc, argv, flags, "out/vit",
                       [&](const std::string& dir) { return load_any(dir, top); });
}

}  // namespace

int main(int argc, char** argv) { return run_program("classify", argc, argv, run); }
