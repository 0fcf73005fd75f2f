#include <cmath>

#include "examples/onnx/layers.h"
#include "examples/onnx/models.h"

namespace gradus {

using models::Bert, models::BertClassifier, models::GPT;

namespace {

/// Rows of a table: ids (...) -> (..., dim).
OnnxValue lookup(OnnxGraph& g, const Tensor& table, const OnnxValue& ids) {
  return g("Gather", {g.weight(table), ids});
}

// ---- GPT ----

OnnxValue embed(OnnxGraph& g, const GPT& model, const OnnxValue& ids, const OnnxValue& positions) {
  const OnnxValue x = lookup(g, model.wte.weight, ids);
  if (model.wpe) return g("Add", {x, lookup(g, model.wpe->weight, positions)});
  if (!model.sinusoidal) return x;
  const double scale = std::sqrt(static_cast<double>(model.config.dim));
  return g("Add", {g("Mul", {x, g.number(scale)}), lookup(g, model.sinusoidal->table, positions)});
}

OnnxValue apply_blocks(OnnxGraph& g, const GPT& model, const OnnxValue& embedded,
                       const OnnxTokens& tokens) {
  OnnxValue x = embedded, values;
  OnnxValue* const first_values = model.config.value_shortcut ? &values : nullptr;
  for (size_t i = 0; i < model.blocks.size(); ++i) {
    if (model.config.embedding_shortcut && i > 0) {
      const auto mix = [&](const OnnxValue& y, const Tensor& scalars) {
        const OnnxValue at = g.index(static_cast<int64_t>(i) - 1);
        return g("Mul", {y, g("Gather", {g.weight(scalars), at})});
      };
      x = g("Add", {mix(x, model.stream_mix), mix(embedded, model.embedding_mix)});
    }
    x = onnx_block(g, model.blocks[i], x, tokens, first_values);
  }
  return x;
}

// ---- BERT ----

struct BertInputs {
  OnnxValue ids, segments, mask;
};

BertInputs add_inputs(OnnxGraph& g) {
  const OnnxShape shape{"batch", "length"};
  const OnnxValue ids = g.input("ids", int64, shape), segments = g.input("segments", int64, shape);
  return {ids, segments, g.input("mask", boolean, shape)};
}

/// The output of each token, (B, T, dim).
OnnxValue encode(OnnxGraph& g, const Bert& model, const BertInputs& in) {
  const OnnxValue positions = onnx_positions(g, in.ids);
  const OnnxValue place = lookup(g, model.positions.weight, positions),
                  segment = lookup(g, model.segments.weight, in.segments),
                  word = lookup(g, model.words.weight, in.ids);
  OnnxValue x = onnx_norm(g, model.embedding_norm, g("Add", {word, g("Add", {place, segment})}));
  const OnnxTokens tokens{positions, g("Unsqueeze", {in.mask, g.ints({1, 2})})};
  for (const nn::Block& block : model.blocks) x = onnx_block(g, block, x, tokens);
  return x;
}

OnnxValue pooled(OnnxGraph& g, const Bert& model, const OnnxValue& hidden) {
  const OnnxValue first = g("Gather", {hidden, g.index(0)}, {{"axis", 1}});
  return onnx_linear(g, model.pooler, first, Activation::tanh);
}

}  // namespace

std::string to_onnx(const GPT& model) {
  OnnxGraph g(model);
  const OnnxValue ids = g.input("ids", int64, {"batch", "length"}),
                  positions = onnx_positions(g, ids);
  const OnnxValue x =
      apply_blocks(g, model, embed(g, model, ids, positions), {.positions = positions});
  OnnxValue y = onnx_linear(g, model.head, onnx_norm(g, model.ln_f, x));
  if (model.bigram.defined()) y = g("Add", {y, lookup(g, model.bigram, ids)});
  if (const double cap = model.config.logit_cap; cap > 0)
    y = g("Mul", {g("Tanh", {g("Div", {y, g.number(cap)})}), g.number(cap)});
  g.output("logits", y, {"batch", "length", model.config.vocab});
  return g.bytes();
}

std::string to_onnx(const Bert& model) {
  OnnxGraph g(model);
  const auto& c = model.config;
  const OnnxValue hidden = encode(g, model, add_inputs(g));
  const OnnxValue words =
      onnx_norm(g, model.transform_norm, onnx_linear(g, model.transform, hidden, c.activation));
  g.output("hidden", hidden, {"batch", "length", c.dim});
  g.output("word_logits", onnx_linear(g, model.decoder, words), {"batch", "length", c.vocab});
  g.output("next_logits", onnx_linear(g, model.next, pooled(g, model, hidden)),
           {"batch", int64_t{2}});
  return g.bytes();
}

std::string to_onnx(const BertClassifier& model) {
  OnnxGraph g(model);
  const OnnxValue hidden = encode(g, model.bert, add_inputs(g));
  const int64_t classes = model.config.classes;
  if (model.config.tokens)
    g.output("logits", onnx_linear(g, model.head, hidden), {"batch", "length", classes});
  else
    g.output("logits", onnx_linear(g, model.head, pooled(g, model.bert, hidden)),
             {"batch", classes});
  return g.bytes();
}

}  // namespace gradus
