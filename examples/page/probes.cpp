#include "examples/page/probes.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "examples/pictures/heat_map.h"
#include "examples/pictures/html.h"
#include "examples/support/tokenizers.h"
#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/error.h"

namespace gradus {

using nlohmann::json;

namespace {
constexpr int64_t most_lens_tokens = 24;
constexpr size_t most_named = 200, most_images = 12;

double rounded(double x, double unit = 1e-3) { return std::round(x / unit) * unit; }

/// The indices of x, the largest value first.
std::vector<size_t> descending(const std::vector<double>& x) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
  return order;
}

/// A token's text; a model may have more tokens than its tokenizer.
std::string text_of(const models::Tokenizer& tokens, size_t id) {
  const auto token = static_cast<int64_t>(id);
  if (token >= tokens.vocab_size()) return '<' + std::to_string(id) + '>';
  return visible(token_texts(tokens, {token})[0]);
}

/// Logits (vocab), the largest first: the tokens of the first ones, and all values.
json next_token(const models::Tokenizer& tokens, const Tensor& logits) {
  const std::vector<double> values = logits.to_vector<double>();
  json names = json::array(), sorted = json::array();
  for (const size_t id : descending(values)) {
    if (names.size() < most_named) names.push_back(text_of(tokens, id));
    sorted.push_back(rounded(values[id]));
  }
  return {{"tokens", std::move(names)}, {"logits", std::move(sorted)}};
}

/// The likeliest next token and its probability, as [layer][token].
json lens(const models::GPT& model, const models::Tokenizer& tokens,
          const std::vector<Tensor>& hidden, const Tensor& ids) {
  json layers = json::array();
  const int64_t first = std::max<int64_t>(0, ids.size(1) - most_lens_tokens);
  for (const Tensor& x : hidden) {
    const Tensor p = softmax(logits_of(model, x.slice(1, first), ids.slice(1, first))[0]);
    const auto [values, indices] = topk(p, 1);
    const auto chance = values.to_vector<double>();
    const auto id = indices.to_vector<int64_t>();
    layers.push_back(json::array());
    for (size_t t = 0; t < id.size(); ++t)
      layers.back().push_back({text_of(tokens, static_cast<size_t>(id[t])), rounded(chance[t])});
  }
  return layers;
}

json attention_answer(const Question& q, const AttentionOf& attention) {
  return {{"kind", "text"},
          {"text", q.text},
          {"target", q.target},
          {"translation", attention.translation},
          {"groups", attention_json(attention.groups)}};
}

/// An image's pixels as hexadecimal bytes, one channel after the other.
std::string hexadecimal(const Tensor& image) {
  std::string digits;
  for (const double x : image.to_vector<double>()) {
    const auto byte = static_cast<size_t>(std::clamp(x, 0.0, 1.0) * 255 + 0.5);
    digits += {"0123456789abcdef"[byte / 16], "0123456789abcdef"[byte % 16]};
  }
  return digits;
}

}  // namespace

std::vector<Tensor> hidden_states(const models::GPT& model, const Tensor& ids) {
  const models::GPTConfig& c = model.config;
  Tensor x = model.wte(ids), first_values;
  if (model.wpe) x = x + (*model.wpe)(ids.size(1), 0);
  if (model.sinusoidal)
    x = x * std::sqrt(static_cast<double>(c.dim)) + (*model.sinusoidal)(ids.size(1), 0);
  std::vector<Tensor> states{x};
  for (size_t i = 0; i < model.blocks.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) - 1;
    if (c.embedding_shortcut && i > 0)
      x = x * model.stream_mix[at] + states[0] * model.embedding_mix[at];
    x = model.blocks[i](x, {}, c.value_shortcut ? &first_values : nullptr);
    states.push_back(x);
  }
  return states;
}

Tensor logits_of(const models::GPT& model, const Tensor& hidden, const Tensor& ids) {
  Tensor y = model.head(model.ln_f(hidden));
  if (model.bigram.defined()) y = y + embedding(model.bigram, ids);
  const double cap = model.config.logit_cap;
  return cap > 0 ? tanh(y / cap) * cap : y;
}

void expect_short(int64_t count, int64_t maps) {
  const auto most = static_cast<int64_t>(std::sqrt((1 << 22) / static_cast<double>(maps)));
  core::check(count <= most, "the page shows this model's attention to texts of up to ", most,
              " tokens, got ", count);
}

std::string probe(const models::GPT& model, const models::Tokenizer& tokens, const Question& q) {
  expect_short(std::ssize(tokens.encode(q.text)), model.config.layers * model.config.heads);
  json answer = attention_answer(q, attention_of(model, tokens, q));
  const auto list = encoded(tokens, "text", q.text, model.config.context);
  const auto n = std::ssize(list);
  core::check(q.at >= -1 && q.at < n, "at: expected a token from 0 to ", n - 1, ", got ", q.at);
  const int64_t at = q.at < 0 ? n - 1 : q.at;
  const Tensor ids = from_data(list, {1, n});
  const std::vector<Tensor> hidden = hidden_states(model, ids);
  answer["next"] = next_token(
      tokens, logits_of(model, hidden.back().slice(1, at, at + 1), ids.slice(1, at, at + 1))[0][0]);
  answer["next"]["at"] = at;
  answer["lens"] = lens(model, tokens, hidden, ids);
  return ascii_json(answer);
}

std::string probe(const Question& q, const AttentionOf& attention) {
  return ascii_json(attention_answer(q, attention));
}

std::string probe(const Classified& c) {
  const Tensor p = softmax(c.logits);
  const std::vector<int64_t> truth = c.labels.to_vector<int64_t>();
  const Tensor predicted = p.argmax(1);
  const std::vector<int64_t> guesses = predicted.to_vector<int64_t>();
  std::vector<double> confidence = topk(p, 1).values.to_vector<double>();
  double right = 0;
  for (size_t i = 0; i < truth.size(); ++i) right += truth[i] == guesses[i];
  const auto shown_image = [&](size_t at) {
    const auto i = static_cast<int64_t>(at);
    json one{
        {"pixels", hexadecimal(c.images[i])}, {"label", truth[at]}, {"chances", json::array()}};
    for (const double x : p[i].to_vector<double>()) one["chances"].push_back(rounded(x));
    if (c.maps.defined()) {
      one["map"] = json::array();
      for (const double x : c.maps[i].to_vector<double>()) one["map"].push_back(rounded(x, 1e-5));
      one["across"] = c.maps.size(2);
    }
    return one;
  };
  json first = json::array(), mistakes = json::array();
  for (size_t i = 0; i < std::min(truth.size(), most_images); ++i) first.push_back(shown_image(i));
  for (const size_t i : descending(confidence))
    if (truth[i] != guesses[i] && mistakes.size() < most_images) mistakes.push_back(shown_image(i));
  const Shape& shape = c.images.shape();
  return ascii_json({{"kind", "images"},
                     {"shape", {shape[1], shape[2], shape[3]}},
                     {"classes", c.class_names},
                     {"accuracy", right / static_cast<double>(truth.size())},
                     {"count", truth.size()},
                     {"first", std::move(first)},
                     {"mistakes", std::move(mistakes)}});
}

}  // namespace gradus
