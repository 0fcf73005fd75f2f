#pragma once
// Answers to the page's questions, in JSON:
//   {"kind": "text", "text", "groups": attention_json(), "translation", "next", "lens"}
//   {"kind": "images", "shape", "classes", "accuracy", "count", "first", "mistakes"}

#include <string>
#include <vector>

#include "examples/page/attention_of.h"
#include "gradus/models/data/images/images.h"

namespace gradus {

/// The hidden states of a GPT for ids (B, T): the embedded tokens, then each block's output, each
/// (B, T, dim).
std::vector<Tensor> hidden_states(const models::GPT& model, const Tensor& ids);
/// The next-token logits that a hidden state (B, T, dim) gives as the last block's output would:
/// (B, T, vocab).
Tensor logits_of(const models::GPT& model, const Tensor& hidden, const Tensor& ids);

/// The attention for a text; of a GPT also "next", the logits after token question.at, and "lens",
/// the likeliest next token according to each block's output ("logit lens", nostalgebraist 2020).
std::string probe(const models::GPT& model, const models::Tokenizer& tokens, const Question& q);
/// The same without "next" and "lens".
std::string probe(const Question& q, const AttentionOf& attention);
/// The attention of a model that is no GPT.
template <class Model>
std::string probe(const Model& model, const models::Tokenizer& tokens, const Question& q) {
  return probe(q, attention_of(model, tokens, q));
}

/// What a classifier makes of images (n, C, H, W) from 0 to 1, given logits (n, classes), labels (n)
/// and where it looked, maps (n, h, w) or undefined: the first images, and the most confident
/// mistakes.
struct Classified {
  Tensor images, labels, logits, maps;
  std::vector<std::string> class_names;
};
std::string probe(const Classified& classified);

}  // namespace gradus
