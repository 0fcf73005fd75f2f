#pragma once
// Byte pair encodings that are read from a tokenizer.json of Hugging Face's tokenizers library.

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gradus/models/data/tokenizers/bpe_tokenizer.h"

namespace gradus::models {

namespace internal {
struct BPEForm;
}

/// A byte pair encoding of Llama's family, read from a tokenizer.json. It has one of two forms:
/// - Byte-level. The pattern of Llama 3, Qwen 2 or GPT-2 splits a text into words. SmolLM2 uses
///   GPT-2's pattern, but each digit is a separate word. The text may first be normalised to NFC.
///   If ignore_merges is set, a word that is in the vocabulary is one token.
/// - Character-level, as in SentencePiece (Kudo, Richardson 2018, arXiv 1808.06226), for Llama 2
///   and Mistral. A space becomes "▁", and a text is not split into words. A character outside the
///   vocabulary becomes one token per byte (<0x00> to <0xFF>). The tokenizer.json determines
///   whether encode() puts a "▁" before a text (always, never, or only if the text does not begin
///   with a space), and whether decode() drops a space at the beginning.
///
/// Adjacent tokens are merged one pair at a time: of all merge rules that match a pair, the first
/// rule merges its leftmost pair. This repeats until no rule matches.
///
/// encode() also recognises the names of added tokens that are not special. It throws Error on a
/// text of 2^29 bytes or more. to_json() returns the JSON of the tokenizer.json that was read.
class HuggingFaceBPE : public Tokenizer {
 public:
  /// Reads a tokenizer.json. Throws Error if the file is invalid or has a setting that this class
  /// does not support. The message names the JSON entry.
  explicit HuggingFaceBPE(const internal::TokenizerFile& file);
  HuggingFaceBPE(const HuggingFaceBPE&) = delete;
  HuggingFaceBPE& operator=(const HuggingFaceBPE&) = delete;
  ~HuggingFaceBPE() override;

  std::vector<int64_t> encode(const std::string& text) const override;
  std::vector<int64_t> encode_with_special(const std::string& text) const override;
  /// Returns whether the text may be cut before text[at] without changing its tokens. Returns true
  /// only at a space, tab or line break between two letters, because every pattern ends a word
  /// after a letter that white space follows. Returns false for a character-level encoding, which
  /// does not split a text into words. Also returns false if the name of an added token that is not
  /// special contains a space, tab or line break.
  bool may_cut(std::string_view text, size_t at) const override;
  std::vector<int64_t> begin_ids() const override { return begin_ids_; }
  std::string decode(const std::vector<int64_t>& ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }
  std::string to_json() const override { return source_; }
  /// Returns the names of all tokens, by id.
  const std::vector<std::string>& tokens() const { return tokens_; }
  /// Returns the id of the added token with this name, special or not, or -1 if there is none.
  int64_t added(const std::string& name) const;
  /// Returns true for a character-level encoding, in which "▁" stands for a space, if encode()
  /// never puts a "▁" before a text. Otherwise returns false.
  bool adds_no_space() const;

 private:
  using Merge = internal::BPEMerge;
  void read_added(const internal::TokenizerFile& file);
  void read_merges(const internal::TokenizerFile& file);
  void read_bytes();
  void append_words(std::string_view text, std::vector<int64_t>& ids) const;
  void append_pieces(std::string_view text, bool is_first, std::vector<int64_t>& ids) const;
  std::vector<int64_t> encode_around(const std::string& text,
                                     const std::unordered_map<std::string, int64_t>& names) const;

  std::string source_;
  std::unique_ptr<const internal::BPEForm> form_;
  // By id: each token's name in the file, for example "▁the", and the bytes that decode() writes
  // for it, for example " the".
  std::vector<std::string> tokens_, pieces_;
  std::unordered_map<std::string_view, int32_t> ids_;  // name -> id, as in the file's model.vocab
  // Ids by name: added_ has all added tokens, visible_ only those that are not special.
  std::unordered_map<std::string, int64_t> added_, visible_;
  std::vector<int64_t> begin_ids_;
  std::array<int32_t, 256> byte_ids_{};
  std::vector<Merge> merges_;                    // highest priority first
  std::unordered_map<uint64_t, int32_t> ranks_;  // left << 32 | right -> index in merges_
};

}  // namespace gradus::models
