// Cross-attention, transformer blocks and the Transformer against PyTorch; decoding.

#include "gradus/models/transformer.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/core.h"
#include "gradus/models/folder/model_folder.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

namespace transformer_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

using Call = std::function<Tensor(const std::vector<Tensor>&)>;

/// Checks a module's output and all gradients against a case of transformer.safetensors, in both
/// dtypes.
void compare(const std::string& name, nn::Module& module, const Call& call,
             double of_float64 = 1e-9) {
  static const golden::File file("transformer");
  for (const Dtype dtype : {float64, float32}) {
    const double tolerance = dtype == float64 ? of_float64 : 1e-4;
    CAPTURE(name, dtype);
    module.to(dtype);
    module.load_state_dict(file.with_prefix(name + ".param.", dtype), /*strict=*/false);
    module.zero_grad();
    std::vector<Tensor> inputs;
    for (int i = 0; file.has(name + ".in." + std::to_string(i)); ++i)
      inputs.push_back(file.get(name + ".in." + std::to_string(i), dtype).requires_grad_());
    const Tensor y = call(inputs);
    CHECK(golden::difference(y, file.get(name + ".out")) < tolerance);
    y.backward(file.get(name + ".dout", dtype));
    size_t compared = 0;
    for (const auto& [parameter, tensor] : module.named_parameters()) {
      if (!file.has(name + ".grad." + parameter)) continue;
      CAPTURE(parameter);
      CHECK(golden::difference(tensor.grad(), file.get(name + ".grad." + parameter)) < tolerance);
      ++compared;
    }
    CHECK(compared == file.with_prefix(name + ".grad.").size());
    for (size_t i = 0; i < inputs.size(); ++i)
      CHECK(golden::difference(inputs[i].grad(), file.get(name + ".din." + std::to_string(i))) <
            tolerance);
  }
}

/// The generator's padding mask (B, 1, 1, S), true for source tokens that are not padding.
Tensor keep() { return nn::padding_mask(from_data<int64_t>({5, 3}, {2}), 2, 5); }

const models::TransformerConfig small{.source_vocab = 11,
                                      .target_vocab = 13,
                                      .context = 12,
                                      .layers = 2,
                                      .heads = 2,
                                      .dim = 8,
                                      .dropout = 0};

}  // namespace

TEST_CASE("cross-attention equals PyTorch's, outputs and gradients", "[transformer][golden]") {
  nn::MultiHeadAttention attention(8, {.heads = 2});
  compare("cross", attention, [&](auto& in) { return attention.cross(in[0], in[1]); });
  compare("cross_masked", attention,
          [&](auto& in) { return attention.cross(in[0], in[1], keep()); });
}

TEST_CASE("encoder and decoder blocks equal PyTorch's, pre-norm and post-norm",
          "[transformer][golden]") {
  for (const auto& [name, activation] :
       {std::pair{"relu", Activation::relu}, std::pair{"gelu", Activation::gelu}}) {
    const nn::BlockOptions norm_first{.heads = 2, .hidden = 24, .activation = activation};
    nn::BlockOptions norm_last = norm_first;
    norm_last.norm_first = false;
    nn::Block pre(8, norm_first), post(8, norm_last);
    compare(std::string("encoder_pre_") + name, pre, [&](auto& in) { return pre(in[0], keep()); });
    compare(std::string("encoder_post_") + name, post,
            [&](auto& in) { return post(in[0], keep()); });
    nn::DecoderBlock pre_decoder(8, norm_first), post_decoder(8, norm_last);
    auto with = [](const auto& block) {
      return
          [&block](auto& in) { return block(in[0], block.cross.keys_and_values(in[1]), keep()); };
    };
    compare(std::string("decoder_pre_") + name, pre_decoder, with(pre_decoder));
    compare(std::string("decoder_post_") + name, post_decoder, with(post_decoder));
  }
}

