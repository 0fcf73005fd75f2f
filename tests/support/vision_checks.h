#pragma once
// Code shared by the tests of vision models.

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "gradus/core/core.h"
#include "gradus/models/data/images/shapes.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/nn/module.h"
#include "tests/golden/golden.h"
#include "tests/support/temporary_folder.h"

namespace gradus::testing {

/// Loads the parameters of the model `name` from the golden file vision_models. Compares the
/// model's loss and gradients with those of PyTorch, in float64.
inline void check_golden(const std::string& name, nn::Module& model,
                         const std::function<Tensor()>& loss) {
  CAPTURE(name);
  const golden::File file("vision_models");
  model.to(float64);
  model.load_state_dict(file.with_prefix(name + ".param."));
  const Tensor result = loss();
  CHECK(result.item() == Approx(file.get(name + ".loss").item()).epsilon(1e-11));
  result.backward();
  for (const auto& [parameter, p] : model.named_parameters()) {
    CAPTURE(parameter);
    const Tensor expected = file.get(name + ".grad." + parameter);
    CHECK(norm(p.grad() - expected).item() < 1e-9 * norm(expected).item() + 1e-14);
  }
}

/// For each parameter p, compares the derivative of the loss along a random direction v with the
/// central difference (loss(p + eps v) - loss(p - eps v)) / (2 eps), in float64.
inline void check_gradients(nn::Module& model, const std::function<Tensor()>& loss) {
  model.to(float64);
  model.zero_grad();
  loss().backward();
  const NoGrad no_grad;
  for (const auto& [name, p] : model.named_parameters()) {
    CAPTURE(name);
    REQUIRE(p.grad().defined());
    const double eps = 1e-6;
    const Tensor v = randn(p.shape(), float64);
    p.add_(v, eps);
    const double above = loss().item();
    p.add_(v, -2 * eps);
    const double below = loss().item();
    p.add_(v, eps);
    CHECK(sum(p.grad() * v).item() ==
          Approx((above - below) / (2 * eps)).epsilon(1e-3).margin(1e-6));
  }
}

/// Saves the model to a temporary folder, loads it from there and returns the loaded model.
template <class Model>
Model saved_and_loaded(const Model& model) {
  const TemporaryFolder folder;
  models::save_model(folder.path, model);
  return models::load_model<Model>(folder.path);
}

/// Returns the captions of the pictures in `data` whose indices are `ids`, an int64 tensor.
inline std::vector<std::string> captions_of(const models::ShapeImages& data, const Tensor& ids) {
  std::vector<std::string> captions;
  for (const int64_t id : ids.to_vector<int64_t>())
    captions.push_back(data.captions[static_cast<size_t>(id)]);
  return captions;
}

}  // namespace gradus::testing
