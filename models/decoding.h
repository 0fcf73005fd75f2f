#pragma once
// Token-by-token generation: one decoder interface for all models, sampling and beam search.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::models {

/// A batch of sequences that a model continues, with its state after the tokens read so far
/// (key/value caches, recurrent states). A generative model has a decoder() that returns one. Use
/// under NoGrad, and under EvalMode unless dropout should stay on.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Vocabulary size.
  virtual int64_t vocab() const = 0;
  /// Reads the next tokens of each row, ids (rows, T) with T <= room(), and returns the logits of
  /// the token after the last: (rows, vocab).
  virtual Tensor next_logits(const Tensor& ids) = 0;
  /// Replaces the state of row i by that of row rows[i]: rows (rows) int64.
  virtual void reorder(const Tensor& rows) = 0;
  /// How many more tokens a row can read.
  virtual int64_t room() const = 0;
  /// How many tokens an empty row can read.
  virtual int64_t capacity() const = 0;
  /// Returns to the state before the first token.
  virtual void clear() = 0;
};

namespace internal {
/// Throws Error, opening with `op`, unless ids are a non-empty (B, T) of int64; `what`: their name
/// in the message, such as "target ids".
void check_ids(const char* op, const char* what, const Tensor& ids);
/// Throws Error, opening with `op`, unless beams >= 1 and sources * beams <= 2^24.
void check_beams(const char* op, int64_t sources, int64_t beams);
/// Replaces each defined tensor x by index_select(x, 0, rows).
void select_rows(std::initializer_list<Tensor*> tensors, const Tensor& rows);

/// Maps each row of an encoder-decoder model's Decoder to the source that the row decodes.
class SourceRows {
 public:
  SourceRows() = default;
  /// `beams` consecutive rows per source. Throws Error while gradients are recorded or for too many
  /// rows; all messages open with `op`.
  SourceRows(const char* op, int64_t sources, int64_t beams);
  int64_t size() const { return std::ssize(source_); }
  /// Index of each row's source: (rows) int64. index_select with it expands a tensor with one row
  /// per source to one row per decoder row.
  Tensor index() const;
  /// Throws Error unless ids are (rows, T) with T <= room, or while gradients are recorded.
  void check_next(const Tensor& ids, int64_t room) const;
  /// Assigns row i to the source of row rows[i]. Returns whether any row's source changed; in a
  /// beam search none does, as beams move within their source. Throws Error unless rows are (rows)
  /// int64.
  bool reorder(const Tensor& rows);

 private:
  const char* op_ = "";
  std::vector<int64_t> source_;
};
}  // namespace internal

/// How a token is chosen from logits.
struct SamplingOptions {
  double temperature = 1;  ///< divides the logits; 0: the most likely token (greedy)
  int64_t top_k = 0;       ///< only the top_k most likely tokens; 0: all
  double top_p = 1;        ///< only the fewest most likely tokens with a total probability >= top_p
  /// Only tokens at least min_p times as probable as the most likely one; 0: all. Nguyen et al. 2024,
  /// arXiv 2407.01082.
  double min_p = 0;
  /// Divides the positive logits of the text's tokens, prompt included, and multiplies the negative
  /// ones; 1: none. Keskar et al. 2019, arXiv 1909.05858, section 4.1.
  double repetition_penalty = 1;
  /// Token ids, each with what is added to its logit; -infinity: never sampled.
  std::vector<std::pair<int64_t, double>> logit_bias = {};
};

/// Samples a token id from logits (vocab). Ties rank by id, smallest first; a logit of -infinity is
/// never drawn. `text`: the tokens that repetition_penalty looks at. Throws Error unless the largest
/// logit is finite.
int64_t sample_token(const Tensor& logits, const SamplingOptions& options,
                     core::Generator& generator, const std::vector<int64_t>& text = {});

struct GenerateOptions {
  int64_t tokens = 100;           ///< maximum number of new tokens
  SamplingOptions sampling = {};  ///< how each token is chosen
  uint64_t seed = 0;        ///< of the draws; the text depends only on model, prompt and options
  int64_t vocab = 0;        ///< only ids below this are sampled (the tokenizer's size); 0: all
  int64_t stop_token = -1;  ///< ends the text and is not part of it; -1: none
  std::function<void(int64_t)> on_token = {};  ///< called with each new token
  std::function<bool()> stop_if = {};          ///< asked after each new token; true ends the text
  /// If given, each new token's log probability is appended to it: the model's own, before
  /// temperature, penalty and bias.
  std::vector<double>* log_probabilities = nullptr;
  /// For a prompt that continues an earlier text, such as a conversation: the tokens that the decoder
  /// still holds, at first none. If the prompt begins with them, only its other tokens are read.
  std::vector<int64_t>* held = nullptr;
};

