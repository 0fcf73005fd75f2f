// Trains a small GPT on a text's characters, words or byte pairs, and samples from it.
//
//   build/bin/train_gpt --data FILE --out DIR        see --help; --resume continues
//
// A batch depends only on seed and step, and a checkpoint holds everything else that a step depends
// on, so a run that was killed and resumed ends with the same bits as an uninterrupted one.

#include <gradus/gradus.h>

#include <cmath>
#include <numbers>
#include <sstream>

#include "examples/page/probes.h"
#include "examples/support/cli.h"
#include "examples/support/text.h"
#include "examples/support/weights.h"
#include "examples/tasks/chat_corpus.h"
#include "examples/training/training.h"

using namespace gradus;

namespace {

struct Options {
  CorpusOptions text;
  std::string chat_template;
  models::GPTConfig model;
  int64_t batch = 12;
  nn::LoraOptions lora{.rank = 0};
  std::string lora_layers;  // separated by commas
  Weights lora_weights = Weights::float32;
};

std::unique_ptr<TokenSource> read_data(const Options& o, const TrainOptions& training) {
  if (ChatCorpus::reads(o.text.data))
    return std::make_unique<ChatCorpus>(o.text, training.begins_with(), o.chat_template,
                                        o.model.context);
  TokenFiles files = training.resume ? TokenFiles::keep : TokenFiles::replace;
  if (training.eval_only) files = TokenFiles::read_only;
  return std::make_unique<Corpus>(o.text, training.begins_with(), training.out, o.model.context,
                                  files);
}

/// Returns the information about texts to be saved with the run's model: that of the folder `dir`
/// that the run begins with, and the run's chat template if that information would give another.
models::TextInfo read_text_info(const std::string& dir, const TokenSource& text) {
  models::TextInfo info = dir.empty() ? models::TextInfo() : models::load_text_info(dir);
  const std::string used = text.chat_template();
  try {
    if (used.empty()) return info;
    if (models::match_chat_template(info.chat_template, text.tokenizer()).name == used) return info;
  } catch (const Error&) {  // an unsupported template: --chat-template names the one in use
  }
  info.chat_template = used;
  return info;
}

class TextTask : public Task {
 public:
  TextTask(const Options& options, const TrainOptions& training)
      : o_(options),
        training_(training),
        text_(read_data(o_, training_)),
        text_info_(read_text_info(o_.text.tokenizer.folder(training.begins_with()), *text_)),
        model_(config()) {}

  const TokenSource& text() const { return *text_; }
  nn::Module& model() override { return model_; }
  TaskInfo info() const override;
  void begin() override;
  Tensor loss(int64_t step, int64_t index) override {
    const auto [x, y, positions] =
        text_->random_batch(Split::train, o_.batch, training_.seed, step, index);
    return model_.loss(x, y, positions);
  }
  Evaluation estimate(Split part, int64_t step) override {
    const int64_t batches = training_.eval_batches, tokens = batches * o_.batch * o_.model.context;
    return evaluation(batches, tokens, [this, part, step](int64_t i) {
      // ~seed gives other batches than training has.
      return text_->random_batch(part, o_.batch, ~training_.seed, step, i);
    });
  }
  /// Evaluates every token of the validation part once.
  Evaluation validation() override {
    return evaluation(text_->validation_batches(), text_->validation_inputs(),
                      [this](int64_t i) { return text_->validation_batch(i); });
  }
  void save(const std::string& dir) const override;
  void show() override;
  std::string probe(const Question& question) override {
    return gradus::probe(model_, text_->tokenizer(), asked(question));
  }
  NamedTensors activations() override;
  std::string what_next(const std::string& dir) const override;

 private:
  /// Whether updates can be added to the weights.
  bool merges() const { return o_.lora_weights == Weights::float32; }
  models::GPTConfig config() const {
    models::GPTConfig config = o_.model;
    config.vocab = vocab_for<models::GPT>(training_.begins_with(), text_->tokenizer());
    return config;
  }
  Question asked(Question question) const;
  Evaluation evaluation(int64_t batches, int64_t tokens,
                        std::function<models::PackedBatch(int64_t)> batch) const;

