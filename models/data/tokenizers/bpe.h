#pragma once
// The parts of byte pair encoding. For the library's own use: no public header includes this.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gradus/models/data/tokenizers/bpe_tokenizer.h"

namespace gradus::models::internal {

/// End of the word that begins at text[at], by GPT-2's rule; `at` must be below text.size().
size_t end_of_word(std::string_view text, size_t at);

/// The bytes in the order of their ids in GPT-2's vocabulary: first the printable characters of
/// Latin-1 (! to ~, 0xa1 to 0xac, 0xae to 0xff), then the others.
const std::array<uint8_t, 256>& bytes_in_order();

/// Writes bytes as GPT-2's files do, one character per byte: printable bytes as the character of
/// that code point, the others as U+0100, U+0101, ... (a space is U+0120).
std::string bytes_to_unicode(std::string_view bytes);
/// The inverse of bytes_to_unicode(); empty if a character stands for no byte.
std::string unicode_to_bytes(std::string_view text);

inline uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

/// A BPE tokenizer as stored in files.
struct BPETable {
  std::vector<std::string> tokens;        // by id: bytes_to_unicode(), or a special token's name
  std::vector<std::string> special;       // names of the special tokens, which are also in `tokens`
  std::vector<std::string> merges;        // "left right", spelled as in `tokens`
  std::function<std::string()> in_vocab;  // returns the prefix of errors about tokens
  std::function<std::string(size_t)> in_merge;  // returns the prefix of errors about merge i
};

/// Learns merges as BPETokenizer::train does; appends the 256 bytes, the merged tokens and the
/// merges to the table.
void train_bpe(const std::string& text, const BPEOptions& options, BPETable& table);

}  // namespace gradus::models::internal
