// What the C interface's descriptions of layers and optimisers build.

#include <catch2/catch.hpp>

#include "gradus/core/ops/ops.h"
#include "gradus/models/c/handles.h"
#include "gradus/nn/nn.h"
#include "gradus/optim/optim.h"
#include "tests/golden/golden.h"

namespace spec_test {

using namespace gradus;
using Catch::Matchers::Contains;

namespace {

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const nn::Module&)>;

/// All parameters of a small net after four steps, one after another.
Tensor trained(const MakeOptimizer& make) {
  manual_seed(1);
  const nn::Sequential net{nn::Linear(3, 4), nn::Tanh(), nn::Linear(4, 2)};
  const Tensor x = randn({5, 3}), y = randn({5, 2});
  const auto optimizer = make(net);
  for (int step = 0; step < 4; ++step) {
    optimizer->zero_grad();
    mse_loss(net(x), y).backward();
    optimizer->step();
  }
  std::vector<Tensor> parts;
  for (const Tensor& p : net.parameters()) parts.push_back(p.detach().reshape({-1}));
  return cat(parts, 0);
}

/// Checks that a rule trains like the optimiser with these options.
template <class Optimizer, class Options>
void check_rule(const char* rule, const Options& options) {
  CAPTURE(rule);
  const Tensor described =
      trained([&](const nn::Module& m) { return models::internal::make_optimizer(m, rule); });
  const Tensor expected = trained(
      [&](const nn::Module& m) { return std::make_unique<Optimizer>(m.parameters(), options); });
  CHECK(golden::same(described, expected));
}

/// Checks that the described layers compute what `make` builds, with the same weights.
void check_layers(const char* layers, const Tensor& x,
                  const std::function<nn::Sequential()>& make) {
  CAPTURE(layers);
  manual_seed(2);
  const Tensor y = models::internal::make_sequential(layers).run(x);
  manual_seed(2);
  CHECK(golden::same(y.detach(), make()(x).detach()));
}

}  // namespace

TEST_CASE("C: each option of an optimiser is that of C++") {
  check_rule<optim::SGD>(
      "sgd lr=0.1 momentum=0.5 nesterov=1 weight_decay=0.2",
      optim::SGDOptions{.lr = 0.1, .momentum = 0.5, .nesterov = true, .weight_decay = 0.2});
  check_rule<optim::Adam>(
      "adam lr=0.02 beta1=0.7 beta2=0.8 eps=0.01 weight_decay=0.3",
      optim::AdamOptions{.lr = 0.02, .beta1 = 0.7, .beta2 = 0.8, .eps = 0.01, .weight_decay = 0.3});
  check_rule<optim::AdamW>(
      "adamw lr=0.02 beta1=0.7 beta2=0.8 eps=0.01 weight_decay=0.3",
      optim::AdamWOptions{
          .lr = 0.02, .beta1 = 0.7, .beta2 = 0.8, .eps = 0.01, .weight_decay = 0.3});
  check_rule<optim::Lion>(
      "lion lr=0.02 beta1=0.7 beta2=0.6 weight_decay=0.3",
      optim::LionOptions{.lr = 0.02, .beta1 = 0.7, .beta2 = 0.6, .weight_decay = 0.3});
  optim::MuonAndAdamWOptions muon;
  muon.muon.lr = 0.02, muon.muon.momentum = 0.5, muon.muon.weight_decay = 0.3;
  muon.adamw.lr = 0.05;
  CHECK(golden::same(trained([](const nn::Module& m) {
                       return models::internal::make_optimizer(
                           m, "muon lr=0.02 momentum=0.5 weight_decay=0.3 adamw_lr=0.05");
                     }),
                     trained([&](const nn::Module& m) {
                       return optim::muon_and_adamw(m.parameters(), m.hidden_matrices(), muon);
                     })));
}

