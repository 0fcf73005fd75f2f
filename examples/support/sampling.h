#pragma once
// Code shared by the programs that generate text: their flags, and loading a model with its
// tokenizer.

#include <memory>
#include <string>

#include "examples/support/precision.h"
#include "examples/support/tokenizers.h"
#include "examples/support/weights.h"
#include "gradus/models/folder/gguf/gguf.h"

namespace gradus {

/// The options of a program that generates text with a GPT.
struct WriterOptions {
  std::string model = "out/train";  ///< folder, or a GGUF file
  std::string adapter;              ///< folder of low-rank updates; "" means none
  Weights weights = Weights::as_stored;
  models::GenerateOptions text{.sampling = {.temperature = 0.8, .top_k = 40}, .seed = 1};
  std::string logit_bias;  ///< "ID:VALUE,ID:VALUE": values to add to the logits of tokens
  int64_t threads = 0;
  Precision precision = Precision::float32;
};

/// Adds the flags --model, --adapter and --weights.
void add_model_flags(Flags& flags, WriterOptions& options);
/// Adds --temperature and the other flags of sampling, and --seed, --threads and --precision. Sets
/// options.threads to its default, num_threads().
void add_sampling_flags(Flags& flags, WriterOptions& options);

/// A model and its tokenizer.
using Writer = models::GgufModel;
/// Loads the model and the tokenizer from options.model, converts the weights to options.weights,
/// and adds the low-rank updates in options.adapter. Sets the number of threads, options.text.vocab
/// (from the tokenizer) and options.text.sampling.logit_bias (from options.logit_bias). Throws
/// Error, naming the flag or file, if options.logit_bias is malformed, if a file is missing or
/// damaged, or if the tokenizer does not fit the model.
Writer load_writer(WriterOptions& options);

}  // namespace gradus
