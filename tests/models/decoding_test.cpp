#include "gradus/models/decoding.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "gradus/core/core.h"
#include "gradus/models/gpt.h"

namespace decoding_test {

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

/// A decoder whose logits are always the same.
struct Constant : models::Decoder {
  const Tensor logits = tensor({{3.2, 2.5, 2.0, 1.5, -1.0}}, float64);
  int64_t read = 0;
  int64_t vocab() const override { return 5; }
  Tensor next_logits(const Tensor& ids) override {
    read += ids.size(1);
    return logits;
  }
  void reorder(const Tensor&) override {}
  int64_t room() const override { return capacity() - read; }
  int64_t capacity() const override { return 9; }
  void clear() override { read = 0; }
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

TEST_CASE("top_p keeps the fewest tokens that reach its fraction of the probability",
          "[decoding]") {
  // Two of four equal tokens have exactly half of the probability.
  expect(shares(zeros({4}), {.top_p = 0.5}), {0.5, 0.5, 0, 0});
  // The fraction is that of the tokens left by top_k, here a thirtieth of all probability.
  const Tensor many = cat({tensor({2.0, 1.5}), ones({100})}, 0);
  std::vector<double> expected(102);
  expected[0] = 4 / 7.0, expected[1] = 3 / 7.0;
  expect(shares(log(many), {.top_k = 2, .top_p = 0.6}), expected);
  // Unlikely tokens count too: 39 of these 50 make 0.89 with the first, and 40 make 0.9.
  std::vector<double> p(51, 0.01), kept(51);
  p[0] = 0.5, kept[0] = 5 / 9.0;
  for (size_t i = 1; i <= 40; ++i) kept[i] = 1 / 90.0;
  expect(shares(log(from_data(p, {51})), {.top_p = 0.895}), kept);
  // At least one token is kept: where the fraction of the total underflows, and where nine times
  // 1/9 adds up to more than 1.
  expect(shares(zeros({4}), {.top_k = 1, .top_p = 5e-324}), {1, 0, 0, 0});
  expect(shares(zeros({9}, float64), {.top_p = 1e-17}), {1, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("a temperature beyond float32 is refused", "[decoding]") {
  // Divided by infinity, an excluded token's logit would be NaN.
  Generator generator;
  const Tensor logits = tensor({0.0, 0.0, -std::numeric_limits<double>::infinity()});
  for (const double bad : {1e39, std::nan(""), -1.0})
    CHECK_THROWS_WITH(models::sample_token(logits, {.temperature = bad}, generator),
                      Contains("expected a temperature >= 0"));
  expect(shares(logits, {.temperature = 3e38}), {0.5, 0.5, 0});
}

TEST_CASE("logits near the largest float are sampled", "[decoding]") {
  expect(shares(tensor({3e38, 3e38, 0.0}), {}), {0.5, 0.5, 0});
}

TEST_CASE("tokens are sampled only from a vector of floating logits", "[decoding]") {
  Generator generator;
  for (const Tensor& bad : {zeros({1, 4}), zeros({0}), zeros({4}, int64)})
    CHECK_THROWS_WITH(models::sample_token(bad, {}, generator),
                      Contains("sample_token: expected logits (vocab), got "));
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
  // A text may hold ids that are not among the logits, as with GenerateOptions::vocab.
  const int64_t far = int64_t{1} << 40;
  CHECK(models::sample_token(logits, {.temperature = 0, .repetition_penalty = 3}, generator,
                             {4, far, -far, 0}) == 2);
}

TEST_CASE("generation penalises the tokens of the prompt and the new ones", "[decoding]") {
  Constant decoder;
  const auto text = [&](double penalty) {
    return models::generate(
        decoder, {1}, {.tokens = 4, .sampling = {.temperature = 0, .repetition_penalty = penalty}});
  };
  CHECK(text(1) == std::vector<int64_t>{0, 0, 0, 0});
  // Token 1 of the prompt has the logit 2.5 / 2; token 0 then has 3.2 / 2, token 2 at last 2 / 2.
  CHECK(text(2) == std::vector<int64_t>{0, 2, 0, 0});
}

TEST_CASE("generation: what is called and recorded at a text's end", "[decoding]") {
  Constant decoder;
  std::vector<int64_t> streamed;
  std::vector<double> log_probabilities;
  int asked = 0;
  const auto text = [&](int64_t stop_token) {
    streamed.clear(), log_probabilities.clear(), asked = 0;
    return models::generate(decoder, {1},
                            {.tokens = 4,
                             .sampling = {.temperature = 0, .repetition_penalty = 2},
                             .stop_token = stop_token,
                             .on_token = [&](int64_t id) { streamed.push_back(id); },
                             .stop_if = [&] { return ++asked == 4; },
                             .log_probabilities = &log_probabilities});
  };
  CHECK(text(-1) == std::vector<int64_t>{0, 2, 0, 0});
  CHECK(streamed == std::vector<int64_t>{0, 2, 0, 0});
  CHECK(log_probabilities.size() == 4);
  CHECK(asked == 3);  // not after the last token that is allowed
  CHECK(text(2) == std::vector<int64_t>{0});
  CHECK(streamed == std::vector<int64_t>{0});
  CHECK(asked == 1);
  REQUIRE(log_probabilities.size() == 1);
  double total = 0;
  for (const double logit : {3.2, 2.5, 2.0, 1.5, -1.0}) total += std::exp(logit);
  CHECK(log_probabilities[0] == Approx(3.2 - std::log(total)));  // without the penalty
}

TEST_CASE("biases are added to logits", "[decoding]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor logits = log(tensor({0.1, 0.4, 0.2, 0.3}));
  expect(shares(logits, {.logit_bias = {{1, -infinity}, {2, std::log(3)}}}), {0.1, 0, 0.6, 0.3});
  expect(shares(logits, {.logit_bias = {{0, std::log(5)}, {3, -infinity}}}),
         {5 / 11.0, 4 / 11.0, 2 / 11.0, 0});
  expect(shares(logits, {.temperature = 0.5, .logit_bias = {{0, std::log(3)}}}),
         {9 / 38.0, 16 / 38.0, 4 / 38.0, 9 / 38.0});  // before the temperature
  Generator generator;
  // After the penalty: 2 / 2 - 1 is less than 0.25, and (2 - 1) / 2 would be more.
  const SamplingOptions both{.temperature = 0, .repetition_penalty = 2, .logit_bias = {{0, -1}}};
  CHECK(models::sample_token(tensor({2, 0.25}), both, generator, {0}) == 1);
  for (const int64_t id : {-1, 4})
    CHECK_THROWS_WITH(models::sample_token(logits, {.logit_bias = {{id, 1}}}, generator),
                      Contains("token ids below 4"));
  for (const double bias : {infinity, std::nan("")})
    CHECK_THROWS_WITH(models::sample_token(logits, {.logit_bias = {{1, bias}}}, generator),
                      Contains("logit_bias"));
  CHECK_THROWS_WITH(
      models::sample_token(tensor({0.5}), {.logit_bias = {{0, -infinity}}}, generator),
      "sample_token: the largest logit, after penalty and bias, is -inf: expected a finite one");
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
  for (const int64_t vocab : {-1, 6})
    CHECK_THROWS_WITH(models::generate(model, {1}, {.vocab = vocab}),
                      Contains("generate: expected vocab from 0 to 5, got "));
  CHECK(models::generate(model, {0}, {.tokens = 3, .vocab = 5}).size() == 3);
  CHECK_THROWS_WITH(models::generate(model, {-1}), Contains("token -1 of the prompt"));
  CHECK_THROWS_WITH(models::generate(model, {1}, {.stop_token = -2}), Contains("stop token -2"));
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
  CHECK(split({"ab", "b"}, {"xab"}) == "x|.");
  CHECK(split({"abc", "b1"}, {"ab", "c"}) == "||.");  // the longest beginning is held back
  // The stop string that is complete first ends the text, in whatever pieces it comes.
  CHECK(split({"bcx", "c"}, {"abc", "x"}) == "ab||.");
  CHECK(split({"bcx", "c"}, {"abcx"}) == "ab|.");
  CHECK(split({"END OF TEXT", "OF"}, {"END OF"}) == "END |.");
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
  // The longest prompt that fits, and one that is a token longer: its last 12 tokens are read.
  CHECK(held.size() == 6);
  text = held;
  text.resize(12, 8);
  more(text, 1);
  CHECK(decoder.read == 6);
  CHECK(held == text);
  text.push_back(2);
  more(text, 1);
  CHECK(decoder.read == 12);
  CHECK(held.empty());
  more({3, 4}, 3);
  held.pop_back();  // the decoder holds more than `held` says
  text = held;
  text.push_back(5);
  more(text, 1);
  CHECK(decoder.read == 4);
}

TEST_CASE("decoders: the number of beams is limited to 2^24 in all", "[decoding]") {
  const int64_t most = int64_t{1} << 24;
  const auto check = [](int64_t sources, int64_t beams) {
    models::internal::check_beams("Op", sources, beams);
  };
  CHECK_NOTHROW(check(1, 1));
  CHECK_NOTHROW(check(1, most));
  CHECK_NOTHROW(check(2, most / 2));
  CHECK_THROWS_WITH(check(1, most + 1), "Op: expected from 1 to 16777216 beams, got 16777217");
  CHECK_THROWS_WITH(check(2, most / 2 + 1), "Op: expected from 1 to 8388608 beams, got 8388609");
  CHECK_THROWS_WITH(check(1, 0), Contains("got 0"));
}

TEST_CASE("decoders: rows keep their sources through several reorderings", "[decoding]") {
  const NoGrad no_grad;
  models::internal::SourceRows rows("Op", 2, 2);
  const auto sources = [&] { return rows.index().to_vector<int64_t>(); };
  using Ids = std::vector<int64_t>;
  CHECK(sources() == Ids{0, 0, 1, 1});
  CHECK_FALSE(rows.reorder(from_data<int64_t>({1, 1, 3, 2})));
  CHECK(rows.reorder(from_data<int64_t>({0, 2, 1, 3})));
  CHECK(sources() == Ids{0, 1, 0, 1});
  CHECK(rows.reorder(from_data<int64_t>({0, 0, 2, 3})));
  CHECK(sources() == Ids{0, 0, 0, 1});
  // A row reads as many ids as there is room for.
  CHECK_NOTHROW(rows.check_next(zeros({4, 3}, int64), 3));
  CHECK_THROWS_WITH(rows.check_next(zeros({4, 4}, int64), 3),
                    "Op: expected ids (4, T) with T up to 3, got (4, 4)");
  CHECK_THROWS_WITH(rows.check_next(zeros({3, 3}, int64), 3), Contains("got (3, 3)"));
}

}  // namespace decoding_test
