#pragma once
// Tokenizers: text to token ids and back.

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace gradus::models {

/// Encodes text as token ids, 0 ... vocab_size() - 1, and decodes them.
///
/// A tokenizer may have special tokens, such as {"[PAD]", "[UNK]", "[START]", "[END]"}: ids that
/// stand for no text and that programs insert. encode never produces them from text, except for
/// [UNK], if there is one, in place of text outside the vocabulary; decode writes their names.
///
/// Tokenizers are immutable: threads may share one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Token ids of a text. Throws Error, naming the text and its position, on text outside the
  /// vocabulary unless there is an [UNK].
  virtual std::vector<int64_t> encode(const std::string& text) const = 0;
  /// Token ids of a text in which the names of special tokens stand for these; where several match,
  /// the longest. Never call it on text of an untrusted source.
  virtual std::vector<int64_t> encode_with_special(const std::string& text) const;
  /// Ids of the special tokens that come before a text, such as Llama 3's <|begin_of_text|>.
  virtual std::vector<int64_t> begin_ids() const { return {}; }
  /// Text of token ids. Throws Error on an id outside [0, vocab_size()).
  virtual std::string decode(const std::vector<int64_t>& ids) const = 0;
  /// Number of tokens, special ones included.
  virtual int64_t vocab_size() const = 0;
  /// The whole tokenizer as a JSON object; its "type" is the kind of tokenizer.
  virtual std::string to_json() const = 0;
  /// Writes to_json() to a file, atomically.
  void save(const std::string& path) const;

  /// The id of a special token. Throws Error, listing the special tokens, on another name.
  int64_t special(const std::string& name) const;
  /// True if there is a special token of this name.
  bool has_special(const std::string& name) const;
  /// True for the id of a special token.
  bool is_special(int64_t id) const;
  /// Names of the special tokens, in the order given.
  const std::vector<std::string>& special_tokens() const { return special_names_; }
  /// Number of [UNK] among the ids; 0 if there is no [UNK].
  int64_t count_unknown(const std::vector<int64_t>& ids) const;

 protected:
  Tokenizer() = default;
  /// Adds these special tokens with the ids first, first + 1, .... Throws Error on a name that is
  /// empty, repeated or not UTF-8.
  explicit Tokenizer(const std::vector<std::string>& special, int64_t first = 0);
  /// Adds a special token. Throws Error on a name that is empty, repeated or not UTF-8.
  void add_special(const std::string& name, int64_t id);
  /// Number of special tokens.
  int64_t num_special() const { return static_cast<int64_t>(special_names_.size()); }
  /// Id of [UNK], or -1.
  int64_t unknown() const { return unknown_; }
  /// Name of the special token with this id, or nullptr.
  const std::string* special_name(int64_t id) const;

 private:
  std::vector<std::string> special_names_;
  std::unordered_map<std::string, int64_t> special_ids_;
  std::unordered_map<int64_t, size_t> special_places_;  // index of each id in special_names_
  int64_t unknown_ = -1;
};

/// Reads any tokenizer that save() wrote, or a tokenizer.json of Hugging Face's tokenizers:
/// byte-level BPE like GPT-2's, the BPEs of Llama's family (see HuggingFaceBPE), or WordPiece like
/// BERT's; its added tokens are special. `path` may
/// also be a model folder with such a tokenizer.json or, as transformers writes them, with
/// vocab.json and merges.txt, or vocab.txt; tokenizer_config.json is optional. Throws Error, naming
/// the file and what is wrong.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

namespace internal {
struct TokenizerFile;
}

}  // namespace gradus::models
