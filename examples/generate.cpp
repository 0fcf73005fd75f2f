// Continues a text with a model that train_gpt wrote.
//
//   build/bin/generate --model DIR --prompt "..." --tokens 300 --temperature 0.8 --top-k 40 --seed
//   1

#include <gradus/gradus.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "examples/support/cli.h"
#include "examples/support/interrupt.h"

using namespace gradus;

namespace {

int run(int argc, char** argv) {
  CLI::App app("Continues a text with a model that train_gpt wrote.");
  std::string folder = "out/train", prompt = "\n", stop;
  GenerateOptions options{.tokens = 300, .sampling = {.temperature = 0.8, .top_k = 40}, .seed = 1};
  int threads = num_threads();
  app.add_option("--model", folder, "folder with model, config and tokenizer");
  app.add_option("--prompt", prompt, "the beginning");
  app.add_option("--tokens", options.tokens, "how many to write")->check(CLI::NonNegativeNumber);
  app.add_option("--temperature", options.sampling.temperature, "0: always the likeliest")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--top-k", options.sampling.top_k, "only the k likeliest; 0: all")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--top-p", options.sampling.top_p, "only the likeliest of this total probability")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--seed", options.seed, "of the choices");
  app.add_option("--stop", stop, "the character that ends the text");
  app.add_option("--threads", threads, "threads")->check(CLI::Range(1, 1024));
  app.option_defaults()->always_capture_default();
  parse_flags(app, argc, argv);
  set_num_threads(threads);

  const CharTokenizer tokenizer = CharTokenizer::load(folder + "/tokenizer.json");
  const GPT model = load_gpt(folder);
  check(model.config.vocab == tokenizer.vocab_size(), folder, ": the model has ",
        model.config.vocab, " tokens, the tokenizer ", tokenizer.vocab_size());
  if (!stop.empty()) {
    const std::vector<int64_t> ids = tokenizer.encode(stop);
    check(ids.size() == 1, "generate: --stop takes one character, got ", ids.size());
    options.stop_token = ids[0];
  }
  options.on_token = [&](int64_t id) {
    std::fputs(tokenizer.decode({id}).c_str(), stdout);
    std::fflush(stdout);
  };
  const std::vector<int64_t> ids = tokenizer.encode(prompt);
  check(!ids.empty(), "generate: --prompt must not be empty");
  std::fputs(prompt.c_str(), stdout);
  generate(model, ids, options);
  std::putchar('\n');
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("generate", argc, argv, run); }
