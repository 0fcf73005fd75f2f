// Trains a BERT on a text, by masked words and next-sentence prediction, and shows its predictions
// for masked words.
//
//   build/bin/train_bert --data FILE --out DIR

#include <gradus/gradus.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "examples/page/probes.h"
#include "examples/pictures/heat_map.h"
#include "examples/support/cli.h"
#include "examples/support/source_text.h"
#include "examples/support/text.h"
#include "examples/support/tokenizers.h"
#include "examples/training/training.h"

using namespace gradus;
using models::MaskedBatch, models::MaskedPairs;

namespace {

struct Options {
  std::string data;
  models::BertConfig model;
  TokenizerOptions tokenizer;
  int64_t batch = 32;
};

class BertTask : public Task {
 public:
  BertTask(const Options& options, const TrainOptions& training)
      : o_(options),
        training_(training),
        text_(read_text(o_.data)),
        tokenizer_(make_tokenizer(o_.tokenizer, training.begins_with(), text_,
                                  {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})),
        data_(pairs()),
        batches_(
            [this](int64_t step, int64_t index) {
              return data_.random_batch(Split::train, o_.batch, training_.seed, step, index);
            },
            training.batch_order()),
        model_(config()) {}

  nn::Module& model() override { return model_; }
  TaskInfo info() const override;
  Tensor loss(int64_t step, int64_t index) override {
    const auto [masked, next] = model_.losses(batches_.at(step, index));
    return masked + next;
  }
  Evaluation estimate(Split part, int64_t step) override {
    const int64_t batches = training_.eval_batches, examples = batches * o_.batch;
    return {batches, static_cast<double>(examples), [this, part, step](int64_t i) {
              return score(data_.random_batch(part, o_.batch, ~training_.seed, step, i));
            }};
  }
  Evaluation validation() override {
    const int64_t examples = data_.num_examples(Split::validation), at_once = 64;
    return {num_batches(examples, at_once), static_cast<double>(examples), [this](int64_t i) {
              return score(data_.examples(Split::validation, i * at_once, at_once));
            }};
  }
  void save(const std::string& dir) const override {
    models::save_model(dir, model_, tokenizer_.get());
  }
  void show() override;
  std::string probe(const Question& question) override {
    Question asked = question;
    if (asked.text.empty()) asked.text = "the";
    return gradus::probe(model_, *tokenizer_, asked);
  }

 private:
  /// The examples. Errors name the text, not the class that reads it.
  MaskedPairs pairs() const {
    core::check(o_.model.context >= 5, "--context: expected at least 5, for three special tokens ",
                "and two of the text, got ", o_.model.context);
    try {
      return {text_, *tokenizer_, {.length = o_.model.context}};
    } catch (const Error& e) {
      const std::string what = e.what(), reader = "MaskedPairs: ";
      const size_t opening = what.starts_with(reader) ? reader.size() : 0;
      core::fail(name_of_text(o_.data), ": ", what.substr(opening));
    }
  }
  models::BertConfig config() const {
    models::BertConfig config = o_.model;
    const std::string& dir = training_.begins_with();
    if (!dir.empty() && std::filesystem::exists(models::config_path(dir)))
      config.segments = models::load_config<models::Bert>(dir).segments;
    core::check(config.segments >= 2, models::config_path(dir),
                ": type_vocab_size: expected at least 2 for pairs of texts, got ", config.segments);
    config.vocab = vocab_for<models::Bert>(dir, *tokenizer_);
    return config;
  }
  Score score(const MaskedBatch& batch) const;

