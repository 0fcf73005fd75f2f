#pragma once
// Compares training with PyTorch's results.

#include <catch2/catch.hpp>
#include <string>

#include "gradus/optim/optim.h"
#include "tests/golden/golden.h"

namespace golden {

/// Trains a model for 20 steps in float64 and again in float32, from the weights in the golden
/// file. Checks that the gradients of the first step and the losses of all steps equal those in the
/// file. losses(model, step, dtype) returns a std::vector<Tensor> of scalars, whose sum is
/// minimised. The file contains one tensor of expected losses per dtype, of shape (20, number of
/// losses), or (20) if there is a single loss.
template <class Model, class Losses>
void check_training(const File& file, const typename Model::Config& config, Losses&& losses) {
  using namespace gradus;
  for (const Dtype dtype : {float64, float32}) {
    CAPTURE(dtype);
    Model model(config);
    model.to(dtype);
    model.load_state_dict(file.with_prefix("param.", dtype));
    optim::AdamW optimizer(model.parameters(), {.lr = 2e-3, .beta2 = 0.99, .weight_decay = 0.1});
    const Tensor expected = file.get(dtype == float64 ? "float64.losses" : "float32.losses");
    for (int64_t step = 0; step < 20; ++step) {
      const std::vector<Tensor> parts = losses(model, step, dtype);
      optimizer.zero_grad();
      sum(stack(parts)).backward();
      if (step == 0)
        for (const auto& [name, p] : model.named_parameters()) {
          CAPTURE(name);
          CHECK(difference(p.grad(), file.get("grad." + name)) < (dtype == float64 ? 1e-9 : 1e-4));
        }
      optimizer.step({.max_grad_norm = 1});
      CAPTURE(step);
      const Tensor row = expected[step].reshape({-1});
      REQUIRE(row.numel() == std::ssize(parts));
      for (int64_t i = 0; i < row.numel(); ++i)
        CHECK(parts[static_cast<size_t>(i)].item() ==
              Approx(row[i].item()).margin(dtype == float64 ? 1e-9 : 1e-4));
    }
  }
}

}  // namespace golden
