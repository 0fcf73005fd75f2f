#pragma once
// Batches of short texts, such as captions, that a model reads or writes as a whole.

#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

/// Texts as token ids, padded to the longest. Both tensors are int64.
struct TextBatch {
  Tensor ids;      ///< (B, T): [START] text [END], then [PAD]
  Tensor lengths;  ///< (B): tokens of each text without [PAD], 1 to T; undefined: all T
};

/// Encodes the texts. Throws Error unless there is at least one and the tokenizer has [PAD],
/// [START] and [END].
TextBatch text_batch(const Tokenizer& tokenizer, const std::vector<std::string>& texts);

namespace detail {
/// Returns texts.lengths, which may be undefined. Throws Error, opening with `op`, unless ids are
/// (B, T) int64, not empty, with T at most `context`, and each length is from 1 to T.
Tensor checked_lengths(const char* op, const TextBatch& texts, int64_t context);
}  // namespace detail

}  // namespace gradus::models
