#include "gradus/models/decoding.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "gradus/core/core.h"
#include "gradus/models/gpt.h"

using namespace gradus;
using Catch::Matchers::Contains;
using core::Generator;
using models::SamplingOptions, models::StopText;

namespace {

/// Shares of 20,000 draws.
std::vector<double> shares(const Tensor& logits, const SamplingOptions& options,
                           const std::vector<int64_t>& text = {}) {
  Generator generator(3);
  std::vector<double> counts(static_cast<size_t>(logits.numel()));
  for (int i = 0; i < 20000; ++i)
    counts[static_cast<size_t>(models::sample_token(logits, options, generator, text))] += 5e-5;
  return counts;
}

void expect(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i] == Approx(expected[i]).margin(0.015));
    if (expected[i] == 0) CHECK(found[i] == 0);
  }
}

/// Counts the tokens that it reads.
struct CountingDecoder : models::GPTDecoder {
  using GPTDecoder::GPTDecoder;
  Tensor next_logits(const Tensor& ids) override {
    read += ids.numel();
    return GPTDecoder::next_logits(ids);
  }
  int64_t read = 0;
};

/// The pieces that a StopText returns, separated by |, then what it holds back.
std::string split(std::vector<std::string> stops, const std::vector<std::string>& pieces) {
  StopText text(std::move(stops));
  std::string all;
  for (const std::string& piece : pieces) all += text.add(piece) + '|';
  return all + text.rest() + (text.stopped() ? "." : "");
}

}  // namespace

TEST_CASE("min_p keeps tokens by their probability relative to the largest", "[decoding]") {
  const Tensor logits = log(tensor({0.1, 0.4, 0.2, 0.3}));
  expect(shares(logits, {.min_p = 0.2}), {0.1, 0.4, 0.2, 0.3});
  expect(shares(logits, {.min_p = 0.6}), {0, 4 / 7.0, 0, 3 / 7.0});
  expect(shares(logits, {.min_p = 1}), {0, 1, 0, 0});
  // At temperature 0.5, 0.3 has (3/4)^2 of the largest probability.
  expect(shares(logits, {.temperature = 0.5, .min_p = 0.6}), {0, 1, 0, 0});
  expect(shares(logits, {.top_k = 3, .top_p = 0.6, .min_p = 0.3}), {0, 4 / 7.0, 0, 3 / 7.0});
}

TEST_CASE("a draw does not depend on the last bits of logits", "[decoding]") {
  manual_seed(8);
  const SamplingOptions most{.top_k = 40}, nucleus{.top_p = 0.9}, both{.top_k = 50, .top_p = 0.8};
  int64_t same = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    const Tensor logits = 0.5 * randn({50000}), rounded = logits + 4e-6 * rand({50000});
    for (const SamplingOptions& options : {most, nucleus, both}) {
      Generator one(i), two(i);
      same +=
          models::sample_token(logits, options, one) == models::sample_token(rounded, options, two);
    }
  }
  CHECK(same == 120);
}

TEST_CASE("a repetition penalty makes tokens of the text less likely", "[decoding]") {
  const Tensor logits = tensor({1.0, -1.0, 0.5, 0.0});
  const double scale = std::exp(0.5) + std::exp(-2.0) + std::exp(0.5) + 1;
  expect(shares(logits, {.repetition_penalty = 2}, {0, 1, 1, 3, 0}),
         {std::exp(0.5) / scale, std::exp(-2.0) / scale, std::exp(0.5) / scale, 1 / scale});
  Generator generator;
  CHECK(models::sample_token(logits, {.temperature = 0, .repetition_penalty = 3}, generator, {0}) ==
        2);
  CHECK(models::sample_token(logits, {.temperature = 0, .repetition_penalty = 3}, generator) == 0);
  CHECK(logits[0].item() == 1);  // unchanged
}

TEST_CASE("biases are added to logits", "[decoding]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor logits = log(tensor({0.1, 0.4, 0.2, 0.3}));
  expect(shares(logits, {.logit_bias = {{1, -infinity}, {2, std::log(3)}}}), {0.1, 0, 0.6, 0.3});
  Generator generator;
  for (const int64_t id : {-1, 4})
    CHECK_THROWS_WITH(models::sample_token(logits, {.logit_bias = {{id, 1}}}, generator),
                      Contains("token ids below 4"));
  for (const double bias : {infinity, std::nan("")})
    CHECK_THROWS_WITH(models::sample_token(logits, {.logit_bias = {{1, bias}}}, generator),
                      Contains("logit_bias"));
}

