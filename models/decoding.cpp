#include "gradus/models/decoding.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gradus/core/autograd.h"
#include "gradus/core/internal.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/reduction.h"

namespace gradus::models {

namespace {
void check_options(const SamplingOptions& o) {
  check(o.temperature >= 0 && std::isfinite(o.temperature),
        "generate: expected a temperature >= 0, got ", o.temperature);
  check(o.top_k >= 0, "generate: expected top_k >= 0, got ", o.top_k);
  check(o.top_p > 0 && o.top_p <= 1, "generate: expected 0 < top_p <= 1, got ", o.top_p);
}

struct Candidate {
  double probability;
  int64_t id;
  bool operator<(const Candidate& other) const {  // more likely first
    return probability != other.probability ? probability > other.probability : id < other.id;
  }
};

// Keeps the smallest number of most likely candidates whose probabilities reach top_p of the total.
void keep_nucleus(std::vector<Candidate>& candidates, double total, double top_p) {
  // Those below an n-th of the rest have less than the rest together: sorting them is not needed.
  const double least = (1 - top_p) * total / static_cast<double>(candidates.size());
  std::erase_if(candidates, [&](const Candidate& c) { return c.probability < least; });
  std::sort(candidates.begin(), candidates.end());
  double sum = 0;
  size_t n = 0;
  while (n < candidates.size() && sum < top_p * total) sum += candidates[n++].probability;
  candidates.resize(n);
}

double total_of(const std::vector<Candidate>& candidates) {
  return std::accumulate(candidates.begin(), candidates.end(), 0.0,
                         [](double sum, const Candidate& c) { return sum + c.probability; });
}
}  // namespace

int64_t sample_token(const Tensor& logits, const SamplingOptions& options, Generator& generator) {
  check_options(options);
  check(logits.rank() == 1 && logits.numel() > 0 && is_floating(logits.dtype()),
        "sample_token: expected logits (vocab), got ", logits.shape());
  NoGrad no_grad;
  const Tensor best = max(logits);
  check(std::isfinite(best.item()), "sample_token: the logits are not finite");
  if (options.temperature < 1e-6) return argmax(logits, 0).item<int64_t>();

  const Tensor probabilities = softmax((logits - best) / options.temperature);
  std::vector<Candidate> candidates;
  candidates.reserve(static_cast<size_t>(logits.numel()));
  dispatch_floating("sample_token", logits.dtype(), [&](auto tag) {
    const auto* p = probabilities.data<typename decltype(tag)::type>();
    for (int64_t i = 0; i < logits.numel(); ++i)
      candidates.push_back({static_cast<double>(p[i]), i});
  });
  if (options.top_k > 0 && options.top_k < logits.numel()) {
    std::nth_element(candidates.begin(), candidates.begin() + options.top_k - 1, candidates.end());
    candidates.resize(static_cast<size_t>(options.top_k));
  }
  if (options.top_p < 1) keep_nucleus(candidates, total_of(candidates), options.top_p);

  const auto words = philox(generator.reserve(2), 0);
  double left = uniform_double(words[0], words[1]) * total_of(candidates);
  for (const Candidate& c : candidates) {
    if (left < c.probability) return c.id;
    left -= c.probability;
  }
  return candidates.back().id;
}

std::vector<int64_t> generate(Decoder& decoder, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options) {
  const int64_t vocab = decoder.vocab();
  check(options.tokens >= 0, "generate: expected tokens >= 0, got ", options.tokens);
  check(options.stop_token >= -1 && options.stop_token < vocab, "generate: stop token ",
        options.stop_token, " is not in a vocabulary of ", vocab);
  check_options(options.sampling);
  check(!prompt.empty(), "generate: expected a prompt of at least one token");
  for (int64_t id : prompt)
    check(id >= 0 && id < vocab, "generate: token ", id,
          " of the prompt is not in a vocabulary of ", vocab);

  NoGrad no_grad;
  EvalMode eval;
  Generator generator(options.seed);
  std::vector<int64_t> text = prompt;
  decoder.clear();
  Tensor logits;
  for (int64_t i = 0; i < options.tokens; ++i) {
    int64_t unread = i == 0 ? std::ssize(text) : 1;
    if (decoder.room() == 0) {
      decoder.clear();
      unread = std::max<int64_t>(decoder.capacity() / 2, 1);
    }
    unread = std::min({unread, decoder.room(), std::ssize(text)});
    const std::vector<int64_t> ids(text.end() - unread, text.end());
    logits = decoder.next_logits(from_data(ids, {1, unread}));
    check(logits.shape() == Shape{1, vocab}, "generate: expected a decoder of one row, got logits ",
          logits.shape());
    const int64_t id = sample_token(logits[0], options.sampling, generator);
    if (id == options.stop_token) break;
    text.push_back(id);
    if (options.on_token) options.on_token(id);
  }
  return {text.begin() + std::ssize(prompt), text.end()};
}

}  // namespace gradus::models
