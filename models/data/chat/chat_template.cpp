#include "gradus/models/data/chat/chat_template.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "gradus/core/files/file.h"
#include "gradus/core/files/json.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/hugging_face_bpe.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/folder/folder_files.h"

namespace gradus::models {

using core::check, core::fail, nlohmann::json;

namespace {

const std::array<ChatTemplate, 5>& templates() {
  // Never destroyed: in use before main and after it. SentencePiece writes the space after [/INST];
  // see needs_space().
  static const auto& all = *new std::array<ChatTemplate, 5>{{
      {.name = "plain",
       .system = {"", "\n\n"},
       .user = {"User: ", "\n"},
       .assistant = {"Assistant: ", "\n\n"}},
      {.name = "chatml",
       .system = {"<|im_start|>system\n", "<|im_end|>\n"},
       .user = {"<|im_start|>user\n", "<|im_end|>\n"},
       .assistant = {"<|im_start|>assistant\n", "<|im_end|>\n"}},
      {.name = "llama2",
       .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
       .user = {"<s>[INST] ", " [/INST]"},
       .assistant = {"", " </s>"},
       .system_in_user = true},
      {.name = "llama3",
       .system = {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
       .user = {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
       .assistant = {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"}},
      {.name = "mistral",
       .system = {"", "\n\n"},
       .user = {"[INST] ", " [/INST]"},
       .assistant = {"", "</s>"},
       .system_in_user = true},
  }};
  return all;
}

/// A piece of a conversation's text.
struct Piece {
  std::string text;
  bool answer = false;
  int64_t special = -1;  // if >= 0, a special token instead of text
};

/// Appends the template's text `text`, cut at the names of special tokens.
void add_marks(std::vector<Piece>& pieces, const Tokenizer& tokenizer, const std::string& text,
               bool answer) {
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    size_t longest = 0;
    for (const std::string& name : tokenizer.special_tokens())
      if (name.size() > longest && text.compare(at, name.size(), name) == 0) longest = name.size();
    if (longest == 0) {
      ++at;
      continue;
    }
    if (at > begin) pieces.push_back({text.substr(begin, at - begin), answer});
    pieces.push_back({"", answer, tokenizer.special(text.substr(at, longest))});
    begin = at += longest;
  }
  if (begin < text.size()) pieces.push_back({text.substr(begin), answer});
}

/// Throws Error unless a message may stand after one of role `before` ("" at the beginning).
void check_message(const ChatTemplate& form, const Message& message, const std::string& before) {
  const std::string& role = message.role;
  const bool fits = role == "system" ? before.empty()
                    : role == "user" ? before != "user"
                                     : role == "assistant" && before == "user";
  check(fits, "a conversation is a system message or none, then user and assistant in turn: got ",
        gradus::internal::shown(role), before.empty() ? " first" : " after " + before);
  check(form.name != "plain" || (message.content + "\n").find("\n\n") == std::string::npos,
        "the plain chat template ends messages at an empty line: expected none in a message, got ",
        gradus::internal::shown(message.content));
}

/// Throws Error if the tokenizer lacks one of the template's special tokens.
void check_special(const Tokenizer& tokenizer, const ChatTemplate& form) {
  for (const char* name : {"<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>",
                           "<|eot_id|>", "<s>", "</s>"}) {
    const bool needed = (form.user.before + form.assistant.after).find(name) != std::string::npos;
    check(!needed || tokenizer.has_special(name), "the chat template ", form.name,
          " needs a tokenizer with the special token ", name);
  }
}

/// Whether answers must begin with a space: the models of these templates saw one, but this
/// tokenizer, of SentencePiece's kind, does not write it.
bool needs_space(const Tokenizer& tokenizer, const ChatTemplate& form, const std::string& answer) {
  if (answer.empty() || answer.starts_with(' ')) return false;
  const auto* bpe = dynamic_cast<const HuggingFaceBPE*>(&tokenizer);
  return (form.name == "llama2" || form.name == "mistral") && bpe && bpe->adds_no_space();
}

}  // namespace

const ChatTemplate& chat_template(const std::string& name) {
  std::string names;
  for (const ChatTemplate& form : templates()) {
    if (form.name == name) return form;
    names += (names.empty() ? "" : ", ") + form.name;
  }
  fail("chat template: expected one of ", names, ", got ", gradus::internal::shown(name));
}

std::optional<std::string> internal::chat_template_in(const std::string& path) {
  if (path.ends_with(".jinja")) return read_file(path);
  const json file = gradus::internal::parse_json((path + ": the file").c_str(), read_file(path));
  const json found = file.is_object() ? file.value("chat_template", json()) : json();
  if (found.is_string()) return found.get<std::string>();
  if (found.is_array())
    for (const json& named : found)
      if (named.is_object() && named.value("name", json()) == "default")
        if (const json text = named.value("template", json()); text.is_string())
          return text.get<std::string>();
  return {};
}

const ChatTemplate& match_chat_template(const std::string& text, const Tokenizer& tokenizer,
                                        const std::string& where) {
  if (text.empty() && tokenizer.has_special("<|im_start|>")) return chat_template("chatml");
  if (text.empty())
    return chat_template(tokenizer.has_special("<|start_header_id|>") ? "llama3" : "plain");
  for (const ChatTemplate& form : templates())
    if (form.name == text) return form;
  for (const auto& [mark, name] : {std::pair{"<|im_start|>", "chatml"},
                                   {"<|start_header_id|>", "llama3"},
                                   {"<<SYS>>", "llama2"},
                                   {"[INST]", "mistral"}})
    if (text.find(mark) != std::string::npos) return chat_template(name);
  fail(where, ": expected a chat template of the form chatml, llama2, llama3 or mistral");
}

const ChatTemplate& find_chat_template(const std::string& folder, const Tokenizer& tokenizer) {
  std::string text, path;
  const bool given = !folder.empty();
  for (const char* file : {"/text.json", "/tokenizer_config.json", "/chat_template.jinja"})
    if (const std::string at = folder + file; given && internal::file_exists(at))
      if (const auto found = internal::chat_template_in(at)) text = *found, path = at;
  return match_chat_template(text, tokenizer, path);
}

ChatTokens encode_chat(const Tokenizer& tokenizer, const ChatTemplate& form,
                       const Conversation& conversation, bool ask) {
  check(!conversation.empty(), "a conversation needs a message");
  check_special(tokenizer, form);
  std::vector<Piece> pieces;
  std::string before, system;
  for (const Message& message : conversation) {
    check_message(form, message, before);
    before = message.role;
    if (before == "system" && form.system_in_user && conversation.size() > 1) {
      system = form.system.before + message.content + form.system.after;
      continue;
    }
    const bool answer = before == "assistant";
    const ChatTemplate::Turn& turn = answer             ? form.assistant
                                     : before == "user" ? form.user
                                                        : form.system;
    add_marks(pieces, tokenizer, turn.before, false);
    if (answer && needs_space(tokenizer, form, message.content)) pieces.push_back({" ", true});
    pieces.push_back({std::exchange(system, "") + message.content, answer});
    add_marks(pieces, tokenizer, turn.after, answer);
  }
  check(!ask || before == "user", "a model answers a user's message: expected one last, got ",
        before);
  if (ask) add_marks(pieces, tokenizer, form.assistant.before, false);

  ChatTokens out;
  out.ids = tokenizer.begin_ids();
  if (!out.ids.empty() && pieces[0].special == out.ids.back()) pieces.erase(pieces.begin());
  out.answers.assign(out.ids.size(), false);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const bool answer = pieces[i].answer;
    std::vector<int64_t> ids{pieces[i].special};
    if (pieces[i].special < 0) {  // encode adjacent texts as one
      std::string text = pieces[i].text;
      while (i + 1 < pieces.size() && pieces[i + 1].special < 0 && pieces[i + 1].answer == answer)
        text += pieces[++i].text;
      ids = tokenizer.encode(text);
    }
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.answers.insert(out.answers.end(), ids.size(), answer);
  }
  return out;
}

std::string end_of_answer(const ChatTemplate& form) {
  const std::string& after = form.assistant.after;
  const size_t begin = after.find('<'), end = after.find('>', begin);
  if (end == std::string::npos) return after;
  return after.substr(begin, end + 1 - begin);
}

}  // namespace gradus::models
