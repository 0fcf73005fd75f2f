#pragma once
// Byte pair encoding on bytes.

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
}

struct BPEOptions {
  int64_t vocab_size = 4096;              ///< special tokens, 256 bytes and the merges' results
  std::vector<std::string> special = {};  ///< such as {"<|endoftext|>"}; they take the first ids
  int64_t min_count = 2;                  ///< a pair seen less often is not merged
};

/// Byte-level byte pair encoding as GPT-2's: Sennrich, Haddow, Birch 2016, arXiv 1508.07909;
/// Radford et al. 2019, "Language Models are Unsupervised Multitask Learners".
///
/// A text is split into words by GPT-2's rule, the first of these that fits at each place, each
/// taking all that it can:
///   's 't 're 've 'm 'll 'd | ?letters | ?digits | ?others | spaces, but for the last one before a
///   word | spaces                                                        (a ? is an optional space)
/// with letters, digits and spaces as Unicode 14 has them; a byte that is not UTF-8 is an "other".
/// A word begins as its bytes; then, again and again, of the neighbours that are a merge rule's
/// pair, the earliest rule's are merged, from left to right, until no rule fits. Every string of
/// bytes can be encoded (but for one with a word of 2^31 bytes, on which encode throws Error), and
/// decode gives it back exactly.
class BPETokenizer : public Tokenizer {
 public:
  /// Learns merges from a text: merges the pair of neighbours, within words, that occurs most
  /// often, and repeats; among equals, the pair whose left token has the smallest id, then whose
  /// right one has. The vocabulary is smaller than asked for where no pair occurs min_count times.
  /// Throws Error unless vocab_size has room for the special tokens and 256 bytes.
  static BPETokenizer train(const std::string& text, const BPEOptions& options);
  explicit BPETokenizer(const internal::TokenizerFile& file);

  std::vector<int64_t> encode(const std::string& text) const override;
  std::string decode(const std::vector<int64_t>& ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(pieces_.size()); }
  /// Learnt, or read from a file.
  int64_t num_merges() const { return static_cast<int64_t>(merges_.size()); }

  /// `{"type": "bpe", "special": [...], "vocab": ["!", ...], "merges": ["t h", ...]}`:
  /// vocab in the order of ids, special tokens included, bytes written as GPT-2 writes them.
  std::string to_json() const override;
  /// Reads what save() wrote. Throws Error, naming the file and what is wrong with it.
  static BPETokenizer load(const std::string& path);

  /// Reads GPT-2's files: vocab.json, {"token": id, ...}, and merges.txt, a pair a line, the first
  /// line "#version: ..." or none. `special`: which of vocab.json's tokens are special; they may
  /// have any ids. Throws Error, naming the file and the token or line, unless every other token is
  /// a byte or made by a merge, every merge's tokens are there and made before it, and the ids are
  /// 0, 1, 2, ....
  static BPETokenizer load_gpt2(const std::string& vocab_path, const std::string& merges_path,
                                const std::vector<std::string>& special = {"<|endoftext|>"});
  /// Writes them, each complete or not at all.
  void save_gpt2(const std::string& vocab_path, const std::string& merges_path) const;

 private:
  struct Merge {
    int32_t left, right, result;
  };
  class Merger;

  explicit BPETokenizer(const internal::BPETable& table);
  std::string spelled(int64_t id) const;
  std::vector<std::string> spelled_merges() const;

  std::vector<std::string> pieces_;  // the bytes of each token; of a special one, its name
  std::array<int32_t, 256> byte_ids_{};
  std::vector<Merge> merges_;                    // the first comes first
  std::unordered_map<uint64_t, int32_t> ranks_;  // left << 32 | right -> place in merges_
};

}  // namespace gradus::models
