#pragma once
// Conversations, and their form as tokens.

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
/// A conversation: at most one system message, then messages of user and assistant.
using Conversation = std::vector<Message>;

/// The text around each message. In these strings, names of special tokens stand for the tokens. In
/// a message they are ordinary text.
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

/// Returns the template with the given name. plain: "User: ...\nAssistant: ...\n\n", for
/// models without special tokens. chatml: <|im_start|> and <|im_end|>, used by Qwen and SmolLM2.
/// llama2 and mistral: [INST] and [/INST]. llama3: <|start_header_id|>. Throws Error on another
/// name.
const ChatTemplate& chat_template(const std::string& name);

/// Returns the template of a model folder. If chat_template.jinja, tokenizer_config.json or
/// text.json contains a template, it must match one of chat_template()'s, else this throws Error.
/// If none of them does, returns the template whose special tokens the tokenizer has, or plain.
const ChatTemplate& find_chat_template(const std::string& folder, const Tokenizer& tokenizer);

/// A conversation as token ids.
struct ChatTokens {
  std::vector<int64_t> ids;   ///< starts with tokenizer.begin_ids()
  std::vector<bool> answers;  ///< true for the tokens of the assistant's messages and the tokens
                              ///< that end them
};

/// Encodes a conversation. If `ask` is true, the text that opens an assistant's message follows,
/// for a model to continue. Throws Error if the conversation is empty, if a role is unknown, if a
/// system message is not the first message, if roles do not alternate, if the tokenizer lacks a
/// special token, or if a message contains an empty line and the template is plain.
ChatTokens encode_chat(const Tokenizer& tokenizer, const ChatTemplate& form,
                       const Conversation& conversation, bool ask = false);

/// Returns the text that ends an answer, for StopText.
std::string end_of_answer(const ChatTemplate& form);

}  // namespace gradus::models
