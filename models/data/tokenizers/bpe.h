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

/// How a byte-level tokenizer splits a text into words.
enum class WordRule {
  gpt2,
  digits,  ///< each number's character is a word; between them GPT-2's rule (SmolLM2)
  llama3,  ///< Llama 3's pattern, whose numbers have at most three characters
  qwen2,   ///< the same with numbers of one character
};
/// End of the word that begins at text[at] by the rule; `at` must be below text.size().
size_t end_of_word(std::string_view text, size_t at, WordRule rule = WordRule::gpt2);
/// Llama 3's and Qwen 2's patterns, as their tokenizer.json have them.
extern const char* const llama3_pattern;
extern const char* const qwen2_pattern;

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

/// Merges the units of words, one word at a time, and reuses its buffers.
class BPEMerger {
 public:
  /// `ranks` maps pairs, as pair_key() gives them, to indices of `merges`. Both must outlive this.
  BPEMerger(const std::vector<BPEMerge>& merges, const std::unordered_map<uint64_t, int32_t>& ranks)
      : merges_(merges), ranks_(ranks) {}

  /// Appends the tokens of a word of n units, which start as the tokens unit(0), ..., unit(n - 1).
  template <class Unit>
  void append(size_t n, Unit&& unit, std::vector<int32_t>& ids) {
    nodes_.clear();
    const auto count = static_cast<int32_t>(n);
    for (int32_t i = 0; i < count; ++i)
      nodes_.push_back({unit(static_cast<size_t>(i)), i - 1, i + 1 < count ? i + 1 : -1});
    merge_all();
    for (int32_t i = n > 0 ? 0 : -1; i >= 0; i = nodes_[static_cast<size_t>(i)].after)
      ids.push_back(nodes_[static_cast<size_t>(i)].id);
  }

 private:
  struct Node {
    int32_t id, before, after;  // id -1: merged into the one before
  };
  void merge_all();
  void wait(int32_t at);
  void merge(int32_t at, const BPEMerge& rule);

  const std::vector<BPEMerge>& merges_;
  const std::unordered_map<uint64_t, int32_t>& ranks_;
  std::vector<Node> nodes_;
  std::vector<uint64_t> waiting_;  // rank << 32 | position
  std::vector<int32_t> fresh_;
};

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
