#pragma once
// Computes the attention weights of models that read text.

#include <string>
#include <vector>

#include "examples/page/question.h"
#include "examples/pictures/attention_page.h"
#include "gradus/models/data/tokenizers/tokenizer.h"
#include "gradus/models/models.h"

namespace gradus {

/// The attention weights of a model that reads Question::text. A translator also reads a
/// translation of the text: Question::target or, if Question::target is empty, the model's own
/// translation. The member `translation` is this translation, decoded from its tokens. For models
/// that do not translate, `translation` is empty.
struct AttentionOf {
  std::vector<AttentionGroup> groups;
  std::string translation = {};
};

///@{
/// Runs the model on question.text and returns its attention weights. Throws Error if the tokenizer
/// cannot encode a text. Also throws Error if the text or the target has no tokens, or more tokens
/// than fit the model's context; the message says which of them. (An RNNTranslator's context limits
/// only targets.)
AttentionOf attention_of(const models::GPT& model, const models::Tokenizer& tokens,
                         const Question& question);
AttentionOf attention_of(const models::Bert& model, const models::Tokenizer& tokens,
                         const Question& question);
AttentionOf attention_of(const models::Transformer& model, const models::Tokenizer& tokens,
                         const Question& question);
AttentionOf attention_of(const models::RNNTranslator& model, const models::Tokenizer& tokens,
                         const Question& question);
///@}

/// Returns the token ids of `text`. Throws Error if there are none or more than `most`. The message
/// begins with `name`, which tells the user which text is meant, for example "target".
std::vector<int64_t> encoded(const models::Tokenizer& tokens, const std::string& name,
                             const std::string& text, int64_t most);

}  // namespace gradus
