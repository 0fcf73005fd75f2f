// Batch and group norm against PyTorch (golden/scripts/make_vision_golden.py), and edge cases.

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "gradus/nn/nn.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"

namespace gradus::testing::batch_norm_test {
using namespace gradus::core;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

double within(Dtype dtype) { return dtype == float64 ? 1e-9 : 1e-4; }

const nn::BatchNormOptions plain{.affine = false};

}  // namespace

TEST_CASE("batch and group norm equal PyTorch's, in three training steps and in evaluation") {
  const golden::File file("vision");
  auto compare = [&](const std::string& name, nn::Module& layer, auto& call, Dtype dtype) {
    INFO(name << " " << dtype);
    layer.to(dtype);
    layer.load_state_dict(file.with_prefix(name + ".param.", dtype), false);
    auto step = [&](const std::string& which) {
      INFO("step " << which);
      auto get = [&](const char* what) { return file.get(name + what + which, dtype); };
      const Tensor x = get(".x.").requires_grad_(), y = call(x);
      y.backward(get(".dy."));
      CHECK(golden::difference(y, get(".y.")) < within(dtype));
      CHECK(golden::difference(x.grad(), get(".dx.")) < within(dtype));
      for (const auto& [buffer, tensor] : layer.named_buffers())
        CHECK(golden::difference(tensor, get(("." + buffer + ".").c_str())) < within(dtype));
    };
    for (const char* which : {"0", "1", "2"}) step(which);
    {
      const EvalMode eval;
      step("eval");
    }
    for (const auto& [parameter, tensor] : layer.named_parameters())
      CHECK(golden::difference(tensor.grad(), file.get(name + ".grad." + parameter)) <
            within(dtype));
  };
  for (const Dtype dtype : {float64, float32}) {
    nn::BatchNorm1d short_rows(3), rows(3, {.momentum = 0.3});
    nn::BatchNorm2d images(3, {.eps = 1e-3}), bare(3, plain);
    nn::GroupNorm groups(3, 6);
    compare("batch_1d", short_rows, short_rows, dtype);
    compare("batch_1d_long", rows, rows, dtype);
    compare("batch_2d", images, images, dtype);
    compare("batch_plain", bare, bare, dtype);
    compare("group", groups, groups, dtype);
  }
}

TEST_CASE("a batch norm's parameters and buffers have PyTorch's names") {
  const nn::BatchNorm2d layer(2);
  std::string names;
  for (const auto& [name, tensor] : layer.state_dict()) names += name + " ";
  CHECK(names == "weight bias running_mean running_var ");
  CHECK(values(layer.running_var) == Values{1, 1});
  CHECK(nn::BatchNorm1d(2, plain).parameters().empty());
  CHECK(error_of([] { nn::BatchNorm2d(0); }).starts_with("BatchNorm: "));
  CHECK(error_of([] { nn::BatchNorm2d(2, {.momentum = 1.5}); }).starts_with("BatchNorm: "));
  CHECK(error_of([] { nn::GroupNorm(2, 3); }) ==
        "GroupNorm: groups must divide channels and eps be >= 0: channels 3, groups 2, eps 1e-05");
}

TEST_CASE("running statistics are updated once per forward call, and not on an error") {
  const nn::BatchNorm2d layer(2, {.affine = false});
  manual_seed(3);
  const Tensor x = randn({3, 2, 4, 5}).requires_grad_();
  const Tensor y = layer(x);
  const Values mean = values(layer.running_mean), var = values(layer.running_var);
  CHECK(difference(layer.running_mean, values(sum(x.detach(), {0, 2, 3}) / 600)) < 1e-6);
  const Tensor dx = grad({sum(y * y * y)}, {x}, {.create_graph = true})[0];
  sum(dx * dx).backward();
  CHECK(values(layer.running_mean) == mean);
  CHECK(values(layer.running_var) == var);
  for (const Tensor& bad : {randn({1, 2, 1, 1}), randn({3, 3, 4}), randn({3, 2}, float64)})
    CHECK(!error_of([&] { layer(bad); }).empty());
  CHECK(layer(zeros({0, 2, 4, 5})).shape() == Shape{0, 2, 4, 5});
  const EvalMode eval;
  layer(x);
  layer(zeros({0, 2, 4, 5}));
  layer(randn({1, 2, 1, 1}));
  CHECK(values(layer.running_mean) == mean);
  CHECK(values(layer.running_var) == var);
}

TEST_CASE("batch_norm's statistics at every magnitude", "[fused]") {
  manual_seed(5);
  const Tensor z = randn({6, 2, 40}, float64);
  for (const double size : {1e-30, 1e-10, 1.0, 1e10, 1e30}) {
    INFO(size);
    const Tensor x = (z * size).to(float32).requires_grad_();
    const BatchNormOutput out = batch_norm(x, {}, {}, 0), wanted = batch_norm(z, {}, {}, 0);
    CHECK(difference(out.y.to(float64), wanted.y) < 1e-5);
    CHECK(difference((out.mean.to(float64) / size), wanted.mean) < 1e-6);
    if (size < 1e15 && size > 1e-15)
      CHECK(difference((out.var.to(float64) / (size * size)), wanted.var) < 1e-5);
    CHECK(!out.mean.requires_grad());
  }
  // Exact for values far from zero: E[x^2] - E[x]^2 would lose three digits.
  const Tensor far = (randint(-4, 5, {5, 3, 4, 6}).to(float64) + 1e3).to(float32);
  CHECK(difference(batch_norm(far).y.to(float64), batch_norm(far.to(float64)).y) < 3e-5);
  // Constants and denormal numbers.
  CHECK(values(batch_norm(full({2, 1, 3}, 7.5)).y) == Values(6, 0.0));
  CHECK(difference(batch_norm(full({4, 2, 20}, 1e-40)).y, Values(160, 0.0)) < 1e-6);
  // A channel that is not finite does not affect the others.
  const Tensor x = tensor({{{1, inf}, {1, 3}}, {{2, 0}, {1, 3}}});
  for (const double v : values(batch_norm(x).y.select(1, 0))) CHECK(std::isnan(v));
  CHECK(difference(batch_norm(x, {}, {}, 0).y.select(1, 1), {-1, 1, -1, 1}) < 1e-6);
  for (const double v : values(batch_norm(zeros({0, 2, 3})).mean)) CHECK(std::isnan(v));
}

}  // namespace gradus::testing::batch_norm_test
