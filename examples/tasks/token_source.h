#pragma once
// TokenSource: what a language model is trained on, as batches of tokens.

#include <string>
#include <vector>

#include "gradus/models/data/chat/chat_data.h"

namespace gradus {

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual const models::Tokenizer& tokenizer() const = 0;
  /// Identifies the data: a resumed run must have the same.
  virtual const std::string& id() const = 0;
  /// A line for the log, "text   FILE: ...", with the name and sizes of the data.
  virtual std::string opening() const = 0;

  /// A batch that depends on its arguments alone.
  virtual models::PackedBatch random_batch(models::Split split, int64_t batch, uint64_t seed,
                                           int64_t step, int64_t index) const = 0;
  virtual int64_t validation_batches() const = 0;  ///< batches of the whole validation part
  virtual int64_t validation_tokens() const = 0;   ///< targets in these batches
  /// Batch i of the validation part.
  virtual models::PackedBatch validation_batch(int64_t i) const = 0;
  /// Number of text bytes that the targets represent, without those that are -100.
  virtual double bytes(const Tensor& targets) const = 0;

  /// A prompt for samples.
  virtual std::vector<int64_t> first_tokens() const = 0;
  /// Text that ends a sample; "": none.
  virtual std::string end_of_sample() const { return ""; }
};

}  // namespace gradus
