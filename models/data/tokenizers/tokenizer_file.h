#pragma once
// Reading the files of tokenizers. For the library's own use: no public header includes this.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gradus/models/data/tokenizers/wordpiece_tokenizer.h"

namespace gradus::models::internal {

/// Parsed file of a tokenizer: a JSON object.
struct TokenizerFile {
  const nlohmann::json& root;
  /// True for a file of Hugging Face's tokenizers: only these have a "model".
  bool is_hugging_face() const;
  /// Throws Error unless the file's "type" is `type`.
  void check_type(const char* type) const;
  /// The array of strings root[key], which may be missing or empty unless required. Throws Error,
  /// calling the strings `what` ("words"), on anything else.
  std::vector<std::string> strings(const char* key, const char* what, bool required) const;
};

/// Parses a file and calls use(file). Errors open with `op` and the path.
void read_tokenizer(const char* op, const std::string& path,
                    const std::function<void(const TokenizerFile&)>& use);

/// Calls on_name(id) for each name in the text, where several match the longest, and on_text(part,
/// whether the text begins with it) for the text before, between and after.
void split_at_names(const std::string& text, const std::unordered_map<std::string, int64_t>& names,
                    const std::function<void(std::string_view, bool)>& on_text,
                    const std::function<void(int64_t)>& on_name);

/// The tokens of a JSON object {"token": id, ...} in the order of their ids. Throws Error, opening
/// with `in_vocab`, unless the ids are 0, 1, 2, ....
std::vector<std::string> tokens_by_id(const std::string& in_vocab, const nlohmann::json& ids);

/// Keys of BERT's special tokens in tokenizer_config.json, and the tokens' names.
inline constexpr std::pair<const char*, const char*> bert_roles[] = {{"pad_token", "[PAD]"},
                                                                     {"unk_token", "[UNK]"},
                                                                     {"cls_token", "[CLS]"},
                                                                     {"sep_token", "[SEP]"},
                                                                     {"mask_token", "[MASK]"}};

// The content of a Hugging Face tokenizer.json, `root`. All of these functions throw Error on
// unsupported settings.

/// The "type" that our format gives this tokenizer: bpe or wordpiece.
std::string hf_type(const nlohmann::json& root);
/// Whether a BPE has GPT-2's form, which BPETokenizer reads, and not one of HuggingFaceBPE's: its
/// pre_tokenizer is a ByteLevel alone.
bool hf_is_gpt2(const nlohmann::json& root);
/// All tokens by id, added ones included.
std::vector<std::string> hf_tokens(const nlohmann::json& root);
/// The names of the added tokens, which are special.
std::vector<std::string> hf_special(const nlohmann::json& root);
/// The merges of a byte-level BPE, each as "left right".
std::vector<std::string> hf_merges(const nlohmann::json& root);
WordPieceOptions hf_wordpiece_options(const nlohmann::json& root);

/// Loads the tokenizer in a model folder, ours or Hugging Face's: tokenizer.json, vocab.json with
/// merges.txt, or vocab.txt. Throws Error, naming the file and the key, if tokenizer_config.json or
/// added_tokens.json next to it require something unsupported.
std::unique_ptr<Tokenizer> load_folder_tokenizer(const std::string& dir);

/// Throws Error, opening with "decode", on an id outside [0, vocab_size).
void check_ids(const std::vector<int64_t>& ids, int64_t vocab_size);

}  // namespace gradus::models::internal
