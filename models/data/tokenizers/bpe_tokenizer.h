#pragma once
// Byte-level byte pair encoding.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

namespace internal {
struct BPETable;

/// A merge rule: the pair of tokens `left`, `right` becomes the token `result`.
struct BPEMerge {
  int32_t left, right, result;  ///< ids of tokens
};
}  // namespace internal

struct BPEOptions {
  int64_t vocab_size = 4096;  ///< maximum number of tokens, including special tokens and 256 bytes
  /// Special tokens, for example {"<|endoftext|>"}. Their ids are 0, 1, 2, ... in this order.
  std::vector<std::string> special = {};
  int64_t min_count = 2;  ///< how often a pair must occur to be merged, at least 1
};

/// Byte-level byte pair encoding as in GPT-2: Sennrich, Haddow, Birch 2016, arXiv 1508.07909;
/// Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
///
/// GPT-2's rule splits a text into words. At the start of each word, the first of these
/// alternatives that matches determines the word, with as many characters as possible:
/// - one of 's 't 're 've 'm 'll 'd
/// - an optional U+0020, then letters
/// - an optional U+0020, then digits
/// - an optional U+0020, then other characters
/// - spaces, except the last one before a word
/// - spaces
///
/// Letters (category L), digits (N) and spaces (White_Space) are those of Unicode. Bytes that are
/// not UTF-8 count as other characters.
///
/// At first, each byte of a word is a token. The earliest merge rule that matches a pair of
/// adjacent tokens merges all such pairs, from left to right. This repeats until no rule matches.
/// Every byte string can be encoded, and decode restores it exactly. (Only a word of 2^31 bytes or
/// more makes encode throw Error.)
class BPETokenizer : public Tokenizer {
 public:
  /// Returns a tokenizer with merges learned from a text: repeatedly merges the most frequent pair
  /// of adjacent tokens within words. Of equally frequent pairs, merges the one with the smallest
  /// left id and, among these, the smallest right id. Stops early, with a smaller vocabulary, when
  /// no pair occurs options.min_count times.
  ///
  /// Throws Error unless min_count >= 1 and vocab_size is below 2^31 and at least the number of
  /// special tokens plus 256. Also throws Error if a special token is empty, repeated, not UTF-8 or
  /// spelled like another token, or if the distinct words have 2^31 - 1 bytes or more in total.
  static BPETokenizer train(const std::string& text, const BPEOptions& options);
  explicit BPETokenizer(const internal::TokenizerFile& file);

  std::vector<int64_t> encode(const std::string& text) const override;
  std::string decode(const std::vector<int64_t>& ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(pieces_.size()); }
  /// Returns the number of merge rules.
  int64_t num_merges() const { return static_cast<int64_t>(merges_.size()); }

  /// Returns the tokenizer as a JSON object:
  ///   `{"type": "bpe", "special": [...], "vocab": ["!", ...], "merges": ["t h", ...]}`
  /// "vocab" lists all tokens, including special ones, in the order of their ids. Bytes are spelled
  /// as in GPT-2's files.
  std::string to_json() const override;
  /// Reads a file that save() wrote. On failure throws Error, naming the file and the problem.
  static BPETokenizer load(const std::string& path);

  /// Returns the tokenizer in GPT-2's files: vocab.json, {"token": id, ...}, and merges.txt, with
  /// one pair per line and an optional first line "#version: ...". The n tokens must have the ids 0
  /// to n - 1, and `special` names those that are special. Each byte must be a token, and every
  /// other ordinary token must result from a merge. No merge may occur twice. A merge must combine
  /// two tokens, each a byte or the result of an earlier merge, into an ordinary token. Throws
  /// Error, naming the file and the token or line, if the files break one of these rules.
  static BPETokenizer load_gpt2(const std::string& vocab_path, const std::string& merges_path,
                                const std::vector<std::string>& special = {"<|endoftext|>"});
  /// Writes the vocabulary to vocab_path (GPT-2's vocab.json) and the merges to merges_path
  /// (merges.txt), each atomically. The files do not record which tokens are special: to read them
  /// back, pass special_tokens() to load_gpt2(). Throws Error if a file cannot be written.
  void save_gpt2(const std::string& vocab_path, const std::string& merges_path) const;

 private:
  using Merge = internal::BPEMerge;
  using Ids = std::unordered_map<std::string_view, int32_t>;

  explicit BPETokenizer(const internal::BPETable& table);
  Ids add_tokens(const internal::BPETable& table);
  Merge read_merge(const internal::BPETable& table, size_t i, const Ids& ids,
                   const std::vector<bool>& producible) const;
  std::string unicode_token(int64_t id) const;
  std::vector<std::string> unicode_merges() const;

  std::vector<std::string> pieces_;  // by id: the bytes of a token, or a special token's name
  std::array<int32_t, 256> byte_ids_{};
  std::vector<Merge> merges_;                    // highest priority first
  std::unordered_map<uint64_t, int32_t> ranks_;  // left << 32 | right -> index in merges_
};

}  // namespace gradus::models