  const Options o_;
  const TrainOptions training_;
  const std::unique_ptr<TokenSource> text_;
  const models::TextInfo text_info_;
  models::GPT model_;
};

TaskInfo TextTask::info() const {
  std::ostringstream out;
  out << text_->opening() << "model  " << with_commas(model_.num_parameters())
      << " parameters: " << o_.model.layers << " layers of width " << o_.model.dim << " with "
      << o_.model.heads << " heads, context " << o_.model.context << '\n';
  return {.model = "GPT",
          .loss = "cross entropy (nats a token)",
          .items = "tokens",
          .batch_items = o_.batch * o_.model.context,
          .data_id = text_->id(),
          .opening = out.str()};
}

void TextTask::begin() {
  if (o_.lora.rank == 0) return;
  nn::LoraOptions options = o_.lora;
  std::istringstream layers(o_.lora_layers);
  for (std::string layer; std::getline(layers, layer, ',');) options.layers.push_back(layer);
  store_weights(model_, o_.lora_weights);
  nn::add_lora(model_, options);
  if (merges()) nn::merged_state_dict(model_);  // throws what save() would throw later
}

/// With low-rank updates: the updates alone and, unless the weights are compressed, the model with
/// the updates in its weights.
void TextTask::save(const std::string& dir) const {
  if (o_.lora.rank == 0) {
    models::save_model(dir, model_, &text_->tokenizer());
    return models::save_text_info(dir, text_info_);
  }
  models::GPTConfig config = model_.config;
  const models::Fields fields = models::GPT::fields(config);
  if (merges())
    models::save_model_files(dir, models::GPT::kind, fields, nn::merged_state_dict(model_));
  else
    models::save_config(dir, models::GPT::kind, fields);
  text_->tokenizer().save(models::tokenizer_path(dir));
  models::save_text_info(dir, text_info_);
  models::save_adapter(dir, model_);
}

std::string TextTask::what_next(const std::string& dir) const {
  const std::string from = training_.init_from.empty() ? "DIR" : in_shell(training_.init_from);
  const std::string model = merges() ? in_shell(dir) : from + " --adapter " + in_shell(dir);
  return (merges() ? "model in " : "updates in ") + dir + "; to generate text:\n" +
         "  build/bin/generate --model " + model + " --prompt \"...\"\n";
}

/// bits_per_byte = loss * tokens / (ln 2 * bytes) compares models with different tokenizers.
Evaluation TextTask::evaluation(int64_t batches, int64_t tokens,
                                std::function<models::PackedBatch(int64_t)> batch) const {
  return {batches, static_cast<double>(tokens), [this, batch](int64_t i) {
            const auto [x, y, positions] = batch(i);
            const double loss = model_.loss(x, y, positions).item(), bytes = text_->bytes(y);
            const double tokens = ge(y, 0).to(float64).sum().item();
            const double bits = loss * tokens / std::numbers::ln2;
            return Score{
                .loss = loss, .examples = tokens, .more = {{"bits_per_byte", bits / bytes, bytes}}};
          }};
}

void TextTask::show() {
  print_now("--- a sample ---\n");
  const std::vector<int64_t> prompt = text_->first_tokens();
  if (prompt.size() > 1) print_now(text_->tokenizer().decode(prompt));
  const std::string end = text_->end_of_sample();
  models::StopText shown(end.empty() ? std::vector<std::string>{} : std::vector{end});
  TokenText text(text_->tokenizer());
  models::generate(model_, prompt,
                   {.tokens = 400,
                    .sampling = {.temperature = 0.8, .top_k = 40},
                    .seed = training_.seed,
                    .vocab = text_->tokenizer().vocab_size(),
                    .on_token = [&](int64_t id) { print_now(shown.add(text.add(id))); },
                    .stop_if = [&] { return shown.stopped(); }});
  print_now(shown.rest() + "\n---\n");
}

/// The question, about the beginning of the validation part if it has no text.
Question TextTask::asked(Question question) const {
  if (!question.text.empty()) return question;
  const int64_t tokens = std::min<int64_t>(32, o_.model.context);
  const Tensor ids = text_->validation_batch(0).inputs[0].slice(0, 0, tokens);
  question.text = text_->tokenizer().decode(ids.to_vector<int64_t>());
  return question;
}

NamedTensors TextTask::activations() {
  const auto states = hidden_states(model_, text_->validation_batch(0).inputs.slice(0, 0, 1));
  NamedTensors named;
  for (size_t i = 0; i < states.size(); ++i)
    named.emplace_back(i == 0 ? "embedding" : "blocks." + std::to_string(i - 1), states[i]);
  return named;
}

enum class Recipe { nanogpt, fast };

void add_recipe_flag(Flags& flags, Recipe& recipe) {
  flags.group("Recipe");
  flags.add(
      "--recipe", recipe, {"nanogpt", "fast"},
      "defaults of the other flags: nanoGPT's CPU setting (the default with --init-from), or a "
      "model and an optimiser that reach the same loss in an eighth of the steps");
}

/// Sets the defaults of the recipe that the command line names. They are nanogpt's for a trained
/// model, which is tuned gently, and for a checkpoint, which may be older than the other recipe.
void apply_recipe(int argc, char** argv, Options& o, TrainOptions& training) {
  Recipe recipe = Recipe::fast;
  std::string init_from;
  bool resume = false, eval_only = false;
  Flags flags("");
  add_recipe_flag(flags, recipe);
  flags.add("--init-from", init_from, "DIR", "");
  flags.add("--resume", resume, "");
  flags.add("--eval-only", eval_only, "");
  flags.parse_known(argc, argv);
  const bool begun = !init_from.empty() || resume || eval_only;
  if (begun && !flags.given("--recipe")) recipe = Recipe::nanogpt;
  training.sample_every = 500;
  if (recipe == Recipe::nanogpt) return;
  o.model.positions = models::Positions::rotary;
  o.model.norm = nn::NormKind::rms;
  o.model.token_shift = true;
  training.optimizer = OptimizerKind::muon;
  training.steps = 250, training.warmup = 10, training.stable = 0.5, training.clip = 0;
  training.lr = 1e-2, training.beta2 = 0.95;
  training.muon_lr = 0.03, training.muon_momentum = 0.85, training.muon_steps = 3;
  training.polar_express = training.muon_per_head = true;
}

/// Throws Error if flags contradict each other.
void check_together(const Flags& flags, const Options& o, const TrainOptions& training) {
  core::check(o.lora.rank == 0 || !training.begins_with().empty(),
              "--lora trains updates of a finished model: expected --init-from DIR");
  core::check(o.lora.rank == 0 || training.optimizer == OptimizerKind::adamw,
              "--lora trains its updates by AdamW: expected --optimizer adamw");
  if (o.lora.rank == 0) flags.refuse({"--lora-"}, " is of low-rank updates: expected --lora RANK");
  core::check(o.chat_template.empty() || ChatCorpus::reads(o.text.data),
              "--chat-template is of conversations: expected --data FILE.jsonl");
  core::check((training.from_checkpoint() && !flags.given("--val-data")) ||
                  ChatCorpus::reads(o.text.data) || !ChatCorpus::reads(o.text.val_data),
              "--val-data: expected a text, as --data is, got the conversations ", o.text.val_data);
}

int run(int argc, char** argv) {
  Options o;
  TrainOptions training;
  apply_recipe(argc, argv, o, training);
  Recipe recipe = Recipe::fast;
  Flags flags(
      "Trains a small GPT on a text and prints a sample.\n"
      "  train_gpt --data FILE --out DIR");
  add_recipe_flag(flags, recipe);
  flags.group("Model and data", true);
  add_corpus_flags(flags, o.text);
  flags.add("--chat-template", o.chat_template, "NAME",
            "template of conversations: plain, chatml, llama2, llama3 or mistral", "--init-from's");
  flags.add("--batch", o.batch, 1, 65536, "windows per batch, of --context tokens each");
  flags.add(models::GPT::fields(o.model), {"vocab"});
  flags.add("--logit-rows", o.model.logit_rows, 0, 1e9,
            "compute the logits of this many tokens at a time, to save memory; 0: of all");
  flags.add("--lora", o.lora.rank, 0, 1e6,
            "train low-rank updates of this rank instead of the weights of --init-from; 0: none");
  flags.add("--lora-alpha", o.lora.alpha, 1e-9, 1e9, "updates are multiplied by this / rank");
  flags.add("--lora-dropout", o.lora.dropout, 0, 0.999999, "dropout of the updates' inputs");
  flags.add("--lora-layers", o.lora_layers, "NAMES",
            "layers with updates, such as attn.qkv,mlp.fc; regular expressions",
            "all hidden layers");
  flags.add(
      "--lora-weights", o.lora_weights, {"float32", "bfloat16", "int8"},
      "dtype of the frozen weights: bfloat16 and int8 take a half and a quarter of the memory, "
      "and only the updates are written");
  flags.added_later({"--lora-weights", "--chat-template", "--no-tie", "--activation",
                     "--logit-rows", "--lora", "--lora-alpha", "--lora-dropout", "--lora-layers"});
  add_training_flags(flags, training);
  add_recompute_flag(flags, o.model);
  return run_training(argc, argv, flags, training,
                      {.kind = models::GPT::kind,
                       .config = models::GPT::fields(o.model),
                       .data_flags = {"--data", "--val-data"},
                       .writes_data = [&] { return o.text.on_disk && !training.eval_only; },
                       .make_task =
                           [&] {
                             check_together(flags, o, training);
                             auto task = std::make_unique<TextTask>(o, training);
                             o.chat_template = task->text().chat_template();  // kept with the run
                             return task;
                           }});
}

}  // namespace

int main(int argc, char** argv) { return run_program("train_gpt", argc, argv, run); }
