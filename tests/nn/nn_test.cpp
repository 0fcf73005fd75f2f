#include "gradus/nn/nn.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/core.h"
#include "gradus/nn/loading.h"
#include "tests/golden/golden.h"

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

namespace {

// ---- modules against PyTorch: outputs and all gradients ----

using Call = std::function<Tensor(const std::vector<Tensor>&)>;

void compare(const golden::File& file, const std::string& name, nn::Module& module,
             const Call& call, Dtype dtype) {
  const double tolerance = dtype == float64 ? 1e-9 : 1e-4;
  CAPTURE(name, dtype);
  module.to(dtype);
  module.load_state_dict(file.with_prefix(name + ".param.", dtype));
  module.zero_grad();
  std::vector<Tensor> inputs;
  for (int i = 0; file.has(name + ".in." + std::to_string(i)); ++i) {
    inputs.push_back(file.get(name + ".in." + std::to_string(i), dtype));
    if (is_floating(inputs.back().dtype())) inputs.back().requires_grad_();
  }
  const Tensor y = call(inputs);
  CHECK(golden::difference(y, file.get(name + ".out")) < tolerance);
  y.backward(file.get(name + ".dout", dtype));
  for (const auto& [parameter, tensor] : module.named_parameters()) {
    CAPTURE(parameter);
    CHECK(golden::difference(tensor.grad(), file.get(name + ".grad." + parameter)) < tolerance);
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].requires_grad())
      CHECK(golden::difference(inputs[i].grad(), file.get(name + ".din." + std::to_string(i))) <
            tolerance);
}

template <class M>
void compare(const golden::File& file, const std::string& name, M module) {
  auto call = [&](const std::vector<Tensor>& in) { return module(in[0]); };
  for (Dtype dtype : {float64, float32}) compare(file, name, module, call, dtype);
}

struct Pair : nn::Module {  // a layer with a child used twice, a buffer and its own parameter
  Tensor scale;
  nn::Linear first, second;
  Tensor offset;
  Pair()
      : scale(param("scale", ones({1}))),
        first(child("first", nn::Linear(3, 3))),
        second(child("second", nn::Linear(first.weight))),
        offset(buffer("offset", zeros({3}))) {}
};

std::vector<std::string> names(const NamedTensors& tensors) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : tensors) out.push_back(name);
  return out;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("modules give PyTorch's outputs and gradients", "[nn][golden]") {
  const golden::File file("modules");
  compare(file, "linear", nn::Linear(6, 4));
  compare(file, "linear_no_bias", nn::Linear(6, 4, {.bias = false}));
  compare(file, "embedding", nn::Embedding(9, 4));
  compare(file, "layer_norm", nn::LayerNorm(8));
  compare(file, "mlp_erf", nn::MLP(8));
  compare(file, "mlp_tanh", nn::MLP(8, {.activation = Activation::gelu_tanh, .bias = false}));
  compare(file, "attention_full", nn::MultiHeadAttention(8, {.heads = 2}));
  compare(file, "attention_causal", nn::MultiHeadAttention(8, {.heads = 2, .causal = true}));
  compare(file, "block_full", nn::Block(8, {.heads = 2}));
  compare(file, "block_causal", nn::Block(8, {.heads = 2, .causal = true}));

  nn::MultiHeadAttention attention(8, {.heads = 2});
  for (Dtype dtype : {float64, float32}) {
    const Tensor boolean_mask = file.get("mask.bool"), added = file.get("mask.added", dtype);
    compare(
        file, "attention_masked", attention,
        [&](const std::vector<Tensor>& in) { return attention(in[0], boolean_mask); }, dtype);
    compare(
        file, "attention_biased", attention,
        [&](const std::vector<Tensor>& in) { return attention(in[0], added); }, dtype);
  }
}

