#pragma once
// Parses tokenizer files: the JSON files of this library, and the files of Hugging Face's
// libraries. Internal: no public header includes this file.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gradus/models/data/tokenizers/wordpiece_tokenizer.h"

namespace gradus::models::internal {

/// A parsed tokenizer file.
struct TokenizerFile {
  const nlohmann::json& root;  ///< the content of the file; a valid file contains a JSON object
  /// Returns whether the file is from Hugging Face's tokenizers library: it has a "model" and no
  /// "type".
  bool is_hugging_face() const;
  /// Throws Error unless the file's "type" is `type`.
  void check_type(const char* type) const;
  /// Returns the array of strings root[key]. If `required` is false, the array may be missing or
  /// empty. Throws Error on anything else. The message calls the strings `what`, for example
  /// "names".
  std::vector<std::string> strings(const char* key, const char* what, bool required) const;
};

/// Parses the file at `path` as JSON and calls use() with the result. Messages of all Errors begin
/// with `op` and the path, or with "read_file" and the path if the file cannot be read.
void read_tokenizer(const char* op, const std::string& path,
                    const std::function<void(const TokenizerFile&)>& use);

/// Splits a text at the names that occur in it, and calls a function for each part in turn:
/// on_name(names[name]) for a name, and on_text(part, is_first) for non-empty text before, between
/// or after names. is_first is true if the part is at the start of the text. If several names match
/// at one position, uses the longest. No name may be empty.
void split_at_names(const std::string& text, const std::unordered_map<std::string, int64_t>& names,
                    const std::function<void(std::string_view, bool)>& on_text,
                    const std::function<void(int64_t)>& on_name);

/// Returns the tokens of a JSON object {"token": id, ...} in the order of their ids. Throws Error
/// unless the ids of the n tokens are 0 to n - 1; the message begins with `in_vocab`.
std::vector<std::string> tokens_by_id(const std::string& in_vocab, const nlohmann::json& ids);

/// The keys in tokenizer_config.json for BERT's special tokens, each with the name that the token
/// must have.
inline constexpr std::pair<const char*, const char*> bert_roles[] = {{"pad_token", "[PAD]"},
                                                                     {"unk_token", "[UNK]"},
                                                                     {"cls_token", "[CLS]"},
                                                                     {"sep_token", "[SEP]"},
                                                                     {"mask_token", "[MASK]"}};

// The hf_ functions below read `root`, the content of a tokenizer.json of Hugging Face. All except
// hf_is_gpt2 throw Error on unsupported settings.

/// Returns the kind of the tokenizer: "bpe" or "wordpiece". (Hugging Face's files spell these kinds
/// "BPE" and "WordPiece".)
std::string hf_type(const nlohmann::json& root);
/// Returns true if BPETokenizer must load this BPE, and false if HuggingFaceBPE must. A file needs
/// HuggingFaceBPE if its pre_tokenizer is a Sequence or a Metaspace, or if it has no pre_tokenizer
/// but sets byte_fallback. Every other file needs BPETokenizer, which throws Error unless the
/// pre_tokenizer is GPT-2's, ByteLevel.
bool hf_is_gpt2(const nlohmann::json& root);
/// Returns all tokens of the tokenizer, including added tokens, in the order of their ids.
std::vector<std::string> hf_tokens(const nlohmann::json& root);
/// Returns the names of the added tokens. Throws Error if one is not special.
std::vector<std::string> hf_special(const nlohmann::json& root);
/// Returns the merges of a byte-level BPE, each as "left right". Throws Error on unsupported
/// settings.
std::vector<std::string> hf_merges(const nlohmann::json& root);
/// Returns the options of a WordPiece tokenizer, with the names of its special tokens. Throws Error
/// on unsupported settings.
WordPieceOptions hf_wordpiece_options(const nlohmann::json& root);

/// Returns the tokenizer of a model folder that this library or Hugging Face's wrote. Reads the
/// first of these that exists: tokenizer.json; vocab.json and merges.txt; vocab.txt. Throws Error
/// if none of these exists. Also throws Error, naming the file and the entry, if
/// tokenizer_config.json, added_tokens.json or the tokenizer_class in config.json requires
/// something unsupported.
std::unique_ptr<Tokenizer> load_folder_tokenizer(const std::string& dir);

/// Returns the chat template in a file. If the file's name ends with ".jinja", the template is the
/// whole content. Any other file must be JSON, and the template is the string under the key
/// "chat_template". If this key has an array of objects with "name" and "template", returns the
/// template named "default". Returns nullopt if the JSON has no such template. Throws Error, naming
/// the file, if it cannot be read or parsed.
std::optional<std::string> chat_template_in(const std::string& path);

/// Throws Error if an id is outside [0, vocab_size). The message begins with "decode".
void check_ids(const std::vector<int64_t>& ids, int64_t vocab_size);

}  // namespace gradus::models::internal
