#pragma once
// Conversations as training data for a language model. Only tokens of answers are targets.

#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/chat/chat_template.h"
#include "gradus/models/data/text/text_data.h"

namespace gradus::models {

/// Returns the conversations in a file of JSON lines. Each line has the form
///   {"messages": [{"role": "user", "content": "..."}, ...]}
/// or {"system": "...", "prompt": "...", "answer": "..."}, where "system" is optional. Blank lines
/// and other keys are ignored. Throws Error if the file cannot be read or contains no conversation.
/// Also throws Error, naming the file and the line, on a line of another form.
std::vector<Conversation> read_chats(const std::string& path);

/// A batch of B rows of T tokens, for GPT::loss. Each row contains one or more whole conversations,
/// one after another, and then padding with input 0 and target -100. Positions count from 0 in each
/// conversation, and again in the padding.
struct PackedBatch {
  Tensor inputs;     ///< (B, T) int64
  Tensor targets;    ///< (B, T) int64: the next token if it is part of an answer, else -100
  Tensor positions;  ///< (B, T) int64: position of each token in its conversation
};

/// A data set of encoded conversations, packed into rows of `context` tokens.
class ChatData {
 public:
  /// Encodes the conversations. Leaves out those that have more than context + 1 tokens or no
  /// answer. Throws Error if none remains or if context < 1. Also throws the errors of encode_chat;
  /// the message then gives the number of the conversation, counted from 1.
  ChatData(const std::vector<Conversation>& conversations, const Tokenizer& tokenizer,
           const ChatTemplate& form, int64_t context);
  /// Returns `batch` rows of randomly chosen conversations. A conversation that does not fit into a
  /// row begins the next row. Long conversations are therefore chosen as often as short ones. Only
  /// a conversation that does not fit into the last row is left out. The choice depends only on the
  /// arguments. If a training step uses several batches, `index` tells them apart. Both splits
  /// choose from all conversations; `split` only selects the random numbers. Throws Error unless
  /// 1 <= batch <= 2^16, 0 <= step < 2^32 and 0 <= index < 2^16.
  PackedBatch random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                           int64_t index = 0) const;
  /// Returns up to `batch` consecutive rows, beginning with row `first`. Rows 0 to num_rows() - 1
  /// contain each conversation once, in the order passed to the constructor, except those that the
  /// constructor left out. Throws Error unless 0 <= first < num_rows() and batch > 0.
  PackedBatch rows(int64_t first, int64_t batch) const;
  /// Returns the number of rows into which the conversations are packed.
  int64_t num_rows() const { return std::ssize(rows_); }
  int64_t num_examples() const { return std::ssize(all_); }  ///< number of packed conversations
  /// Returns the number of conversations that the constructor left out.
  int64_t num_left_out() const { return left_out_; }
  /// Returns the number of answer tokens in all rows.
  int64_t num_answer_tokens() const { return answer_tokens_; }

 private:
  PackedBatch pack(const std::vector<std::vector<size_t>>& rows) const;
  /// Returns the number of positions that conversation i occupies in a row.
  int64_t size(size_t i) const { return std::ssize(all_[i].ids) - 1; }

  std::vector<ChatTokens> all_;
  std::vector<std::vector<size_t>> rows_;  // indices of the conversations in each row
  int64_t context_, left_out_ = 0, answer_tokens_ = 0;
};

}  // namespace gradus::models
