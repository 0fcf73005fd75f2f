#pragma once
// ChatCorpus: conversations that train a language model to answer.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/tasks/corpus.h"
#include "gradus/models/data/chat/chat_data.h"

namespace gradus {

/// Conversations from JSON lines, see models::read_chats. Without a validation file, the last tenth
/// of the conversations (at least one) is the validation split. Only the tokens of answers count in
/// the loss.
class ChatCorpus : public TokenSource {
 public:
  /// Returns whether `path` names a file of JSON lines, that is, ends with ".jsonl".
  static bool reads(const std::string& path) { return path.ends_with(".jsonl"); }
  /// Reads the conversations. `begins_with` is the folder of the model that is trained further, or
  /// "" for a new model. Loads the tokenizer from this folder or, if it is "", from
  /// options.tokenizer.folder(). If both are "", builds the tokenizer from the text of all
  /// conversations. `form` is the name of a chat template; if it is "", models::find_chat_template
  /// chooses one. Throws Error if options.on_disk is true, if a file is missing or malformed, if
  /// the tokenizer rejects a text or, with the template "plain", drops the line breaks that end
  /// answers, or if no conversation of a split has an answer and fits the context.
  ChatCorpus(const CorpusOptions& options, const std::string& begins_with, const std::string& form,
             int64_t context);

  const models::Tokenizer& tokenizer() const override { return *tokenizer_; }
  const std::string& id() const override { return id_; }
  std::string opening() const override;
  models::PackedBatch random_batch(models::Split split, int64_t batch, uint64_t seed, int64_t step,
                                   int64_t index) const override {
    return part(split).random_batch(split, batch, seed, step, index);
  }
  int64_t validation_batches() const override { return validation_->num_rows(); }
  int64_t validation_tokens() const override { return validation_->num_answer_tokens(); }
  int64_t validation_inputs() const override { return validation_->num_rows() * context_; }
  models::PackedBatch validation_batch(int64_t i) const override { return validation_->rows(i, 1); }
  double bytes(const Tensor& targets) const override;
  /// Returns a prompt, as tokens: the beginning of the first validation conversation that contains
  /// a question (a message of the user). The prompt ends where the answer to the first question
  /// begins.
  std::vector<int64_t> first_tokens() const override { return question_; }
  std::string chat_template() const override { return form_->name; }
  std::string end_of_sample() const override { return models::end_of_answer(*form_); }

 private:
  const models::ChatData& part(models::Split split) const {
    return split == models::Split::train ? *train_ : *validation_;
  }

  CorpusOptions o_;
  int64_t context_;
  std::unique_ptr<models::Tokenizer> tokenizer_;
  const models::ChatTemplate* form_ = nullptr;
  std::optional<models::ChatData> train_, validation_;
  std::string id_;
  std::vector<int64_t> question_;
};

}  // namespace gradus