TEST_CASE("modules name their parameters in the order of declaration", "[nn]") {
  const nn::Block block(8, {.heads = 2, .bias = false});
  CHECK(names(block.named_parameters()) ==
        std::vector<std::string>{"ln1.weight", "attn.qkv.weight", "attn.proj.weight", "ln2.weight",
                                 "mlp.fc.weight", "mlp.proj.weight"});
  CHECK(block.num_parameters() == 8 + 3 * 64 + 64 + 8 + 2 * 4 * 64);
  const nn::Linear linear_layer(3, 2);
  CHECK(names(linear_layer.named_parameters()) == std::vector<std::string>{"weight", "bias"});
  CHECK(linear_layer.weight.requires_grad());
}

TEST_CASE("tied parameters are listed once, and copies of modules share them", "[nn]") {
  Pair pair;
  CHECK(names(pair.named_parameters()) ==
        std::vector<std::string>{"scale", "first.weight", "first.bias"});
  CHECK(names(pair.named_buffers()) == std::vector<std::string>{"offset"});
  CHECK(names(pair.state_dict()) ==
        std::vector<std::string>{"scale", "first.weight", "first.bias", "offset"});
  CHECK(pair.num_parameters() == 1 + 9 + 3);

  Pair copy = pair;
  copy.to(float64);  // seen by every handle
  CHECK(pair.second.weight.dtype() == float64);
  CHECK(pair.offset.dtype() == float64);
  CHECK(pair.first.weight.requires_grad());
  copy.load_state_dict({{"second.weight", full({3, 3}, 7, float64)}}, /*strict=*/false);
  CHECK(pair.first.weight.to_vector<double>() == std::vector<double>(9, 7.0));
}

TEST_CASE("a module's state is outside the graph, and no copy", "[nn]") {
  const nn::Linear layer(3, 2);
  const NamedTensors state = layer.state_dict();
  REQUIRE(state.size() == 2);
  for (const auto& [name, tensor] : state) {
    CAPTURE(name);
    CHECK_FALSE(tensor.requires_grad());
    tensor.fill_(7);  // in place, while gradients are recorded
  }
  CHECK(layer.weight.to_vector<float>() == std::vector<float>(6, 7.0f));
  CHECK(layer.bias.requires_grad());
}

TEST_CASE("a tied parameter may come under any of its names", "[nn]") {
  Pair pair;
  NamedTensors state = pair.state_dict();
  for (auto& [name, tensor] : state)
    if (name == "first.weight") name = "second.weight";
  pair.load_state_dict(state);
  state.emplace_back("first.weight", full({3, 3}, 2));
  pair.load_state_dict(state);
  CHECK(pair.second.weight.to_vector<float>() == std::vector<float>(9, 2.0f));
}

TEST_CASE("load_state_dict lists all that does not fit and changes nothing", "[nn]") {
  Pair pair;
  const Tensor before = pair.first.weight.detach().clone();
  const NamedTensors state{
      {"first.weight", full({3, 3}, 9)}, {"scale", ones({2})},  {"offset", zeros({3}, float64)},
      {"third.weight", ones({1})},       {"fourth", ones({1})}, {"fourth", ones({1})}};
  const std::string message = message_of([&] { pair.load_state_dict(state); });
  CHECK_THAT(message, Contains("load_state_dict:"));
  CHECK_THAT(message, Contains("missing: first.bias;"));
  CHECK_THAT(message, Contains("unexpected: third.weight, fourth, fourth;"));
  CHECK_THAT(message, Contains("given twice: fourth;"));
  CHECK_THAT(message, Contains("scale (expected float32 (1,), got float32 (2,))"));
  CHECK_THAT(message, Contains("offset (expected float32 (3,), got float64 (3,))"));
  CHECK(golden::same(pair.first.weight, before));

  CHECK_THROWS_WITH(pair.load_state_dict({{"scale", ones({2})}}, false),
                    Contains("scale (expected"));
  pair.load_state_dict({{"first.weight", full({3, 3}, 9)}, {"other", ones({1})}}, false);
  CHECK(pair.first.weight.to_vector<float>() == std::vector<float>(9, 9.0f));
}

