// Continues a text with a model trained by train_gpt, or with a GPT-2 or a model of Llama's family in
// Hugging Face's format.
//
//   build/bin/generate --model DIR --prompt "..." --tokens 300 --temperature 0.8 --top-k 40

#include <gradus/gradus.h>

#include <cstdio>

#include "examples/support/cli.h"
#include "examples/support/flags.h"
#include "examples/support/text.h"
#include "examples/support/tokenizers.h"
#include "examples/support/weights.h"

using namespace gradus;

namespace {

/// The ids after those of the special tokens that begin every text.
std::vector<int64_t> after_beginning(const models::Tokenizer& tokenizer,
                                     const std::vector<int64_t>& ids) {
  std::vector<int64_t> all = tokenizer.begin_ids();
  all.insert(all.end(), ids.begin(), ids.end());
  return all;
}

/// The id of --stop's token.
int64_t one_token(const models::Tokenizer& tokenizer, const std::string& stop) {
  if (tokenizer.has_special(stop)) return tokenizer.special(stop);
  const std::vector<int64_t> ids = tokenizer.encode(stop);
  core::check(ids.size() == 1, "generate: --stop: expected one token, got ", ids.size());
  return ids[0];
}

int run(int argc, char** argv) {
  std::string folder = "out/train", adapter, prompt = "\n", stop;
  models::GenerateOptions options{
      .tokens = 300, .sampling = {.temperature = 0.8, .top_k = 40}, .seed = 1};
  int64_t threads = num_threads();
  Weights weights = Weights::as_stored;
  Flags flags(
      "Continues a text with a model trained by train_gpt, or with a GPT-2 or a model of\n"
      "Llama's family in Hugging Face's format.\n"
      "  generate --model DIR --prompt \"...\"");
  flags.group("Text");
  flags.add("--model", folder, "DIR", "model folder written by train_gpt, or a GPT-2's");
  add_weights(flags, weights);
  flags.add("--adapter", adapter, "DIR", "low-rank updates to add, as written by train_gpt --lora",
            "none");
  flags.add("--prompt", prompt, "TEXT", "text to continue", "a line break");
  flags.add("--tokens", options.tokens, 0, 1e15,
            "tokens to generate (characters, words or byte pairs)");
  flags.add("--stop", stop, "TOKEN", "stop at this token", "none");
  flags.group("Sampling");
  flags.add("--temperature", options.sampling.temperature, 0, 1e6,
            "divides the logits: above 1 more random; 0: greedy");
  flags.add("--top-k", options.sampling.top_k, 0, 1e15,
            "sample from the k most likely tokens; 0: all");
  flags.add("--top-p", options.sampling.top_p, 1e-9, 1,
            "sample from the most likely tokens with this total probability");
  flags.add("--seed", options.seed, "random seed");
  flags.add("--threads", threads, 1, 1024, "number of threads");
  if (!flags.parse(argc, argv)) return 0;
  set_num_threads(static_cast<int>(threads));

  auto model = models::load_model<models::GPT>(folder);
  store_weights(model, weights);
  if (!adapter.empty()) models::load_adapter(adapter, model);
  const auto tokenizer = load_tokenizer_for(folder, model.config.vocab);
  options.vocab = tokenizer->vocab_size();
  if (!stop.empty()) options.stop_token = one_token(*tokenizer, stop);
  const std::vector<int64_t> ids = tokenizer->encode(prompt);
  core::check(!ids.empty(), "generate: --prompt: expected at least one token, got ", shown(prompt));
  TokenText text(*tokenizer);
  for (const int64_t id : ids) text.add(id);
  options.on_token = [&](int64_t id) { print_now(text.add(id)); };
  print_now(prompt);
  models::generate(model, after_beginning(*tokenizer, ids), options);
  std::putchar('\n');
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("generate", argc, argv, run); }
