// Trains a model that reads one text and writes another, and draws what it looked at.
//
//   build/bin/train_translator --model rnn|transformer [--pairs FILE.tsv] --out DIR
//
// By default it learns to write dates, which it finds in seventeen forms, as ISO 8601 does.

#include <gradus/gradus.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "examples/support/cli.h"
#include "examples/support/plot.h"
#include "examples/support/text.h"
#include "examples/support/tokenizers.h"
#include "examples/support/training.h"

using namespace gradus;
using models::PairBatch, models::PairData, models::TextPair;

namespace {

enum class Data { dates, reversal, addition };
enum class Schedule { cosine, transformer };

struct Options {
  std::string model = "transformer", pairs;
  Data data = Data::dates;
  TokenizerOptions tokenizer;
  Schedule schedule = Schedule::cosine;
  int64_t count = 20000, batch = 64, beams = 1;
  double label_smoothing = 0.1;
  bool skip_bad = false;
};

std::vector<TextPair> read_data(const Options& o, uint64_t seed) {
  if (o.pairs.empty()) {
    if (o.data == Data::dates) return models::date_pairs(o.count, seed);
    if (o.data == Data::reversal) return models::reversal_pairs(o.count, seed);
    return models::addition_pairs(o.count, seed);
  }
  const models::PairFile file = models::read_pairs(o.pairs, {.skip_bad = o.skip_bad});
  for (const auto& [reason, skipped] : file.skipped)
    std::printf("skipped %s lines of %s: %s, the first is line %s\n",
                with_commas(skipped.lines).c_str(), o.pairs.c_str(), reason.c_str(),
                with_commas(skipped.first).c_str());
  return file.pairs;
}

std::string all_text(const std::vector<TextPair>& pairs) {
  std::string text;
  for (const auto& [source, target] : pairs) text += source + '\n' + target + '\n';
  return text;
}

template <class Model>
class TranslationTask : public Task {
 public:
  TranslationTask(const Options& options, const TrainOptions& training,
                  const typename Model::Config& config)
      : o_(options),
        training_(training),
        pairs_(read_data(options, training.seed)),
        tokenizer_(make_tokenizer(options.tokenizer, training.begins_with(), all_text(pairs_),
                                  {"[PAD]", "[UNK]", "[START]", "[END]"})),
        data_(pairs_, *tokenizer_, *tokenizer_,
              {.max_source = config.context,
               .max_target = config.context - 1,
               .seed = training.seed}),
        batches_(
            [this](int64_t step, int64_t index) {
              return data_.random_batch(Part::train, o_.batch, training_.seed, step, index);
            },
            training.accumulate),
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
  Evaluation estimate(Part part, int64_t step) override {
    return {
        training_.eval_batches, static_cast<double>(training_.eval_batches * o_.batch),
        [this, part, step](int64_t i) {
          return Score{
              .loss =
                  model_.loss(data_.random_batch(part, o_.batch, ~training_.seed, step, i)).item()};
        }};
  }
  Evaluation validation() override;
  void save(const std::string& dir) const override {
    models::save_model(dir, model_, tokenizer_.get());
  }
  void show() override;

 private:
  typename Model::Config with_vocab(typename Model::Config config) const {
    config.source_vocab = config.target_vocab = tokenizer_->vocab_size();
    return config;
  }
  void draw_alignment(const PairBatch& batch, const std::vector<int64_t>& translation) const;
  std::vector<models::Hypothesis> translate(const PairBatch& batch) const {
    return models::translate(model_, batch.source, batch.source_lengths,
                             {.start = tokenizer_->special("[START]"),
                              .stop = tokenizer_->special("[END]"),
                              .beams = o_.beams,
                              .tokens = data_.report().longest_target + 8});
  }