TEST_CASE("C: each option of a layer is that of C++") {
  manual_seed(3);
  const Tensor rows = randn({2, 6}), images = randn({2, 4, 9, 9});
  check_layers("linear 6 6 bias=0, layer_norm 6 eps=0.5 bias=0, rms_norm 6 eps=0.3", rows, [] {
    return nn::Sequential{nn::Linear(6, 6, {.bias = false}),
                          nn::LayerNorm(6, {.eps = 0.5, .bias = false}), nn::RMSNorm(6, 0.3)};
  });
  check_layers("conv2d 4 6 3 stride=2 padding=3 dilation=2 groups=2 bias=0", images, [] {
    return nn::Sequential{nn::Conv2d(
        4, 6, 3, {.stride = 2, .padding = 3, .dilation = 2, .groups = 2, .bias = false})};
  });
  check_layers("max_pool2d 3 stride=2 padding=1, avg_pool2d 3 stride=1 padding=1", images, [] {
    return nn::Sequential{nn::MaxPool2d(3, {.stride = 2, .padding = 1}),
                          nn::AvgPool2d(3, {.stride = 1, .padding = 1})};
  });
  const auto hidden = [](const char* layers) {
    return models::internal::make_sequential(layers).module->hidden_matrices().size();
  };
  CHECK(hidden("linear 2 3, linear 3 2 hidden=0") == 1);
  CHECK(hidden("conv2d 1 2 3, conv2d 2 2 3 hidden=0") == 1);
}

TEST_CASE("C: layers without options are those of C++") {
  manual_seed(4);
  const Tensor rows = randn({3, 6}), images = randn({2, 4, 6, 6});
  check_layers("relu", rows, [] { return nn::Sequential{nn::ReLU()}; });
  check_layers("gelu", rows, [] { return nn::Sequential{nn::GELU()}; });
  check_layers("silu", rows, [] { return nn::Sequential{nn::SiLU()}; });
  check_layers("tanh", rows, [] { return nn::Sequential{nn::Tanh()}; });
  check_layers("sigmoid", rows, [] { return nn::Sequential{nn::Sigmoid()}; });
  check_layers("dropout 0.5", rows, [] { return nn::Sequential{nn::Dropout(0.5)}; });
  check_layers("linear 6 5", rows, [] { return nn::Sequential{nn::Linear(6, 5)}; });
  // Inputs so small that eps counts.
  check_layers("layer_norm 6", rows * 1e-3, [] { return nn::Sequential{nn::LayerNorm(6)}; });
  check_layers("rms_norm 6", rows * 1e-3, [] { return nn::Sequential{nn::RMSNorm(6)}; });
  check_layers("batch_norm 4, flatten", images, [] {
    return nn::Sequential{nn::BatchNorm(4), nn::Flatten()};
  });
  check_layers("conv2d 4 3 2, max_pool2d 2, avg_pool2d 2", images, [] {
    return nn::Sequential{nn::Conv2d(4, 3, 2), nn::MaxPool2d(2), nn::AvgPool2d(2)};
  });
  check_layers("embedding 5 4", from_data<int64_t>({4, 0}),
               [] { return nn::Sequential{nn::Embedding(5, 4)}; });
}

TEST_CASE("C: missing and surplus words of descriptions are refused") {
  const auto refused = [](const std::string& layers, const std::string& message) {
    CAPTURE(layers);
    CHECK_THROWS_WITH(models::internal::make_sequential(layers.c_str()), Contains(message));
  };
  for (const auto& [layer, numbers] : {std::pair{"dropout", 1},
                                       {"embedding", 2},
                                       {"conv2d", 3},
                                       {"layer_norm", 1},
                                       {"rms_norm", 1},
                                       {"batch_norm", 1},
                                       {"max_pool2d", 1},
                                       {"avg_pool2d", 1},
                                       {"flatten", 0}}) {
    const std::string name = layer,
                      expected = name + ": expected " + std::to_string(numbers) + " numbers, got ";
    std::string words = name;
    for (int i = 0; i < numbers; ++i) {
      refused(words, expected + std::to_string(i));
      words += " 1";
    }
    refused(words + " 1", expected + std::to_string(numbers + 1));
    refused(words + " colour=1", name + ": unknown option or given twice: colour");
  }
  refused("linear 2 3x", "expected a number, got \"3x\"");
  refused("linear 2 3 bias=", "expected a number, got \"\"");
  refused("linear 2 1e300", "linear: expected an integer, got 1e+300");
  const nn::Linear module(3, 4);
  for (const std::string rule : {"sgd", "adam", "adamw", "lion", "muon"})
    CHECK_THROWS_WITH(models::internal::make_optimizer(module, (rule + " colour=1").c_str()),
                      Contains(rule + ": unknown option or given twice: colour"));
}

}  // namespace spec_test
