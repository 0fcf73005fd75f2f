// The models' option `recompute`: the same losses and gradients, in less memory.

#include <catch2/catch.hpp>

#include "gradus/gradus.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

namespace model_recompute_test {

using namespace gradus;
using namespace gradus::testing;
using models::GPT, models::GPTConfig;

namespace {

/// The model's loss in training mode, its gradients, and the random state afterwards.
template <class Model>
std::vector<Values> step(typename Model::Config config, int64_t recompute,
                         const std::function<Tensor(const Model&)>& loss_of) {
  if constexpr (requires { config.recompute; })
    config.recompute = recompute;
  else if constexpr (requires { config.encoder; })
    config.encoder.recompute = recompute;
  else
    config.image.recompute = recompute;
  manual_seed(7);
  Model model(config);
  model.initialise([](const std::string& name, const Tensor& p) {  // zeros learn nothing
    if (name == "bigram" || name.find("shift") != name.npos || name == "embedding_mix")
      p.copy_(randn(p.shape()));
  });
  const Tensor loss = loss_of(model);
  loss.backward();
  std::vector<Values> results{values(loss)};
  for (const Tensor& p : model.parameters())
    results.push_back(p.grad().defined() ? values(p.grad()) : Values{});
  results.push_back(values(rand({2})));
  return results;
}

template <class Model>
void check(const typename Model::Config& config, std::vector<int64_t> groups,
           const std::function<Tensor(const Model&)>& loss_of) {
  const std::vector<Values> expected = step<Model>(config, 0, loss_of);
  for (const int64_t group : groups) {
    CAPTURE(group);
    CHECK(step<Model>(config, group, loss_of) == expected);
  }
}

Tensor random_ids(const Shape& shape) {
  manual_seed(5);
  return randint(3, 11, shape);
}

}  // namespace

TEST_CASE("recompute: a GPT's loss and gradients have the same bits", "[gpt][recompute]") {
  const GPTConfig plain{
      .vocab = 11, .context = 6, .layers = 5, .heads = 2, .dim = 8, .dropout = 0.2};
  GPTConfig all = plain;
  all.tie = false, all.activation = Activation::silu, all.gated = true, all.kv_heads = 1;
  all.positions = models::Positions::rotary, all.norm = nn::NormKind::rms, all.window = 3;
  all.qk_norm = all.value_shortcut = all.embedding_shortcut = all.bigram = all.token_shift = true;
  all.logit_cap = 2.5;
  const Tensor text = random_ids({3, 7});
  for (const GPTConfig& config : {plain, all})
    check<GPT>(config, {1, 2, 5, 100}, [&](const GPT& model) {
      return model.loss(text.slice(1, 0, -1), text.slice(1, 1));
    });
}

TEST_CASE("recompute: the other stacks of transformer blocks", "[recompute]") {
  const Tensor ids = random_ids({3, 6}), lengths = tensor({6, 4, 2}, int64);
  check<models::Bert>({.vocab = 11, .context = 6, .layers = 3, .heads = 2, .dim = 8}, {1, 2},
                      [&](const models::Bert& model) {
                        const Tensor mask = lt(arange(6).unsqueeze(0), lengths.unsqueeze(1));
                        return sum(pow(model({.ids = ids, .mask = mask}), 3));
                      });
  check<models::Transformer>(
      {.source_vocab = 11, .target_vocab = 11, .context = 6, .layers = 3, .heads = 2, .dim = 8},
      {1, 2}, [&](const models::Transformer& model) {
        return sum(pow(model(ids, lengths, ids.slice(1, 1)), 3));
      });
  const models::ViTConfig vit{
      .image = 8, .classes = 3, .layers = 3, .heads = 2, .dim = 8, .dropout = 0.2};
  const Tensor images = randn({2, 3, 8, 8});
  for (const auto pooling : {models::Pooling::token, models::Pooling::mean}) {
    models::ViTConfig config = vit;
    config.pooling = pooling;
    check<models::ViT>(config, {1, 2},
                       [&](const models::ViT& model) { return sum(pow(model(images), 3)); });
  }
  models::ViTConfig headless = vit;
  headless.classes = 0;
  check<models::MAE>(
      {.encoder = headless, .decoder_layers = 3, .decoder_heads = 2, .decoder_dim = 8}, {2},
      [&](const models::MAE& model) { return model(images, model.order(2, 1, 0)).loss; });
  check<models::CLIP>({.image = headless, .vocab = 11, .text_layers = 3}, {2},
                      [&](const models::CLIP& model) {
                        return model.loss(images, {ids.slice(0, 0, 2), lengths.slice(0, 0, 2)});
                      });
}

TEST_CASE("recompute: a batch changes BatchNorm's running statistics once", "[recompute]") {
  const nn::BatchNorm norm(3);
  const Tensor x = rand({4, 3}).requires_grad_();
  const Tensor y = recompute(std::ref(norm), x);
  const Values once = values(norm.running_mean);
  sum(y * y).backward();
  CHECK(values(norm.running_mean) == once);
  CHECK(difference(norm.running_mean, mean(x.detach(), 0) * 0.1) < 1e-6);
}

TEST_CASE("recompute: a GPT's step takes less memory", "[gpt][recompute]") {
  const Tensor text = random_ids({8, 65});  // activations outweigh the kernels' buffers
  auto peak = [&](int64_t recompute) {
    const GPT model({.vocab = 11, .layers = 8, .dim = 64, .recompute = recompute});
    const int64_t before = memory_stats().live;
    reset_peak_memory();
    model.loss(text.slice(1, 0, -1), text.slice(1, 1)).backward();
    return memory_stats().peak - before;
  };
  const int64_t all = peak(0);
  for (const int64_t group : {1, 2, 4}) {
    CAPTURE(group, all, peak(group));
    CHECK(peak(group) < (group < 4 ? 0.5 : 0.7) * static_cast<double>(all));
  }
}

TEST_CASE("recompute: every other stack of blocks gets the option", "[recompute]") {
  const Tensor ids = random_ids({2, 4}), x = randn({2, 4, 8}), images = randn({8, 3, 32, 32});
  const models::Bert bert({.vocab = 11, .layers = 1, .dim = 8, .recompute = -1});
  const models::Transformer transformer(
      {.source_vocab = 11, .target_vocab = 11, .layers = 1, .dim = 8, .recompute = -1});
  const models::ViT vit({.layers = 1, .dim = 8, .recompute = -1});
  const models::CLIP clip(
      {.image = {.classes = 0, .layers = 1, .dim = 8, .recompute = -1}, .vocab = 11});
  const auto refuses = [](const std::function<void()>& call) {
    CHECK(error_of(call) == "recompute: expected 0 or more layers at a time, got -1");
  };
  refuses([&] { bert({ids}); });
  refuses([&] { transformer.encode(x, {}); });
  refuses([&] { transformer.decode(x, x, {}); });
  refuses([&] { vit(images); });
  refuses([&] { clip.text_features({ids, Tensor()}); });
  const auto peak = [&](int64_t recompute) {  // most of it for the decoder
    const models::MAE model(
        {.encoder = {.classes = 0, .layers = 1, .dim = 8, .recompute = recompute},
         .decoder_layers = 8,
         .decoder_dim = 64});
    const int64_t before = memory_stats().live;
    reset_peak_memory();
    model(images, model.order(8, 1, 0)).loss.backward();
    return static_cast<double>(memory_stats().peak - before);
  };
  CHECK(peak(1) < 0.7 * peak(0));
}

TEST_CASE("recompute: a model folder does not store it", "[gpt][recompute]") {
  const TemporaryFolder folder;
  const GPTConfig config{.vocab = 11, .layers = 2, .dim = 8, .recompute = 1};
  models::save_model(folder / "a", GPT(config));
  CHECK(read_file(models::config_path(folder / "a")).find("recompute") == std::string::npos);
  CHECK_THROWS_WITH(GPT({.vocab = 11, .recompute = -1})(random_ids({1, 2})),
                    "recompute: expected 0 or more layers at a time, got -1");
}

TEST_CASE("GPT: logit_rows computes the loss of some tokens at a time", "[recompute]") {
  const auto make = [](int64_t rows) {
    manual_seed(1);
    return models::GPT({.vocab = 11,
                        .context = 8,
                        .layers = 1,
                        .heads = 2,
                        .dim = 8,
                        .logit_cap = 5,
                        .bigram = true,
                        .logit_rows = rows});
  };
  manual_seed(2);
  const Tensor ids = randint(0, 11, {3, 7});
  Tensor targets = randint(0, 11, {3, 7});
  {
    const NoGrad no_grad;
    targets = where(targets == 4, full({}, -100, int64), targets);  // ignored
  }
  const models::GPT whole = make(0);
  const Tensor expected = whole.loss(ids, targets);
  expected.backward();
  for (const int64_t rows : {1, 5, 21, 100}) {
    CAPTURE(rows);
    const models::GPT some = make(rows);
    reset_peak_memory();
    const Tensor loss = some.loss(ids, targets);
    CHECK(loss.item() == Approx(expected.item()).epsilon(1e-6));
    loss.backward();
    const std::vector<Tensor> got = some.parameters(), wanted = whole.parameters();
    for (size_t i = 0; i < got.size(); ++i) {
      const Tensor difference = got[i].grad() - wanted[i].grad();
      CHECK((difference * difference).sum().item() <=
            1e-10 * (wanted[i].grad() * wanted[i].grad()).sum().item());
    }
  }
  CHECK_THROWS_WITH(make(-1).loss(ids, targets), "GPT: expected logit_rows >= 0, got -1");
}

TEST_CASE("GPT: logit_rows and recompute of rows that contain several examples", "[recompute]") {
  const auto make = [](int64_t rows, int64_t recompute) {
    manual_seed(1);
    GPT model({.vocab = 11,
               .context = 6,
               .layers = 2,
               .heads = 2,
               .dim = 8,
               .recompute = recompute,
               .logit_rows = rows});
    // So that positions and other examples matter.
    model.initialise([](const std::string&, const Tensor& p) {
      if (p.rank() == 2) p.mul_(10);
    });
    return model;
  };
  const Tensor ids = random_ids({2, 6}), targets = ids.mT().reshape({2, 6});
  const Tensor positions =
      from_data(std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 2, 3}, {2, 6});
  const GPT whole = make(0, 0);
  const Tensor expected = whole.loss(ids, targets, positions);
  CHECK(std::abs(expected.item() - whole.loss(ids, targets).item()) > 1e-3);
  expected.backward();
  for (const auto& [rows, group] : {std::pair{0, 1}, {1, 0}, {5, 0}, {5, 2}}) {
    CAPTURE(rows, group);
    const GPT some = make(rows, group);
    const Tensor loss = some.loss(ids, targets, positions);
    CHECK(loss.item() == Approx(expected.item()).epsilon(1e-5));
    loss.backward();
    const std::vector<Tensor> got = some.parameters(), wanted = whole.parameters();
    for (size_t i = 0; i < got.size(); ++i)
      CHECK(difference(got[i].grad(), wanted[i].grad()) < 1e-4);
  }
}

TEST_CASE("GPT: logit_rows needs no memory for all logits", "[recompute][fused]") {
  const auto peak = [](int64_t rows) {
    const models::GPT model(
        {.vocab = 2000, .context = 64, .layers = 1, .heads = 1, .dim = 8, .logit_rows = rows});
    const Tensor ids = randint(0, 2000, {16, 64});
    reset_peak_memory();
    model.loss(ids, ids).backward();
    return memory_stats().peak;
  };
  constexpr int64_t logits = 16 * 64 * 2000 * 4;
  CHECK(peak(0) > logits);
  CHECK(peak(64) < logits / 4);
}

}  // namespace model_recompute_test