  const Options o_;
  const TrainOptions training_;
  const std::string text_;
  const std::unique_ptr<models::Tokenizer> tokenizer_;
  const MaskedPairs data_;
  models::Prefetch<MaskedBatch> batches_;
  models::Bert model_;
};

TaskInfo BertTask::info() const {
  const MaskedPairs::Report& r = data_.report();
  std::ostringstream out;
  out << "text   " << name_of_text(o_.data) << ": " << with_commas(r.tokens) << " tokens, "
      << with_commas(tokenizer_->vocab_size()) << " different and " << with_commas(r.unknown)
      << " unknown; " << with_commas(r.train_tokens) << " train, the last "
      << with_commas(r.validation_tokens) << " validate\nmodel  "
      << with_commas(model_.num_parameters()) << " parameters: " << o_.model.layers
      << " layers of width " << o_.model.dim << " with " << o_.model.heads << " heads, context "
      << o_.model.context << '\n';
  return {.model = "BERT",
          .loss = "cross entropy of masked tokens (nats)",
          .items = "tokens",
          .batch_items = o_.batch * o_.model.context,
          .data_id = fingerprint(text_),
          .opening = out.str()};
}

/// The loss counts only the masked tokens. A batch of unknown words has none.
Score BertTask::score(const MaskedBatch& batch) const {
  if (batch.targets.max().item() < 0) return {.loss = 0, .examples = 0};
  const models::BertAnswers a = model_.answers(batch);
  const auto words = static_cast<double>(a.words.numel());
  const auto rows = static_cast<double>(a.next.numel());
  return {.loss = cross_entropy(a.word_logits, a.words).item(),
          .examples = words,
          .more = {{"masked_accuracy", nn::accuracy(a.word_logits, a.words), words},
                   {"next_accuracy", nn::accuracy(a.next_logits, a.next), rows}}};
}

/// Prints held-out text with the predictions for masked words: <word> if right, else <prediction
/// not word>.
void BertTask::show() {
  const MaskedBatch batch = data_.examples(Split::validation, 0, 3);
  if (batch.targets.max().item() < 0) return;
  const std::vector<int64_t> predicted =
      argmax(model_.answers(batch).word_logits, -1).to_vector<int64_t>();
  auto word = [this](int64_t id) { return visible(tokenizer_->decode({id})); };
  auto next = predicted.begin();
  for (int64_t row = 0; row < batch.ids.size(0); ++row) {
    const auto ids = batch.ids[row].to_vector<int64_t>(),
               targets = batch.targets[row].to_vector<int64_t>();
    std::string line = " ";
    for (size_t i = 0; i < ids.size() && ids[i] != tokenizer_->special("[PAD]"); ++i) {
      const bool is_masked = targets[i] != -100;
      line += is_masked ? " <" + word(*next) : ' ' + word(ids[i]);
      if (is_masked) line += *next++ == targets[i] ? ">" : " not " + word(targets[i]) + '>';
    }
    std::printf("%s\n", line.c_str());
  }
}

int run(int argc, char** argv) {
  Options o;
  o.model.layers = 2, o.model.context = 64, o.model.dropout = 0.05;
  o.tokenizer.name = "word";
  TrainOptions training;
  training.steps = 4000, training.eval_every = 500, training.lr = 3e-3, training.warmup = 600;
  training.beta2 = 0.98, training.weight_decay = 0.01, training.out = "out/bert";
  Flags flags(
      "Trains a BERT on a text and shows its predictions for masked words.\n"
      "  train_bert --data FILE --out DIR");
  flags.group("Model and data", true);
  flags.add("--data", o.data, "FILE", "UTF-8 text; empty lines separate documents",
            name_of_text(""));
  add_tokenizer_flags(flags, o.tokenizer);
  flags.add("--batch", o.batch, 1, 65536, "examples per batch, of --context tokens each");
  flags.add(models::Bert::fields(o.model), {"vocab", "segments"});
  add_training_flags(flags, training);
  add_recompute_flag(flags, o.model);
  return run_training(argc, argv, flags, training,
                      {.kind = models::Bert::kind,
                       .config = models::Bert::fields(o.model),
                       .data_flags = {"--data"},
                       .make_task = [&] { return std::make_unique<BertTask>(o, training); }});
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_bert", argc, argv, run); }
