// Layers against PyTorch, their options and errors.

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/core.h"
#include "gradus/nn/nn.h"
#include "tests/golden/golden.h"

namespace layers_test {

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
                            .eps = 0.5,
                            .window = 3});
  for (const nn::Norm& norm : {block.ln1, block.ln2}) {
    CHECK(norm.eps == 0.5);
    CHECK_FALSE(norm.bias.defined());
  }
  CHECK(block.attn.heads == 4);
  CHECK(block.attn.kv_heads == 2);
  CHECK(block.attn.causal);
  CHECK(block.attn.window == 3);
  const nn::DecoderBlock decoder(8, {.heads = 4, .window = 3});
  CHECK((decoder.attn.window == 3 && decoder.cross.window == 0));
  CHECK_THROWS_WITH(nn::Block(8, {.window = 3}),
                    Contains("expected window >= 0, and 0 unless causal, got 3"));
  CHECK(block.mlp.activation == Activation::relu);
  CHECK(block.mlp.fc.weight.shape() == Shape{12, 8});
  for (const nn::Dropout& dropout : {block.attn.dropout, block.mlp.dropout})
    CHECK(dropout.p == 0.25);
  for (const nn::Linear& linear : {block.attn.qkv, block.attn.proj, block.mlp.fc, block.mlp.proj})
    CHECK_FALSE(linear.bias.defined());
}

TEST_CASE("a Llama block's options reach its layers", "[nn]") {
  const nn::Block block = nn::llama_block(24, {.heads = 2, .dropout = 0.25});
  CHECK(block.attn.positions.shape() == Shape{1024, 12});
  CHECK(block.mlp.fc.weight.shape() == Shape{2 * 64, 24});  // 64 = 8/3 24
  for (const nn::Dropout& dropout : {block.attn.dropout, block.mlp.dropout})
    CHECK(dropout.p == 0.25);
}

TEST_CASE("layer norm's eps is added to the variance", "[nn]") {
  const Tensor x = tensor({1, -1, 1, -1});  // its variance is 1
  CHECK(nn::LayerNorm(4, {.eps = 3})(x).to_vector<float>() ==
        std::vector<float>{0.5, -0.5, 0.5, -0.5});
}

TEST_CASE("SwiGLU: its formula, without dropout unless asked for", "[nn]") {
  manual_seed(6);
  const nn::SwiGLU layer(4, {.hidden = 3});
  const Tensor x = randn({5, 4}), h = matmul(x, layer.fc.weight.mT());
  const Tensor a = h.slice(1, 0, 3), b = h.slice(1, 3);
  const Tensor expected = matmul(a * sigmoid(a) * b, layer.proj.weight.mT());
  CHECK(golden::difference(layer(x), expected) < 1e-5);
  CHECK(nn::SwiGLU(4, {.bias = true}).proj.bias.defined());
  CHECK(nn::SwiGLU(4, {.dropout = 0.25}).dropout.p == 0.25);
  CHECK(nn::Dropout().p == 0.5);
}

TEST_CASE("attention with one head: the parameters of each score", "[nn][attention]") {
  const auto names = [](nn::Score score) {
    std::string all;
    for (const auto& [name, p] : nn::Attention(score, 4, 4).named_parameters()) all += name + ' ';
    return all;
  };
  CHECK(names(nn::Score::dot).empty());
  CHECK(names(nn::Score::scaled_dot).empty());
  CHECK(names(nn::Score::bilinear) == "w ");
  CHECK(names(nn::Score::additive) ==
        "v query.weight query.bias key.weight ");  // one bias is enough
  const nn::Attention additive(nn::Score::additive, 4, 5, 7);
  CHECK(additive.query->weight.shape() == Shape{7, 4});
  CHECK(additive.key->weight.shape() == Shape{7, 5});
  CHECK(additive.v.shape() == Shape{1, 7});
  CHECK(nn::Attention(nn::Score::additive, 4, 5).v.shape() == Shape{1, 4});
}

TEST_CASE("RMS norms: 1e-6 is added by default, and there is no bias", "[nn]") {
  CHECK(nn::RMSNorm(2)(full({2}, 1e-3))[0].item() == Approx(std::sqrt(0.5)));  // 1e-3 / sqrt(2e-6)
  const nn::MultiHeadAttention attention(8, {.heads = 2, .qk_norm = true});
  CHECK((attention.q_norm->eps == 1e-6 && attention.k_norm->eps == 1e-6));
  CHECK(nn::Norm(nn::NormKind::rms, 3, 1e-6, /*bias=*/true).parameters().size() == 1);
}

TEST_CASE("dropout acts in training mode only", "[nn]") {
  manual_seed(5);
  const nn::Block block(8, {.heads = 2, .dropout = 0.5});
  const Tensor x = randn({2, 3, 8});
  CHECK(!golden::same(block(x), block(x)));
  const EvalMode eval;
  CHECK(golden::same(block(x), block(x)));
}

TEST_CASE("sinusoidal positions follow their formula, and learned ones are rows of a table",
          "[nn]") {
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
  REQUIRE(fixed.named_buffers().size() == 1);
  CHECK(fixed.named_buffers()[0].first == "table");
  const Tensor exact = nn::sinusoidal_positions(4, 6, float64);
  CHECK(exact[3][0].item() == std::sin(3.0));
  CHECK(exact[2][5].item() == std::cos(2 / std::pow(1e4, 4.0 / 6)));
  nn::MultiHeadAttention rotary(12, {.heads = 2, .rotary = 4});
  rotary.to(float64);
  CHECK(rotary.positions.to_vector<double>() == exact.to_vector<double>());
  fixed.to(float64);
  CHECK(fixed(4).to_vector<double>() == exact.to_vector<double>());
  fixed.to(float32);
  CHECK(golden::same(fixed(4), table));
  fixed.table.zero_();  // without a change of dtype it is not computed anew
  fixed.to(bfloat16);
  fixed.to(float32);
  CHECK(norm(fixed(4)).item() == 0);

  const nn::LearnedPositions learned(4, 6);
  CHECK(golden::same(learned(3), learned.weight.slice(0, 0, 3)));
  CHECK_THROWS_WITH(learned(3, 2),
                    "LearnedPositions: 3 positions from 2 on do not fit a context of 4");
}

}  // namespace layers_test
