#pragma once
// Short texts as a batch, for models that read or write them whole: captions.

#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

/// Texts as token ids, padded to the longest. Both int64.
struct TextBatch {
  Tensor ids;      ///< (B, T): [START] text [END], then [PAD]
  Tensor lengths;  ///< (B): the tokens of each but [PAD], 1 to T; undefined: T
};

/// The texts' tokens. Throws Error unless there is a text and the tokenizer has [PAD], [START] and
/// [END].
TextBatch text_batch(const Tokenizer& tokenizer, const std::vector<std::string>& texts);

namespace detail {
/// The lengths, which may be undefined. Throws Error, opening with `op`, unless ids are (B, T) of
/// int64, none empty, T at most `context`, and each length is from 1 to T.
Tensor checked_lengths(const char* op, const TextBatch& texts, int64_t context);
}  // namespace detail

}  // namespace gradus::models
