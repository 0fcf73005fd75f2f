#pragma once
// Tokenizers: text to numbers and back.

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace gradus::models {

/// Text to token ids, 0 ... vocab_size() - 1, and back.
///
/// A tokenizer may have special tokens, such as {"[PAD]", "[UNK]", "[START]", "[END]"}: ids that
/// stand for no text and that programs put between others. encode never makes one, whatever the
/// text says, but for [UNK], where there is one, in place of what the vocabulary lacks; decode
/// writes them by name.
///
/// A tokenizer does not change once it is made: threads may share it.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Throws Error, naming what and where, on what the vocabulary lacks, if there is no [UNK].
  virtual std::vector<int64_t> encode(const std::string& text) const = 0;
  /// Throws Error on an id outside [0, vocab_size()).
  virtual std::string decode(const std::vector<int64_t>& ids) const = 0;
  /// Of all tokens, special ones too.
  virtual int64_t vocab_size() const = 0;
  /// All that it is, as a JSON object whose "type" says what kind it is.
  virtual std::string to_json() const = 0;
  /// Writes that, complete or not at all.
  void save(const std::string& path) const;

  /// The id of a special token. Throws Error, naming those there are, if it is none of them.
  int64_t special(const std::string& name) const;
  /// Whether there is a special token of that name.
  bool has_special(const std::string& name) const;
  /// Whether the id is a special token's.
  bool is_special(int64_t id) const;
  /// Their names, in the order in which they were given.
  const std::vector<std::string>& special_tokens() const { return special_names_; }
  /// How many of the ids are [UNK]: what was not understood. 0 if there is no [UNK].
  int64_t count_unknown(const std::vector<int64_t>& ids) const;

 protected:
  Tokenizer() = default;
  /// Makes these the special tokens, with ids from `first` on. Throws Error on one that is empty,
  /// not UTF-8 or there already.
  explicit Tokenizer(const std::vector<std::string>& special, int64_t first = 0);
  /// Makes this a special token too. Throws Error on one that is empty, not UTF-8 or there already.
  void add_special(const std::string& name, int64_t id);
  /// How many special tokens there are.
  int64_t num_special() const { return static_cast<int64_t>(special_names_.size()); }
  /// The id of [UNK], or -1.
  int64_t unknown() const { return unknown_; }
  /// The name of a special token, or nullptr.
  const std::string* special_name(int64_t id) const;

 private:
  std::vector<std::string> special_names_;
  std::unordered_map<std::string, int64_t> special_ids_;
  std::unordered_map<int64_t, size_t> special_places_;  // of each id in special_names_
  int64_t unknown_ = -1;
};

/// Reads what any tokenizer's save() wrote, or a tokenizer.json of Hugging Face's tokenizers that is a
/// byte-level BPE as GPT-2's or a WordPiece as BERT's; its added tokens are special. `path` may also be
/// a model's folder, which has such a tokenizer.json or, as transformers writes them, vocab.json and
/// merges.txt, or vocab.txt, with a tokenizer_config.json or without. Throws Error, naming the file
/// and what is wrong.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

namespace internal {
struct TokenizerFile;
}

}  // namespace gradus::models
