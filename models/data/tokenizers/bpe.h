#pragma once
// Byte pair encoding: splits texts into words, merges tokens and learns merges. Internal: no public
// header includes this file.

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
  gpt2,    ///< GPT-2's pattern, see BPETokenizer
  digits,  ///< SmolLM2's rule: each character of a number is a word, and GPT-2's pattern splits the
           ///< text between numbers as if each part were a whole text
  llama3,  ///< Llama 3's pattern, in which numbers have at most three characters
  qwen2,   ///< Llama 3's pattern with numbers of one character
};
/// Returns the end of the word that begins at text[at] according to the rule. `at` must be below
/// text.size().
size_t end_of_word(std::string_view text, size_t at, WordRule rule = WordRule::gpt2);
/// The patterns of Llama 3 and Qwen 2, as written in their tokenizer.json.
extern const char* const llama3_pattern;
extern const char* const qwen2_pattern;

/// Returns the bytes in the order of their ids in GPT-2's vocabulary: first the printable
/// characters of Latin-1 (! to ~, 0xa1 to 0xac, 0xae to 0xff), then all others.
const std::array<uint8_t, 256>& bytes_in_order();

/// Returns bytes as GPT-2's files write them, one character per byte. A printable byte becomes the
/// character with that code point. The others become U+0100, U+0101, ...; for example, a space
/// becomes U+0120.
std::string bytes_to_unicode(std::string_view bytes);
/// Inverts bytes_to_unicode(). Returns an empty string if `text` is no result of that function.
std::string unicode_to_bytes(std::string_view text);

/// Returns the key of a pair of token ids: `left` in the upper 32 bits, `right` in the lower ones.
inline uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

/// Applies merge rules to one word at a time. Reuses its buffers.
class BPEMerger {
 public:
  /// `ranks` maps pairs, encoded by pair_key(), to indices in `merges`. `merges` and `ranks` must
  /// outlive this object.
  BPEMerger(const std::vector<BPEMerge>& merges, const std::unordered_map<uint64_t, int32_t>& ranks)
      : merges_(merges), ranks_(ranks) {}

  /// Merges the n < 2^31 tokens unit(0), ..., unit(n - 1) of a word and appends the result to
  /// `ids`.
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
    int32_t id, before, after;  // id -1: merged into the node before
  };
  void merge_all();
  void wait(int32_t at);
  void merge(int32_t at, const BPEMerge& rule);

  const std::vector<BPEMerge>& merges_;
  const std::unordered_map<uint64_t, int32_t>& ranks_;
  std::vector<Node> nodes_;
  std::vector<uint64_t> waiting_;  // heap of pairs to merge: rank << 32 | position
  std::vector<int32_t> fresh_;
};

/// The content of the files of a BPE tokenizer.
struct BPETable {
  std::vector<std::string> tokens;        // by id: bytes_to_unicode() of a token, or the name of a
                                          // special token
  std::vector<std::string> special;       // names of the special tokens; `tokens` contains them too
  std::vector<std::string> merges;        // "left right", spelled as in `tokens`
  std::function<std::string()> in_vocab;  // returns the prefix of error messages about tokens
  std::function<std::string(size_t)> in_merge;  // returns the prefix of error messages about merge
                                                // i
};

/// Learns merges for BPETokenizer::train. Appends the 256 bytes, the merged tokens and the merges
/// to the table.
void train_bpe(const std::string& text, const BPEOptions& options, BPETable& table);

}  // namespace gradus::models::internal
