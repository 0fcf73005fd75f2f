#pragma once
// Conversations as training data for a language model. Only tokens of answers are targets.

#include <string>
#include <vector>

#include "gradus/core/tensor/tensor.h"
#include "gradus/models/data/chat/chat_template.h"
#include "gradus/models/data/text/text_data.h"

namespace gradus::models {

/// Reads conversations from JSON lines of the form {"messages": [{"role": "user", "content":
/// "..."}, ...]} or {"system": "...", "prompt": "...", "answer": "..."}, where "system" may be
/// missing. Blank lines and other entries of a line are ignored. Throws Error, naming the file and
/// the line, on a line of another form. Also throws Error if the file cannot be read or contains no
/// conversation.
std::vector<Conversation> read_chats(const std::string& path);

/// Rows of tokens. A row contains one or more conversations, one after another, and then filler:
/// inputs 0 with targets -100 and positions from 0. See GPT::loss.
struct PackedBatch {
  Tensor inputs;     ///< (B, T) int64
  Tensor targets;    ///< (B, T) int64: the next token if it is part of an answer, else -100
  Tensor positions;  ///< (B, T) int64: position of each token in its conversation
};

/// Encoded conversations, packed into rows of `context` tokens.
class ChatData {
 public:
  /// Encodes the conversations and leaves out those with more than context + 1 tokens or without an
  /// answer. Throws Error if none remains, if the context is not positive, or if encode_chat throws
  /// Error; in the last case the message names the conversation, counted from 1.
  ChatData(const std::vector<Conversation>& conversations, const Tokenizer& tokenizer,
           const ChatTemplate& form, int64_t context);
  /// Returns `batch` rows of randomly chosen conversations. They depend only on (split, seed, step,
  /// index). Both splits choose from all conversations, with different random numbers. The
  /// arguments and their limits are those of TextData::random_batch.
  PackedBatch random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                           int64_t index = 0) const;
  /// Returns up to `batch` consecutive rows, beginning with row `first`. All rows together contain,
  /// once and in order, the conversations that were not left out. Throws Error unless
  /// 0 <= first < num_rows() and batch > 0.
  PackedBatch rows(int64_t first, int64_t batch) const;
  /// Returns the number of rows into which the conversations are packed.
  int64_t num_rows() const { return std::ssize(rows_); }
  int64_t num_examples() const { return std::ssize(all_); }  ///< number of conversations in use
  int64_t num_left_out() const { return left_out_; }         ///< number of conversations left out
  /// Returns the number of answer tokens in the conversations in use.
  int64_t num_answer_tokens() const { return answer_tokens_; }

 private:
  PackedBatch pack(const std::vector<std::vector<size_t>>& rows) const;
  /// Returns the number of inputs that conversation i occupies in a row.
  int64_t size(size_t i) const { return std::ssize(all_[i].ids) - 1; }

  std::vector<ChatTokens> all_;
  std::vector<std::vector<size_t>> rows_;  // indices of the conversations in each row
  int64_t context_, left_out_ = 0, answer_tokens_ = 0;
};

}  // namespace gradus::models
