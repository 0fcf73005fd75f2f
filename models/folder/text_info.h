#pragma once
// text.json in a text model's folder: names of classes and special tokens, and the chat template.

#include <map>
#include <string>
#include <vector>

namespace gradus::models {

/// Information in a text model's Hugging Face folder that our models and tokenizers do not use.
/// Our folders keep it in text.json, so that a conversion to our format and back does not lose it.
struct TextInfo {
  std::vector<std::string> class_names = {};  ///< names of a classifier's classes; empty if none
  /// Ids of the tokens that begin, end and pad a text, under the keys "bos_token_id",
  /// "eos_token_id" and "pad_token_id". A key may be missing or have several ids.
  std::map<std::string, std::vector<int64_t>> token_ids = {};
  /// Names of the tokenizer's special tokens, under the keys "bos_token", "eos_token", "unk_token"
  /// and "pad_token". A key may be missing.
  std::map<std::string, std::string> token_names = {};
  /// The chat template: Jinja code, a name that match_chat_template() accepts (for example
  /// "llama2"), or "" if there is none. save_hugging_face() writes only Jinja code.
  std::string chat_template = "";
  /// Returns whether chat_template is Jinja code, that is, contains '{'.
  bool has_jinja() const { return chat_template.find('{') != std::string::npos; }
  bool operator==(const TextInfo&) const = default;
};

/// Returns the path of DIR/text.json.
std::string text_info_path(const std::string& dir);
/// Writes text.json into an existing model folder. If `info` is empty, creates no file, but
/// overwrites an existing file with an empty object. Throws Error on failure.
void save_text_info(const std::string& dir, const TextInfo& info);
/// Returns the TextInfo of a folder, read from text.json or from the files of a Hugging Face
/// folder. Returns an empty TextInfo if the folder has none of these files. Ignores null entries
/// and, in a Hugging Face folder, class names that are the default names LABEL_0, LABEL_1, and so
/// on. If "chat_template" is an array of named templates, reads the one named "default".
///
/// Throws Error, naming the file and the entry, if a value has the wrong type or if text.json has
/// an unknown entry. A chat_template of the wrong type is ignored instead.
TextInfo load_text_info(const std::string& dir);

}  // namespace gradus::models
