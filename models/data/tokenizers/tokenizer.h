#pragma once
// Tokenizers: convert text to token ids and back.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gradus::models {

/// Base class of tokenizers. Encodes text as token ids from 0 to vocab_size() - 1, and decodes
/// them.
///
/// A tokenizer may have special tokens, for example {"[PAD]", "[UNK]", "[START]", "[END]"}. They
/// stand for no text; programs insert their ids. encode does not produce them from text, with one
/// exception: tokenizers of characters, words and word pieces produce [UNK], if there is one, for
/// text outside the vocabulary. decode writes the names of special tokens.
///
/// Tokenizers are immutable, so threads may share one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Returns the token ids of a text. If there is no [UNK], throws Error on text outside the
  /// vocabulary; the message then contains that text.
  virtual std::vector<int64_t> encode(const std::string& text) const = 0;
  /// Returns the token ids of a text like encode(), but converts names of special tokens in the
  /// text to the ids of these tokens. If several names match, uses the longest. Do not use this
  /// function for text from an untrusted source.
  virtual std::vector<int64_t> encode_with_special(const std::string& text) const;
  /// Returns true only if the text may be cut before text[at], that is, if the tokens of the two
  /// parts, concatenated, are the tokens of the whole text. text[at] must be a space, tab or line
  /// break that is followed by a character other than white space.
  virtual bool may_cut(std::string_view /*text*/, size_t /*at*/) const { return true; }
  /// Returns the ids of the special tokens that a model expects before every text, for example
  /// Llama 3's <|begin_of_text|>. encode() does not add them.
  virtual std::vector<int64_t> begin_ids() const { return {}; }
  /// Returns the text of token ids. Throws Error on an id outside [0, vocab_size()).
  virtual std::string decode(const std::vector<int64_t>& ids) const = 0;
  /// Returns the number of tokens, including special tokens.
  virtual int64_t vocab_size() const = 0;
  /// Returns the whole tokenizer as a JSON object. load_tokenizer() reads a file with this content.
  virtual std::string to_json() const = 0;
  /// Writes to_json() to a file, atomically. Throws Error if the file cannot be written.
  void save(const std::string& path) const;

  /// Returns the id of the special token with this name. If no special token has this name, throws
  /// Error, listing the special tokens.
  int64_t special(const std::string& name) const;
  /// Returns whether there is a special token of this name.
  bool has_special(const std::string& name) const;
  /// Returns whether `id` is the id of a special token.
  bool is_special(int64_t id) const;
  /// Returns the names of the special tokens, in the order in which they were passed to the
  /// constructor or stored in the file.
  const std::vector<std::string>& special_tokens() const { return special_names_; }
  /// Returns how many of the ids are [UNK]; 0 if the tokenizer has no [UNK].
  int64_t count_unknown(const std::vector<int64_t>& ids) const;

 protected:
  Tokenizer() = default;
  /// Constructs a tokenizer with these special tokens, which get the ids `first`, `first` + 1, ...
  /// Throws Error if a name is empty, repeated or not UTF-8.
  explicit Tokenizer(const std::vector<std::string>& special, int64_t first = 0);
  /// Adds a special token. Throws Error if the name is empty, already used or not UTF-8.
  void add_special(const std::string& name, int64_t id);
  /// Returns the number of special tokens.
  int64_t num_special() const { return static_cast<int64_t>(special_names_.size()); }
  /// Returns the id of [UNK], or -1 if there is no [UNK].
  int64_t unknown() const { return unknown_; }
  /// Returns the name of the special token with this id, or a null pointer if there is none.
  const std::string* special_name(int64_t id) const;

 private:
  std::vector<std::string> special_names_;
  std::unordered_map<std::string, int64_t> special_ids_;
  std::unordered_map<int64_t, size_t> special_places_;  // id -> index in special_names_
  int64_t unknown_ = -1;
};

/// Returns the tokenizer in a file or a model folder. Throws Error, naming the file and the
/// problem, if it cannot be read.
/// - A file must be one that Tokenizer::save() wrote, or a tokenizer.json of Hugging Face's
///   tokenizers library. A tokenizer.json may contain GPT-2's byte-level BPE, a BPE of Llama's
///   family (see HuggingFaceBPE), or BERT's WordPiece. Added tokens that the tokenizer.json marks
///   as special become special tokens.
/// - A folder must contain tokenizer.json, or the files of Hugging Face's transformers library:
///   vocab.txt, or vocab.json and merges.txt. It may also contain tokenizer_config.json.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

namespace internal {
struct TokenizerFile;
}

}  // namespace gradus::models
