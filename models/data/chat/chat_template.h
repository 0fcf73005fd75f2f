#pragma once
// Conversations, and how they are written as tokens.

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
/// A conversation: a system message or none, then users' and assistants' messages.
using Conversation = std::vector<Message>;

/// What stands around each message. Within these strings, names of special tokens stand for the
/// tokens; within a message they are ordinary text.
struct ChatTemplate {
  /// The text before and after a message.
  struct Turn {
    std::string before;  ///< what a model is given to answer, for the assistant's
    std::string after;   ///< what ends an answer, for the assistant's
  };
  std::string name;              ///< "plain", "chatml", "llama2", "llama3" or "mistral"
  Turn system, user, assistant;  ///< around messages of each role
  bool system_in_user = false;   ///< the system's message stands at the start of the first user's
};

/// The template of a name. plain: "User: ...\nAssistant: ...\n\n", for models without special
/// tokens; chatml: Qwen's and SmolLM2's <|im_start|> and <|im_end|>; llama2 and mistral: [INST] and
/// [/INST]; llama3: <|start_header_id|>. Throws Error on another name.
const ChatTemplate& chat_template(const std::string& name);

/// The template of a model folder: that of the form in chat_template.jinja, tokenizer_config.json or
/// text.json, if there is one; otherwise the one whose special tokens the tokenizer has, or plain. Throws Error if
/// a file's template is none of chat_template()'s.
const ChatTemplate& find_chat_template(const std::string& folder, const Tokenizer& tokenizer);

/// A conversation as token ids.
struct ChatTokens {
  std::vector<int64_t> ids;   ///< begins with tokenizer.begin_ids()
  std::vector<bool> answers;  ///< true for tokens of an assistant's message and those that end it
};

/// Encodes a conversation. With `ask`, what opens an assistant's message follows, for a model to
/// continue. Throws Error if the conversation is empty, a role is unknown, system messages are not
/// first, roles do not alternate, the tokenizer lacks a special token, or plain's message holds an
/// empty line.
ChatTokens encode_chat(const Tokenizer& tokenizer, const ChatTemplate& form,
                       const Conversation& conversation, bool ask = false);

/// The text that ends an answer, for StopText.
std::string end_of_answer(const ChatTemplate& form);

}  // namespace gradus::models
