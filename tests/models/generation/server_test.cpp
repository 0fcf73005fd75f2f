#include "gradus/models/generation/server.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>

#include "gradus/core/core.h"
#include "tests/support/compare.h"

namespace server_test {

using namespace gradus;
using Catch::Matchers::Contains;
using models::GPT, models::Server;
using Tokens = std::vector<int64_t>;

namespace {

Tokens random_prompt(int64_t length, int64_t vocab) {
  return randint(0, vocab, {length}).to_vector<int64_t>();
}

/// A model whose texts do not depend on rounding: weights are large and in float64.
std::unique_ptr<GPT> random_model(models::GPTConfig config) {
  manual_seed(7);
  auto model = std::make_unique<GPT>(config);
  model->to(float64);
  const NoGrad no_grad;
  for (const auto& [name, p] : model->named_parameters())
    if (p.rank() == 2)
      p.copy_(randn(p.shape(), float64) * 0.3);
    else
      p.copy_(p + randn(p.shape(), float64) * 0.1);
  return model;
}

/// Forms of GPT that treat positions or earlier tokens in different ways.
std::vector<models::GPTConfig> forms() {
  const models::GPTConfig base{.vocab = 17, .context = 12, .layers = 2, .heads = 4, .dim = 16};
  std::vector<models::GPTConfig> all(5, base);
  all[1].positions = models::Positions::sinusoidal;
  all[1].logit_cap = 5;
  all[2].positions = models::Positions::rotary;
  all[2].kv_heads = 2;
  all[2].window = 3;
  all[2].qk_norm = true;
  all[3].positions = models::Positions::rotary;
  all[3].token_shift = all[3].value_shortcut = all[3].embedding_shortcut = true;
  all[4].positions = models::Positions::rotary;
  all[4].head_dim = 8;
  all[4].bigram = all[4].token_shift = true;
  return all;
}

}  // namespace

TEST_CASE("a server's texts are those generated alone", "[server]") {
  const size_t form = GENERATE(0, 1, 2, 3, 4);
  const int64_t rows = GENERATE(1, 3, 40);
  CAPTURE(form, rows);
  const auto model = random_model(forms()[form]);
  std::vector<Tokens> prompts, expected;
  std::vector<models::GenerateOptions> options;
  for (int64_t i = 0; i < 20; ++i) {
    // Some prompts and texts exceed the context of 12; some texts are empty.
    prompts.push_back(random_prompt(1 + i * 5 % 19, 17));
    options.push_back({.tokens = i * 7 % 31,
                       .sampling = {.temperature = i % 3 == 0 ? 0.0 : 1.0},
                       .seed = static_cast<uint64_t>(i),
                       .stop_token = i % 2 == 0 ? 4 : -1});
    expected.push_back(models::generate(*model, prompts.back(), options.back()));
  }
  CHECK(models::generate_all(*model, prompts, options, rows) == expected);
}

TEST_CASE("requests join and leave a server between tokens", "[server]") {
  const auto model = random_model(forms()[2]);
  Server server(*model, 2);
  CHECK_FALSE(server.step());
  const auto options = [](int64_t tokens) {
    return models::GenerateOptions{.tokens = tokens, .seed = 3};
  };
  const int64_t first = server.add({1, 2, 3}, options(9)), second = server.add({5}, options(2));
  CHECK(server.running() == 0);
  CHECK(server.step());
  CHECK(server.running() == 2);
  const int64_t third = server.add({6, 7}, options(4)), cancelled = server.add({6}, options(4)),
                nothing = server.add({6}, options(0));
  CHECK(server.finished(nothing));
  CHECK(server.take(nothing).empty());
  server.cancel(cancelled);
  CHECK(server.step());  // the second ends, and the third takes its row
  CHECK(server.finished(second));
  CHECK_FALSE(server.finished(third));
  CHECK(server.running() == 2);
  while (server.step()) continue;
  CHECK(server.take(first) == models::generate(*model, {1, 2, 3}, options(9)));
  CHECK_THROWS_WITH(server.take(first), Contains("no request"));
  CHECK(server.take(second) == models::generate(*model, {5}, options(2)));
  CHECK(server.take(third) == models::generate(*model, {6, 7}, options(4)));

  const int64_t running = server.add({1}, options(5));
  server.step();
  CHECK_THROWS_WITH(server.take(running), Contains("request 5 has not ended"));
  server.cancel(running);
  CHECK(server.running() == 0);
  CHECK_THROWS_WITH(server.finished(running), "Server: there is no request 5");
  CHECK_THROWS_WITH(server.cancel(running), "Server: there is no request 5");
  CHECK_THROWS_WITH(server.add({17}),
                    Contains("token 17 of the prompt is not in a vocabulary of 17"));
  CHECK_THROWS_WITH(Server(*model, 0), Contains("expected sizes > 0"));
  CHECK_THROWS_WITH(models::generate_all(*model, {{1}}, {}), Contains("got 0 for 1"));
}

TEST_CASE("a running request that is cancelled leaves the others' texts alone", "[server]") {
  const size_t cancelled = GENERATE(0, 1, 2);
  const auto model = random_model(forms()[3]);
  Server server(*model, 3);
  const auto options = [](size_t i) {
    return models::GenerateOptions{.tokens = 15, .seed = i};  // more than the context holds
  };
  const std::vector<Tokens> prompts{{1, 2}, {3}, {4, 5, 6}};
  for (size_t i = 0; i < 3; ++i) server.add(prompts[i], options(i));
  server.step(), server.step();
  REQUIRE(server.running() == 3);
  server.cancel(static_cast<int64_t>(cancelled));
  CHECK(server.running() == 2);
  while (server.step()) continue;
  for (size_t i = 0; i < 3; ++i)
    if (i != cancelled)
      CHECK(server.take(static_cast<int64_t>(i)) ==
            models::generate(*model, prompts[i], options(i)));
}

TEST_CASE("a full context of one token, or of an odd number, is read again from its half",
          "[server]") {
  const int64_t context = GENERATE(1, 5);
  models::GPTConfig config = forms()[0];
  config.context = context;
  const auto model = random_model(config);
  Tokens text{3};
  {
    const NoGrad no_grad;
    int64_t first = 0;  // of the tokens read
    for (int i = 0; i < 20; ++i) {
      if (std::ssize(text) - first > context)
        first = std::ssize(text) - std::max<int64_t>(context / 2, 1);
      const Tokens read(text.begin() + first, text.end());
      const Tensor logits = (*model)(from_data(read, {1, std::ssize(read)}));
      text.push_back(argmax(logits[0].select(0, -1), 0).item<int64_t>());
    }
  }
  const models::GenerateOptions greedy{.tokens = 20, .sampling = {.temperature = 0}};
  const Tokens expected(text.begin() + 1, text.end());
  CHECK(models::generate(*model, {3}, greedy) == expected);
  const std::vector<Tokens> prompts(2, Tokens{3});
  CHECK(models::generate_all(*model, prompts, {greedy, greedy}) ==
        std::vector<Tokens>{expected, expected});
}

TEST_CASE("a server's requests take rows in the order of add(), without dropout", "[server]") {
  models::GPTConfig config = forms()[0];
  config.dropout = 0.5;
  const auto model = random_model(config);
  models::GenerateOptions greedy{.tokens = 14, .sampling = {.temperature = 0}};
  const Tokens alone = models::generate(*model, {3}, greedy);
  Server server(*model, 1);
  Tokens order, expected;
  for (int64_t i = 0; i < 3; ++i) {
    greedy.on_token = [&order, i](int64_t) { order.push_back(i); };
    server.add({3}, greedy);
    expected.insert(expected.end(), 14, i);
  }
  while (server.step()) continue;
  CHECK(order == expected);
  for (int64_t i = 0; i < 3; ++i) CHECK(server.take(i) == alone);
}

TEST_CASE("a server's functions are called for each token", "[server]") {
  const auto model = random_model(forms()[0]);
  const Tokens alone = models::generate(*model, {3}, {.tokens = 8, .seed = 1});
  Tokens streamed;
  std::vector<double> log_probabilities;
  Server server(*model, 2);
  server.add({9}, {.tokens = 3});
  const int64_t request = server.add({3}, {.tokens = 8,
                                           .seed = 1,
                                           .on_token = [&](int64_t id) { streamed.push_back(id); },
                                           .stop_if = [&] { return streamed.size() == 5; },
                                           .log_probabilities = &log_probabilities});
  while (server.step()) continue;
  CHECK(server.take(request) == Tokens(alone.begin(), alone.begin() + 5));
  CHECK(streamed == Tokens(alone.begin(), alone.begin() + 5));
  CHECK(log_probabilities.size() == 5);
}

TEST_CASE("a request whose function throws is removed, and the others' texts stay theirs",
          "[server]") {
  const int64_t failing = GENERATE(0, 1, 2, 3);  // 2 and 3 wait for a row
  const int thrown_at = GENERATE(1, 3, 13);      // reading the prompt, in a row, a full context
  CAPTURE(failing, thrown_at);
  const auto model = random_model(forms()[3]);
  Server server(*model, 2);
  const std::vector<Tokens> prompts{{1, 2}, {3}, {4, 5, 6}, {7}};
  const auto options = [](size_t i) { return models::GenerateOptions{.tokens = 15, .seed = i}; };
  int calls = 0, thrown = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    models::GenerateOptions o = options(i);
    if (static_cast<int64_t>(i) == failing)
      o.on_token = [&](int64_t) {
        if (++calls == thrown_at) throw std::runtime_error("client gone");
      };
    server.add(prompts[i], o);
  }
  for (bool more = true; more;) {
    try {
      more = server.step();
    } catch (const std::runtime_error& e) {
      CHECK(e.what() == std::string("client gone"));
      ++thrown;
    }
  }
  CHECK(thrown == 1);
  CHECK_THROWS_WITH(server.finished(failing), Contains("there is no request"));
  for (size_t i = 0; i < prompts.size(); ++i)
    if (static_cast<int64_t>(i) != failing)
      CHECK(server.take(static_cast<int64_t>(i)) ==
            models::generate(*model, prompts[i], options(i)));
}

