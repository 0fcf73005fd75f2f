#pragma once
// Text from a model, token by token: one interface for all models that write.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::models {

/// Sequences side by side that a model is about to continue, with what it keeps of the tokens that
/// it has read. A model that can write has decoder(rows), which makes one. All under NoGrad, and under
/// EvalMode unless dropout is wanted.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// How many tokens there are.
  virtual int64_t vocab() const = 0;
  /// Reads the next tokens of each row, ids (rows, T) with T <= room(), and returns the logits of
  /// the token after the last: (rows, vocab).
  virtual Tensor next_logits(const Tensor& ids) = 0;
  /// Row i goes on from where row rows[i] stands: rows (rows), int64.
  virtual void reorder(const Tensor& rows) = 0;
  /// How many more tokens a row can take in, and how many an empty one.
  virtual int64_t room() const = 0;
  /// How many tokens an empty row can take in.
  virtual int64_t capacity() const = 0;
  /// Forgets the tokens read.
  virtual void clear() = 0;
};

namespace internal {
/// Throws Error, opening with `op`, unless ids are (B, T) of int64, none empty; `what`: "target ids".
void check_ids(const char* op, const char* what, const Tensor& ids);
}  // namespace internal

namespace detail {
/// Throws Error, opening with `op`, unless so many beams of each source are a number of rows that a
/// decoder can have.
void check_beams(const char* op, int64_t sources, int64_t beams);
/// Each tensor that is defined becomes its rows `rows`.
void select_rows(std::initializer_list<Tensor*> tensors, const Tensor& rows);

/// Which source each row of a decoder is of, for decoders that look at sources.
class SourceRows {
 public:
  SourceRows() = default;
  /// `beams` rows a source, side by side. Throws Error, opening with `op` as all here, where
  /// gradients are recorded or there cannot be so many.
  SourceRows(const char* op, int64_t sources, int64_t beams);
  int64_t size() const { return std::ssize(source_); }
  /// (rows), int64: of a tensor with one row a source it selects the decoder's rows.
  Tensor index() const;
  /// Throws Error unless ids are (rows, T) with T up to room, and no gradients are recorded.
  void check_next(const Tensor& ids, int64_t room) const;
  /// Row i is now of the source that row rows[i] was of. False where none is of another then, as in
  /// a beam search, whose beams change within a source. Throws Error unless rows are (rows), int64.
  bool reorder(const Tensor& rows);

 private:
  const char* op_ = "";
  std::vector<int64_t> source_;
};
}  // namespace detail

/// How a token is chosen from logits.
struct SamplingOptions {
  double temperature = 1;  ///< divides the logits; 0: the most likely token (greedy)
  int64_t top_k = 0;       ///< only the k most likely tokens; 0: all
  double top_p = 1;        ///< only the most likely tokens that together have probability top_p
};

/// Draws a token id from logits (vocab). Of equally likely tokens, the one with the smallest id
/// counts first; one of -infinity is never drawn. Throws Error unless the largest is finite.
int64_t sample_token(const Tensor& logits, const SamplingOptions& options,
                     core::Generator& generator);

struct GenerateOptions {
  int64_t tokens = 100;           ///< how many at most
  SamplingOptions sampling = {};  ///< how each is chosen
  uint64_t seed = 0;              ///< the text is a function of model, prompt and options
  int64_t vocab =
      0;  ///< only ids below this are chosen; 0: any of the model's, which may have more
          ///< than its tokenizer
  int64_t stop_token = -1;                     ///< ends the text, and is not part of it; -1: none
  std::function<void(int64_t)> on_token = {};  ///< called with each token as it is chosen
};

/// Continues `prompt` (token ids; only the last that there is room for are read) and returns the
/// new tokens. `decoder` has one row, and forgets what it has read before. Each token is read once
/// until there is no more room; then the last half of the capacity is read again after clear(), and
/// so on: a token is chosen with at least half of the capacity in view (where the text is that
/// long), at the cost of reading two tokens instead of one.
std::vector<int64_t> generate(Decoder& decoder, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options = {});

/// The same with a decoder of the model's own.
template <class Model>
requires requires(const Model& model) { model.decoder(1); }
std::vector<int64_t> generate(const Model& model, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options = {}) {
  auto decoder = model.decoder(1);
  return generate(decoder, prompt, options);
}

struct BeamSearchOptions {
  int64_t start = -1;  ///< what a target begins with; must be given, as must stop
  int64_t stop = -1;   ///< what ends it
  int64_t beams = 1;  ///< targets that are kept side by side; 1: greedy, always the likeliest token
  int64_t tokens = 100;         ///< the most of a target, start and stop not counted
  double length_penalty = 0.6;  ///< alpha in Hypothesis::score
};

/// A target that a beam search has found.
struct Hypothesis {
  std::vector<int64_t> tokens;  ///< without start and stop
  double log_probability = 0;   ///< of the tokens, and of stop if it came
  double score = 0;      ///< log_probability / ((5 + n) / 6)^alpha, n the number of tokens and stop
  bool stopped = false;  ///< or cut off
};

/// The likeliest targets of each source, the one with the highest score first. `decoder` has
/// options.beams rows for each of `sources` sources, side by side. Once a target ends with stop, the
/// search goes on with one beam less: Sutskever et al. 2014, arXiv 1409.3215, section 3.2; scores:
/// Wu et al. 2016, arXiv 1609.08144, equation 14.
std::vector<std::vector<Hypothesis>> beam_search(Decoder& decoder, int64_t sources,
                                                 const BeamSearchOptions& options);

/// The best target of each of `source`'s rows (B, S), of which `lengths` (B) says how many tokens
/// are real, by a decoder of the model's own.
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
