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

  /// Returns `batch` random rows of a split. The choice depends only on the arguments. If a
  /// training step uses several batches, `index` tells them apart. The result's `positions` may be
  /// undefined if no row contains several examples (see GPT::operator()).
  virtual models::PackedBatch random_batch(models::Split split, int64_t batch, uint64_t seed,
                                           int64_t step, int64_t index) const = 0;
  virtual int64_t validation_batches() const = 0;  ///< number of batches in the validation split
  /// Returns the number of validation targets, without ignored ones (-100).
  virtual int64_t validation_tokens() const = 0;
  /// Returns the number of all validation targets, including ignored ones (-100).
  virtual int64_t validation_inputs() const { return validation_tokens(); }
  /// Returns batch i of the validation split.
  virtual models::PackedBatch validation_batch(int64_t i) const = 0;
  /// Returns the number of bytes of text that `targets`, taken from a batch of this source,
  /// represent. Targets of -100 and, in conversations, special tokens do not count.
  virtual double bytes(const Tensor& targets) const = 0;

  /// Returns a prompt, as tokens. Text is generated after it to show what the model can do.
  virtual std::vector<int64_t> first_tokens() const = 0;
  /// Returns the name of the chat template that encodes the conversations, or "" if the data is
  /// plain text.
  virtual std::string chat_template() const { return ""; }
  /// Returns the text at which the generation of a sample stops, or "" if there is none.
  virtual std::string end_of_sample() const { return ""; }
};

}  // namespace gradus
