#pragma once
// Conversations as training data for a language model: the loss counts answers only.

#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/chat/chat_template.h"
#include "gradus/models/data/text/text_data.h"

namespace gradus::models {

/// Reads conversations from JSON lines: {"messages": [{"role": "user", "content": "..."}, ...]}, or
/// {"prompt": "...", "answer": "..."}, also with a "system" text. Other entries are ignored, and so
/// are empty lines. Throws Error, naming the file and the line, on anything else, and if there is no
/// conversation.
std::vector<Conversation> read_chats(const std::string& path);

/// Rows of tokens that hold several examples, one after another; see GPT::loss.
struct PackedBatch {
  Tensor inputs;     ///< (B, T) int64
  Tensor targets;    ///< (B, T) int64: the token after each input, or -100 where none is learned
  Tensor positions;  ///< (B, T) int64: place of each token in its example
};

/// Encoded conversations, packed into rows of `context` tokens.
class ChatData {
 public:
  /// Leaves out conversations that exceed the context, or have no answer. Throws Error if none is
  /// left.
  ChatData(const std::vector<Conversation>& conversations, const Tokenizer& tokenizer,
           const ChatTemplate& form, int64_t context);
  /// `batch` rows of randomly drawn conversations: a function of (seed, step, index) alone. Throws
  /// Error as TextData::random_batch does. `split` only tells training's draws from validation's.
  PackedBatch random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                           int64_t index = 0) const;
  /// Rows first, first + 1, ... of all conversations in their order, at most `batch` of them.
  PackedBatch rows(int64_t first, int64_t batch) const;
  int64_t num_rows() const { return std::ssize(rows_); }     ///< rows that hold all conversations
  int64_t num_examples() const { return std::ssize(all_); }  ///< conversations in use
  int64_t num_left_out() const { return left_out_; }         ///< conversations not in use
  int64_t num_answer_tokens() const { return answer_tokens_; }  ///< of all conversations in use

 private:
  PackedBatch pack(const std::vector<std::vector<size_t>>& rows) const;
  /// Inputs that conversation i takes.
  int64_t size(size_t i) const { return std::ssize(all_[i].ids) - 1; }

  std::vector<ChatTokens> all_;
  std::vector<std::vector<size_t>> rows_;  // indices of the conversations in each row
  int64_t context_, left_out_ = 0, answer_tokens_ = 0;
};

}  // namespace gradus::models