  const Options o_;
  const TrainOptions training_;
  const std::vector<TextPair> pairs_;
  const std::unique_ptr<models::Tokenizer> tokenizer_;
  const PairData data_;
  models::Prefetch<PairBatch> batches_;
  Model model_;
};

/// The tokens of a row of targets: those before [END].
std::vector<int64_t> tokens_of(const Tensor& targets) {
  std::vector<int64_t> ids = targets.to_vector<int64_t>();
  std::erase(ids, -100);
  ids.pop_back();
  return ids;
}

template <class Model>
TaskInfo TranslationTask<Model>::info() const {
  const PairData::Report& r = data_.report();
  std::ostringstream out;
  out << "pairs  " << (o_.pairs.empty() ? "made here" : o_.pairs) << ": " << with_commas(r.train)
      << " train, " << with_commas(r.validation) << " with other sources validate; "
      << with_commas(tokenizer_->vocab_size()) << " tokens\n";
  if (r.too_long + r.empty > 0)
    out << "       left out: " << with_commas(r.too_long) << " longer than --context, "
        << with_commas(r.empty) << " without tokens on a side\n";
  if (r.unknown_sources + r.unknown_targets > 0)
    out << "       unknown: " << with_commas(r.unknown_sources) << " of "
        << with_commas(r.source_tokens) << " source tokens, " << with_commas(r.unknown_targets)
        << " of " << with_commas(r.target_tokens) << " target tokens\n";
  out << "model  " << Model::kind << ", " << with_commas(model_.num_parameters())
      << " parameters, width " << model_.config.dim << '\n';
  return {.model = "translator",
          .loss = "cross entropy (nats a token)",
          .items = "pairs",
          .batch_items = o_.batch,
          .data_id = fingerprint(all_text(pairs_)),
          .opening = out.str()};
}

/// All held-out pairs: the loss of their tokens, and how many are translated exactly.
template <class Model>
Evaluation TranslationTask<Model>::validation() {
  const int64_t pairs = data_.num_pairs(Part::validation), at_once = 256;
  return {(pairs + at_once - 1) / at_once, static_cast<double>(pairs), [this](int64_t i) {
            const PairBatch batch = data_.pairs(Part::validation, i * at_once, at_once);
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
  const PairBatch batch = data_.pairs(Part::validation, 0, 8);
  const auto found = translate(batch);
  for (int64_t i = 0; i < std::ssize(found); ++i) {
    const TextPair& pair = pairs_[static_cast<size_t>(data_.original(Part::validation, i))];
    const std::string said = tokenizer_->decode(found[static_cast<size_t>(i)].tokens);
    std::printf("  %s -> %s%s\n", pair.source.c_str(), said.c_str(),
                said == pair.target ? "" : ("   (" + pair.target + ')').c_str());
  }
  draw_alignment(batch, found.front().tokens);
}

/// What each token of the first pair's translation was made from.
template <class Model>
void TranslationTask<Model>::draw_alignment(const PairBatch& batch,
                                            const std::vector<int64_t>& translation) const {
  auto names = [this](const std::vector<int64_t>& ids) {
    std::vector<std::string> names;
    for (const int64_t id : ids) names.push_back(tokenizer_->decode({id}));
    return names;
  };
  std::vector<int64_t> inputs = translation, outputs = translation;
  inputs.insert(inputs.begin(), tokenizer_->special("[START]"));
  outputs.push_back(tokenizer_->special("[END]"));
  const Tensor source =
      batch.source.slice(0, 0, 1).slice(1, 0, batch.source_lengths[0].item<int64_t>());
  const Tensor weights =
      model_.alignment(source, {}, from_data(inputs, {1, std::ssize(inputs)}))[0];
  std::printf(
      "alignment: %s\n",
      draw_or_write(alignment(training_.out + "/alignment.png", "What it looked at", weights,
                              names(source[0].to_vector<int64_t>()), names(outputs)))
          .c_str());
}

template <class Model>
int run_with(int argc, char** argv, Options o, TrainOptions training) {
  typename Model::Config config;
  if constexpr (std::is_same_v<Model, models::Transformer>) config.layers = 2;
  Flags flags(
      "Trains a model that reads one text and writes another.\n"
      "  train_translator --model rnn|transformer --pairs FILE.tsv --out DIR");
  flags.group("What is trained", true);
  flags.add("--model", o.model, "KIND", "rnn or transformer");
  models::Fields choices;
  choices.add("data", o.data, {"dates", "reversal", "addition"}, "pairs made here");
  choices.add("schedule", o.schedule, {"cosine", "transformer"},
              "of the learning rate; transformer: Adam with dim^-0.5 min(n^-0.5, n warmup^-1.5)");
  flags.add("--pairs", o.pairs, "FILE", "UTF-8 lines, each source, tab, target", "made here");
  flags.add("--skip-bad", o.skip_bad, "leaves out lines of --pairs that are none, and counts them");
  flags.add("--count", o.count, 10, 1e6, "pairs to make");
  flags.add(choices);
  add_tokenizer_flags(flags, o.tokenizer);
  flags.add("--batch", o.batch, 1, 65536, "pairs in a batch");
  flags.add("--label-smoothing", o.label_smoothing, 0, 1, "share of a target that all tokens have");
  flags.add("--beams", o.beams, 1, 1000, "targets kept side by side in a translation");
  flags.add(Model::fields(config), {"source_vocab", "target_vocab"});
  add_training_flags(flags, training);
  return run_training(
      argc, argv, flags, training,
      {.kind = Model::kind,
       .config = Model::fields(config),
       .data_flags = {"--pairs"},
       .make_task = [&] { return std::make_unique<TranslationTask<Model>>(o, training, config); }});
}

int run(int argc, char** argv) {
  Options o;
  TrainOptions training;
  training.steps = 1500, training.eval_every = 250, training.beta2 = 0.98;
  training.weight_decay = 0.01, training.out = "out/translator";
  for (int i = 1; i + 1 < argc; ++i)
    if (argv[i] == std::string("--model")) o.model = argv[i + 1];
  if (o.model == models::RNNTranslator::kind)
    return run_with<models::RNNTranslator>(argc, argv, o, training);
  core::check(o.model == models::Transformer::kind, "--model: expected rnn or transformer, got ",
              shown(o.model));
  return run_with<models::Transformer>(argc, argv, o, training);
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_translator", argc, argv, run); }
