// Low-rank updates of linear layers.

#include "gradus/nn/finetune/lora.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/core.h"
#include "gradus/models/gpt.h"
#include "gradus/nn/nn.h"
#include "gradus/optim/optim.h"
#include "tests/support/ranks.h"

namespace lora_test {

using namespace gradus;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Catch::Matchers::StartsWith;

namespace {

struct Net : nn::Module {
  nn::Linear first, second, out;
  Net()
      : first(child("first", nn::Linear(5, 7))),
        second(child("second", nn::Linear(7, 4, {.bias = false}))),
        out(child("out", nn::Linear(4, 3, {.hidden = false}))) {}
  Tensor operator()(const Tensor& x) const {
    return out(nn::feed_forward(x, first, Activation::gelu, second));
  }
};

std::vector<std::string> names_of(const nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, update] : nn::lora_updates(module)) names.push_back(name);
  return names;
}

/// Gives the updates values other than 0.
void draw_updates(const nn::Module& module) {
  const NoGrad no_grad;
  for (const auto& [name, update] : nn::lora_updates(module))
    update.b.copy_(randn(update.b.shape(), update.b.dtype()));
}

double distance(const Tensor& a, const Tensor& b) { return abs(a - b).max().item(); }

}  // namespace

TEST_CASE("add_lora: the update's formula, of whole layers, rows and fused ones", "[lora]") {
  manual_seed(1);
  Net net;
  const Tensor x = randn({6, 5});
  const Tensor before = net(x).detach();
  nn::add_lora(net, {.rank = 2, .alpha = 6});
  CHECK(names_of(net) == std::vector<std::string>{"first", "second"});
  CHECK(same_bits(net(x).detach(), before));  // B is 0

  draw_updates(net);
  const auto updates = nn::lora_updates(net);
  const auto apply = [](const nn::Linear& layer, const nn::LoraUpdate& u, const Tensor& in) {
    const Tensor y = matmul(in, layer.weight.mT() + matmul(u.a.mT(), u.b.mT()) * 3.0);
    return layer.bias.defined() ? y + layer.bias : y;
  };
  const Tensor h = gelu(apply(net.first, updates[0].second, x)),
               expected = net.out(apply(net.second, updates[1].second, h));
  CHECK(distance(net(x), expected) < 1e-5);
  CHECK(distance(net.first(x, Activation::gelu), h) < 1e-5);
  CHECK(distance(net.first.rows(x, 2, 5), apply(net.first, updates[0].second, x).slice(1, 2, 5)) <
        1e-5);
}