TEST_CASE("a module refuses bad names and parameters", "[nn]") {
  struct Twice : nn::Module {
    Twice() { param("w", ones({1})), param("w", ones({1})); }
  };
  struct Dotted : nn::Module {
    Dotted() { param("a.b", ones({1})); }
  };
  struct Whole : nn::Module {
    Whole() { param("w", ones({1}, int64)); }
  };
  CHECK_THROWS_WITH(Twice(), "module: the name 'w' is registered twice");
  CHECK_THROWS_WITH(Dotted(), Contains("contains a dot"));
  CHECK_THROWS_WITH(Whole(), Contains("must be a floating-point leaf tensor"));
}

TEST_CASE("layers refuse bad sizes and options", "[nn]") {
  CHECK_THROWS_WITH(nn::Linear(0, 3), Contains("Linear: expected sizes > 0, got (3, 0)"));
  CHECK_THROWS_WITH(nn::Linear(ones({2, 3}), ones({3})),
                    Contains("expected bias of float32 (2,), got float32 (3,)"));
  CHECK_THROWS_WITH(nn::Embedding(-1, 3), Contains("Embedding: expected sizes > 0"));
  CHECK_THROWS_WITH(nn::LayerNorm(0), Contains("LayerNorm: expected sizes > 0, got (0,)"));
  CHECK_THROWS_WITH(nn::Dropout(1.5),
                    Contains("Dropout: expected a probability from 0 to 1, got 1.5"));
  CHECK_THROWS_WITH(nn::MultiHeadAttention(10, {.heads = 3}),
                    Contains("heads must divide dim: dim 10, heads 3"));
  CHECK_THROWS_WITH(nn::MultiHeadAttention(12, {.heads = 6, .kv_heads = 4}),
                    Contains("kv_heads must divide heads: heads 6, kv_heads 4"));
  CHECK_THROWS_AS(nn::Linear(3, 2)(ones({2, 4})), Error);
  CHECK_THROWS_AS(nn::Embedding(3, 2)(full({2}, 3, int64)), Error);
}

TEST_CASE("a block's options reach its layers", "[nn]") {
  const nn::Block block(8, {.heads = 4,
                            .kv_heads = 2,
                            .hidden = 12,
                            .activation = Activation::relu,
                            .causal = true,
                            .bias = false,
                            .dropout = 0.25,
                            .eps = 0.5});
  for (const nn::Norm& norm : {block.ln1, block.ln2}) {
    CHECK(norm.eps == 0.5);
    CHECK_FALSE(norm.bias.defined());
  }
  CHECK(block.attn.heads == 4);
  CHECK(block.attn.kv_heads == 2);
  CHECK(block.attn.causal);
  CHECK(block.mlp.activation == Activation::relu);
  CHECK(block.mlp.fc.weight.shape() == Shape{12, 8});
  for (const nn::Dropout& dropout : {block.attn.dropout, block.mlp.dropout})
    CHECK(dropout.p == 0.25);
  for (const nn::Linear& linear : {block.attn.qkv, block.attn.proj, block.mlp.fc, block.mlp.proj})
    CHECK_FALSE(linear.bias.defined());
}

TEST_CASE("layer norm's eps is added to the variance", "[nn]") {
  const Tensor x = tensor({1, -1, 1, -1});  // of variance 1
  CHECK(nn::LayerNorm(4, {.eps = 3})(x).to_vector<float>() ==
        std::vector<float>{0.5, -0.5, 0.5, -0.5});
}

TEST_CASE("dropout acts in training mode only", "[nn]") {
  manual_seed(5);
  const nn::Block block(8, {.heads = 2, .dropout = 0.5});
  const Tensor x = randn({2, 3, 8});
  CHECK(!golden::same(block(x), block(x)));
  const EvalMode eval;
  CHECK(golden::same(block(x), block(x)));
}

TEST_CASE("a module's gradients are cleared by zero_grad", "[nn]") {
  nn::Linear layer(3, 2);
  sum(layer(ones({4, 3}))).backward();
  CHECK(layer.weight.grad().defined());
  layer.zero_grad();
  CHECK(!layer.weight.grad().defined());
  CHECK(!layer.bias.grad().defined());
}