TEST_CASE("the LLaMA and Mistral blocks equal their formulas in PyTorch, outputs and gradients",
          "[transformer][golden]") {
  nn::Block block = nn::llama_block(16, {.heads = 4, .kv_heads = 2, .hidden = 24, .context = 9});
  compare(
      "llama", block, [&](auto& in) { return block(in[0]); },
      1e-7);  // positions are float32
  nn::Block windowed =
      nn::llama_block(16, {.heads = 4, .kv_heads = 2, .hidden = 24, .context = 9, .window = 3});
  compare(
      "mistral", windowed, [&](auto& in) { return windowed(in[0]); }, 1e-7);
}

TEST_CASE("the Transformer's stacks equal nn.Transformer's, outputs and gradients",
          "[transformer][golden]") {
  for (const bool pre_norm : {false, true}) {
    models::TransformerConfig config = small;
    config.hidden = 24, config.pre_norm = pre_norm;
    models::Transformer model(config);
    compare(pre_norm ? "transformer_pre" : "transformer_post", model,
            [&](auto& in) { return model.decode(in[1], model.encode(in[0], keep()), keep()); });
  }
}

TEST_CASE("Transformer: dropout draws for the source, then for the target, on any compiler",
          "[transformer]") {
  models::TransformerConfig config = small;
  config.dropout = 0.5;
  manual_seed(1);
  const models::Transformer model(config);
  const Tensor source = randint(0, 11, {2, 5}), target = randint(0, 13, {2, 4});
  const auto embed = [&](const nn::Embedding& embedding, const Tensor& ids) {
    return model.dropout(embedding(ids) * std::sqrt(static_cast<double>(config.dim)) +
                         model.positions(ids.size(1), 0));
  };
  manual_seed(2);
  const Tensor memory = model.encode(embed(model.source_embedding, source), {});
  const Tensor y = model.head(model.decode(embed(model.target_embedding, target), memory, {}));
  manual_seed(2);
  CHECK(difference(model(source, {}, target), y) == 0);
}

TEST_CASE("Transformer: every option reaches the blocks of encoder and decoder", "[transformer]") {
  models::TransformerConfig config = small;
  config.hidden = 24, config.dropout = 0.25, config.activation = Activation::gelu_tanh;
  config.pre_norm = true;
  const models::Transformer model(config);
  CHECK(model.dropout.p == 0.25);
  const auto check_parts = [](const auto& block) {
    CHECK(block.norm_first);
    CHECK(block.attn.heads == 2);
    CHECK(block.attn.dropout.p == 0.25);
    CHECK(block.mlp.fc.weight.shape() == Shape{24, 8});
    CHECK(block.mlp.activation == Activation::gelu_tanh);
    CHECK(block.mlp.dropout.p == 0.25);
    CHECK(block.mlp.hidden_dropout.p == 0.25);
  };
  for (const nn::Block& block : model.encoder) check_parts(block);
  for (const nn::DecoderBlock& block : model.decoder_blocks) {
    check_parts(block);
    CHECK(block.cross.heads == 2);
    CHECK(block.cross.dropout.p == 0.25);
  }
}

TEST_CASE("Transformer: an alignment is the mean over heads of the last block's cross-attention",
          "[transformer]") {
  manual_seed(6);
  const models::Transformer model(small);
  const Tensor source = randint(0, 11, {2, 5}), target = randint(0, 13, {2, 4});
  const Tensor alignment = model.alignment(source, {}, target);
  const AttentionTrace trace;
  model(source, {}, target);
  REQUIRE(trace.weights().size() == 6);  // two encoder blocks, two each in two decoder blocks
  const Tensor heads = trace.weights()[5];
  CHECK(difference(alignment, (heads.select(1, 0) + heads.select(1, 1)) / 2.0) < 1e-6);
}

