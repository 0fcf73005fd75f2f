// What a run's page computes: answers about models, and statistics of layers.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "examples/page/probes.h"
#include "examples/page/statistics.h"
#include "gradus/core/ops/ops.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/nn/layers.h"

namespace page_probes_test {

using namespace gradus;
using Json = nlohmann::json;

TEST_CASE("statistics of layers: bounds of ranges, samples, and tensors that are not read",
          "[page]") {
  const auto range_of = [](float x) {
    const auto counts = magnitudes(full({1}, x));
    return std::find(counts.begin(), counts.end(), 1) - counts.begin();
  };
  CHECK(range_of(std::ldexp(1.0F, -25)) == 0);
  CHECK(range_of(std::ldexp(1.0F, -24)) == 1);
  CHECK(range_of(-std::ldexp(1.99F, -24)) == 1);
  CHECK(range_of(std::ldexp(1.0F, 5)) == 30);
  CHECK(range_of(std::ldexp(1.0F, 6)) == 31);
  CHECK(range_of(std::nanf("")) == 31);
  // At most 4096 elements, evenly spaced: every third of 8193 is 1.
  const Tensor thirds = zeros({2731, 3});
  thirds.select(1, 0).fill_(1);
  CHECK(magnitudes(thirds.flatten())[25] == 2731);
  CHECK(magnitudes(ones({4096}))[25] == 4096);
  CHECK(magnitudes(ones({4097}))[25] == 2049);
  const std::vector<int64_t> nothing(32);
  for (const Tensor& unread : {Tensor(), ones({2}, float64), ones({2, 3}).mT(), ones({0})})
    CHECK(magnitudes(unread) == nothing);
  nn::Linear layer(2, 2);
  const NoGrad no_grad;
  layer.weight.zero_();
  const LayerStatistics statistics(layer);
  layer.weight.add_(ones({2, 2}));
  layer.weight.set_grad(full({2, 2}, 0.5));
  const Json taken = Json::parse(statistics.take({}));
  CHECK(taken[0]["ratio"].is_null());  // of 2 and 0
  CHECK(taken[0]["weights"][25] == 4);
  CHECK(taken[0]["gradients"][24] == 4);
}

TEST_CASE("an answer about a GPT: what follows a token, after each layer and at the end",
          "[page]") {
  manual_seed(5);
  const models::CharTokenizer tokens("abcdefghij");
  const models::GPT model(
      {.vocab = 12, .context = 32, .layers = 2, .heads = 2, .dim = 8, .bigram = true});
  const NoGrad no_grad;
  model.bigram.copy_(randn({12, 12}));
  const std::string text = "abcdefghijjihgfedcbaaabbccddee";
  const Tensor logits = model(from_data(tokens.encode(text), {1, 30}))[0];
  const Json answer = Json::parse(probe(model, tokens, {.text = text, .at = 4}));
  const auto name = [](int64_t id) {  // the tokenizer lacks two of the model's tokens
    return id < 10 ? std::string(1, static_cast<char>('a' + id)) : '<' + std::to_string(id) + '>';
  };
  const ValuesAndIndices sorted = sort(logits[4], 0, true);
  for (int64_t i = 0; i < 12; ++i) {
    const auto at = static_cast<size_t>(i);
    CHECK(answer["next"]["tokens"][at] == name(sorted.indices[i].item<int64_t>()));
    CHECK(answer["next"]["logits"][at].get<double>() ==
          Approx(sorted.values[i].item()).margin(6e-4));
  }
  // The lens shows the last 24 tokens; its last layer is the whole model.
  REQUIRE(answer["lens"].size() == 3);
  for (const Json& layer : answer["lens"]) CHECK(layer.size() == 24);
  const Tensor chances = softmax(logits);
  for (int64_t t = 6; t < 30; ++t) {
    const Json& likeliest = answer["lens"][2][static_cast<size_t>(t - 6)];
    CHECK(likeliest[0] == name(argmax(chances[t]).item<int64_t>()));
    CHECK(likeliest[1].get<double>() == Approx(max(chances[t]).item()).margin(6e-4));
  }
  CHECK(Json::parse(probe(model, tokens, {.text = "ab"}))["lens"][0].size() == 2);
}

TEST_CASE("an answer about images: bytes of pixels, and at most twelve of each", "[page]") {
  const NoGrad no_grad;
  const Tensor images = full({14, 1, 1, 2}, 0.2), logits = zeros({14, 2});
  const double values[] = {0.5, 2, -1};
  for (int64_t i = 0; i < 3; ++i) images[i].fill_(values[i]);
  for (int64_t i = 0; i < 14; ++i) logits[i][1].fill_(static_cast<double>(i + 1));
  const Json answer = Json::parse(probe(Classified{.images = images,
                                                   .labels = zeros({14}, int64),
                                                   .logits = logits,
                                                   .maps = full({14, 2, 3}, 0.123456),
                                                   .class_names = {"a", "b"}}));
  const char* const pixels[] = {"8080", "ffff", "0000", "3333"};
  for (size_t i = 0; i < 4; ++i) CHECK(answer["first"][i]["pixels"] == pixels[i]);
  CHECK(answer["first"].size() == 12);
  CHECK(answer["mistakes"].size() == 12);
  CHECK(answer["mistakes"][0]["chances"][0].get<double>() == Approx(0).margin(6e-4));
  CHECK(answer["first"][0]["chances"][0].get<double>() ==
        Approx(1 / (1 + std::exp(1.0))).margin(6e-4));
  CHECK(answer["count"] == 14);
  CHECK(answer["accuracy"] == 0);
  CHECK(answer["shape"] == Json::parse("[1, 1, 2]"));
  CHECK(answer["classes"] == Json::parse(R"(["a", "b"])"));
  CHECK(answer["first"][0]["across"] == 3);
  REQUIRE(answer["first"][0]["map"].size() == 6);
  CHECK(answer["first"][0]["map"][0].get<double>() == Approx(0.12346).epsilon(1e-9));
}

}  // namespace page_probes_test