TEST_CASE("a module's gradients are cleared by a conversion", "[nn]") {
  nn::Linear layer(3, 2);
  sum(layer(ones({4, 3}))).backward();
  layer.to(float32);  // a no-op
  CHECK(layer.weight.grad().defined());
  layer.to(float64);
  CHECK_FALSE(layer.weight.grad().defined());
  sum(layer(ones({4, 3}, float64))).backward();
  CHECK(layer.weight.grad().to_vector<double>() == std::vector<double>(6, 4.0));
}

TEST_CASE("a module converted between forward and backward is noticed", "[nn]") {
  const auto refuses = [](auto& model, auto&& forward, std::initializer_list<Dtype> dtypes) {
    const Tensor loss = sum(forward());
    const NamedTensors before = model.named_parameters();
    for (Dtype dtype : dtypes) model.to(dtype);
    CHECK_THROWS_WITH(loss.backward(), Contains("changed") && Contains("of shape"));
    for (const auto& [name, p] : model.named_parameters()) CHECK(!p.grad().defined());
    for (size_t i = 0; i < before.size(); ++i)
      CHECK(model.named_parameters()[i].second.dtype() == *(dtypes.end() - 1));
    model.to(float32);
    sum(forward()).backward();  // a new pass works
    CHECK(model.parameters()[0].grad().dtype() == float32);
    model.zero_grad();
  };
  const Tensor x = ones({2, 4}).requires_grad_();
  nn::Linear linear(4, 3);
  nn::LayerNorm norm(4);
  nn::MLP mlp(4);
  nn::Block block(4, {.heads = 2});
  for (auto dtypes : {std::initializer_list<Dtype>{float64}, {float64, float32}}) {
    refuses(
        linear, [&] { return linear(x); }, dtypes);
    refuses(
        norm, [&] { return norm(x); }, dtypes);
    refuses(
        mlp, [&] { return mlp(x); }, dtypes);
    refuses(
        block, [&] { return block(x.unsqueeze(0)); }, dtypes);
    refuses(
        linear, [&] { return linear.weight * linear.weight; }, dtypes);
  }
}

TEST_CASE("a module converted between forward and backward gets no gradient of the old dtype",
          "[nn][converted]") {
  nn::Embedding table(5, 4);  // its rule reads no parameter
  const Tensor loss = sum(table(arange(3)));
  table.to(float64);
  CHECK_THROWS_AS(loss.backward(), Error);
  CHECK(!table.weight.grad().defined());
}

