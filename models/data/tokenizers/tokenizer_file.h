#pragma once
// What tokenizers' files have in common. For the library's own use: no public header includes this.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gradus/models/data/tokenizers/wordpiece_tokenizer.h"

namespace gradus::models::internal {

/// A tokenizer's file, read: a JSON object.
struct TokenizerFile {
  const nlohmann::json& root;
  /// Whether it is one of Hugging Face's tokenizers, which have a "model", not ours.
  bool is_theirs() const;
  /// Throws Error unless this is the file's "type".
  void check_type(const char* type) const;
  /// root[key], an array of strings, which may be missing or empty unless it is required. Throws
  /// Error, saying what they are ("words"), on anything else.
  std::vector<std::string> strings(const char* key, const char* what, bool required) const;
};

/// Calls use(file). Errors open with `op` and the path.
void read_tokenizer(const char* op, const std::string& path,
                    const std::function<void(const TokenizerFile&)>& use);

/// The tokens of an object {"token": id, ...} in the order of their ids. Throws Error, opening with
/// `in_vocab`, unless these are 0, 1, 2, ....
std::vector<std::string> tokens_by_id(const std::string& in_vocab, const nlohmann::json& ids);

/// What tokenizer_config.json calls BERT's special tokens, and their names.
inline constexpr std::pair<const char*, const char*> bert_roles[] = {{"pad_token", "[PAD]"},
                                                                     {"unk_token", "[UNK]"},
                                                                     {"cls_token", "[CLS]"},
                                                                     {"sep_token", "[SEP]"},
                                                                     {"mask_token", "[MASK]"}};

// What a tokenizer.json of Hugging Face's says. All throw Error on what ours cannot do.

/// What ours of that kind has for "type": bpe or wordpiece.
std::string their_type(const nlohmann::json& root);
/// All tokens in the order of their ids, added ones too; the names of those, which are special.
std::vector<std::string> their_tokens(const nlohmann::json& root);
std::vector<std::string> their_special(const nlohmann::json& root);
/// "left right", of a byte-level BPE.
std::vector<std::string> their_merges(const nlohmann::json& root);
WordPieceOptions their_wordpiece_options(const nlohmann::json& root);

/// The tokenizer in a model's folder, ours or one of Hugging Face's: tokenizer.json, vocab.json with
/// merges.txt, or vocab.txt. Throws Error, naming the file and the key, where tokenizer_config.json
/// or added_tokens.json beside it ask for what ours cannot do.
std::unique_ptr<Tokenizer> load_folder_tokenizer(const std::string& dir);

/// Throws decode's Error on an id outside [0, vocab_size).
void check_ids(const std::vector<int64_t>& ids, int64_t vocab_size);

}  // namespace gradus::models::internal
