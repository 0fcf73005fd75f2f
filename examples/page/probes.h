#pragma once
// Answers the questions that the reader of a run's web page asks about a model. An answer is a JSON
// object. For a model that reads text, the value of "kind" is "text", and the other keys are
// "text", "target", "translation", "groups" (the result of attention_json()) and, for a GPT only,
// "next" and "lens". For an image classifier, the value of "kind" is "images", and the other keys
// are "shape", "classes", "accuracy", "count", "first" and "mistakes".

#include <string>
#include <vector>

#include "examples/page/attention_of.h"
#include "gradus/models/data/images/images.h"

namespace gradus {

/// Returns the hidden states of a GPT for ids (B, T): the embedded tokens, followed by the output
/// of each block. Each is (B, T, dim).
std::vector<Tensor> hidden_states(const models::GPT& model, const Tensor& ids);
/// Returns the next-token logits (B, T, vocab) that the model would compute if `hidden` (B, T, dim)
/// were the output of its last block. `ids` (B, T) are the input tokens.
Tensor logits_of(const models::GPT& model, const Tensor& hidden, const Tensor& ids);

/// Returns the answer to a question about a GPT, as JSON. It contains the GPT's attention weights
/// for q.text, and "next", the next-token logits after token q.at (-1: after the last token). It
/// also contains "lens": for each of the last 24 tokens, the most likely next token and its
/// probability, computed from the embedding and from the output of each block ("logit lens",
/// nostalgebraist 2020). Throws Error unless q.at is -1 or the index of a token. Also throws the
/// errors of expect_short() and attention_of().
std::string probe(const models::GPT& model, const models::Tokenizer& tokens, const Question& q);
/// Returns the answer to a question about a model other than a GPT, as JSON. `attention` contains
/// the model's attention weights for q.text.
std::string probe(const Question& q, const AttentionOf& attention);
/// Throws Error if `maps` attention maps of a text of `count` tokens have more than 2^22 weights in
/// total. This limits the JSON of the maps to about 20 MB. Without the limit, the JSON of a long
/// text could take gigabytes.
void expect_short(int64_t count, int64_t maps);
/// Returns the answer to a question about a model other than a GPT, as JSON. The answer contains
/// the model's attention weights for q.text. Throws the errors of attention_of(). Also throws the
/// error of expect_short() if a text has too many tokens: q.text or, for a translator, q.target or
/// the translation.
template <class Model>
std::string probe(const Model& model, const models::Tokenizer& tokens, const Question& q) {
  constexpr bool translates = requires { model.config.target_vocab; };
  int64_t maps = 1;
  if constexpr (requires { model.config.heads; }) maps = model.config.layers * model.config.heads;
  expect_short(std::ssize(tokens.encode(q.text)), maps);
  if constexpr (translates) expect_short(std::ssize(tokens.encode(q.target)), maps);
  const AttentionOf attention = attention_of(model, tokens, q);
  if constexpr (translates) expect_short(std::ssize(attention.groups[0].queries) - 1, maps);
  return probe(q, attention);
}

/// Results of an image classifier: images (n, C, H, W) with values from 0 to 1, true labels (n),
/// logits (n, classes) and attention maps (n, h, w). `maps` may be undefined.
struct Classified {
  Tensor images, labels, logits, maps;
  std::vector<std::string> class_names;
};
/// Returns an image classifier's results as JSON: mainly its accuracy, the first 12 images and the
/// 12 most confident mistakes.
std::string probe(const Classified& classified);

}  // namespace gradus