TEST_CASE("initialisers have their bounds and moments", "[nn]") {
  manual_seed(3);
  auto largest = [](const Tensor& x) { return max(abs(x)).item(); };
  auto deviation = [](const Tensor& x) { return std::sqrt(var(x, {}).item()); };
  const Shape shape{200, 300};
  const double linear_bound = 1 / std::sqrt(300.0), xavier_bound = std::sqrt(6.0 / 500);
  CHECK(largest(nn::init::kaiming_uniform(shape)) <= linear_bound);
  CHECK(largest(nn::init::kaiming_uniform(shape)) == Approx(linear_bound).epsilon(1e-3));
  CHECK(deviation(nn::init::kaiming_uniform(shape)) ==
        Approx(linear_bound / std::sqrt(3.0)).epsilon(0.02));
  CHECK(deviation(nn::init::kaiming_normal(shape)) == Approx(std::sqrt(2.0 / 300)).epsilon(0.02));
  CHECK(largest(nn::init::xavier_uniform(shape)) == Approx(xavier_bound).epsilon(1e-3));
  CHECK(deviation(nn::init::xavier_uniform(shape)) ==
        Approx(xavier_bound / std::sqrt(3.0)).epsilon(0.02));
  CHECK(largest(nn::init::xavier_uniform(shape, 3)) == Approx(3 * xavier_bound).epsilon(1e-3));
  CHECK(largest(nn::init::kaiming_uniform(shape, 0)) == Approx(std::sqrt(6.0 / 300)).epsilon(1e-3));
  CHECK(min(nn::init::kaiming_uniform(shape)).item() == Approx(-linear_bound).epsilon(1e-3));
  CHECK(deviation(nn::init::kaiming_normal(shape, 1)) ==
        Approx(std::sqrt(1.0 / 300)).epsilon(0.02));
  // A convolution's fans include its kernel: 40 * 5 * 3 in, 60 * 5 * 3 out.
  CHECK(deviation(nn::init::kaiming_normal({60, 40, 5, 3})) ==
        Approx(std::sqrt(2.0 / 600)).epsilon(0.02));
  CHECK(largest(nn::init::xavier_uniform({60, 40, 5, 3})) ==
        Approx(std::sqrt(6.0 / 1500)).epsilon(1e-3));
  const Tensor flat = nn::init::uniform(shape, -1, 4);
  CHECK(min(flat).item() == Approx(-1).margin(1e-3));
  CHECK(max(flat).item() == Approx(4).margin(1e-3));
  CHECK(mean(flat).item() == Approx(1.5).margin(0.03));
  CHECK(deviation(nn::init::xavier_normal(shape, 2)) ==
        Approx(2 * std::sqrt(2.0 / 500)).epsilon(0.02));
  CHECK(largest(nn::init::uniform_fan_in({5000}, 300)) == Approx(linear_bound).epsilon(1e-2));
  CHECK(largest(nn::init::kaiming_uniform({8, 4, 3, 3})) ==
        Approx(1 / std::sqrt(36.0)).epsilon(0.05));
  const Tensor n = nn::init::normal(shape, 3, 0.5);
  CHECK(mean(n).item() == Approx(3).margin(0.01));
  CHECK(deviation(n) == Approx(0.5).epsilon(0.02));
  const Tensor cut =
      nn::init::trunc_normal(shape, 0, 1, -1, 2);  // mean (phi(-1) - phi(2)) / (Phi(2) - Phi(-1))
  CHECK(min(cut).item() >= -1);
  CHECK(max(cut).item() <= 2);
  CHECK(mean(cut).item() == Approx(0.2296).margin(0.01));
  // 1 - (phi(-1) + 2 phi(2)) / (Phi(2) - Phi(-1)) - mean^2
  CHECK(var(cut, {}).item() == Approx(0.5196).margin(0.01));
  const Tensor moved = nn::init::trunc_normal(shape, 3, 2, 1, 7);  // the same, times 2, plus 3
  CHECK(mean(moved).item() == Approx(3.4592).margin(0.02));
  CHECK(min(moved).item() == Approx(1).margin(0.01));
  CHECK(max(moved).item() == Approx(7).margin(0.01));
  CHECK_THROWS_WITH(nn::init::kaiming_uniform({3}), Contains("expected at least 2 axes"));
  CHECK_THROWS_WITH(nn::init::normal({3}, 0, -1), Contains("standard deviation >= 0"));
  CHECK_THROWS_WITH(nn::init::trunc_normal({3}, 0, 1, 2, -2), Contains("low < high"));
}

TEST_CASE("a layer that is made while a folder is loaded draws nothing", "[nn]") {
  manual_seed(1);
  const RandomKey before = default_generator().state();
  bool has_run = false;
  {
    const internal::Loading loading(6 + 2 + 2 * 4);
    nn::Linear layer(3, 2);
    CHECK(layer.weight.to_vector<float>() == std::vector<float>(6, 0.0f));
    layer.initialise([&](const std::string&, const Tensor&) { has_run = true; });
    const nn::LayerNorm norm(4);
    CHECK(norm.weight.to_vector<float>() == std::vector<float>(4, 1.0f));
    CHECK_THROWS_WITH(nn::LayerNorm(1),
                      "LayerNorm: parameter 'weight': (1,) exceeds the 0 elements left in the "
                      "weights file");
  }
  CHECK_FALSE(has_run);
  CHECK(default_generator().state().counter == before.counter);
  nn::Linear layer(3, 2);
  CHECK(default_generator().state().counter != before.counter);
  std::string names;
  layer.initialise([&](const std::string& name, const Tensor& p) { p.fill_(3), names += name; });
  CHECK(names == "weightbias");
  CHECK(layer.bias.to_vector<float>() == std::vector<float>(2, 3.0f));
}

