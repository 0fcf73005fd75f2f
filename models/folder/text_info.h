#pragma once
// text.json: what a text model's folder may hold besides weights, configuration and tokenizer.

#include <map>
#include <string>
#include <vector>

namespace gradus::models {

/// The part of a Hugging Face folder of a text model that no model or tokenizer of ours needs. It
/// is kept so that a folder that is converted and back is the same for other programs.
struct TextInfo {
  std::vector<std::string> class_names = {};  ///< of a classifier; empty if they have no names
  /// "bos_token_id", "eos_token_id" and "pad_token_id": the tokens that begin, end and pad a text.
  std::map<std::string, std::vector<int64_t>> token_ids = {};
  /// "bos_token", "eos_token", "unk_token" and "pad_token": the tokenizer's names of special
  /// tokens.
  std::map<std::string, std::string> token_names = {};
  std::string chat_template = "";  ///< in Jinja; see find_chat_template()
  bool operator==(const TextInfo&) const = default;
};

/// The path of DIR/text.json.
std::string text_info_path(const std::string& dir);
/// Writes text.json into an existing model folder, unless nothing in `info` is set. Throws Error on
/// failure.
void save_text_info(const std::string& dir, const TextInfo& info);
/// Reads a folder's TextInfo, from a Hugging Face folder's files or from text.json; empty if there
/// is none. Throws Error, naming the file and the entry, on values of another type and unknown
/// entries.
TextInfo load_text_info(const std::string& dir);

}  // namespace gradus::models
