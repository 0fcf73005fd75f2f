#pragma once
// Token-by-token generation: one decoder interface for all models, sampling, and beam search.

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

/// A batch of sequences that a model continues, and the model's state after the tokens read so far
/// (key/value caches, recurrent states). A generative model has a function decoder() that returns a
/// Decoder. Use a Decoder under NoGrad and, to turn dropout off, under EvalMode.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Returns the vocabulary size.
  virtual int64_t vocab() const = 0;
  /// Reads the next T tokens of each row: `ids` (rows, T) int64, with 1 <= T <= room(). Returns the
  /// logits of the token after them: (rows, vocab).
  virtual Tensor next_logits(const Tensor& ids) = 0;
  /// Gives each row i the state that row rows[i] had before the call. `rows` is an int64 tensor
  /// with one index per row.
  virtual void reorder(const Tensor& rows) = 0;
  /// Returns how many more tokens a row can read.
  virtual int64_t room() const = 0;
  /// Returns how many tokens an empty row can read.
  virtual int64_t capacity() const = 0;
  /// Restores the state before the first token.
  virtual void clear() = 0;
};

namespace internal {
/// Throws Error unless ids are a non-empty int64 tensor (B, T). The message begins with `op` and
/// calls the ids `what`, for example "target ids".
void check_ids(const char* op, const char* what, const Tensor& ids);
/// Throws Error unless beams >= 1 and max(sources, 1) * beams <= 2^24. The message begins with
/// `op`.
void check_beams(const char* op, int64_t sources, int64_t beams);
/// Replaces each defined tensor x by index_select(x, 0, rows).
void select_rows(std::initializer_list<Tensor*> tensors, const Tensor& rows);

/// Maps each row of a Decoder to the source that the row decodes, for encoder-decoder models.
class SourceRows {
 public:
  SourceRows() = default;
  /// Assigns `beams` consecutive rows to each source. Throws Error if gradients are being recorded.
  /// Also throws the errors of check_beams(). These messages, and those of check_next(), begin with
  /// `op`. `op` is not copied and must outlive this object.
  SourceRows(const char* op, int64_t sources, int64_t beams);
  int64_t size() const { return std::ssize(source_); }
  /// Returns the index of each row's source: (size()), int64. For a tensor x with one element per
  /// source, index_select(x, 0, index()) returns the element for each row.
  Tensor index() const;
  /// Throws Error if gradients are being recorded. Also throws Error unless `ids` is (size(), T)
  /// int64 with 1 <= T <= room.
  void check_next(const Tensor& ids, int64_t room) const;
  /// Assigns to each row i the source of row rows[i]. Returns whether the source of any row has
  /// changed. In a beam search no row's source changes, because beams stay within their source.
  /// Throws Error unless `rows` contains size() int64 indices from 0 to size() - 1.
  bool reorder(const Tensor& rows);

 private:
  const char* op_ = "";
  std::vector<int64_t> source_;
};
}  // namespace internal

/// Options for choosing a token from logits. They apply in this order: repetition_penalty,
/// logit_bias, temperature, top_k, min_p, top_p. min_p and top_p use the probabilities after
/// division of the logits by the temperature.
struct SamplingOptions {
  double temperature = 1;  ///< divides the logits; below 1e-6, the most likely token is chosen
                           ///< (greedy)
  int64_t top_k = 0;       ///< choose among the top_k most likely tokens; 0 means all
  /// Nucleus sampling: choose among the fewest tokens whose total probability reaches top_p. The
  /// probabilities are those of the tokens left by top_k and min_p, renormalised. Must be above 0
  /// and at most 1; 1 means no limit.
  double top_p = 1;
  /// Choose among tokens that are at least min_p times as probable as the most likely token; 0
  /// means all. Must be at most 1. Nguyen et al. 2024, arXiv 2407.01082.
  double min_p = 0;
  /// Lowers the logits of tokens that already occur in the text, including the prompt: positive
  /// logits are divided by this number, negative logits multiplied by it. 1 changes nothing; a
  /// number below 1 raises the logits. Must be above 0 and finite. Keskar et al. 2019, arXiv
  /// 1909.05858, section 4.1.
  double repetition_penalty = 1;
  /// Pairs (id, bias): adds `bias` to the logit of token `id`. A bias of -infinity excludes the
  /// token.
  std::vector<std::pair<int64_t, double>> logit_bias = {};
};

/// Returns a token id sampled from logits (vocab). Among equal logits, the smallest id ranks first.
/// A token with logit -infinity is never chosen. repetition_penalty applies to the tokens in
/// `text`. Throws Error if an option is out of range, or if the largest logit is not finite after
/// repetition_penalty and logit_bias.
int64_t sample_token(const Tensor& logits, const SamplingOptions& options,
                     core::Generator& generator, const std::vector<int64_t>& text = {});

