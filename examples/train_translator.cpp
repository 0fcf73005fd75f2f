// Trains an encoder-decoder that translates one text into another, and draws the alignment.
//
//   build/bin/train_translator --model rnn|transformer [--pairs FILE.tsv] --out DIR
//   build/bin/train_translator --data denoise [--text FILE] --out DIR
//
// By default it learns to rewrite dates, given in seventeen formats, in ISO 8601. With --data
// denoise it needs no pairs: it learns to restore spans removed from the lines of a text.

#include <gradus/gradus.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "examples/page/probes.h"
#include "examples/pictures/plot.h"
#include "examples/support/cli.h"
#include "examples/support/text.h"
#include "examples/tasks/pair_corpus.h"
#include "examples/training/run_folder.h"
#include "examples/training/training.h"

using namespace gradus;
using models::PairBatch;

namespace {

enum class Schedule { cosine, transformer };

struct Options {
  std::string model = "transformer";
  PairCorpusOptions corpus;
  Schedule schedule = Schedule::cosine;
  int64_t batch = 64, beams = 1;
  double label_smoothing = 0.1;
};

/// The tokens of a row of targets, up to [END].
std::vector<int64_t> tokens_of(const Tensor& targets) {
  std::vector<int64_t> ids = targets.to_vector<int64_t>();
  std::erase(ids, -100);
  ids.pop_back();
  return ids;
}

/// The tokens of a row's source.
std::vector<int64_t> source_of(const PairBatch& batch, int64_t row) {
  return batch.source[row]
      .slice(0, 0, batch.source_lengths[row].item<int64_t>())
      .to_vector<int64_t>();
}

template <class Model>
class TranslationTask : public Task {
 public:
  TranslationTask(const Options& options, const TrainOptions& training,
                  const typename Model::Config& config)
      : o_(options),
        training_(training),
        corpus_(make_pair_corpus(o_.corpus, training.begins_with(), config.context, training.seed)),
        batches_(
            [this](int64_t step, int64_t index) {
              return corpus_.pairs->random_batch(Split::train, o_.batch, training_.seed, step,
                                                 index);
            },
            training.batch_order()),
        model_(with_vocab(config)) {}

  nn::Module& model() override { return model_; }
  TaskInfo info() const override;
  Tensor loss(int64_t step, int64_t index) override {
    return model_.loss(batches_.at(step, index), o_.label_smoothing);
  }
  std::unique_ptr<optim::Optimizer> make_optimizer(const TrainOptions& t) override {
    if (o_.schedule == Schedule::cosine) return Task::make_optimizer(t);
    return std::make_unique<optim::Adam>(model_.parameters(),
                                         optim::AdamOptions{.beta2 = 0.98, .eps = 1e-9});
  }
  double learning_rate(const TrainOptions& t, int64_t step) const override {
    if (o_.schedule == Schedule::cosine) return Task::learning_rate(t, step);
    return optim::schedule::transformer(step, model_.config.dim, t.warmup);
  }
  Evaluation estimate(Split part, int64_t step) override {
    return {training_.eval_batches, static_cast<double>(training_.eval_batches * o_.batch),
            [this, part, step](int64_t i) {
              return Score{.loss = model_
                                       .loss(corpus_.pairs->random_batch(part, o_.batch,
                                                                         ~training_.seed, step, i))
                                       .item()};
            }};
  }
  Evaluation validation() override;
  void save(const std::string& dir) const override {
    models::save_model(dir, model_, corpus_.tokenizer.get());
  }
  void show() override;
  std::string probe(const Question& question) override {
    Question asked = question;
    if (asked.text.empty())
      asked.text =
          corpus_.tokenizer->decode(source_of(corpus_.pairs->pairs(Split::validation, 0, 1), 0));
    return gradus::probe(model_, *corpus_.tokenizer, asked);
  }