TEST_CASE("of several functions that throw in one step, the first one's exception is thrown",
          "[server]") {
  const auto model = random_model(forms()[0]);
  Server server(*model, 2);
  for (const char* message : {"first", "second"})
    server.add({1}, {.on_token = [message](int64_t) { throw Error(message); }});
  CHECK_THROWS_WITH(server.step(), "first");
  CHECK(server.running() == 0);
  CHECK_FALSE(server.step());
}

TEST_CASE("examples packed into one row do not see each other", "[server]") {
  const size_t form = GENERATE(0, 1, 2, 3, 4);
  CAPTURE(form);
  const auto model = random_model(forms()[form]);
  const Tensor ids = randint(0, 17, {2, 10}), targets = randint(0, 17, {2, 10});
  const Tensor positions = from_data(
      std::vector<int64_t>{0, 1, 2, 3, 0, 0, 1, 2, 3, 4, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7}, {2, 10});
  auto part = [](const Tensor& x, int64_t row, int64_t begin, int64_t end) {
    return x.slice(0, row, row + 1).slice(1, begin, end);
  };
  const std::vector<std::array<int64_t, 3>> examples{
      {0, 0, 4}, {0, 4, 5}, {0, 5, 10}, {1, 0, 2}, {1, 2, 10}};
  const Tensor packed = (*model)(ids, positions);
  Tensor total = zeros({}, float64);
  for (const auto& [row, begin, end] : examples) {
    const Tensor alone = (*model)(part(ids, row, begin, end));
    CHECK(gradus::testing::difference(part(packed, row, begin, end), alone) < 1e-12);
    total = total + model->loss(part(ids, row, begin, end), part(targets, row, begin, end)) *
                        static_cast<double>(end - begin);
  }
  const Tensor loss = model->loss(ids, targets, positions);
  CHECK(loss.item() == Approx(total.item() / 20).epsilon(1e-12));
  const auto parameters = model->parameters();
  const auto expected = grad({total / 20}, parameters, {.allow_unused = true}),
             found = grad({loss}, parameters, {.allow_unused = true});
  for (size_t i = 0; i < parameters.size(); ++i)
    CHECK(gradus::testing::difference(found[i], expected[i]) < 1e-11);
}

