// Trains a model that captions pictures, and draws its attention map for each word.
//
//   build/bin/train_caption --data shapes:N --out DIR

#include <gradus/gradus.h>

#include <algorithm>
#include <cstdio>

#include "examples/pictures/image_pictures.h"
#include "examples/support/cli.h"
#include "examples/support/text.h"
#include "examples/tasks/caption_task.h"

using namespace gradus;
using models::Captioner, models::CaptionerConfig;

namespace {

struct CaptionerOptions {
  ImageOptions images = captioned_images();
  int64_t beams = 1;
};

void add_flags(Flags& flags, CaptionerOptions& o) {
  flags.add("--beams", o.beams, 1, 1000, "beam width");
  add_flags(flags, o.images);
}

class CaptionerTask : public CaptionTask {
 public:
  CaptionerTask(const CaptionerOptions& options, const TrainOptions& training,
                const CaptionerConfig& config)
      : CaptionTask(options.images, training),
        beams_(options.beams),
        model_(with_words(fitted(config), 1)) {}

  nn::Module& model() override { return model_; }
  TaskInfo info() const override {
    const CaptionerConfig& c = model_.config;
    const std::string side = std::to_string(c.grid());
    return info_of("captioner", "cross entropy (nats a token)", model_,
                   std::to_string(c.convolutions + 1) + " convolutions, " + side + " x " + side +
                       " positions of " + std::to_string(c.features()) + " features, a state of " +
                       std::to_string(c.hidden));
  }
  Tensor loss(int64_t step, int64_t index) override {
    const models::ImageBatch batch = views(step, index)[0];
    return model_.loss(batch.images, texts(Split::train, batch.ids));
  }
  void save(const std::string& dir) const override { write_model(dir, model_, tokenizer_.get()); }
  void show() override;
  std::string what_next(const std::string& dir) const override { return try_with("caption", dir); }

 protected:
  /// `exact`: fraction of pictures captioned exactly as one of the true captions.
  Score score(Split part, const Views& views) const override {
    const auto& [images, labels, ids] = views[0];
    const models::TextBatch tokens = texts(part, ids);
    Score score{.loss = model_.loss(images, tokens).item(),
                .examples = sum(tokens.lengths - 1.0).item()};
    if (part == Split::train) return score;
    const std::vector<models::Hypothesis> hypotheses = say(images);
    const std::vector<std::string> truth = captions(part, ids);
    double exact = 0;
    for (size_t i = 0; i < hypotheses.size(); ++i) exact += is_true(hypotheses[i], truth[i]);
    const auto n = static_cast<double>(hypotheses.size());
    score.more = {{"exact", exact / n, n}};
    return score;
  }

 private:
  std::vector<models::Hypothesis> say(const Tensor& images) const {
    return model_.captions(images, {.start = tokenizer_->special("[START]"),
                                    .stop = tokenizer_->special("[END]"),
                                    .beams = beams_,
                                    .tokens = model_.config.context - 1});
  }
  bool is_true(const models::Hypothesis& hypothesis, const std::string& caption) const {
    const std::string text = tokenizer_->decode(hypothesis.tokens);
    return text == caption || text == models::swapped_caption(caption);
  }
  void draw_attention_maps(const Tensor& images,
                           const std::vector<models::Hypothesis>& hypotheses) const;

  const int64_t beams_;
  Captioner model_;
};

void CaptionerTask::show() {
  const models::ImageBatch batch = corpus_.part(Split::validation).range(0, 8);
  const std::vector<models::Hypothesis> hypotheses =
      say(models::normalize(batch.images, image_info_.stats));
  draw_attention_maps(batch.images, hypotheses);
  const std::vector<std::string> truth = captions(Split::validation, batch.ids);
  for (size_t i = 0; i < hypotheses.size(); ++i)
    std::printf("  %s%s\n", tokenizer_->decode(hypotheses[i].tokens).c_str(),
                is_true(hypotheses[i], truth[i]) ? "" : ("   (" + truth[i] + ')').c_str());
  write_example();
}

/// One row per image: the image, then an attention map per word of its caption.
void CaptionerTask::draw_attention_maps(const Tensor& images,
                                        const std::vector<models::Hypothesis>& hypotheses) const {
  const int64_t n = images.size(0);
  size_t longest = 1;
  for (const models::Hypothesis& one : hypotheses) longest = std::max(longest, one.tokens.size());
  const auto T = static_cast<int64_t>(longest);
  std::vector<int64_t> read;  // tokens that the decoder reads
  for (const models::Hypothesis& one : hypotheses) {
    read.push_back(tokenizer_->special("[START]"));
    for (size_t t = 1; t < longest; ++t)
      read.push_back(t <= one.tokens.size() ? one.tokens[t - 1] : tokenizer_->special("[PAD]"));
  }
  const Tensor weights =
      model_.attention_maps(models::normalize(images, image_info_.stats), from_data(read, {n, T}));
  std::vector<Tensor> pictures;
  TileLine said;  // a word under each map
  for (int64_t i = 0; i < n; ++i) {
    const std::vector<int64_t>& tokens = hypotheses[static_cast<size_t>(i)].tokens;
    const auto words = std::ssize(tokens);
    said.texts.emplace_back();
    for (const int64_t token : tokens) said.texts.push_back(tokenizer_->decode({token}));
    said.texts.resize(static_cast<size_t>((i + 1) * (1 + T)));
    const Tensor image = images.slice(0, i, i + 1);
    pictures.push_back(image);
    if (words > 0)
      pictures.push_back(
          attention_overlay(image.expand({words, image.size(1), image.size(2), image.size(3)}),
                            weights[i].slice(0, 0, words)));
    if (words < T) pictures.push_back(ones({T - words, 3, image.size(2), image.size(3)}));
  }
  Tiles tiles{.path = training_.out + "/attention.png",
              .title =
                  "Held-out pictures, and where the model looks as it writes each word: the "
                  "redder, the more",
              .images = cat(pictures, 0),
              .across = 1 + T,
              .headings = {"picture"},
              .lines = {said}};
  for (int64_t t = 1; t <= T; ++t) tiles.headings.push_back("word " + std::to_string(t));
  std::printf("attention: %s\n", draw_or_write(tiles).c_str());
}

int run(int argc, char** argv) {
  return train_on_images<Captioner, CaptionerTask>(
      argc, argv,
      "Trains a model that captions pictures.\n"
      "  train_caption --data shapes:N --out DIR",
      CaptionerOptions{}, {.steps = 2500, .lr = 3e-3, .weight_decay = 0.01, .out = "out/caption"});
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_caption", argc, argv, run); }
