#include "examples/page/attention_of.h"

#include "examples/support/tokenizers.h"
#include "gradus/core/ops/attention.h"
#include "gradus/core/runtime/error.h"

namespace gradus {

using Ids = std::vector<int64_t>;

namespace {

/// The ids as a batch of one, (1, T).
Tensor batch_of(const Ids& ids) { return from_data(ids, {1, std::ssize(ids)}); }

/// A source text and its target: question.target or, by default, the model's translation.
struct Translation {
  Ids source, inputs, outputs;  // inputs: [START] y; outputs: y [END]
  std::string text;             // of y
};

template <class Model>
Translation translation(const Model& model, const models::Tokenizer& tokens, const Question& q,
                        int64_t longest_source) {
  const int64_t start = tokens.special("[START]"), stop = tokens.special("[END]"),
                most = model.config.context - 1;
  Translation t{encoded(tokens, "text", q.text, longest_source), {start}, {}, ""};
  t.outputs = q.target.empty()
                  ? models::translate(model, batch_of(t.source), {},
                                      {.start = start, .stop = stop, .tokens = most})[0]
                        .tokens
                  : encoded(tokens, "target", q.target, most);
  t.inputs.insert(t.inputs.end(), t.outputs.begin(), t.outputs.end());
  t.outputs.push_back(stop);
  t.text = tokens.decode({t.inputs.begin() + 1, t.inputs.end()});
  return t;
}

}  // namespace

Ids encoded(const models::Tokenizer& tokens, const std::string& name, const std::string& text,
            int64_t most) {
  const Ids ids = tokens.encode(text);
  core::check(!ids.empty(), name, ": expected at least one token, got none");
  core::check(std::ssize(ids) <= most, name, ": expected at most ", most, " tokens, got ",
              ids.size());
  return ids;
}

AttentionOf attention_of(const models::GPT& model, const models::Tokenizer& tokens,
                         const Question& q) {
  const Ids ids = encoded(tokens, "text", q.text, model.config.context);
  const AttentionTrace trace;
  model(batch_of(ids));
  const auto names = token_texts(tokens, ids);
  return {{{"self-attention", names, names, stacked_layers(trace.weights())}}};
}

AttentionOf attention_of(const models::Bert& model, const models::Tokenizer& tokens,
                         const Question& q) {
  Ids ids = encoded(tokens, "text", q.text, model.config.context - 2);
  ids.insert(ids.begin(), tokens.special("[CLS]"));
  ids.push_back(tokens.special("[SEP]"));
  const AttentionTrace trace;
  model({batch_of(ids)});
  const auto names = token_texts(tokens, ids);
  return {{{"self-attention", names, names, stacked_layers(trace.weights())}}};
}

AttentionOf attention_of(const models::Transformer& model, const models::Tokenizer& tokens,
                         const Question& q) {
  const Translation t = translation(model, tokens, q, model.config.context);
  const AttentionTrace trace;
  model(batch_of(t.source), {}, batch_of(t.inputs));
  // The trace holds the encoder's layers, then self- and cross-attention of each decoder layer.
  const auto layers = static_cast<size_t>(model.config.layers);
  std::vector<Tensor> encoder, own, cross;
  for (size_t i = 0; i < trace.weights().size(); ++i)
    (i < layers ? encoder : (i - layers) % 2 == 0 ? own : cross).push_back(trace.weights()[i]);
  const auto source = token_texts(tokens, t.source), inputs = token_texts(tokens, t.inputs);
  return {{{"cross-attention", token_texts(tokens, t.outputs), source, stacked_layers(cross)},
           {"encoder self-attention", source, source, stacked_layers(encoder)},
           {"decoder self-attention", inputs, inputs, stacked_layers(own)}},
          t.text};
}

AttentionOf attention_of(const models::RNNTranslator& model, const models::Tokenizer& tokens,
                         const Question& q) {
  const Translation t = translation(model, tokens, q, INT64_MAX);
  const Tensor weights = model.alignment(batch_of(t.source), {}, batch_of(t.inputs));  // (1, T, S)
  return {{{"attention to the source", token_texts(tokens, t.outputs),
            token_texts(tokens, t.source), weights.unsqueeze(0)}},
          t.text};
}

}  // namespace gradus
