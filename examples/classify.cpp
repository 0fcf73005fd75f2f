// Says what images show, by a model that train_vit or train_cnn_attention wrote.
//
//   build/bin/classify --model DIR IMAGE.png ...

#include <gradus/gradus.h>

#include <algorithm>
#include <cstdio>

#include "examples/support/cli.h"
#include "examples/support/flags.h"
#include "examples/support/heat_map.h"
#include "examples/support/picture_file.h"
#include "examples/support/text.h"

using namespace gradus;
using models::ImageInfo;

namespace {

/// A model of any kind.
struct Classifier {
  int64_t size, channels, classes;
  std::function<Tensor(const Tensor& images)> logits;
};

template <class Model>
Classifier load(const std::string& dir) {
  const auto model = std::make_shared<Model>(models::load_model<Model>(dir));
  model->to(float32);
  return {model->config.image, model->config.channels, model->config.classes,
          [model](const Tensor& images) { return (*model)(images); }};
}

/// All kinds of model that this program knows.
Classifier load_any(const std::string& dir) {
  const std::string kind = models::model_kind(dir);
  if (kind == models::ViT::kind) return load<models::ViT>(dir);
  if (kind == models::CNNAttention::kind) return load<models::CNNAttention>(dir);
  core::fail(models::config_path(dir),
             ": expected a classifier of images (vit, cnn_attention), got ", shown(kind));
}

void print_likeliest(const Tensor& probs, int64_t most, const std::vector<std::string>& names) {
  const auto [values, indices] = topk(probs, std::min(most, probs.numel()));
  const std::vector<double> p = values.to_vector<double>();
  const std::vector<int64_t> classes = indices.to_vector<int64_t>();
  for (size_t i = 0; i < p.size(); ++i)
    std::printf("  %.4f  %s\n", p[i],
                visible(names[static_cast<size_t>(classes[i])], false).c_str());
}

int run(int argc, char** argv) {
  std::string folder = "out/vit";
  std::vector<std::string> paths;
  int64_t top = 5, threads = num_threads();
  Flags flags(
      "Says what images show: for each the likeliest classes, with probabilities.\n"
      "  classify --model DIR IMAGE.png ...");
  flags.group("Flags");
  flags.add("--model", folder, "DIR", "folder that train_vit or train_cnn_attention wrote");
  flags.add("--top", top, 1, 1e15, "classes to name");
  flags.add("--threads", threads, 1, 1024, "threads to compute with");
  flags.rest(paths);
  if (!flags.parse(argc, argv)) return 0;
  core::check(!paths.empty(), "expected PNG files (--help says more)");
  set_num_threads(static_cast<int>(threads));

  const NoGrad no_grad;
  const EvalMode eval;
  const Classifier model = load_any(folder);
  const ImageInfo info = image_info_of(folder, model.channels);
  core::check(std::ssize(info.class_names) == model.classes, models::image_info_path(folder), ": ",
              info.class_names.size(), " classes, the model has ", model.classes);
  std::vector<Tensor> images;
  for (const std::string& path : paths)
    images.push_back(read_picture(path, model.size, model.channels));
  for (size_t i = 0; i < paths.size(); ++i) {
    const Tensor x = models::normalize(images[i].unsqueeze(0), info.stats);
    std::printf("%s\n", paths[i].c_str());
    print_likeliest(softmax(model.logits(x))[0], top, info.class_names);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("classify", argc, argv, run); }