TEST_CASE("add_lora: outputs and gradients of feed-forward layers, by the formula", "[lora]") {
  manual_seed(6);
  const bool gated = GENERATE(false, true), updates_first = GENERATE(false, true),
             updates_second = GENERATE(false, true);
  const double dropout = GENERATE(0.0, 0.4);
  if (!updates_first && !updates_second) return;
  CAPTURE(gated, updates_first, updates_second, dropout);
  nn::MLP mlp(5, {.hidden = 6, .gated = gated});
  mlp.to(float64);
  std::vector<std::string> layers;
  if (updates_first) layers.push_back("fc");
  if (updates_second) layers.push_back("proj");
  nn::add_lora(mlp, {.rank = 2, .alpha = 6, .dropout = dropout, .layers = layers});
  const NamedTensors updates = [&] {
    NamedTensors all;
    const NoGrad no_grad;
    for (const auto& [name, u] : nn::lora_updates(mlp)) {
      u.b.copy_(randn(u.b.shape(), float64));
      all.emplace_back(name + ".a", u.a), all.emplace_back(name + ".b", u.b);
    }
    return all;
  }();
  const auto linear_by_formula = [&](const nn::Linear& layer, const Tensor& x) {
    const Tensor y = matmul(x, layer.weight.mT()) + layer.bias;
    const nn::LoraUpdate* u = layer.lora_update();
    if (!u) return y;
    const Tensor in = u->dropout > 0 ? gradus::dropout(x, u->dropout) : x;
    return y + matmul(matmul(in, u->a.mT()), u->b.mT()) * 3.0;
  };
  const auto by_formula = [&](const Tensor& x) {
    const Tensor z = linear_by_formula(mlp.fc, x);
    return linear_by_formula(
        mlp.proj, gated ? gradus::gated(z, mlp.activation) : core::activate(z, mlp.activation));
  };
  const Tensor x = randn({3, 4, 5}, float64).requires_grad_(), dy = randn({3, 4, 5}, float64);
  std::vector<Tensor> inputs{x};
  for (const auto& [name, tensor] : updates) inputs.push_back(tensor);
  const auto state = default_generator().state();
  const Tensor y = mlp(x);
  const std::vector<Tensor> got = grad({y}, inputs, {.grad_outputs = {dy}, .create_graph = true});
  default_generator().set_state(state);
  const Tensor expected = by_formula(x);
  CHECK(distance(y, expected) < 1e-12);
  const std::vector<Tensor> want =
      grad({expected}, inputs, {.grad_outputs = {dy}, .create_graph = true});
  const auto size = [](const std::vector<Tensor>& all) {
    Tensor total = sum(all[0] * all[0]);
    for (size_t i = 1; i < all.size(); ++i) total = total + sum(all[i] * all[i]);
    return total;
  };
  for (size_t i = 0; i < inputs.size(); ++i) CHECK(distance(got[i], want[i]) < 1e-12);
  const std::vector<Tensor> second = grad({size(got)}, inputs), twin = grad({size(want)}, inputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    CHECK(distance(second[i], twin[i]) < 1e-10 * (1 + abs(twin[i]).max().item()));
}

TEST_CASE("add_lora: of a feed-forward layer, backward keeps one hidden tensor", "[lora]") {
  const bool gated = GENERATE(false, true);
  const double dropout = GENERATE(0.0, 0.5);
  CAPTURE(gated, dropout);
  const int64_t rows = 256, dim = 64, hidden = 256;
  nn::MLP mlp(dim, {.hidden = hidden, .gated = gated});
  nn::add_lora(mlp, {.rank = 2, .dropout = dropout});
  const Tensor x = randn({rows, dim}).requires_grad_();
  const int64_t before = memory_stats().live;
  const Tensor y = mlp(x);
  // fc's output and y; the updates' inner products and the allocator's rounding.
  const int64_t kept = rows * ((gated ? 2 : 1) * hidden + dim) * 4;
  CHECK(memory_stats().live - before < kept + rows * dim * 4);
}

TEST_CASE("add_lora: recomputed blocks give the same gradients", "[lora]") {
  const auto gradients = [](int64_t recompute) {
    manual_seed(8);
    models::GPT model({.vocab = 11,
                       .context = 8,
                       .layers = 2,
                       .heads = 2,
                       .dim = 16,
                       .gated = true,
                       .recompute = recompute});
    nn::add_lora(model, {.rank = 2, .dropout = 0.3});
    draw_updates(model);
    const Tensor ids = randint(0, 11, {3, 8});
    model.loss(ids, ids).backward();
    std::vector<Tensor> all;
    for (const auto& [name, update] : nn::lora_updates(model)) {
      all.push_back(update.a.grad());
      all.push_back(update.b.grad());
    }
    return all;
  };
  const std::vector<Tensor> kept = gradients(0), recomputed = gradients(1);
  REQUIRE(kept.size() == 16);
  for (size_t i = 0; i < kept.size(); ++i) CHECK(same_bits(kept[i], recomputed[i]));
}

TEST_CASE("add_lora: A starts as the weight of a Linear, and B is 0", "[lora]") {
  manual_seed(9);
  const Dtype dtype = GENERATE(float32, float64, bfloat16, int8);
  CAPTURE(dtype);
  nn::Linear layer(64, 256);
  layer.to(dtype);
  nn::add_lora(layer);
  const nn::LoraUpdate& update = *layer.lora_update();
  CHECK(update.alpha == 16);
  CHECK(update.dropout == 0);
  for (const Tensor& x : {update.a, update.b})  // those of compressed weights are in float32
    CHECK(x.dtype() == (dtype == float64 ? float64 : float32));
  REQUIRE(update.a.shape() == Shape{8, 64});
  REQUIRE(update.b.shape() == Shape{256, 8});
  // 512 numbers, uniform in [-1/8, 1/8] as 1/8 is 1 / sqrt(64).
  CHECK(abs(update.a).max().item() <= 0.125);
  CHECK(max(update.a).item() > 0.12);
  CHECK(min(update.a).item() < -0.12);
  CHECK(mean(update.a * update.a).item() == Approx(0.125 * 0.125 / 3).epsilon(0.2));
  CHECK(abs(update.b).max().item() == 0);
}

TEST_CASE("add_lora: an expression matches a whole name, or its end after a dot", "[lora]") {
  models::GPT model({.vocab = 11, .context = 8, .layers = 1, .heads = 2, .dim = 8});
  for (const std::string part : {"kv", "qk", "attn", "locks.0.*", "blocks.0.attn.qk"})
    CHECK_THROWS_WITH(nn::add_lora(model, {.rank = 1, .layers = {part}}),
                      Equals("add_lora: no other linear layer has a name that matches " + part));
  CHECK(names_of(model).empty());
  nn::add_lora(model, {.rank = 1, .layers = {"qkv|fc"}});  // the dot precedes each alternative
  CHECK(names_of(model) == std::vector<std::string>{"blocks.0.attn.qkv", "blocks.0.mlp.fc"});
}

TEST_CASE("add_lora: a layer with two names has one update, under the first of them", "[lora]") {
  struct Shared : nn::Module {
    nn::Linear first, again;
    Shared() : first(child("first", nn::Linear(4, 4))), again(child("again", first)) {}
  };
  Shared net, other;
  const auto layers = nn::linear_layers(net);
  REQUIRE(layers.size() == 1);
  CHECK(layers[0].first == "first");
  CHECK(layers[0].second == Shape{4, 4});
  nn::add_lora(net, {.rank = 1});
  CHECK(names_of(net) == std::vector<std::string>{"first"});
  CHECK(net.parameters().size() == 2 + 2);
  CHECK(net.again.lora_update() == net.first.lora_update());
  CHECK_THROWS_WITH(nn::add_lora(other, {.rank = 1, .layers = {"again"}}),
                    Equals("add_lora: no other linear layer has a name that matches again"));
}

TEST_CASE("add_lora: only the updates are trained, with dropout of their inputs", "[lora]") {
  manual_seed(2);
  Net net;
  const NamedTensors start = net.state_dict();
  std::vector<Tensor> copies;
  for (const auto& [name, tensor] : start) copies.push_back(tensor.clone());
  nn::add_lora(net, {.rank = 1, .dropout = 0.5, .layers = {"second", "o.t"}});
  CHECK(names_of(net) == std::vector<std::string>{"second", "out"});
  CHECK(net.parameters().size() == start.size() + 4);
  CHECK(net.state_dict()[3].first == "second.lora_A.weight");

  optim::AdamW optimizer(net.parameters(), {.lr = 0.05, .weight_decay = 0.1});
  const Tensor x = randn({64, 5}), y = x.slice(1, 0, 3) * 2.0;
  double first = 0, last = 0;
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    const Tensor loss = mean(pow(net(x) - y, 2));
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item();
  }
  CHECK(last < 0.9 * first);
  for (size_t i = 0; i < start.size(); ++i) CHECK(same_bits(start[i].second, copies[i]));
  for (const auto& [name, p] : net.named_parameters())
    CHECK(p.requires_grad() == (name.find("lora_") != std::string::npos));
  // Dropout: another mask each time, none in evaluation.
  CHECK_FALSE(same_bits(net(x).detach(), net(x).detach()));
  const EvalMode eval;
  CHECK(same_bits(net(x).detach(), net(x).detach()));
}