TEST_CASE("a parameter has the shape that was asked for", "[nn]") {
  struct Square : nn::Module {
    explicit Square(int64_t n) {
      param("w", {n, n}, [](const Shape&) { return ones({1}); });
    }
  };
  CHECK_THROWS_WITH(Square(2),
                    "Square: parameter 'w': expected an initialiser that returns (2, 2), "
                    "got (1,)");
  CHECK_THROWS_WITH(Square(0), "Square: expected sizes > 0, got (0, 0)");
}

TEST_CASE("positions", "[nn]") {
  const Tensor table = nn::sinusoidal_positions(4, 6);
  auto at = [&](int64_t t, int64_t i) { return table[t][i].item(); };
  CHECK(at(0, 0) == 0);
  CHECK(at(0, 1) == 1);
  CHECK(at(3, 0) == Approx(std::sin(3.0)));
  CHECK(at(3, 1) == Approx(std::cos(3.0)));
  CHECK(at(2, 4) == Approx(std::sin(2 / std::pow(1e4, 4.0 / 6))));
  CHECK(at(2, 5) == Approx(std::cos(2 / std::pow(1e4, 4.0 / 6))));

  nn::SinusoidalPositions fixed(4, 6);
  CHECK(golden::same(fixed(2, 1), table.slice(0, 1, 3)));
  CHECK(fixed.state_dict().empty());
  CHECK(names(fixed.named_buffers()) == std::vector<std::string>{"table"});
  fixed.to(float64);
  CHECK(fixed(1).dtype() == float64);

  const nn::LearnedPositions learned(4, 6);
  CHECK(golden::same(learned(3), learned.weight.slice(0, 0, 3)));
  CHECK_THROWS_WITH(learned(3, 2),
                    "LearnedPositions: 3 positions from 2 on do not fit a context of 4");
}

TEST_CASE("attention with a key/value cache equals attention over all", "[nn]") {
  manual_seed(4);
  const NoGrad no_grad;
  for (int64_t kv_heads : {4, 2, 1}) {
    const nn::MultiHeadAttention attention(16, {.heads = 4, .kv_heads = kv_heads, .causal = true});
    const Tensor x = randn({3, 7, 16});
    const Tensor full_pass = attention(x);
    nn::KeyValueCache cache = attention.make_cache(3, 7);
    int64_t begin = 0;
    for (int64_t end : {3, 4, 5, 7}) {
      const Tensor y = attention(x.slice(1, begin, end), cache);
      CHECK(golden::difference(y, full_pass.slice(1, begin, end)) < 1e-6);
      CHECK(cache.length() == end);
      begin = end;
    }
    CHECK_THROWS_WITH(attention(x.slice(1, 0, 1), cache),
                      Contains("7 + 1 tokens do not fit a capacity of 7"));
    cache.clear();
    CHECK(golden::difference(attention(x, cache), full_pass) < 1e-6);
  }
}

TEST_CASE("attention with a key/value cache drops what attention over all drops", "[nn]") {
  manual_seed(4);
  const NoGrad no_grad;
  const nn::MultiHeadAttention attention(16, {.heads = 4, .causal = true, .dropout = 0.5});
  const Tensor x = randn({2, 6, 16});
  nn::KeyValueCache cache = attention.make_cache(2, 6);
  manual_seed(9);
  const Tensor expected = attention(x);
  manual_seed(9);
  CHECK(golden::difference(attention(x, cache), expected) < 1e-6);
}

TEST_CASE("a key/value cache refuses what it cannot hold", "[nn]") {
  const nn::MultiHeadAttention causal(8, {.heads = 2, .causal = true}), both(8, {.heads = 2});
  nn::KeyValueCache cache = causal.make_cache(1, 4);
  const Tensor x = ones({1, 2, 8});
  CHECK_THROWS_WITH(causal(x, cache), Contains("under NoGrad"));
  const NoGrad no_grad;
  CHECK_THROWS_WITH(both(x, cache), Contains("only causal attention"));
  CHECK_THROWS_WITH(causal(ones({2, 2, 8}), cache),
                    Contains("KeyValueCache: expected keys and values"));
  CHECK_THROWS_WITH(nn::KeyValueCache(1, 2, 0, 4), Contains("KeyValueCache: expected sizes > 0"));
}
