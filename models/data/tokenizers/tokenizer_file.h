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
  const nlohmann::json& root;  ///< the content; a JSON object if the file is valid
  /// Returns whether the file is from Hugging Face's tokenizers library: it has a "model" and no
  /// "type".
  bool is_hugging_face() const;
  /// Throws Error unless the file's "type" is `type`.
  void check_type(const char* type) const;
  /// Returns root[key], an array of strings. If `required` is false, it may be missing or empty.
  /// Throws Error on anything else. The message calls the strings `what`, for example "words".
  std::vector<std::string> strings(const char* key, const char* what, bool required) const;
};

/// Parses a file and calls use(file). Error messages begin with `op` and the path, or with
/// "read_file" and the path if the file cannot be read.
void read_tokenizer(const char* op, const std::string& path,
                    const std::function<void(const TokenizerFile&)>& use);

/// Calls on_name(id) for each occurrence of a name in the text. If several names match at one
/// position, the longest is used. No name may be empty. Calls on_text(part, is_first) for each
/// non-empty part of the text before, between and after names; is_first is true if the part is at
/// the start of the text.
void split_at_names(const std::string& text, const std::unordered_map<std::string, int64_t>& names,
                    const std::function<void(std::string_view, bool)>& on_text,
                    const std::function<void(int64_t)>& on_name);

/// Returns the tokens of a JSON object {"token": id, ...} in the order of their ids. Throws Error
/// unless the ids are 0, 1, 2, ...; the message begins with `in_vocab`.
std::vector<std::string> tokens_by_id(const std::string& in_vocab, const nlohmann::json& ids);

/// The keys of BERT's special tokens in tokenizer_config.json, and the names of these tokens.
inline constexpr std::pair<const char*, const char*> bert_roles[] = {{"pad_token", "[PAD]"},
                                                                     {"unk_token", "[UNK]"},
                                                                     {"cls_token", "[CLS]"},
                                                                     {"sep_token", "[SEP]"},
                                                                     {"mask_token", "[MASK]"}};

// These functions read a Hugging Face tokenizer.json, `root`. All except hf_is_gpt2 throw Error on
// unsupported settings.

/// Returns the "type" of this tokenizer in our format: bpe or wordpiece.
std::string hf_type(const nlohmann::json& root);
/// Returns whether to load this BPE with BPETokenizer rather than HuggingFaceBPE. HuggingFaceBPE is
/// for files whose pre_tokenizer is a Sequence or a Metaspace, and for files that have no
/// pre_tokenizer and set byte_fallback. BPETokenizer is for all others, and throws Error unless the
/// pre_tokenizer is GPT-2's, ByteLevel.
bool hf_is_gpt2(const nlohmann::json& root);
/// Returns all tokens by id, including added tokens.
std::vector<std::string> hf_tokens(const nlohmann::json& root);
/// Returns the names of the added tokens, all of which must be special.
std::vector<std::string> hf_special(const nlohmann::json& root);
/// Returns the merges of a byte-level BPE, each as "left right".
std::vector<std::string> hf_merges(const nlohmann::json& root);
/// Returns the options of a WordPiece tokenizer, including the names of its special tokens.
WordPieceOptions hf_wordpiece_options(const nlohmann::json& root);

/// Loads the tokenizer of a model folder, written by this library or by Hugging Face's:
/// tokenizer.json, vocab.json with merges.txt, or vocab.txt. Throws Error if none of these exists.
/// Also throws Error, naming the file and the entry, if tokenizer_config.json, added_tokens.json or
/// the tokenizer_class in config.json requires something unsupported.
std::unique_ptr<Tokenizer> load_folder_tokenizer(const std::string& dir);

/// Returns the entry "chat_template" of a JSON file: a string, or the template named "default" in
/// an array of objects with the keys "name" and "template". Returns nullopt if there is no such
/// entry or template. Throws Error, naming the file, if it cannot be read.
std::optional<std::string> chat_template_in(const std::string& path);

/// Throws Error on an id outside [0, vocab_size). The message begins with "decode".
void check_ids(const std::vector<int64_t>& ids, int64_t vocab_size);

}  // namespace gradus::models::internal