TEST_CASE("merge_lora: the merged weights compute the same", "[lora]") {
  manual_seed(3);
  Net net;
  nn::add_lora(net, {.rank = 3, .alpha = 4, .layers = {".*"}});
  draw_updates(net);
  const bool is_double = GENERATE(false, true);
  if (is_double) net.to(float64);
  const double tolerance = is_double ? 1e-12 : 1e-6;  // of the outputs' scale
  const Tensor x = randn({6, 5}, net.first.dtype()), adapted = net(x).detach();
  const double scale = abs(adapted).max().item();
  const NamedTensors merged = nn::merged_state_dict(net);
  CHECK(same_bits(net(x).detach(), adapted));  // unchanged
  Net plain;
  plain.to(net.first.dtype());
  plain.load_state_dict(merged);
  CHECK(distance(plain(x).detach(), adapted) < tolerance * scale);
  nn::merge_lora(net);
  CHECK(names_of(net).empty());
  CHECK(same_bits(net(x).detach(), plain(x).detach()));
  CHECK(net.parameters().size() == plain.parameters().size());
  nn::add_lora(net, {.rank = 1});  // another one
  CHECK(names_of(net).size() == 2);
}

TEST_CASE("merge_lora: a model that is one linear layer", "[lora]") {
  manual_seed(3);
  nn::Linear layer(5, 3);
  nn::add_lora(layer, {.rank = 2, .layers = {".*"}});
  draw_updates(layer);
  const Tensor x = randn({4, 5}), adapted = layer(x).detach();
  const NamedTensors merged = nn::merged_state_dict(layer);
  REQUIRE(merged.size() == 2);  // weight and bias
  nn::merge_lora(layer);
  CHECK(distance(layer(x).detach(), adapted) < 1e-6 * abs(adapted).max().item());
  CHECK(same_bits(layer.weight, merged[0].second));
}