TEST_CASE("positions of packed examples are checked", "[server]") {
  const GPT model({.vocab = 5, .context = 4, .layers = 1, .heads = 1, .dim = 4});
  const Tensor ids = zeros({1, 3}, int64);
  auto logits = [&](const Tensor& positions) {
    return [&model, ids, positions] { model(ids, positions); };
  };
  auto row = [](Tokens positions) { return from_data(positions, {1, std::ssize(positions)}); };
  using gradus::testing::error_of;
  CHECK(error_of(logits(row({0, 1, 2}))) == "");
  CHECK(error_of(logits(row({1, 2, 3}))) ==
        "same_example: positions count an example's tokens from 0: expected 0 or 0, got 1");
  CHECK(error_of(logits(row({0, 2, 3}))).ends_with("expected 0 or 1, got 2"));
  CHECK(error_of(logits(row({0, 1}))).starts_with("same_example: expected positions"));
  CHECK(error_of(logits(zeros({1, 3}))).starts_with("same_example: expected positions"));
}

TEST_CASE("a decoder's call that throws changes nothing", "[server]") {
  const auto model = random_model(forms()[3]);  // with token shift
  const NoGrad no_grad;
  auto logits_after = [&](bool failed) {
    models::GPTDecoder decoder(*model, 3), single(*model, 1);
    while (!decoder.lengths().empty()) decoder.remove_row(0);
    for (const int64_t length : {2, 1, 3}) {
      single.clear();
      single.next_logits(ones({1, length}, int64));
      decoder.add_row(single);
    }
    if (failed) CHECK_THROWS_AS(decoder.next_logits(zeros({3, 2}, int64)), Error);
    return decoder.next_logits(ones({3, 1}, int64));
  };
  CHECK(gradus::testing::difference(logits_after(true), logits_after(false)) == 0);
}

