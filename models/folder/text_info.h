#pragma once
// text.json in a text model's folder: names of classes and special tokens, and the chat template.

#include <map>
#include <string>
#include <vector>

namespace gradus::models {

/// What a text model's Hugging Face folder contains but our models and tokenizers do not need. It
/// is kept so that a conversion to our format and back does not lose it.
struct TextInfo {
  std::vector<std::string> class_names = {};  ///< names of a classifier's classes; empty if none
  /// "bos_token_id", "eos_token_id" and "pad_token_id": the tokens that begin, end and pad a text.
  std::map<std::string, std::vector<int64_t>> token_ids = {};
  /// "bos_token", "eos_token", "unk_token" and "pad_token": names of the tokenizer's special
  /// tokens.
  std::map<std::string, std::string> token_names = {};
  /// In Jinja, or the name of a template, see match_chat_template() in chat_template.h. Other
  /// programs' files never hold a name.
  std::string chat_template = "";
  /// Returns whether chat_template is in Jinja, that is, has an expression or a statement.
  bool has_jinja() const { return chat_template.find('{') != std::string::npos; }
  bool operator==(const TextInfo&) const = default;
};

/// Returns the path of DIR/text.json.
std::string text_info_path(const std::string& dir);
/// Writes text.json into an existing model folder. Creates no file if `info` is empty, but empties
/// an existing one. Throws Error on failure.
void save_text_info(const std::string& dir, const TextInfo& info);
/// Returns the TextInfo of a folder, read from text.json or from the files of a Hugging Face
/// folder. It is empty if the folder has no such files. A null entry counts as missing. So do the
/// class names of a Hugging Face folder if they are the default names LABEL_0, LABEL_1, and so on.
/// If "chat_template" is an array of named templates, the one named "default" is read. Throws
/// Error, naming the file and the entry, if a value has the wrong type (except chat_template, which
/// is then ignored), or if text.json has an unknown entry.
TextInfo load_text_info(const std::string& dir);

}  // namespace gradus::models
