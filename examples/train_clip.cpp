// Trains a CLIP, an image and a text encoder with a joint embedding, and draws the similarity of
// unseen pictures and captions.
//
//   build/bin/train_clip --data shapes:N --out DIR

#include <gradus/gradus.h>

#include <cstdio>

#include "examples/pictures/heat_map.h"
#include "examples/pictures/plot.h"
#include "examples/support/cli.h"
#include "examples/tasks/caption_task.h"

using namespace gradus;
using models::CLIP, models::CLIPConfig;

namespace {

class CLIPTask : public CaptionTask {
 public:
  CLIPTask(const ImageOptions& images, const TrainOptions& training, const CLIPConfig& config)
      : CaptionTask(images, training), model_(of_data(config)) {
    core::check(images.batch >= 2, "--batch: expected at least 2 pictures to contrast, got ",
                images.batch);
    for (const Split part : {Split::train, Split::validation})
      core::check(different(part)[0].numel() >= 2, "--data ", images.data,
                  ": expected at least 2 pictures without a caption in common in each part");
  }

  nn::Module& model() override { return model_; }
  TaskInfo info() const override {
    const CLIPConfig& c = model_.config;
    return info_of("CLIP", "contrastive cross entropy", model_,
                   "images " + std::to_string(c.image.layers) + " layers of width " +
                       std::to_string(c.image.dim) + ", texts " + std::to_string(c.text_layers) +
                       " of " + std::to_string(c.text_dim) + ", a joint embedding of " +
                       std::to_string(c.shared));
  }
  Tensor loss(int64_t step, int64_t index) override {
    const models::ImageBatch batch = views(step, index)[0];
    return model_.loss(batch.images, texts(Split::train, batch.ids));
  }
  /// Evaluates on batches of up to 100 pictures, no two of which share a caption.
  Evaluation estimate(Split part, int64_t) override {
    std::vector<Tensor> batches = different(part);
    if (std::ssize(batches) > training_.eval_batches)
      batches.resize(static_cast<size_t>(training_.eval_batches));
    return evaluation(part, std::move(batches));
  }
  Evaluation validation() override {
    return evaluation(Split::validation, different(Split::validation));
  }
  void save(const std::string& dir) const override { write_model(dir, model_, tokenizer_.get()); }
  void show() override;

 protected:
  /// `retrieval`: fraction of pictures most similar to their own caption. `zero_shot`: fraction of
  /// the pictures of a single shape that are most similar to "a " + the name of their class.
  Score score(Split part, const Views& views) const override {
    const auto& [images, labels, ids] = views[0];
    const models::TextBatch tokens = texts(part, ids);
    const Tensor image = model_.image_features(images);
    const Tensor fit = model_.similarity(image, model_.text_features(tokens));  // (n, n)
    const auto n = static_cast<double>(ids.numel());
    const Tensor own = arange(ids.numel());
    const double loss = (cross_entropy(fit, own).item() + cross_entropy(fit.mT(), own).item()) / 2;

    std::vector<std::string> classes = image_info_.class_names;
    for (std::string& name : classes) name = "a " + name;
    const models::TextBatch named = models::text_batch(*tokenizer_, classes);
    const std::vector<int64_t> truth = labels.to_vector<int64_t>(),
                               predicted = model_.similarity(image, model_.text_features(named))
                                               .argmax(1)
                                               .to_vector<int64_t>();
    const std::vector<std::string> caption = captions(part, ids);
    double single = 0, right = 0;
    for (size_t i = 0; i < truth.size(); ++i)
      if (caption[i] == classes[static_cast<size_t>(truth[i])])
        ++single, right += predicted[i] == truth[i];
    return {.loss = loss,
            .examples = n,
            .more = {{"retrieval", nn::accuracy(fit, own), n},
                     {"zero_shot", single > 0 ? right / single : 0, single}}};
  }

 private:
  CLIPConfig of_data(CLIPConfig config) const {
    config.image = fitted(config.image);
    return with_words(config);
  }
  std::vector<Tensor> different(Split part) const { return all_different(part, 100); }

  CLIP model_;
};

/// Draws the cosine similarity of unseen pictures and captions, and the pictures.
void CLIPTask::show() {
  const Tensor all = all_different(Split::validation, 16)[0];
  const models::ImageBatch batch = corpus_.part(Split::validation).batch(all);
  const Tensor image = model_.image_features(models::normalize(batch.images, image_info_.stats)),
               text = model_.text_features(texts(Split::validation, batch.ids));
  HeatMap map = heat_map(training_.out + "/similarity.png",
                         "Cosine similarity of unseen pictures and captions",
                         {"", matmul(text, image.mT()), captions(Split::validation, batch.ids)});
  map.x_label = "picture", map.y_label = "caption", map.shades = Shades::diverging, map.largest = 1;
  std::printf("similarity: %s\n", draw_or_write(map).c_str());
  TileLine numbers{"picture"};
  for (int64_t i = 0; i < all.numel(); ++i) numbers.texts.push_back(std::to_string(i));
  std::printf("pictures: %s\n", draw_or_write(Tiles{.path = training_.out + "/pictures.png",
                                                    .title = "The pictures of similarity.png",
                                                    .images = batch.images,
                                                    .lines = {numbers}})
                                    .c_str());
  write_example();
}

int run(int argc, char** argv) {
  ImageOptions images = captioned_images();
  images.batch = 128;
  return train_on_images<CLIP, CLIPTask>(
      argc, argv,
      "Trains a CLIP: an image and a text encoder with a joint embedding.\n"
      "  train_clip --data shapes:N --out DIR",
      images, {.steps = 2000, .warmup = 200, .lr = 2e-3, .weight_decay = 0.05, .out = "out/clip"});
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_clip", argc, argv, run); }