TEST_CASE("generation's newer options are checked", "[decoding]") {
  const models::GPT model({.vocab = 5, .context = 4, .layers = 1, .heads = 1, .dim = 4});
  auto with = [&](const SamplingOptions& options) {
    return [&model, options] { models::generate(model, {1}, {.sampling = options}); };
  };
  CHECK_THROWS_WITH(with({.min_p = -0.1})(), Contains("0 <= min_p <= 1, got -0.1"));
  CHECK_THROWS_WITH(with({.min_p = 1.5})(), Contains("0 <= min_p <= 1, got 1.5"));
  for (const double penalty : {0.0, -1.0, std::numeric_limits<double>::infinity()})
    CHECK_THROWS_WITH(with({.repetition_penalty = penalty})(),
                      Contains("a repetition_penalty > 0"));
  CHECK_THROWS_WITH(with({.logit_bias = {{5, 1}}})(), Contains("token ids below 5"));
}

TEST_CASE("the log probabilities of new tokens are the model's", "[decoding]") {
  manual_seed(4);
  models::GPT model({.vocab = 9, .context = 8, .layers = 1, .heads = 1, .dim = 8});
  {
    const NoGrad no_grad;
    for (const Tensor& p : model.parameters()) p.copy_(p * 8);
  }
  std::vector<double> log_probabilities;
  int asked = 0;
  const auto tokens = models::generate(
      model, {1, 2},
      {.tokens = 9,
       .sampling = {.temperature = 2, .repetition_penalty = 1.5, .logit_bias = {{3, 1}}},
       .vocab = 8,
       .stop_if = [&] { return ++asked == 6; },
       .log_probabilities = &log_probabilities});
  REQUIRE(tokens.size() == 6);
  REQUIRE(log_probabilities.size() == 6);
  std::vector<int64_t> text{1, 2};
  const NoGrad no_grad;
  for (size_t i = 0; i < 6; ++i) {
    const Tensor logits = model(from_data(text, {1, std::ssize(text)})).select(1, -1)[0];
    const Tensor expected = log_softmax(logits.slice(0, 0, 8));
    CHECK(log_probabilities[i] == Approx(expected[tokens[i]].item()).margin(1e-5));
    text.push_back(tokens[i]);
  }
}

TEST_CASE("text ends before the first stop string", "[decoding]") {
  CHECK(split({}, {"ab", "c"}) == "ab|c|");
  CHECK(split({"x"}, {"ab", "cxd", "e"}) == "ab|c||.");
  CHECK(split({"User:"}, {"Hi U", "se", "d Use", "r", ": x"}) == "Hi ||Used |||.");
  CHECK(split({"User:"}, {"Hi Us", "er"}) == "Hi ||User");
  CHECK(split({"aab"}, {"a", "a", "a", "b"}) == "||a||.");  // the stop string begins later
  CHECK(split({"long stop", "op"}, {"a long st", "op"}) == "a ||.");
  CHECK(split({"b", "ab"}, {"xab"}) == "x|.");
  CHECK_THROWS_WITH(StopText({"a", ""}), Contains("a stop string is empty"));
}

TEST_CASE("a prompt that continues what the decoder holds is read from there", "[decoding]") {
  manual_seed(4);
  const models::GPT model({.vocab = 9, .context = 12, .layers = 1, .heads = 1, .dim = 8});
  CountingDecoder decoder(model, 1);
  std::vector<int64_t> held;
  auto more = [&](const std::vector<int64_t>& prompt, int64_t tokens) {
    models::GenerateOptions options{.tokens = tokens, .seed = 1};
    const auto expected = models::generate(model, prompt, options);
    options.held = &held;
    decoder.read = 0;
    CHECK(models::generate(decoder, prompt, options) == expected);
    return expected;
  };
  std::vector<int64_t> text{1, 2, 3};
  for (const int64_t id : more(text, 2)) text.push_back(id);
  CHECK(held == std::vector<int64_t>(text.begin(), text.begin() + 4));  // the last is not read
  CHECK(decoder.read == 4);
  text.push_back(7);
  more(text, 1);
  CHECK(decoder.read == 2);
  CHECK(held == text);  // the new token is not read
  CHECK(decoder.room() == 6);
  more(text, 2);  // the same prompt again: nothing is left to read, so all of it is
  CHECK(decoder.read == 7);
  CHECK(held.size() == 7);
  more({5, 5}, 3);  // another text
  CHECK(held.size() == 4);
  more({1, 2}, 20);  // longer than the context
  CHECK(held.empty());
  more({3, 4}, 3);
  decoder.clear();  // holds less than `held` says
  more({3, 4, 5, 6, 7}, 2);
}
