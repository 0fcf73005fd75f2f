// Muon for a module: its hidden matrices, and AdamW for the rest.

#include "gradus/optim/muon.h"

#include <catch2/catch.hpp>

#include "gradus/models/gpt.h"
#include "gradus/models/vit.h"
#include "gradus/nn/nn.h"
#include "tests/golden/golden.h"

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

TEST_CASE("hidden_matrices: blocks, not embeddings, heads, norms or biases", "[optim][muon]") {
  auto names_of = [](const nn::Module& module) {
    std::vector<std::string> names;
    for (const auto& [param, rows] : module.hidden_matrices())
      for (const auto& [name, p] : module.named_parameters())
        if (&p.impl() == &param.impl()) names.push_back(name);
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
    CHECK(matrices[1].rows.empty());
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
