#pragma once
// The parts of byte pair encoding: splitting a text into words, merging tokens, learning merges.
// Internal: no public header includes this file.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gradus/models/data/tokenizers/bpe_tokenizer.h"

namespace gradus::models::internal {

/// The rules by which byte-level tokenizers split a text into words.
enum class WordRule {
  gpt2,    ///< GPT-2's pattern (see BPETokenizer)
  digits,  ///< each numeric character is a word; GPT-2's pattern splits the rest (SmolLM2)
  llama3,  ///< Llama 3's pattern: a word has at most three numeric characters
  qwen2,   ///< Qwen 2's pattern: like Llama 3's, but each numeric character is a word
};
/// Returns the index just after the word that begins at text[at]. `rule` splits the text into
/// words, and `at` must be below text.size().
size_t end_of_word(std::string_view text, size_t at, WordRule rule = WordRule::gpt2);
/// The regular expressions by which Llama 3 and Qwen 2 split a text into words, as written in their
/// tokenizer.json.
extern const char* const llama3_pattern;
extern const char* const qwen2_pattern;

/// Returns all 256 bytes in the order of their ids in GPT-2's vocabulary: first the bytes that are
/// printable characters in Latin-1 (! to ~, 0xa1 to 0xac, 0xae to 0xff), then all other bytes.
const std::array<uint8_t, 256>& bytes_in_order();

/// Returns bytes in the spelling of GPT-2's files, with one Unicode character per byte. A byte that
/// is a printable character in Latin-1 becomes that character. The other bytes become U+0100,
/// U+0101, ...; for example, a space becomes U+0120.
std::string bytes_to_unicode(std::string_view bytes);
/// Inverts bytes_to_unicode(): returns the bytes that `text` spells. Returns an empty string if a
/// character of `text` does not spell a byte.
std::string unicode_to_bytes(std::string_view text);

/// Returns a pair of token ids as one number: `left` in the upper 32 bits, `right` in the lower 32.
inline uint64_t pair_key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

/// Applies the merge rules of a BPE tokenizer to one word at a time. Reuses its buffers.
class BPEMerger {
 public:
  /// Uses the merge rules `merges`, in order of decreasing priority. `ranks` maps the pair_key() of
  /// each rule's left and right token to the rule's index in `merges`. `merges` and `ranks` must
  /// outlive this object.
  ///
  /// If `one_by_one` is false, append() merges all pairs that match a rule before it chooses the
  /// next rule, as BPETokenizer does. If `one_by_one` is true, append() merges one pair at a time,
  /// as Hugging Face does: the leftmost pair of the matching rule with the highest priority. The
  /// two results can differ only if a merge creates a pair that a rule of higher priority merges.
  BPEMerger(const std::vector<BPEMerge>& merges, const std::unordered_map<uint64_t, int32_t>& ranks,
            bool one_by_one = false)
      : merges_(merges), ranks_(ranks), one_by_one_(one_by_one) {}

  /// Merges the tokens unit(0), ..., unit(n - 1) of one word and appends the resulting ids to
  /// `ids`. n must be below 2^31.
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
    // `id` is -1 after this token has been merged into the token before it. `before` and `after`
    // are the indices of the neighbours, or -1 at an end of the word.
    int32_t id, before, after;
  };
  void merge_all();
  void wait(int32_t at);
  void merge(int32_t at, const BPEMerge& rule);

  const std::vector<BPEMerge>& merges_;
  const std::unordered_map<uint64_t, int32_t>& ranks_;
  bool one_by_one_;
  std::vector<Node> nodes_;
  std::vector<uint64_t> waiting_;  // heap of pairs to merge: rank << 32 | position
  std::vector<int32_t> fresh_;
};

/// The content of the files of a BPE tokenizer, and functions that return prefixes of error
/// messages. Tokens are spelled as by bytes_to_unicode(), and special tokens as their names.
struct BPETable {
  std::vector<std::string> tokens;        // in the order of their ids
  std::vector<std::string> special;       // names of the special tokens, which are also in `tokens`
  std::vector<std::string> merges;        // each is "left right", spelled as in `tokens`
  std::function<std::string()> in_vocab;  // returns the prefix of error messages about tokens
  std::function<std::string(size_t)> in_merge;  // returns the prefix of messages about merge i
};

/// Learns merges from `text` for BPETokenizer::train. Appends the 256 bytes and the merged tokens
/// to table.tokens, and the merges to table.merges.
void train_bpe(const std::string& text, const BPEOptions& options, BPETable& table);

}  // namespace gradus::models::internal
