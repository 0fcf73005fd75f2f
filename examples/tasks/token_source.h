#pragma once
// TokenSource: the training data of a language model, as batches of tokens.

#include <string>
#include <vector>

#include "gradus/models/data/chat/chat_data.h"

namespace gradus {

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual const models::Tokenizer& tokenizer() const = 0;
  /// Returns a string that identifies the data. A resumed run must have the same data.
  virtual const std::string& id() const = 0;
  /// Returns a line for the log, "text   FILE: ...", with the name and sizes of the data.
  virtual std::string opening() const = 0;

  /// Returns batch number `index` of step `step`: `batch` random rows of a split. The same
  /// arguments give the same batch. Its `positions` may be undefined if no row contains several
  /// examples (see GPT::operator()).
  virtual models::PackedBatch random_batch(models::Split split, int64_t batch, uint64_t seed,
                                           int64_t step, int64_t index) const = 0;
  virtual int64_t validation_batches() const = 0;  ///< number of batches in the validation split
  virtual int64_t validation_tokens() const = 0;   ///< number of validation targets except -100
  /// Returns the number of validation targets, including those of -100.
  virtual int64_t validation_inputs() const { return validation_tokens(); }
  /// Returns batch i of the validation split.
  virtual models::PackedBatch validation_batch(int64_t i) const = 0;
  /// Returns the number of text bytes that the targets of one of this source's batches represent.
  /// Targets of -100 and, in conversations, special tokens do not count.
  virtual double bytes(const Tensor& targets) const = 0;

  /// Returns the tokens of a prompt for samples.
  virtual std::vector<int64_t> first_tokens() const = 0;
  /// Returns the name of the template that encodes the conversations, or "" for other texts.
  virtual std::string chat_template() const { return ""; }
  /// Returns the text that ends a sample, or "" if there is none.
  virtual std::string end_of_sample() const { return ""; }
};

}  // namespace gradus