TEST_CASE("merge_lora: a GPT's logits, to float32's and float64's rounding", "[lora]") {
  manual_seed(7);
  const bool is_double = GENERATE(false, true);
  models::GPT model({.vocab = 31, .context = 16, .layers = 4, .heads = 4, .dim = 64});
  if (is_double) model.to(float64);
  nn::add_lora(model, {.rank = 8});
  {
    const NoGrad no_grad;
    for (const auto& [name, update] : nn::lora_updates(model))
      update.b.copy_((randn(update.b.shape()) * 0.05).to(update.b.dtype()));
  }
  const NoGrad no_grad;
  const EvalMode eval;
  const Tensor ids = randint(0, 31, {4, 16}), adapted = model(ids);
  nn::merge_lora(model);
  const Tensor merged = model(ids);
  CHECK(distance(merged, adapted) < (is_double ? 1e-12 : 1e-6) * abs(adapted).max().item());
}

TEST_CASE("add_lora: a GPT's cached decoding, and weights in int8", "[lora]") {
  manual_seed(4);
  models::GPT model({.vocab = 11, .context = 8, .layers = 2, .heads = 2, .dim = 32});
  const Tensor ids = randint(0, 11, {1, 6});
  const bool compressed = GENERATE(false, true);
  if (compressed) model.to(int8);
  nn::add_lora(model, {.rank = 2, .layers = {"attn.qkv", "blocks.1.mlp.*"}});
  CHECK(names_of(model) == std::vector<std::string>{"blocks.0.attn.qkv", "blocks.1.attn.qkv",
                                                    "blocks.1.mlp.fc", "blocks.1.mlp.proj"});
  draw_updates(model);
  model.loss(ids, ids).backward();
  for (const auto& [name, update] : nn::lora_updates(model)) {
    CHECK(update.a.grad().defined());
    CHECK(abs(update.b.grad()).max().item() > 0);
  }
  const NoGrad no_grad;
  const EvalMode eval;
  auto decoder = model.decoder();
  const Tensor all = model(ids), next = decoder.next_logits(ids);
  CHECK(distance(next.reshape({11}), all[0][5]) < (compressed ? 0.05 : 1e-5));
  if (compressed)
    CHECK_THROWS_WITH(nn::merge_lora(model),
                      Equals("merge_lora: the weight of blocks.0.attn.qkv is int8: convert it to "
                             "float32 first"));
}

TEST_CASE("add_lora, merge_lora: refuse what they cannot do", "[lora]") {
  Net net;
  const size_t before = net.parameters().size();
  CHECK_THROWS_WITH(nn::add_lora(net, {.rank = 0}), Contains("add_lora: expected rank >= 1"));
  CHECK_THROWS_WITH(nn::add_lora(net, {.dropout = 1}),
                    Contains("got rank 8, alpha 16 and dropout 1"));
  for (const double alpha : {0.0, -1.0, std::nan(""), double{INFINITY}, 1e39})
    CHECK_THROWS_WITH(nn::add_lora(net, {.alpha = alpha}),
                      Contains("add_lora: expected rank >= 1"));
  CHECK_THROWS_WITH(nn::add_lora(net, {.dropout = -0.5}), Contains("and dropout -0.5"));
  CHECK_THROWS_WITH(nn::add_lora(net, {.rank = 6, .layers = {"first"}}),
                    Equals("add_lora: rank 6 is above the sizes of first, (7, 5)"));
  CHECK_THROWS_WITH(nn::add_lora(net, {.layers = {"first", "third"}}),
                    Equals("add_lora: no other linear layer has a name that matches third"));
  CHECK_THROWS_WITH(nn::add_lora(net, {.layers = {"first", "fir.*"}}),
                    Equals("add_lora: no other linear layer has a name that matches fir.*"));
  CHECK_THROWS_WITH(nn::add_lora(net.out),
                    Equals("add_lora: the model has no hidden linear layers"));
  CHECK_THROWS_WITH(nn::add_lora(net, {.layers = {"(first"}}),
                    Equals("add_lora: layers: expected a regular expression, got (first"));
  CHECK_THROWS_WITH(nn::merge_lora(net), Equals("merge_lora: the model has no updates"));
  CHECK(net.parameters().size() == before);
  for (const Tensor& p : net.parameters()) CHECK(p.requires_grad());

  nn::add_lora(net, {.rank = 1});
  CHECK_THROWS_WITH(nn::add_lora(net, {.rank = 1}),
                    Equals("add_lora: first has an update already"));

  models::GPT tied({.vocab = 11, .context = 8, .layers = 1, .heads = 2, .dim = 8});
  nn::add_lora(tied, {.rank = 1, .layers = {"head"}});
  CHECK_THROWS_WITH(nn::merge_lora(tied),
                    Equals("merge_lora: the weight of head is also wte.weight"));
  CHECK(names_of(tied).size() == 1);
}

