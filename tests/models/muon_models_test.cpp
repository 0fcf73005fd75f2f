// Muon for a module: its hidden matrices, and AdamW for the rest.

#include <catch2/catch.hpp>
#include <set>

#include "gradus/models/models.h"
#include "gradus/nn/nn.h"
#include "gradus/optim/muon.h"
#include "tests/golden/golden.h"

namespace muon_models_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

TEST_CASE("hidden_matrices: blocks, not embeddings, heads, norms or biases", "[optim][muon]") {
  auto names_of = [](const nn::Module& module) {
    std::vector<std::string> names;
    for (const StackedMatrices& matrices : module.hidden_matrices())
      for (const auto& [name, p] : module.named_parameters())
        if (&p.impl() == &matrices.param.impl()) names.push_back(name);
    return names;
  };
  const std::vector<std::string> blocks{"blocks.0.attn.qkv.weight", "blocks.0.attn.proj.weight",
                                        "blocks.0.mlp.fc.weight", "blocks.0.mlp.proj.weight"};
  for (const bool tie : {true, false}) {
    const models::GPT gpt({.vocab = 11,
                           .layers = 1,
                           .heads = 2,
                           .dim = 8,
                           .bias = true,
                           .tie = tie,
                           .gated = true,
                           .kv_heads = 1});
    CHECK(names_of(gpt) == blocks);
    const auto matrices = gpt.hidden_matrices();
    CHECK(matrices[0].rows == std::vector<int64_t>{8, 4, 4});  // queries, keys, values
    CHECK(matrices[0].heads == std::vector<int64_t>{2, 1, 1});
    CHECK(matrices[1].rows.empty());
    CHECK(matrices[1].heads.empty());
    const int64_t hidden = nn::SwiGLU::hidden_size(8);
    CHECK(matrices[2].rows == std::vector<int64_t>{hidden, hidden});
  }
  const models::ViT vit(
      {.image = 8, .channels = 1, .patch = 4, .classes = 3, .layers = 1, .heads = 2, .dim = 8});
  CHECK(names_of(vit) == blocks);  // neither patches nor head
  const nn::LSTM lstm(3, 5);
  CHECK(names_of(lstm) == std::vector<std::string>{"weight_ih_l0", "weight_hh_l0"});
  CHECK(lstm.hidden_matrices()[1].rows == std::vector<int64_t>{5, 5, 5, 5});
  const nn::Conv2d inner(2, 4, 3), first(1, 4, 3, {.hidden = false});
  CHECK(names_of(inner) == std::vector<std::string>{"weight"});
  CHECK(first.hidden_matrices().empty());
}

namespace {
/// The names of the parameters of rank >= 2 that are no hidden matrices.
std::string left_to_adamw(const nn::Module& module) {
  std::set<const TensorImpl*> hidden;
  for (const StackedMatrices& m : module.hidden_matrices()) hidden.insert(&m.param.impl());
  std::string names;
  for (const auto& [name, p] : module.named_parameters())
    if (p.rank() >= 2 && !hidden.contains(&p.impl())) names += name + ' ';
  return names;
}
}  // namespace

TEST_CASE("hidden_matrices: each model's embeddings, first convolutions and outputs are none",
          "[optim][muon]") {
  const models::ViTConfig images{
      .image = 8, .patch = 4, .classes = 0, .layers = 1, .heads = 2, .dim = 8};
  const models::BertConfig text{.vocab = 9, .context = 8, .layers = 1, .heads = 2, .dim = 8};
  const std::string translator = "source_embedding.weight target_embedding.weight ";
  CHECK(left_to_adamw(models::Transformer({.source_vocab = 9,
                                           .target_vocab = 8,
                                           .layers = 1,
                                           .heads = 2,
                                           .dim = 8,
                                           .tie = false})) == translator + "head.weight ");
  CHECK(left_to_adamw(models::RNNTranslator({.source_vocab = 9, .target_vocab = 8, .dim = 4})) ==
        translator + "attention.v head.weight ");
  CHECK(left_to_adamw(models::Bert(text)) ==
        "words.weight positions.weight segments.weight next.weight ");
  CHECK(left_to_adamw(models::BertClassifier({.bert = text, .classes = 3})) ==
        "bert.words.weight bert.positions.weight bert.segments.weight bert.next.weight "
        "head.weight ");
  const std::string encoder = "encoder.patch.weight encoder.class_token encoder.positions ";
  CHECK(left_to_adamw(models::MAE({.encoder = images})) ==
        encoder + "mask_token decoder_positions decoder_head.weight ");
  CHECK(left_to_adamw(models::SimCLR<models::ViT>({.encoder = images})) ==
        encoder + "head.out.weight ");
  CHECK(left_to_adamw(models::CLIP({.image = images, .vocab = 9})) ==
        "image.patch.weight image.class_token image.positions text.tokens.weight text.positions "
        "image_projection.weight text_projection.weight ");
  CHECK(left_to_adamw(models::Captioner({.vocab = 9})) ==
        "convolutions.0.weight words.weight attention.v head.weight ");
  CHECK(left_to_adamw(models::CNNAttention({.image = 8})) == "conv1.weight head.weight ");
}

TEST_CASE("muon_and_adamw trains every parameter of a module once", "[optim][muon]") {
  manual_seed(3);
  const models::GPT gpt({.vocab = 11, .context = 6, .layers = 2, .heads = 2, .dim = 8});
  const auto optimizer = optim::muon_and_adamw(gpt.parameters(), gpt.hidden_matrices());
  CHECK(optimizer->parameters().size() == gpt.parameters().size());
  CHECK(optimizer->lr() == 3e-3);
  std::vector<Tensor> before;
  for (const Tensor& p : gpt.parameters()) before.push_back(p.detach().clone());
  const Tensor ids = from_data(std::vector<int64_t>{1, 2, 3, 4, 5, 6}, {1, 6});
  const double loss = gpt.loss(ids, ids).item();
  for (int step = 0; step < 100; ++step) {
    optimizer->zero_grad();
    gpt.loss(ids, ids).backward();
    optimizer->step();
  }
  CHECK(gpt.loss(ids, ids).item() < 0.5 * loss);
  for (size_t i = 0; i < before.size(); ++i)
    CHECK_FALSE(golden::same(gpt.parameters()[i].detach(), before[i]));

  CHECK_THROWS_WITH(optim::muon_and_adamw(gpt.parameters(), {}), Contains("use AdamW alone"));
  const nn::Linear linear(3, 4, {.bias = false});
  CHECK_THROWS_WITH(optim::muon_and_adamw(linear.parameters(), linear.hidden_matrices()),
                    Contains("use Muon alone"));
}

}  // namespace muon_models_test
