#pragma once
// Batches of short texts, for example captions, that a model reads or writes as a whole.

#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

/// A batch of B texts as token ids, padded to T, the length of the longest text. Both tensors are
/// int64.
struct TextBatch {
  Tensor ids;      ///< (B, T): [START] text [END], then [PAD]
  Tensor lengths;  ///< (B): number of tokens per text, without [PAD]; if undefined, T per text
};

/// Returns the texts as a batch of token ids. Throws Error if there is no text or if the tokenizer
/// lacks [PAD], [START] or [END]. Also throws Error if the tokenizer rejects a text; the message
/// then gives the text's index.
TextBatch text_batch(const Tokenizer& tokenizer, const std::vector<std::string>& texts);

namespace detail {
/// Returns the lengths of the texts, (B) int64: texts.lengths or, if this is undefined, T for each
/// text. Throws Error unless texts.ids is (B, T) int64 and not empty, and T is at most `context`.
/// Also throws Error unless texts.lengths, if defined, is (B) int64 with values from 1 to T.
/// Messages begin with `op`.
Tensor checked_lengths(const char* op, const TextBatch& texts, int64_t context);
}  // namespace detail

}  // namespace gradus::models
