#pragma once
// Computes the answers, as JSON, to the questions that the reader of a run's page asks about the
// model:
//   {"kind": "text", "text", "target", "translation", "groups": attention_json(), "next", "lens"}
//   {"kind": "images", "shape", "classes", "accuracy", "count", "first", "mistakes"}
// Only the answer for a GPT contains "next" and "lens".

#include <string>
#include <vector>

#include "examples/page/attention_of.h"
#include "gradus/models/data/images/images.h"

namespace gradus {

/// Returns the hidden states of a GPT for ids (B, T): the embedded tokens, followed by the output
/// of each block. Each is (B, T, dim).
std::vector<Tensor> hidden_states(const models::GPT& model, const Tensor& ids);
/// Returns the next-token logits (B, T, vocab) for a hidden state (B, T, dim), as if it were the
/// output of the last block. `ids` (B, T) are the tokens.
Tensor logits_of(const models::GPT& model, const Tensor& hidden, const Tensor& ids);

/// Returns the answer about a text: the attention weights; "next", the next-token logits after
/// token q.at; and "lens". The lens gives, for each of the last 24 tokens, the most likely next
/// token and its probability, according to the embedding and to the output of each block ("logit
/// lens", nostalgebraist 2020). Throws the errors of expect_short() and attention_of(), and Error
/// unless q.at is -1 or the index of a token.
std::string probe(const models::GPT& model, const models::Tokenizer& tokens, const Question& q);
/// Returns the answer about a text without "next" and "lens".
std::string probe(const Question& q, const AttentionOf& attention);
/// Throws Error if `maps` attention maps of a text of `count` tokens have more than 2^22 weights in
/// total. This keeps the JSON of the maps below about 20 MB; for long texts the JSON could take
/// gigabytes.
void expect_short(int64_t count, int64_t maps);
/// Returns the answer for a model other than a GPT. Throws the errors of attention_of(), and those
/// of expect_short() about the text and, for a translator, about the target or translation.
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

/// Images (n, C, H, W) with values from 0 to 1, their true labels (n), a classifier's logits
/// (n, classes) and its attention maps (n, h, w). Only the maps may be undefined. The answer that
/// probe() returns shows the first images and the most confident mistakes.
struct Classified {
  Tensor images, labels, logits, maps;
  std::vector<std::string> class_names;
};
std::string probe(const Classified& classified);

}  // namespace gradus