/// Text that is generated piece by piece and ends before the first of some stop strings.
class StopText {
 public:
  /// Throws Error if one of `stops` is empty.
  explicit StopText(std::vector<std::string> stops);
  /// Appends `piece` and returns the text that is now certain to stand before any stop string.
  std::string add(const std::string& piece);
  /// True once the text contains a stop string.
  bool stopped() const { return stopped_; }
  /// The text held back in case a stop string follows; empty if stopped().
  std::string rest() const { return held_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

namespace internal {
/// A text while tokens are appended to it: what generate() and Server keep of each.
class Continuation {
 public:
  /// Throws Error unless prompt and options suit a decoder's vocabulary.
  Continuation(int64_t vocab, const std::vector<int64_t>& prompt, const GenerateOptions& options);
  /// Whether more tokens are to come.
  bool running() const { return running_; }
  /// The last n tokens: (1, n), or all if there are fewer.
  Tensor last(int64_t n) const;
  /// Appends a token sampled from logits (vocab), unless it ends the text.
  void add(const Tensor& logits);
  const std::vector<int64_t>& text() const { return text_; }  ///< prompt and new tokens
  /// The new tokens.
  std::vector<int64_t> tokens() const { return {text_.begin() + prompt_, text_.end()}; }

 private:
  GenerateOptions options_;
  core::Generator generator_;
  std::vector<int64_t> text_;
  std::ptrdiff_t prompt_;
  bool running_;
};
}  // namespace internal

/// Continues `prompt` (token ids) and returns the new tokens. `decoder` has one row and is cleared
/// first. Of a prompt longer than decoder.capacity(), only the end is read. Whenever the decoder is
/// full, it is cleared and rereads the last capacity() / 2 tokens. So each token is sampled with at
/// least half the capacity as context (if the text is that long), at the cost of reading about two
/// tokens per new token instead of one.
std::vector<int64_t> generate(Decoder& decoder, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options = {});

/// Continues `prompt` with a new decoder of `model`.
template <class Model>
requires requires(const Model& model) { model.decoder(1); }
std::vector<int64_t> generate(const Model& model, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options = {}) {
  auto decoder = model.decoder(1);
  return generate(decoder, prompt, options);
}

struct BeamSearchOptions {
  int64_t start = -1;           ///< first token of a target; required
  int64_t stop = -1;            ///< token that ends a target; required
  int64_t beams = 1;            ///< beam width; 1: greedy
  int64_t tokens = 100;         ///< maximum length of a target without start and stop
  double length_penalty = 0.6;  ///< alpha in Hypothesis::score
};

/// A target found by beam search.
struct Hypothesis {
  std::vector<int64_t> tokens;  ///< without start and stop
  double log_probability = 0;   ///< of `tokens` and, if stopped, of the stop token
  double score = 0;      ///< log_probability / ((5 + n) / 6)^alpha, n = length of tokens and stop
  bool stopped = false;  ///< true: ended with the stop token; false: cut off
};

/// Beam search: the likeliest targets of each source, best score first. `decoder` has options.beams
/// consecutive rows per source. Each target that ends with stop narrows the beam by one: Sutskever
/// et al. 2014, arXiv 1409.3215, section 3.2. Scores: Wu et al. 2016, arXiv 1609.08144, equation
/// 14.
std::vector<std::vector<Hypothesis>> beam_search(Decoder& decoder, int64_t sources,
                                                 const BeamSearchOptions& options);

/// The best target of each source by beam search: source (B, S) int64 with lengths (B) int64
/// (undefined: no padding).
template <class Model>
std::vector<Hypothesis> translate(const Model& model, const Tensor& source, const Tensor& lengths,
                                  const BeamSearchOptions& options) {
  const NoGrad no_grad;
  const EvalMode eval;
  auto decoder = model.decoder(source, lengths, options.beams);
  std::vector<Hypothesis> best;
  for (auto& found : beam_search(decoder, source.size(0), options))
    best.push_back(std::move(found.front()));
  return best;
}

}  // namespace gradus::models
