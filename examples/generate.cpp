// Continues a text with a model trained by train_gpt, or with a GPT-2 or a model of Llama's family
// in Hugging Face's format or in a GGUF file.
//
//   build/bin/generate --model DIR --prompt "..." --tokens 300 --temperature 0.8 --top-k 40

#include <gradus/gradus.h>

#include <algorithm>

#include "examples/support/cli.h"
#include "examples/support/sampling.h"
#include "examples/support/source_text.h"
#include "examples/support/text.h"

using namespace gradus;

namespace {

/// The ids after those of the special tokens that begin every text.
std::vector<int64_t> after_beginning(const models::Tokenizer& tokenizer,
                                     const std::vector<int64_t>& ids) {
  std::vector<int64_t> all = tokenizer.begin_ids();
  all.insert(all.end(), ids.begin(), ids.end());
  return all;
}

/// What begins a text without a prompt: a line break or, if the vocabulary has none, the first
/// ordinary token.
std::string default_prompt(const models::Tokenizer& tokenizer) {
  try {
    if (!tokenizer.encode("\n").empty()) return "\n";
  } catch (const Error&) {  // no such token
  }
  for (int64_t id = 0;; ++id)
    if (!tokenizer.is_special(id)) return tokenizer.decode({id});
}

/// Writes one text as it is generated.
void stream(const Writer& writer, const std::vector<int64_t>& ids, const std::string& prompt,
            const std::vector<std::string>& stops, models::GenerateOptions options) {
  TokenText text(*writer.tokenizer);
  for (const int64_t id : ids) text.add(id);
  models::StopText shown(stops);
  options.on_token = [&](int64_t id) { print_now(shown.add(text.add(id))); };
  options.stop_if = [&] { return shown.stopped(); };
  print_now(prompt);
  models::generate(writer.model, after_beginning(*writer.tokenizer, ids), options);
  print_now(shown.rest() + "\n");
}

/// Generates several texts together, with seeds seed, seed + 1, ..., and writes them.
void sample(const Writer& writer, const std::vector<int64_t>& ids, const std::string& prompt,
            const std::vector<std::string>& stops, const models::GenerateOptions& options,
            int64_t samples) {
  struct Sample {
    TokenText text;
    models::StopText shown;
    std::string all;
  };
  std::vector<Sample> texts(static_cast<size_t>(samples),
                            {TokenText(*writer.tokenizer), models::StopText(stops), prompt});
  models::Server server(writer.model, std::min<int64_t>(samples, 64));
  const std::vector<int64_t> begin = after_beginning(*writer.tokenizer, ids);
  for (size_t i = 0; i < texts.size(); ++i) {
    Sample* const one = &texts[i];
    for (const int64_t id : ids) one->text.add(id);
    models::GenerateOptions own = options;
    own.seed += i;
    own.on_token = [one](int64_t id) { one->all += one->shown.add(one->text.add(id)); };
    own.stop_if = [one] { return one->shown.stopped(); };
    server.add(begin, own);
  }
  while (server.step()) continue;
  for (size_t i = 0; i < texts.size(); ++i)
    print_now("--- sample " + std::to_string(i + 1) + " ---\n" + texts[i].all +
              texts[i].shown.rest() + '\n');
}

int run(int argc, char** argv) {
  WriterOptions o;
  o.text.tokens = 300;
  std::string prompt, file, stop;
  int64_t samples = 1;
  Flags flags(
      "Continues a text with a model trained by train_gpt, or with a GPT-2 or a model of\n"
      "Llama's family in Hugging Face's format or in a GGUF file.\n"
      "  generate --model DIR --prompt \"...\"");
  flags.group("Text");
  add_model_flags(flags, o);
  flags.add("--prompt", prompt, "TEXT", "text to continue", "a line break");
  flags.add("--prompt-file", file, "FILE", "file of the text to continue; -: standard input",
            "none");
  flags.add("--tokens", o.text.tokens, 0, 1e15,
            "tokens to generate (characters, words or byte pairs)");
  flags.add("--stop", stop, "TEXT", "stop before this text or special token", "none");
  flags.add("--samples", samples, 1, 1e6, "texts to generate, with different seeds");
  add_sampling_flags(flags, o);
  if (!flags.parse(argc, argv)) return 0;

  const PrecisionScope precision(o.precision);
  const Writer writer = load_writer(o);
  if (!file.empty()) {
    core::check(!flags.given("--prompt"), "--prompt-file: expected no --prompt beside it");
    prompt = read_text(file);
  } else if (!flags.given("--prompt")) {
    prompt = default_prompt(*writer.tokenizer);
  }
  const std::vector<int64_t> ids = writer.tokenizer->encode(prompt);
  core::check(!ids.empty(), file.empty() ? "--prompt" : "--prompt-file",
              ": expected at least one token, got ", shown(prompt));
  const std::vector<std::string> stops(stop.empty() ? 0 : 1, stop);
  if (samples == 1)
    stream(writer, ids, prompt, stops, o.text);
  else
    sample(writer, ids, prompt, stops, o.text, samples);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("generate", argc, argv, run); }