TEST_CASE("Transformer: initial weights follow Xavier's bound, embeddings a normal distribution",
          "[transformer]") {
  manual_seed(1);
  const models::Transformer model(
      {.source_vocab = 500, .target_vocab = 400, .layers = 1, .heads = 2, .dim = 64});
  const auto largest = [](const Tensor& x) { return max(abs(x.detach())).item(); };
  for (const auto& [name, p] : model.named_parameters()) {
    CAPTURE(name);
    if (name.ends_with("embedding.weight")) {
      CHECK(std_dev(p.detach()).item() == Approx(1 / std::sqrt(64.0)).epsilon(0.02));
    } else if (p.rank() == 2) {
      const double bound = std::sqrt(6.0 / static_cast<double>(p.size(0) + p.size(1)));
      CHECK(largest(p) <= bound);
      CHECK(largest(p) > 0.98 * bound);
    } else if (name.ends_with(".bias")) {
      CHECK(largest(p) == 0);
    }
  }
}

TEST_CASE("Transformer: a decoder that was moved away has no room", "[transformer]") {
  const NoGrad no_grad;
  const models::Transformer model(small);
  models::TransformerDecoder decoder = model.decoder(zeros({2, 3}, int64), {});
  const models::TransformerDecoder moved = std::move(decoder);
  CHECK(moved.room() == 12);
  CHECK(decoder.room() == 0);
}

TEST_CASE("Transformer: a saved model loads unchanged, and bad arguments throw", "[transformer]") {
  manual_seed(5);
  for (const auto& [tie, shared] : {std::pair{true, false}, std::pair{false, false}}) {
    models::TransformerConfig config = small;
    config.tie = tie, config.shared_vocab = shared;
    TemporaryFolder folder;
    const models::Transformer model(config);
    CHECK(model.head.bias.defined() == !tie);
    models::save_model(folder.path.string(), model);
    const auto loaded = models::load_model<models::Transformer>(folder.path.string());
    const Tensor source = randint(0, 11, {1, 4}), target = randint(0, 13, {1, 3});
    CHECK(golden::same(model(source, {}, target).detach(), loaded(source, {}, target).detach()));
  }
  const models::Transformer shared({.source_vocab = 5, .target_vocab = 5, .shared_vocab = true});
  CHECK(shared.head.weight.data<float>() == shared.source_embedding.weight.data<float>());
  const models::Transformer model(small);
  const Tensor ids = zeros({2, 3}, int64);
  const auto lengths = [](std::vector<int64_t> n) { return from_data(n, {std::ssize(n)}); };
  CHECK_THROWS_WITH(model(ids, lengths({3}), ids), Contains("expected lengths of int64 (2,)"));
  CHECK_THROWS_WITH(model(ids, lengths({0, 3}), ids), Contains("lengths from 1 to 3, got 0"));
  CHECK_THROWS_WITH(model(ids, lengths({4, 3}), ids), Contains("lengths from 1 to 3, got 4"));
  CHECK_THROWS_WITH(model(zeros({3, 3}, int64), {}, ids), Contains("3 sources, 2 targets"));
  CHECK_THROWS_WITH(model(zeros({2, 13}, int64), {}, ids), Contains("13 tokens do not fit"));
  CHECK_THROWS_WITH(model(ids.to(float32), {}, ids),
                    Contains("expected source ids (B, T) of int64"));
  CHECK_THROWS_WITH(model(full({2, 3}, 11, int64), {}, ids), Contains("embedding"));
  CHECK_THROWS_WITH(model.decoder(ids, {}), Contains("NoGrad"));
  CHECK_THROWS_WITH(
      models::Transformer({.source_vocab = 2, .target_vocab = 3, .shared_vocab = true}),
      Contains("shared_vocab needs vocabularies of one size"));
  CHECK_THROWS_WITH(models::Transformer({.source_vocab = 2, .target_vocab = 3, .heads = 5}),
                    Contains("heads must divide dim"));
  CHECK_THROWS_WITH(models::Transformer({}), Contains("source_vocab: expected"));
}

}  // namespace transformer_test
