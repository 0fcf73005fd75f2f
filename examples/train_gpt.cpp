// Trains a small GPT on a text, character by character, and writes text with it.
//
//   build/bin/train_gpt --data FILE --out DIR        --help lists the flags, --resume goes on
//
// A batch is a function of seed and step alone, and a checkpoint holds all else that a step depends
// on, so a run that was killed and resumed ends with the same bits as one that was not.

#include <gradus/gradus.h>

#include <cstdio>
#include <sstream>

#include "examples/support/cli.h"
#include "examples/support/source_text.h"
#include "examples/support/text.h"
#include "examples/support/training.h"

using namespace gradus;
using models::TextData;

namespace {

struct Options {
  std::string data, val_data;
  models::GPTConfig model;
  int64_t batch = 12;
};

class TextTask : public Task {
 public:
  TextTask(const Options& options, const TrainOptions& training)
      : o_(options),
        training_(training),
        text_(o_.data.empty() ? source_text() : read_file(o_.data)),
        val_text_(o_.val_data.empty() ? "" : read_file(o_.val_data)),
        tokenizer_(make_tokenizer()),
        data_(o_.val_data.empty() ? TextData(tokenizer_->encode(text_), o_.model.context)
                                  : TextData(tokenizer_->encode(text_),
                                             tokenizer_->encode(val_text_), o_.model.context)),
        model_(config()) {}

  nn::Module& model() override { return model_; }
  TaskInfo info() const override;
  Tensor loss(int64_t step, int64_t index) override {
    const auto [x, y] = data_.random_batch(Part::train, o_.batch, training_.seed, step, index);
    return model_.loss(x, y);
  }
  Evaluation estimate(Part part, int64_t step) override;
  Evaluation validation() override;
  void save(const std::string& dir) const override {
    models::save_model(dir, model_, tokenizer_.get());
  }
  void show() override;
  std::string what_next(const std::string& dir) const override {
    return "in " + dir + ": model.safetensors and what else makes it; more of its text:\n" +
           "  build/bin/generate --model " + dir + " --prompt \"...\"\n";
  }

 private:
  std::unique_ptr<models::Tokenizer> make_tokenizer() const {
    const std::string& dir = training_.begins_with();
    if (dir.empty()) return std::make_unique<models::CharTokenizer>(text_ + val_text_);
    return models::load_tokenizer(models::tokenizer_path(dir));
  }
  models::GPTConfig config() const {
    models::GPTConfig config = o_.model;
    config.vocab = tokenizer_->vocab_size();
    return config;
  }

  const Options o_;
  const TrainOptions training_;
  const std::string text_, val_text_;
  const std::unique_ptr<models::Tokenizer> tokenizer_;
  const TextData data_;
  models::GPT model_;
};

TaskInfo TextTask::info() const {
  const int64_t train = data_.length(Part::train), validation = data_.length(Part::validation);
  std::ostringstream out;
  out << "text   " << (o_.data.empty() ? "gradus's own source" : o_.data) << ": "
      << with_commas(train + validation) << " characters, " << with_commas(tokenizer_->vocab_size())
      << " of them different; " << with_commas(train) << " train, "
      << (o_.val_data.empty() ? "the last " : "of " + o_.val_data + ' ') << with_commas(validation)
      << " validate\nmodel  " << with_commas(model_.num_parameters())
      << " parameters: " << o_.model.layers << " layers of width " << o_.model.dim << " with "
      << o_.model.heads << " heads, context " << o_.model.context << '\n';
  return {.model = "GPT",
          .loss = "cross entropy (nats a token)",
          .items = "tokens",
          .batch_items = o_.batch * o_.model.context,
          .data_id = fingerprint(text_) + (o_.val_data.empty() ? "" : ' ' + fingerprint(val_text_)),
          .opening = out.str()};
}

Evaluation TextTask::estimate(Part part, int64_t step) {
  const int64_t batches = training_.eval_batches;
  return {batches, static_cast<double>(batches * o_.batch), [this, part, step](int64_t i) {
            // Other batches than those of training.
            const auto [x, y] = data_.random_batch(part, o_.batch, ~training_.seed, step, i);
            return Score{.loss = model_.loss(x, y).item()};
          }};
}

/// Over the validation part once, without gaps.
Evaluation TextTask::validation() {
  const int64_t windows = data_.num_windows(Part::validation);
  const int64_t at_once = std::max<int64_t>(1, 4096 / o_.model.context);
  return {(windows + at_once - 1) / at_once, static_cast<double>(windows), [=, this](int64_t i) {
            const auto [x, y] = data_.windows(Part::validation, i * at_once, at_once);
            return Score{.loss = model_.loss(x, y).item(),
                         .examples = static_cast<double>(x.size(0))};
          }};
}

void TextTask::show() {
  std::printf("--- a sample ---\n");
  auto print = [&](int64_t id) {
    std::fputs(tokenizer_->decode({id}).c_str(), stdout);
    std::fflush(stdout);
  };
  const bool has_lines = text_.find('\n') != std::string::npos;
  const Tensor first = data_.windows(Part::train, 0, 1).inputs[0];
  models::generate(model_,
                   has_lines ? tokenizer_->encode("\n") : std::vector{first[0].item<int64_t>()},
                   {.tokens = 400,
                    .sampling = {.temperature = 0.8, .top_k = 40},
                    .seed = training_.seed,
                    .on_token = print});
  std::printf("\n---\n");
}

int run(int argc, char** argv) {
  Options o;
  TrainOptions training;
  Flags flags(
      "Trains a small GPT on a text, character by character, and writes a sample.\n"
      "  train_gpt --data FILE --out DIR");
  flags.group("What is trained", true);
  flags.add("--data", o.data, "FILE", "UTF-8 text; its last tenth validates",
            "gradus's own source");
  flags.add("--val-data", o.val_data, "FILE", "UTF-8 text that validates instead", "none");
  flags.add("--batch", o.batch, 1, 65536, "windows of --context tokens in a batch");
  flags.add(models::GPT::fields(o.model), {"vocab"});
  flags.added_later({"--val-data", "--no-tie", "--activation"});
  add_training_flags(flags, training);
  return run_training(argc, argv, flags, training,
                      {.kind = models::GPT::kind,
                       .config = models::GPT::fields(o.model),
                       .data_flags = {"--data", "--val-data"},
                       .make_task = [&] { return std::make_unique<TextTask>(o, training); }});
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_gpt", argc, argv, run); }
