#pragma once
// Batches of short texts, for example captions, that a model reads or writes as a whole.

#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

/// Texts as token ids, padded to the longest text. Both tensors are int64.
struct TextBatch {
  Tensor ids;      ///< (B, T): [START] text [END], then [PAD]
  Tensor lengths;  ///< (B): number of tokens of each text without [PAD], 1 to T; if undefined, all
                   ///< texts have T tokens
};

/// Returns the encoded texts. Throws Error unless there is at least one text and the tokenizer has
/// [PAD], [START] and [END]. Also throws Error, naming the index, if the tokenizer rejects a text.
TextBatch text_batch(const Tokenizer& tokenizer, const std::vector<std::string>& texts);

namespace detail {
/// Returns texts.lengths, or B lengths of T if they are undefined. Throws Error unless ids are
/// (B, T) int64 and not empty, T is at most `context`, and defined lengths are (B) int64 from 1 to
/// T. The message begins with `op`.
Tensor checked_lengths(const char* op, const TextBatch& texts, int64_t context);
}  // namespace detail

}  // namespace gradus::models