struct GenerateOptions {
  int64_t tokens = 100;           ///< maximum number of new tokens
  SamplingOptions sampling = {};  ///< how each token is chosen
  uint64_t seed = 0;              ///< seed of the random choices; equal arguments give equal texts
  int64_t vocab = 0;        ///< sample only ids below this (the tokenizer's size); 0 means all
  int64_t stop_token = -1;  ///< generation ends when this token is sampled; it is not part of the
                            ///< text; -1 means none
  std::function<void(int64_t)> on_token = {};  ///< called with each new token
  /// Called after each new token, unless the limit `tokens` is reached. If this function returns
  /// true, generation ends.
  std::function<bool()> stop_if = {};
  /// If not null, the log probability of each new token is appended to this vector. Log
  /// probabilities are computed from the model's logits for ids below `vocab`, before temperature,
  /// penalty and bias.
  std::vector<double>* log_probabilities = nullptr;
  /// Tokens that the decoder has read, for conversations. If not null, generate() stores these
  /// tokens in this vector. A later call with the same decoder and vector skips these tokens if its
  /// prompt begins with them, is longer, and fits into the decoder. Pass an empty vector to the
  /// first call. The vector is emptied if generation fails midway, or if the decoder had to drop
  /// the start of the text.
  std::vector<int64_t>* held = nullptr;
};

/// A text that is generated piece by piece and cut off before a stop string. If there are several
/// stop strings, the first one to become complete counts. If several become complete at the same
/// character, the longest one counts.
class StopText {
 public:
  /// Throws Error if a stop string is empty.
  explicit StopText(std::vector<std::string> stops);
  /// Appends `piece`. Returns the next part of the text, but holds back its last characters if a
  /// stop string may begin with them. Returns "" after a stop string has ended the text.
  std::string add(const std::string& piece);
  /// Returns whether a stop string has ended the text.
  bool stopped() const { return stopped_; }
  /// Returns the text that add() has held back; empty if stopped().
  std::string rest() const { return held_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

namespace internal {
/// A text that generate() or Server continues, with its options and random number generator.
class Continuation {
 public:
  /// Throws Error if the prompt or an option is invalid for a decoder of this vocabulary size. An
  /// invalid logit_bias makes add() throw instead.
  Continuation(int64_t vocab, const std::vector<int64_t>& prompt, const GenerateOptions& options);
  /// Returns true until the text is finished.
  bool running() const { return running_; }
  /// Returns the last n tokens, or all tokens if there are fewer, as a tensor (1, length).
  Tensor last(int64_t n) const;
  /// Samples a token from logits (vocab) and appends it to the text. A stop token ends the text and
  /// is not appended.
  void add(const Tensor& logits);
  const std::vector<int64_t>& text() const { return text_; }  ///< prompt and new tokens
  /// Returns the new tokens.
  std::vector<int64_t> tokens() const { return {text_.begin() + prompt_, text_.end()}; }

 private:
  GenerateOptions options_;
  core::Generator generator_;
  std::vector<int64_t> text_;
  std::ptrdiff_t prompt_;
  bool running_;
};
}  // namespace internal

/// Continues `prompt` (token ids) and returns the new tokens. `decoder` must have one row. The
/// decoder is cleared first, unless options.held shows that it has already read the start of the
/// prompt. If the prompt is longer than decoder.capacity(), the decoder reads only the end of the
/// prompt. Whenever the decoder is full, it is cleared and reads the last capacity() / 2 tokens
/// again. In a long text, each new token therefore has at least capacity() / 2 tokens as context,
/// and the decoder reads about two tokens per new token on average. Throws Error if the prompt is
/// empty, if it contains an id outside the vocabulary, if an option is out of range, or if
/// sample_token() throws.
std::vector<int64_t> generate(Decoder& decoder, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options = {});

/// Continues `prompt` (token ids) with a new decoder of `model`, and returns the new tokens.
template <class Model>
requires requires(const Model& model) { model.decoder(1); }
std::vector<int64_t> generate(const Model& model, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options = {}) {
  auto decoder = model.decoder(1);
  return generate(decoder, prompt, options);
}

struct BeamSearchOptions {
  int64_t start = -1;           ///< first token of a target (output sequence); required
  int64_t stop = -1;            ///< token that ends a target; required
  int64_t beams = 1;            ///< beam width; 1 means greedy
  int64_t tokens = 100;         ///< maximum length of a target, not counting start and stop
  double length_penalty = 0.6;  ///< exponent of the length normalisation in Hypothesis::score
};

/// A target (output sequence) found by beam search.
struct Hypothesis {
  std::vector<int64_t> tokens;  ///< the target, without start and stop
  double log_probability = 0;   ///< log probability of `tokens` and, if stopped, of the stop token
  /// log_probability / ((5 + n) / 6)^length_penalty, where n is the number of tokens, plus 1 if
  /// stopped.
  double score = 0;
  bool stopped = false;  ///< true: ended with the stop token; false: cut off at the maximum length
};

/// Returns the targets (output sequences) that beam search finds for each source, best score first:
/// from 1 to options.beams per source. `decoder` must have options.beams consecutive rows per
/// source, and is cleared first. Each target that ends with the stop token narrows the beam by one
/// (Sutskever et al. 2014, arXiv 1409.3215, section 3.2). The score is that of Wu et al. 2016,
/// arXiv 1609.08144, equation 14, without its coverage penalty. Throws Error if an option is out of
/// range, if the decoder has another number of rows, if a logit is NaN, or if no logit is finite.
std::vector<std::vector<Hypothesis>> beam_search(Decoder& decoder, int64_t sources,
                                                 const BeamSearchOptions& options);

/// Returns the best target of each source, found by beam search. `source` (B, S) int64 holds the
/// sources' token ids, and `lengths` (B) int64 their lengths without padding. Undefined lengths
/// mean no padding.
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
