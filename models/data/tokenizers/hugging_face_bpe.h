#pragma once
// Byte pair encoding as a tokenizer.json of Hugging Face's tokenizers describes it.

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

/// The byte pair encodings of Llama's family, from a tokenizer.json:
/// - byte-level with Llama 3's or Qwen 2's pattern of words, or with single digits (SmolLM2), with or
///   without NFC; with ignore_merges, a word of the vocabulary is one token;
/// - of characters, as SentencePiece's (Kudo, Richardson 2018, arXiv 1808.06226): a space is "▁", a
///   text is not split into words, and a character outside the vocabulary becomes the tokens <0x00>
///   to <0xFF> of its bytes (Llama 2, Mistral).
///
/// Added tokens that are not special stand for their names also in encode(). to_json() returns the
/// tokenizer.json that was read.
class HuggingFaceBPE : public Tokenizer {
 public:
  /// Throws Error, naming the entry, on a form other than the above.
  explicit HuggingFaceBPE(const internal::TokenizerFile& file);
  HuggingFaceBPE(const HuggingFaceBPE&) = delete;
  HuggingFaceBPE& operator=(const HuggingFaceBPE&) = delete;
  ~HuggingFaceBPE() override;

  std::vector<int64_t> encode(const std::string& text) const override;
  std::vector<int64_t> encode_with_special(const std::string& text) const override;
  std::vector<int64_t> begin_ids() const override { return begin_ids_; }
  std::string decode(const std::vector<int64_t>& ids) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }
  std::string to_json() const override { return source_; }
  /// The id of an added token, special or not; -1 if there is none of this name.
  int64_t added(const std::string& name) const;

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
  std::vector<std::string> tokens_, pieces_;  // by id: as in the file; the text that it stands for
  std::unordered_map<std::string_view, int32_t> ids_;         // of model.vocab
  std::unordered_map<std::string, int64_t> added_, visible_;  // all added tokens; those not special
  std::vector<int64_t> begin_ids_;
  std::array<int32_t, 256> byte_ids_{};
  std::vector<Merge> merges_;                    // highest priority first
  std::unordered_map<uint64_t, int32_t> ranks_;  // left << 32 | right -> index in merges_
};

}  // namespace gradus::models
