#pragma once
// Text from a language model, token by token.

#include <cstdint>
#include <functional>
#include <vector>

#include "gradus/core/random.h"
#include "gradus/models/gpt.h"

namespace gradus::models {

/// How a token is chosen from logits.
struct SamplingOptions {
  double temperature = 1;  ///< divides the logits; 0: the most likely token (greedy)
  int64_t top_k = 0;       ///< only the k most likely tokens; 0: all
  double top_p = 1;        ///< only the most likely tokens that together have probability top_p
};

/// Draws a token id from logits (vocab). Of equally likely tokens, the one with the smallest id
/// counts first. Throws Error on logits that are not finite.
int64_t sample_token(const Tensor& logits, const SamplingOptions& options,
                     core::Generator& generator);

struct GenerateOptions {
  int64_t tokens = 100;  ///< how many at most
  SamplingOptions sampling = {};
  uint64_t seed = 0;        ///< the text is a function of model, prompt and options
  int64_t stop_token = -1;  ///< ends the text, and is not part of it; -1: none
  std::function<void(int64_t)> on_token = {};  ///< called with each token as it is chosen
};

/// Continues `prompt` (token ids; only the last `context` are read) and returns the new tokens.
/// Each token is read once, with a key/value cache, until the model's context is full; then the
/// last half of the context is read again into an empty cache, and so on: a token is chosen with at
/// least half of the context in view (where the text is that long), at the cost of reading two
/// tokens instead of one.
std::vector<int64_t> generate(const GPT& model, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options = {});

}  // namespace gradus::models
