#pragma once
// text.json in a text model's folder: names of classes and special tokens, and the chat template.

#include <map>
#include <string>
#include <vector>

namespace gradus::models {

/// Entries of a text model's Hugging Face folder that our models and tokenizers do not need. They
/// are kept so that a conversion to our format and back does not lose them.
struct TextInfo {
  std::vector<std::string> class_names = {};  ///< names of a classifier's classes; empty if none
  /// "bos_token_id", "eos_token_id" and "pad_token_id": the tokens that begin, end and pad a text.
  std::map<std::string, std::vector<int64_t>> token_ids = {};
  /// "bos_token", "eos_token", "unk_token" and "pad_token": names of the tokenizer's special
  /// tokens.
  std::map<std::string, std::string> token_names = {};
  std::string chat_template = "";  ///< in Jinja; see find_chat_template() in chat_template.h
  bool operator==(const TextInfo&) const = default;
};

/// Returns the path of DIR/text.json.
std::string text_info_path(const std::string& dir);
/// Writes text.json into an existing model folder. Does nothing if `info` is empty. Throws Error on
/// failure.
void save_text_info(const std::string& dir, const TextInfo& info);
/// Reads the TextInfo of a folder, from text.json or from the files of a Hugging Face folder.
/// Returns an empty TextInfo if there are none. A null entry counts as missing, and so do the class
/// names of a Hugging Face folder if they are the default LABEL_0, LABEL_1, and so on. If
/// "chat_template" is an array of named templates, reads the one named "default". Throws Error,
/// naming the file and the entry, on a value of the wrong type (except chat_template, which is then
/// ignored) and on an unknown entry of text.json.
TextInfo load_text_info(const std::string& dir);

}  // namespace gradus::models