TEST_CASE("add_lora: the limits of rank, alpha and dropout", "[lora]") {
  const auto add = [](const nn::LoraOptions& options) {
    nn::Linear layer(8, 9);
    nn::add_lora(layer, options);
  };
  CHECK_NOTHROW(add({.rank = 8}));
  CHECK_THROWS_WITH(add({.rank = 9}), Contains("rank 9 is above the sizes of"));
  for (const double scale : {1e-30, 1e30}) CHECK_NOTHROW(add({.rank = 1, .alpha = scale}));
  for (const double scale : {0.99e-30, 1.01e30})
    CHECK_THROWS_WITH(add({.rank = 1, .alpha = scale}),
                      Contains("alpha / rank from 1e-30 to 1e30"));
  CHECK_NOTHROW(add({.dropout = 0.999999}));
  CHECK_THROWS_WITH(add({.dropout = 0.9999991}), Contains("a dropout from 0 to 0.999999"));
}

TEST_CASE("add_lora: freezes earlier updates; a compressed model keeps updates in float32",
          "[lora]") {
  Net net;
  nn::add_lora(net, {.rank = 1, .layers = {"first"}});
  nn::add_lora(net, {.rank = 2, .layers = {"second"}});
  net.to(bfloat16);
  CHECK(net.second.weight.dtype() == bfloat16);
  for (const auto& [name, update] : nn::lora_updates(net))
    for (const Tensor& p : {update.a, update.b}) {
      CHECK(p.dtype() == float32);
      CHECK(p.requires_grad() == (name == "second"));
    }
}

TEST_CASE("merge_lora: a layer's own parameter keeps its place, whatever its name", "[lora]") {
  struct Gated : nn::Module {
    Tensor weight = param("weight", {2, 3}, 1), gate = param("lora_gate", {2}, 1);
    Gated() { hidden_weight(weight), adaptable(weight); }
  };
  const auto names = [](const NamedTensors& state) {
    std::vector<std::string> found;
    for (const auto& [name, tensor] : state) found.push_back(name);
    return found;
  };
  Gated layer;
  const std::vector<std::string> before = names(layer.state_dict());
  nn::add_lora(layer, {.rank = 1});
  CHECK(layer.state_dict().size() == 4);
  CHECK(names(nn::merged_state_dict(layer)) == before);
  nn::merge_lora(layer);
  CHECK(names(layer.state_dict()) == before);
}

TEST_CASE("merge_lora: a layer of the user's own, whose matrix has another name", "[lora]") {
  struct Mine : nn::Module {
    nn::Sequential empty;  // a child, registered before the matrix
    const Tensor w;
    Mine()
        : empty(child("empty", nn::Sequential())),
          w(param("w", {4, 3}, nn::init::kaiming_uniform())) {
      adaptable(w), hidden_weight(w);
    }
    Tensor operator()(const Tensor& x) const {
      return lora_update() ? (*lora_update())(x, w, {}) : linear(x, w);
    }
  };
  manual_seed(7);
  Mine layer;
  nn::add_lora(layer, {.rank = 2});
  draw_updates(layer);
  const Tensor x = randn({5, 3}), adapted = layer(x).detach();
  const NamedTensors merged = nn::merged_state_dict(layer);
  REQUIRE(merged.size() == 1);
  CHECK(merged[0].first == "w");
  CHECK(distance(linear(x, merged[0].second), adapted) < 1e-5);
  nn::merge_lora(layer);
  CHECK(same_bits(layer.w.detach(), merged[0].second));
  CHECK(distance(layer(x), adapted) < 1e-5);
}

