#pragma once
// Conversations, and chat templates that encode them as tokens.

#include <string>
#include <vector>

#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models {

/// A message of a conversation.
struct Message {
  std::string role;     ///< "system", "user" or "assistant"
  std::string content;  ///< UTF-8
  bool operator==(const Message&) const = default;
};
/// A conversation: at most one system message, then messages of user and assistant in turn, the
/// user's first.
using Conversation = std::vector<Message>;

/// The text around each message. In a template, the name of a special token stands for the token;
/// in a message, it is ordinary text.
struct ChatTemplate {
  /// The text before and after a message.
  struct Turn {
    std::string before;  ///< for the assistant: the text after which a model answers
    std::string after;   ///< for the assistant: the text that ends an answer
  };
  std::string name;              ///< "plain", "chatml", "llama2", "llama3" or "mistral"
  Turn system, user, assistant;  ///< around messages of each role
  bool system_in_user = false;   ///< put the system message at the start of the first user message
};

/// Returns the template with the given name. "plain" writes "User: ...\nAssistant: ...\n\n" and is
/// for models without special tokens. "chatml", which Qwen and SmolLM2 use, marks messages with
/// <|im_start|> and <|im_end|>, "llama2" and "mistral" with [INST] and [/INST], and "llama3" with
/// <|start_header_id|> and <|eot_id|>. Throws Error on another name.
const ChatTemplate& chat_template(const std::string& name);

/// Returns the template that matches the Jinja template of a model folder. The Jinja template is
/// the file chat_template.jinja, else "chat_template" in tokenizer_config.json, else
/// "chat_template" in text.json. If "chat_template" is an array of named templates, the one named
/// "default" counts. Only the marks around messages are compared; for example, a default system
/// message is ignored. Throws Error if the Jinja template is not of the form chatml, llama2, llama3
/// or mistral, or if one of these files exists but cannot be read. If `folder` is "" or has no Jinja
/// template, returns chatml if the tokenizer has the special token <|im_start|>, else llama3 if the
/// tokenizer has <|start_header_id|>, else plain.
const ChatTemplate& find_chat_template(const std::string& folder, const Tokenizer& tokenizer);

/// A conversation as token ids.
struct ChatTokens {
  std::vector<int64_t> ids;   ///< starts with tokenizer.begin_ids()
  std::vector<bool> answers;  ///< for each token: whether it belongs to an answer, that is, to an
                              ///< assistant's message or the text that ends it
};

/// Encodes a conversation. If `ask` is true, appends the text before an assistant's message, for a
/// model to continue. Throws Error if the conversation is empty or not as Conversation describes,
/// if `ask` is true and the last message is not the user's, or if the tokenizer rejects a text.
/// Throws Error if form.user.before or form.assistant.after contains one of <|im_start|>,
/// <|im_end|>, <|start_header_id|>, <|end_header_id|>, <|eot_id|>, `<s>` and `</s>` that is not a
/// special token of the tokenizer. Throws Error if the template is plain and a message contains
/// "\n\n" or ends with "\n".
ChatTokens encode_chat(const Tokenizer& tokenizer, const ChatTemplate& form,
                       const Conversation& conversation, bool ask = false);

/// Returns the string at which an answer ends, for StopText (decoding.h): the special token in
/// form.assistant.after without the text around the token or, for the plain template, all of
/// form.assistant.after.
std::string end_of_answer(const ChatTemplate& form);

}  // namespace gradus::models
