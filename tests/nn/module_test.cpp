// Modules: names, state, conversion, and parameters while weights are loaded.

#include "gradus/nn/module.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

#include "gradus/core/core.h"
#include "gradus/core/ops/compression.h"
#include "gradus/nn/loading.h"
#include "gradus/nn/nn.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"

namespace module_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;
using gradus::testing::Values, gradus::testing::values;

namespace {

struct Pair : nn::Module {  // a module with a tied layer, a buffer and a parameter
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

}  // namespace

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

TEST_CASE("a module's state is outside the graph and shares its memory", "[nn]") {
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

TEST_CASE("a tied parameter can be loaded by any of its names", "[nn]") {
  Pair pair;
  NamedTensors state = pair.state_dict();
  for (auto& [name, tensor] : state)
    if (name == "first.weight") name = "second.weight";
  pair.load_state_dict(state);
  CHECK_THROWS_WITH(
      (state.emplace_back("first.weight", full({3, 3}, 2)), pair.load_state_dict(state)),
      "load_state_dict: second.weight and first.weight differ: expected one, tied");
  CHECK(pair.second.weight.to_vector<float>() != std::vector<float>(9, 2.0f));
  const Tensor nan = full({3, 3}, std::nan(""));
  Pair spoilt;
  CHECK_NOTHROW(spoilt.load_state_dict({{"first.weight", nan}, {"second.weight", nan.clone()}},
                                       /*strict=*/false));
  for (auto& [name, tensor] : state)
    if (name == "second.weight") tensor = full({3, 3}, 2);
  pair.load_state_dict(state);
  CHECK(pair.second.weight.to_vector<float>() == std::vector<float>(9, 2.0f));
  pair.to(int8);
  state = pair.state_dict();
  for (const float value : {2.0f, 4.0f}) {  // 4 has the same int8 elements, but another scale
    state.emplace_back("second.weight", full({3, 3}, value).to(int8));
    if (value == 2)
      pair.load_state_dict(state);
    else
      CHECK_THROWS_WITH(pair.load_state_dict(state), Contains("differ: expected one, tied"));
    state.pop_back();
  }
}

TEST_CASE("load_state_dict lists all mismatches and changes nothing", "[nn]") {
  Pair pair;
  const Tensor before = pair.first.weight.detach().clone();
  const NamedTensors state{
      {"first.weight", full({3, 3}, 9)}, {"scale", ones({2})},  {"offset", zeros({3}, float64)},
      {"third.weight", ones({1})},       {"fourth", ones({1})}, {"fourth", ones({1})}};
  const std::string message = gradus::testing::error_of([&] { pair.load_state_dict(state); });
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

TEST_CASE("a module refuses bad names, parameters and buffers", "[nn]") {
  struct Twice : nn::Module {
    Twice() { param("w", ones({1})), param("w", ones({1})); }
  };
  struct Dotted : nn::Module {
    Dotted() { param("a.b", ones({1})); }
  };
  struct Whole : nn::Module {
    Whole() { param("w", ones({1}, int64)); }
  };
  struct Trained : nn::Module {
    Trained() { buffer("b", ones({1}).requires_grad_()); }
  };
  struct Empty : nn::Module {
    Empty() { buffer("b", Tensor()); }
  };
  struct Lists : nn::Module {
    explicit Lists(bool list_first) {
      const auto list = [&] { children("net", 1, [](int64_t) { return nn::Linear(1, 1); }); };
      if (list_first) list();
      child("net", nn::Linear(1, 1));
      list();
    }
  };
  struct Marks : nn::Module {
    Marks(bool own, bool last) {
      const Tensor w = param("w", ones({1, 1})), v = last ? w : param("v", ones({1, 1}));
      if (last) hidden_weight(own ? w : ones({1, 1}));
      compressible(own ? w : ones({1, 1}));
    }
  };
  struct MarksBuffer : nn::Module {
    MarksBuffer() { hidden_weight(buffer("b", ones({1, 1}))); }
  };
  struct Nothing : nn::Module {
    Nothing() { compressible(ones({1})); }
  };
  CHECK_THROWS_WITH(Lists(false), "module: the name 'net.0' is taken by 'net'");
  CHECK_THROWS_WITH(Lists(true), "module: the name 'net' is taken by 'net.0'");
  CHECK_NOTHROW(Marks(true, true));
  CHECK_THROWS_WITH(Marks(false, true),
                    "module: hidden_weight: expected a parameter of this layer");
  CHECK_THROWS_WITH(MarksBuffer(), "module: hidden_weight: expected a parameter of this layer");
  const char* const not_last = "module: compressible: expected the parameter registered last";
  CHECK_THROWS_WITH(Marks(true, false), not_last);
  CHECK_THROWS_WITH(Marks(false, false), not_last);
  CHECK_THROWS_WITH(Nothing(), not_last);
  CHECK_THROWS_WITH(Twice(), "module: the name 'w' is taken by 'w'");
  CHECK_THROWS_WITH(Dotted(), Contains("contains a dot"));
  CHECK_THROWS_WITH(Whole(), Contains("must be a floating-point leaf tensor"));
  const char* const message = "module: buffer 'b' must be a tensor that requires no gradient";
  CHECK_THROWS_WITH(Trained(), message);
  CHECK_THROWS_WITH(Empty(), message);
}

TEST_CASE("a module copies expanded buffers, so that it can load its own state", "[nn]") {
  struct Net : nn::Module {
    nn::Linear linear;
    const Tensor mask, turned;
    explicit Net(const Tensor& shared)
        : linear(child("linear", nn::Linear(2, 2))),
          mask(buffer("mask", ones({1, 3}).expand({2, 3}))),
          turned(buffer("turned", shared.mT())) {}
  };
  const Tensor shared = zeros({3, 2});
  Net net(shared);
  net.load_state_dict(net.state_dict());
  net.load_state_dict({{"linear.weight", full({2, 2}, 7)},
                       {"linear.bias", full({2}, 7)},
                       {"mask", full({2, 3}, 5)},
                       {"turned", full({2, 3}, 4)}});
  CHECK(values(net.linear.weight) == Values(4, 7));
  CHECK(values(net.mask) == Values(6, 5));
  CHECK(values(shared) == Values(6, 4));  // other views still share their memory
}

TEST_CASE("a refused parameter is unchanged", "[nn]") {
  struct Net : nn::Module {
    explicit Net(const Tensor& value) { param("w", ones({1})), param("w", value); }
  };
  struct Wide : nn::Module {
    explicit Wide(const Tensor& value) { param("w", value); }
  };
  const Tensor value = ones({1}), wide = value.expand({2}), weight = ones({2, 3});
  CHECK_THROWS_WITH(Net(value), "module: the name 'w' is taken by 'w'");
  CHECK_THROWS_WITH(Wide(wide),
                    "module: parameter 'w' must be a floating-point leaf tensor, not expanded");
  for (const Tensor& bias : {wide, ones({2}).requires_grad_() * 2})
    CHECK_THROWS_WITH(nn::Linear(weight, bias), "Linear: the bias must be a leaf, not expanded");
  CHECK_THROWS_WITH(nn::Linear(weight, ones({3})), Contains("Linear: expected bias"));
  for (const Tensor& x : {value, wide, weight}) CHECK_FALSE(x.requires_grad());
}

TEST_CASE("a module refuses marks of a weight's rows and of a matrix for LoRA that are wrong",
          "[nn]") {
  CHECK_NOTHROW(nn::Linear(4, 4, {.rows = {3, 1}}));
  CHECK_THROWS_WITH(nn::Linear(4, 4, {.rows = {3, 3}}),
                    "module: hidden_weight: expected rows that add up to 4, got 6");
  CHECK_THROWS_AS(nn::Linear(4, 4, {.rows = {INT64_MAX, INT64_MAX}}), Error);
  struct Net : nn::Module {
    explicit Net(const Shape& shape) {
      child("norm", nn::LayerNorm(2));
      param("scale", ones({2}));
      adaptable(param("matrix", ones(shape)));
    }
  };
  struct Empty : nn::Module {
    Empty() { adaptable(ones({2, 2})); }
  };
  const char* const message = "module: adaptable: expected a parameter of this layer, a matrix";
  CHECK_NOTHROW(Net({2, 2}));
  CHECK_THROWS_WITH(Net({2}), message);
  CHECK_THROWS_WITH(Empty(), message);
}

TEST_CASE("a module's gradients are cleared by zero_grad", "[nn]") {
  nn::Linear layer(3, 2);
  sum(layer(ones({4, 3}))).backward();
  CHECK(layer.weight.grad().defined());
  layer.zero_grad();
  CHECK(!layer.weight.grad().defined());
  CHECK(!layer.bias.grad().defined());
}

TEST_CASE("a module's gradients are cleared by freezing, not by unfreezing", "[nn]") {
  nn::Linear layer(3, 2);
  sum(layer(ones({4, 3}))).backward();
  layer.requires_grad_();
  CHECK(layer.weight.grad().to_vector<float>() == std::vector<float>(6, 4.0f));
  layer.requires_grad_(false);
  for (const Tensor& p : layer.parameters()) {
    CHECK_FALSE(p.requires_grad());
    CHECK_FALSE(p.grad().defined());
  }
}

TEST_CASE("a module's gradients are cleared by a conversion", "[nn]") {
  nn::Linear layer(3, 2);
  sum(layer(ones({4, 3}))).backward();
  layer.to(float32);  // no change of dtype
  CHECK(layer.weight.grad().defined());
  layer.to(float64);
  CHECK_FALSE(layer.weight.grad().defined());
  sum(layer(ones({4, 3}, float64))).backward();
  CHECK(layer.weight.grad().to_vector<double>() == std::vector<double>(6, 4.0));
}

TEST_CASE("converting a module between forward and backward is an error", "[nn][fused]") {
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

TEST_CASE("a module converted between forward and backward gets no gradient in the old dtype",
          "[nn][converted]") {
  nn::Embedding table(5, 4);  // its backward rule reads no parameter
  const Tensor loss = sum(table(arange(3)));
  table.to(float64);
  CHECK_THROWS_AS(loss.backward(), Error);
  CHECK(!table.weight.grad().defined());
}

TEST_CASE("a layer created while a folder is loaded draws no random numbers", "[nn]") {
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

TEST_CASE("loading: a nested scope counts on its own, and other threads draw weights", "[nn]") {
  const internal::Loading outer(4);
  {
    const internal::Loading inner(3);
    CHECK_THROWS_WITH(nn::LayerNorm(2), Contains("'bias': (2,) exceeds the 1 elements left"));
  }
  CHECK_NOTHROW(nn::LayerNorm(2));
  CHECK_THROWS_WITH(nn::LayerNorm(1), Contains("exceeds the 0 elements left"));
  const internal::Loading plenty(8);
  double largest = 0;
  std::thread([&] { largest = max(abs(nn::Linear(3, 2).weight)).item(); }).join();
  CHECK(largest > 0);
}

TEST_CASE("a parameter has the requested shape", "[nn]") {
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

TEST_CASE("to() compresses what only linear layers and embeddings read", "[nn][compression]") {
  struct Net : nn::Module {
    nn::Embedding words;
    nn::Linear head, out;
    nn::LSTM rnn;
    nn::LayerNorm norm;
    Net()
        : words(child("words", nn::Embedding(50, 8))),
          head(child("head", nn::Linear(words.weight))),
          out(child("out", nn::Linear(8, 8))),
          rnn(child("rnn", nn::LSTM(8, 8))),
          norm(child("norm", nn::LayerNorm(8))) {}
  };
  const Dtype dtype = GENERATE(bfloat16, int8);
  manual_seed(1);
  Net net;
  const NamedTensors before = net.named_parameters();
  const Tensor words = net.words.weight.to(dtype).to(float32);
  net.to(dtype);
  for (const auto& [name, tensor] : net.named_parameters()) {
    CAPTURE(name);
    const bool compressed = name == "words.weight" || name == "out.weight";
    CHECK(tensor.dtype() == (compressed ? dtype : float32));
    CHECK(tensor.requires_grad() == !compressed);
  }
  CHECK(golden::same(net.head.weight.to(float32), words));  // still tied
  CHECK(net.head.dtype() == float32);
  CHECK(net.words(from_data<int64_t>({3}, {1})).dtype() == float32);
  CHECK_THROWS_WITH(net.requires_grad_(),
                    Contains("'words.weight' is ") && Contains("which has no gradient"));
  net.to(float32);
  CHECK(golden::same(net.head.weight, words));
  CHECK(net.num_parameters() == Net().num_parameters());
}

TEST_CASE("to() and hidden_matrices() heed a weight's registration without marks", "[nn]") {
  struct Net : nn::Module {
    const Tensor ids;
    nn::Linear linear;
    const Tensor again;
    Net()
        : ids(buffer("ids", arange(3))),
          linear(child("linear", nn::Linear(32, 8))),
          again(param("again", linear.weight)) {}
  };
  Net net;
  CHECK(net.linear.hidden_matrices().size() == 1);
  CHECK(net.hidden_matrices().empty());
  net.to(int8);
  CHECK((net.linear.weight.dtype() == float32 && net.again.requires_grad()));
  net.to(float64);
  CHECK(net.linear.weight.dtype() == float64);
  CHECK(net.ids.dtype() == int64);  // a buffer of integers stays one
}

TEST_CASE("requires_grad_() refuses a compressed parameter, with nothing changed", "[nn]") {
  nn::Sequential net{nn::LayerNorm(32), nn::Linear(32, 8)};
  net.to(int8);
  net.requires_grad_(false);
  CHECK_THROWS_WITH(net.requires_grad_(), Contains("'1.weight' is int8, which has no gradient"));
  for (const Tensor& p : net.parameters()) CHECK_FALSE(p.requires_grad());
}

TEST_CASE("to() names the parameter that cannot be compressed, and changes nothing", "[nn]") {
  nn::Sequential net{nn::Linear(2, 3), nn::Linear(3, 2)};
  const NoGrad no_grad;
  net.parameters()[2][1][1].fill_(std::nan(""));
  CHECK_THROWS_WITH(net.to(int8), Contains("module.to: '1.weight': to: int8: expected finite"));
  CHECK(net.parameters()[0].dtype() == float32);
  net.to(float64);
  CHECK_THROWS_WITH(net.to(bfloat16), Contains("'0.weight': to: only float32 converts"));
  CHECK_THROWS_WITH(net.to(int64), Contains("expected float32, float64, bfloat16 or int8"));
}

TEST_CASE("a conversion in place keeps the values of views, and changes nothing on an error",
          "[nn][compression]") {
  const Tensor base = arange(0, 12, 1, float32).reshape({3, 4});
  const Tensor column = base.slice(1, 1, 3), turned = base.mT();
  internal::convert_in_place("to", {{"column", column}, {"turned", turned}}, float64);
  CHECK(column.dtype() == float64);
  CHECK(values(column) == Values{1, 2, 5, 6, 9, 10});
  CHECK(values(turned) == Values{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  CHECK(base.dtype() == float32);

  const Tensor good = ones({2, 3}), bad = full({2, 3}, INFINITY);
  CHECK_THROWS_WITH(internal::convert_in_place("to", {{"good", good}, {"bad", bad}}, int8),
                    Contains("to: 'bad': to: int8: expected finite elements"));
  CHECK(good.dtype() == float32);
  CHECK(values(good) == Values(6, 1));
}

TEST_CASE("parts of a compressed linear layer's output", "[nn][compression]") {
  const Dtype dtype = GENERATE(bfloat16, int8);
  manual_seed(2);
  nn::Linear layer(40, 9);
  layer.to(dtype);
  const Tensor x = randn({3, 40});
  CHECK(gradus::testing::difference(layer.rows(x, 2, 7), layer(x).slice(1, 2, 7)) < 1e-6);
}

}  // namespace module_test