TEST_CASE("add_lora_updates: finished updates of different ranks", "[lora]") {
  manual_seed(5);
  Net net;
  const Tensor x = randn({6, 5}), before = net(x).detach();
  const nn::LoraUpdate one{randn({1, 5}), randn({7, 1}), 3, 0};
  const auto refused = [&](const std::vector<std::pair<std::string, nn::LoraUpdate>>& updates,
                           const std::string& message) {
    CHECK_THROWS_WITH(nn::add_lora_updates(net, updates), Equals("add_lora_updates: " + message));
    CHECK(names_of(net).empty());
    for (const Tensor& p : net.parameters()) CHECK(p.requires_grad());
  };
  refused({}, "expected at least one update, got none");
  refused({{"first", one}, {"third", one}}, "the model has no linear layer third");
  refused({{"first", one}, {"first", one}}, "first has an update already");
  refused({{"first", {randn({2, 5}), one.b, 1, 0}}},
          "first: expected an update of (7, 5), got (2, 5) and (7, 1)");
  refused({{"first", {randn({1, 4}), one.b, 1, 0}}},
          "first: expected an update of (7, 5), got (1, 4) and (7, 1)");
  const auto bad_option = [&](int64_t rank, double alpha, double dropout) {
    const nn::LoraUpdate good{ones({1, 7}), ones({4, 1}), 1, 0},
        bad{ones({rank, 5}), ones({7, rank}), alpha, dropout};
    CHECK_THROWS_WITH(nn::add_lora_updates(net, {{"second", good}, {"first", bad}}),
                      StartsWith("add_lora_updates: first: expected "));
    CHECK(names_of(net).empty());
  };
  bad_option(0, 3, 0);
  for (const double alpha : {0.0, -1.0, std::nan(""), double{INFINITY}, 1e39})
    bad_option(1, alpha, 0);
  for (const double dropout : {-0.5, 1.0, std::nan("")}) bad_option(1, 3, dropout);
  nn::add_lora_updates(net, {{"first", one}});
  CHECK(names_of(net) == std::vector<std::string>{"first"});
  for (const auto& [name, p] : net.named_parameters())
    CHECK(p.requires_grad() == name.starts_with("first.lora_"));
  CHECK_FALSE(same_bits(net(x).detach(), before));
  CHECK_THROWS_WITH(nn::add_lora_updates(net, {{"first", one}}),
                    Equals("add_lora_updates: first has an update already"));
  CHECK(net.parameters().size() == Net().parameters().size() + 2);
  one.a.copy_(zeros({1, 5})), one.b.copy_(zeros({7, 1}));  // the model has copies
  nn::merge_lora(net);
  CHECK_FALSE(same_bits(net(x).detach(), before));
}

TEST_CASE("add_lora_updates: an update takes its layer's dtype, and keeps scale and dropout",
          "[lora]") {
  manual_seed(5);
  const Dtype dtype = GENERATE(float64, bfloat16, int8);
  CAPTURE(dtype);
  nn::Linear layer(64, 5);
  layer.to(dtype);
  const Dtype of_inputs = layer.dtype();
  const nn::LoraUpdate given{randn({2, 64}), randn({5, 2}), 3, 0.25};
  nn::add_lora_updates(layer, {{"", given}});
  const nn::LoraUpdate& added = *layer.lora_update();
  CHECK(added.a.dtype() == of_inputs);
  CHECK(added.b.dtype() == of_inputs);
  CHECK(added.alpha == 3);
  CHECK(added.dropout == 0.25);
  const EvalMode eval;
  const Tensor x = randn({3, 64}, of_inputs), a = given.a.to(of_inputs), b = given.b.to(of_inputs);
  const Tensor plain = matmul(x, layer.weight.to(of_inputs).mT()) + layer.bias;
  CHECK(distance(layer(x), plain + matmul(matmul(x, a.mT()), b.mT()) * 1.5) < 1e-3);
}

}  // namespace lora_test