TEST_CASE("memory that no token has written does not reach a server's logits", "[server]") {
  const auto model = random_model(forms()[0]);
  {  // leaves NaN in the allocator's blocks
    std::vector<Tensor> blocks;
    for (int64_t n = 1; n <= 40; ++n)
      for (int i = 0; i < 4; ++i) blocks.push_back(full({n * 16 * 12}, NAN, float64));
  }
  models::GPTDecoder decoder(*model, 3), single(*model, 1);
  const NoGrad no_grad;
  while (!decoder.lengths().empty()) decoder.remove_row(0);
  for (const int64_t length : {5, 1, 9}) {
    single.clear();
    single.next_logits(zeros({1, length}, int64));
    decoder.add_row(single);
  }
  CHECK(decoder.lengths() == Tokens{5, 1, 9});
  CHECK(std::isfinite(decoder.next_logits(zeros({3, 1}, int64)).sum().item()));
  CHECK_THROWS_WITH(decoder.add_row(single), Contains("no room for more than 3 sequences"));
  CHECK_THROWS_WITH(decoder.next_logits(zeros({3, 2}, int64)),
                    Contains("expected one token per sequence"));
  CHECK_THROWS_WITH(decoder.remove_row(3), Contains("expected a row below 3, got 3"));
  decoder.remove_row(1);
  CHECK_THROWS_WITH(decoder.remove_row(-1), Contains("expected a row below 2, got -1"));
  const auto other = random_model(forms()[0]);
  CHECK_THROWS_WITH(decoder.add_row(other->decoder()), "GPT: expected a decoder of the same model");
}

TEST_CASE("a text's logits have the same bits in a batch as alone", "[server][fused]") {
  const size_t form = GENERATE(0, 1, 2, 3, 4);
  const Dtype dtype = GENERATE(float32, float64);
  CAPTURE(form, dtype);
  models::GPTConfig config = forms()[form];
  config.context = 50;  // more keys than a vector has lanes
  const auto model = random_model(config);
  model->to(dtype);
  models::GPTDecoder decoder(*model, 5), single(*model, 1);
  const NoGrad no_grad;
  while (!decoder.lengths().empty()) decoder.remove_row(0);
  std::vector<Tensor> alone;
  for (const int64_t length : {21, 1, 35, 2, 48}) {
    single.clear();
    single.next_logits(from_data(random_prompt(length, 17), {1, length}));
    decoder.add_row(single);
    alone.push_back(single.next_logits(full({1, 1}, 3, int64)));
  }
  const Tensor together = decoder.next_logits(full({5, 1}, 3, int64));
  CHECK(together.to(float64).to_vector<double>() == cat(alone, 0).to(float64).to_vector<double>());
}

}  // namespace server_test
