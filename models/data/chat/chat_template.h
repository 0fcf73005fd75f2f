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
/// A conversation: an optional system message, then user and assistant messages in turn. The user
/// writes first.
using Conversation = std::vector<Message>;

/// The text that a chat model expects around each message. Names of special tokens in this text are
/// encoded as these tokens. In a message, such a name is ordinary text.
struct ChatTemplate {
  /// The text before and after each message of one role.
  struct Turn {
    std::string before;  ///< text before a message; a prompt ends with the assistant's `before`
    std::string after;   ///< text after a message; an answer ends with the assistant's `after`
  };
  std::string name;              ///< "plain", "chatml", "llama2", "llama3" or "mistral"
  Turn system, user, assistant;  ///< the text around the messages of each role
  bool system_in_user = false;   ///< whether to put the system message into the first user message
};

/// Returns the template with the given name. Throws Error on any other name. The names, and the
/// marks that these templates put around messages, are:
///   "plain"              "User: ...\nAssistant: ...\n\n" (for models without special tokens)
///   "chatml"             <|im_start|> and <|im_end|> (for Qwen and SmolLM2)
///   "llama2", "mistral"  [INST] and [/INST]
///   "llama3"             <|start_header_id|> and <|eot_id|>
const ChatTemplate& chat_template(const std::string& name);

/// Returns the template that matches `text`. `text` is a Jinja template, "", or a name that
/// chat_template() accepts, for example "llama2".
///
/// A Jinja template is recognised by the first mark in this list that it contains: <|im_start|>
/// (chatml), <|start_header_id|> (llama3), `<<SYS>>` (llama2), [INST] (mistral). Everything else in
/// it, such as a default system message, is ignored. Throws Error if it contains none of the marks;
/// the message begins with `where`.
///
/// If `text` is "", the tokenizer's special tokens decide: returns chatml if there is <|im_start|>,
/// otherwise llama3 if there is <|start_header_id|>, otherwise plain.
const ChatTemplate& match_chat_template(const std::string& text, const Tokenizer& tokenizer,
                                        const std::string& where = "match_chat_template");

/// Returns the template of a model folder. Searches for the text in this order: the file
/// chat_template.jinja, the key "chat_template" in tokenizer_config.json, the same key in
/// text.json. If the key has an array of named templates, uses the one named "default". Calls
/// match_chat_template() with the text, or with "" if `folder` is "" or has no such text. Throws
/// the errors of match_chat_template(). Also throws Error if one of the three files exists but
/// cannot be read or parsed. The messages name the file.
const ChatTemplate& find_chat_template(const std::string& folder, const Tokenizer& tokenizer);

/// A conversation as token ids. An answer is an assistant's message and the text that ends it.
struct ChatTokens {
  std::vector<int64_t> ids;   ///< token ids, beginning with tokenizer.begin_ids()
  std::vector<bool> answers;  ///< for each token: whether it belongs to an answer
};

/// Returns the tokens of a conversation. If `ask` is true, they end with form.assistant.before, so
/// that a model continues with its answer. If the template is llama2 or mistral, and the tokenizer
/// is a character-level HuggingFaceBPE that puts no space before a text, each answer that is not
/// empty begins with a space. Throws Error
/// - if the conversation is empty, or its roles are not in the order that Conversation describes;
/// - if `ask` is true and the last message is not the user's;
/// - if the tokenizer rejects a text;
/// - if the template is plain and a message contains "\n\n" or ends with "\n";
/// - if the tokenizer lacks a special token that form.user.before or form.assistant.after contains:
///   <|im_start|>, <|im_end|>, <|start_header_id|>, <|end_header_id|>, <|eot_id|>, `<s>` or `</s>`.
ChatTokens encode_chat(const Tokenizer& tokenizer, const ChatTemplate& form,
                       const Conversation& conversation, bool ask = false);

/// Returns the string that ends a model's answer, as a stop string for StopText (decoding.h). It is
/// the special token in form.assistant.after. The plain template has no special token; its stop
/// string is all of form.assistant.after.
std::string end_of_answer(const ChatTemplate& form);

}  // namespace gradus::models