 private:
  typename Model::Config with_vocab(typename Model::Config config) const {
    config.source_vocab = config.target_vocab = corpus_.tokenizer->vocab_size();
    return config;
  }
  void draw_alignment(const std::vector<int64_t>& source,
                      const std::vector<int64_t>& translation) const;
  /// Translations of at most one token less than the context, which also holds [START].
  std::vector<models::Hypothesis> translate(const PairBatch& batch) const {
    return models::translate(
        model_, batch.source, batch.source_lengths,
        {.start = corpus_.tokenizer->special("[START]"),
         .stop = corpus_.tokenizer->special("[END]"),
         .beams = o_.beams,
         .tokens = std::min(corpus_.pairs->longest_target() + 8, model_.config.context - 1)});
  }

  const Options o_;
  const TrainOptions training_;
  const PairCorpus corpus_;
  models::Prefetch<PairBatch> batches_;
  Model model_;
};

template <class Model>
TaskInfo TranslationTask<Model>::info() const {
  return {.model = "translator",
          .loss = "cross entropy (nats a token)",
          .items = "pairs",
          .batch_items = o_.batch,
          .data_id = corpus_.id,
          .opening = corpus_.about + "model  " + Model::kind + ", " +
                     with_commas(model_.num_parameters()) + " parameters, width " +
                     std::to_string(model_.config.dim) + ", " +
                     with_commas(corpus_.tokenizer->vocab_size()) + " different tokens\n"};
}

/// Evaluates all validation pairs. `exact`: fraction translated exactly.
template <class Model>
Evaluation TranslationTask<Model>::validation() {
  const int64_t pairs = corpus_.pairs->num_pairs(Split::validation), at_once = 256;
  return {num_batches(pairs, at_once), static_cast<double>(pairs), [this](int64_t i) {
            const PairBatch batch = corpus_.pairs->pairs(Split::validation, i * at_once, at_once);
            const auto found = translate(batch);
            double exact = 0;
            for (size_t row = 0; row < found.size(); ++row)
              exact += found[row].tokens == tokens_of(batch.targets[static_cast<int64_t>(row)]);
            const auto rows = static_cast<double>(found.size());
            return Score{.loss = model_.loss(batch).item(),
                         .examples = sum(ne(batch.targets, -100)).item(),
                         .more = {{"exact", exact / rows, rows}}};
          }};
}

template <class Model>
void TranslationTask<Model>::show() {
  const PairBatch batch = corpus_.pairs->pairs(Split::validation, 0, 8);
  const auto found = translate(batch);
  const auto text = [this](const std::vector<int64_t>& ids) {
    return visible(corpus_.tokenizer->decode(ids), false);
  };
  for (int64_t i = 0; i < std::ssize(found); ++i) {
    const std::string source = text(source_of(batch, i)),
                      target = text(tokens_of(batch.targets[i])),
                      output = text(found[static_cast<size_t>(i)].tokens);
    std::printf("  %s -> %s%s\n", source.c_str(), output.c_str(),
                output == target ? "" : ("   (" + target + ')').c_str());
  }
  const int64_t longest = argmax(batch.source_lengths).item<int64_t>();
  draw_alignment(source_of(batch, longest), found[static_cast<size_t>(longest)].tokens);
}

/// Draws the attention of each token of a translation to the source.
template <class Model>
void TranslationTask<Model>::draw_alignment(const std::vector<int64_t>& source,
                                            const std::vector<int64_t>& translation) const {
  const models::Tokenizer& tokenizer = *corpus_.tokenizer;
  std::vector<int64_t> inputs = translation, outputs = translation;
  inputs.insert(inputs.begin(), tokenizer.special("[START]"));
  outputs.push_back(tokenizer.special("[END]"));
  const Tensor weights = model_.alignment(from_data(source, {1, std::ssize(source)}), {},
                                          from_data(inputs, {1, std::ssize(inputs)}))[0];
  const HeatMap map = alignment(training_.out + "/alignment.png",
                                "Attention to the source before each token is written", weights,
                                token_texts(tokenizer, source), token_texts(tokenizer, outputs));
  std::printf("alignment: %s\n", draw_or_write(map).c_str());
}

template <class Model>
int run_with(int argc, char** argv, Options o, TrainOptions training) {
  typename Model::Config config;
  if constexpr (std::is_same_v<Model, models::Transformer>) config.layers = 2;
  Flags flags(
      "Trains an encoder-decoder that translates one text into another.\n"
      "  train_translator --model rnn|transformer --pairs FILE.tsv --out DIR\n"
      "  train_translator --data denoise --text FILE --out DIR");
  flags.group("Model and data", true);
  flags.add("--model", o.model, "KIND", "rnn or transformer");
  add_pair_corpus_flags(flags, o.corpus);
  flags.add("--batch", o.batch, 1, 65536, "pairs per batch");
  flags.add("--label-smoothing", o.label_smoothing, 0, 1, "label smoothing");
  flags.add("--schedule", o.schedule, {"cosine", "transformer"},
            "learning-rate schedule (transformer: with Adam)");
  flags.add("--beams", o.beams, 1, 1000, "beam width");
  flags.add(Model::fields(config), {"source_vocab", "target_vocab"});
  add_training_flags(flags, training);
  add_recompute_flag(flags, config);
  return run_training(argc, argv, flags, training,
                      {.kind = Model::kind,
                       .config = Model::fields(config),
                       .data_flags = {"--pairs", "--text"},
                       .make_task = [&] {
                         check_pair_corpus_flags(flags, o.corpus);
                         if (o.schedule == Schedule::transformer)
                           flags.refuse({"--optimizer", "--lr", "--min-lr", "--stable",
                                         "--decay-steps", "--beta", "--weight-decay"},
                                        " has no effect: --schedule transformer trains with Adam");
                         return std::make_unique<TranslationTask<Model>>(o, training, config);
                       }});
}

/// The kind of model that the checkpoint in `out` stores, or `otherwise` if it stores none.
std::string kind_in_checkpoint(const std::string& out, const std::string& otherwise) {
  std::string note;
  RunFolder folder(out, {"checkpoint.safetensors"});
  const models::Checkpoint checkpoint = folder.load_checkpoint(note);
  const std::string& text = stored_text(checkpoint.metadata(), "options", folder.checkpoint());
  const auto options = nlohmann::json::parse(text, nullptr, false);
  const bool has_kind = options.is_object() && options.contains("model");
  return has_kind && options["model"].is_string() ? options["model"].get<std::string>() : otherwise;
}

/// The kind of model, which determines the other flags: --model, or the kind in the folder that the
/// run starts from.
std::string kind_of_model(int argc, char** argv, Options o, TrainOptions training) {
  Flags flags("");
  flags.add("--model", o.model, "KIND", "rnn or transformer");
  add_training_flags(flags, training);
  flags.parse_known(argc, argv);
  const std::string& dir = training.begins_with();
  std::string found = stored_kind(training);
  if (found.empty() && !training.from_checkpoint()) return o.model;
  if (found.empty()) found = kind_in_checkpoint(dir, o.model);
  core::check(!flags.given("--model") || o.model == found, "--model ", shown(o.model),
              ": the model in ", dir, " is of kind ", shown(found));
  return found;
}

int run(int argc, char** argv) {
  Options o;
  TrainOptions training;
  training.steps = 1500, training.eval_every = 250, training.beta2 = 0.98;
  training.weight_decay = 0.01, training.out = "out/translator";
  o.model = kind_of_model(argc, argv, o, training);
  if (o.model == models::RNNTranslator::kind)
    return run_with<models::RNNTranslator>(argc, argv, o, training);
  core::check(o.model == models::Transformer::kind, "--model: expected rnn or transformer, got ",
              shown(o.model));
  return run_with<models::Transformer>(argc, argv, o, training);
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_translator", argc, argv, run); }
