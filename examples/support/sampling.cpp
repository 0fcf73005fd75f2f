#include "examples/support/sampling.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <sstream>

#include "examples/support/text.h"
#include "gradus/core/runtime/threads.h"
#include "gradus/models/folder/adapter.h"

namespace gradus {

namespace {

/// "ID:VALUE,ID:VALUE" as pairs; a value may be -inf.
std::vector<std::pair<int64_t, double>> parse_bias(const std::string& text) {
  std::vector<std::pair<int64_t, double>> all;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t colon = std::min(part.find(':'), part.size() - 1);
    const std::string number = part.substr(colon + 1);
    const auto id = models::parse_number<int64_t>(part.substr(0, colon));
    const auto value = number == "-inf" ? -std::numeric_limits<double>::infinity()
                                        : models::parse_number<double>(number);
    core::check(id && value, "--logit-bias: expected ID:VALUE,ID:VALUE, such as 50256:-inf, got ",
                shown(text));
    all.emplace_back(*id, *value);
  }
  return all;
}

Writer load(const std::string& path) {
  std::error_code error;
  core::check(std::filesystem::exists(path, error), "--model: ", path, ": no such file or folder");
  if (models::is_gguf(path)) {
    Writer read = models::load_gguf(path);
    core::check(read.tokenizer != nullptr, path, ": the file has no tokenizer");
    return read;
  }
  auto model = models::load_model<models::GPT>(path);
  auto tokenizer = tokenizer_of(path, model);
  return {std::move(model), std::move(tokenizer)};
}

}  // namespace

void add_model_flags(Flags& flags, WriterOptions& o) {
  flags.add("--model", o.model, "PATH",
            "model folder written by train_gpt or in Hugging Face's format, or a GGUF file");
  add_weights(flags, o.weights);
  flags.add("--adapter", o.adapter, "DIR",
            "low-rank updates to add, as written by train_gpt --lora", "none");
}

void add_sampling_flags(Flags& flags, WriterOptions& o) {
  o.threads = num_threads();
  models::SamplingOptions& sampling = o.text.sampling;
  flags.group("Sampling");
  flags.add("--temperature", sampling.temperature, 0, 1e6,
            "divides the logits: above 1 more random; 0: greedy");
  flags.add("--top-k", sampling.top_k, 0, 1e15, "sample from the k most likely tokens; 0: all");
  flags.add("--top-p", sampling.top_p, 1e-9, 1,
            "sample from the most likely tokens with this total probability");
  flags.add("--min-p", sampling.min_p, 0, 1,
            "sample from tokens at least this many times as probable as the most likely one");
  flags.add("--repetition-penalty", sampling.repetition_penalty, 1e-3, 1e3,
            "above 1: tokens that the text already has become less likely");
  flags.add("--logit-bias", o.logit_bias, "ID:VALUE,...",
            "numbers to add to the logits of tokens; -inf excludes a token", "none");
  flags.add("--seed", o.text.seed, "random seed");
  flags.add("--threads", o.threads, 1, 1024, "number of threads");
  add_precision_flag(flags, o.precision);
}

Writer load_writer(WriterOptions& o) {
  set_num_threads(static_cast<int>(o.threads));
  o.text.sampling.logit_bias = parse_bias(o.logit_bias);
  Writer writer = load(o.model);
  store_weights(writer.model, o.weights);
  if (!o.adapter.empty()) models::load_adapter(o.adapter, writer.model);
  o.text.vocab = writer.tokenizer->vocab_size();
  return writer;
}

}  // namespace gradus
