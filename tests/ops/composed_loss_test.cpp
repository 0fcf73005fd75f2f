// Losses composed of other ops.

#include <catch2/catch.hpp>
#include <limits>

#include "gradus/core/core.h"
#include "tests/support/compare.h"

namespace composed_loss_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;

namespace {

const Tensor x34 = tensor({{0.5, -1.25, 2, 0}, {-0.75, 3, 1.5, -2}, {1, 1, -1, 0.25}}, float64);
constexpr double inf = std::numeric_limits<double>::infinity();

/// The gradients of the sum of losses.
std::vector<Tensor> gradients(const Tensor& losses, const std::vector<Tensor>& inputs) {
  return grad({sum(losses)}, inputs);
}
Tensor leaf(const std::vector<double>& numbers) { return from_data(numbers).requires_grad_(); }
Tensor indices(const std::vector<int64_t>& values) {
  return from_data(values, {static_cast<int64_t>(values.size())});
}

}  // namespace

TEST_CASE("nll_loss: PyTorch's values") {
  const Tensor x =
      tensor({{-0.1, -2, -3}, {-1, -0.5, -4}, {-inf, -0.25, -1}, {-0.7, -0.8, -0.9}}, float64)
          .requires_grad_();
  const Tensor t = indices({0, 2, 1, -100}), w = tensor({1, 2, 0.5}, float64);
  const auto loss = [&](Reduction reduction, const Tensor& weights = {}) {
    return nll_loss(x, t, {.reduction = reduction, .class_weights = weights});
  };
  CHECK(loss(Reduction::mean).item() == Approx(1.45));
  CHECK(loss(Reduction::sum).item() == Approx(4.35));
  CHECK(difference(loss(Reduction::none), {0.1, 4, 0.25, 0}) < 1e-15);
  CHECK(loss(Reduction::mean, w).item() == Approx(0.7428571428571429));
  CHECK(loss(Reduction::sum, w).item() == Approx(2.6));
  CHECK(difference(loss(Reduction::none, w), {0.1, 2, 0.5, 0}) < 1e-15);
  CHECK(difference(gradients(loss(Reduction::mean), {x})[0],
                   {-1.0 / 3, 0, 0, 0, 0, -1.0 / 3, 0, -1.0 / 3, 0, 0, 0, 0}) < 1e-15);
  CHECK(difference(gradients(loss(Reduction::mean, w), {x})[0],
                   {-1 / 3.5, 0, 0, 0, 0, -0.5 / 3.5, 0, -2 / 3.5, 0, 0, 0, 0}) < 1e-15);
  CHECK(nll_loss(x, indices({0, 0, 0, 0}), {.reduction = Reduction::none})[2].item() == inf);
  const Tensor none = nll_loss(x, full({4}, -100, int64));
  CHECK(std::isnan(none.item()));
  CHECK(difference(gradients(none, {x})[0], zeros({4, 3}, float64)) == 0);
  CHECK(difference(nll_loss(log_softmax(x34), indices({2, -100, 1})),
                   cross_entropy(x34, indices({2, -100, 1}))) < 1e-15);
}

TEST_CASE("kl_div: PyTorch's values, also at zeros and infinities") {
  const Tensor x = tensor({{-1, -2, -0.5}, {-0.1, -3, -0.2}}, float64).requires_grad_();
  const Tensor t = tensor({{0, 0.5, 0.5}, {0.1, 0.2, 0.7}}, float64);
  CHECK(kl_div(x, t).item() == Approx(0.08417237781611957));
  CHECK(kl_div(x, t, {.reduction = Reduction::sum}).item() == Approx(0.5050342668967174));
  CHECK((kl_div(x, t, {.reduction = Reduction::sum}) / static_cast<double>(x.size(0))).item() ==
        Approx(0.2525171334483587));  // PyTorch's batchmean
  CHECK(difference(gradients(kl_div(x, t), {x})[0],
                   {0, -1.0 / 12, -1.0 / 12, -1.0 / 60, -1.0 / 30, -7.0 / 60}) < 1e-15);
  const Tensor log_t = tensor({{-3, -0.7, -0.9}, {-0.2, -2, -3}}, float64).requires_grad_();
  const Tensor loss = kl_div(x, log_t, {.log_target = true});
  CHECK(loss.item() == Approx(0.049569551799276725));
  const auto d = gradients(loss, {x, log_t});
  CHECK(difference(d[0], {-0.008297844727977323, -0.08276421729856825, -0.06776160995676651,
                          -0.13645512551299696, -0.022555880539435448, -0.008297844727977323}) <
        1e-15);
  CHECK(difference(d[1], {-0.008297844727977323, 0.19035769978670697, 0.040656965974059905,
                          0.12280961296169726, 0.045111761078870896, -0.014936120510359183}) <
        1e-15);
  const Tensor y = leaf({-1, -2, -0.5, -inf, -1, -inf});
  const Tensor edge = leaf({0, 0.5, 1, 0.25, -0.5, 0});
  const Tensor losses = kl_div(y, edge, {.reduction = Reduction::none});
  CHECK(difference(losses, {0, 0.6534264097200273, 0.5, inf, NAN, NAN}) < 1e-15);
  CHECK(difference(gradients(losses, {y})[0], {0, -0.5, -1, -0.25, 0.5, 0}) < 1e-15);
  const Tensor at = kl_div(y, edge, {.reduction = Reduction::none});
  CHECK(difference(gradients(at, {edge})[0], {NAN, 2.3068528194400546, 1.5, inf, NAN, NAN}) <
        1e-15);
}

TEST_CASE("l1_loss and smooth_l1_loss: PyTorch's values, also at ties and infinities") {
  const Tensor x = leaf({0, 0.25, 0.5, 1, -1, 2, -inf, inf, 3e300});
  const Tensor t = leaf({0, 0, 0, 0, 0, 1, 0, 0, 0});
  const auto check = [&](const Tensor& losses, const std::vector<double>& values,
                         const std::vector<double>& slopes) {
    CHECK(difference(losses, values) < 1e-15);
    const auto d = gradients(losses, {x, t});
    CHECK(difference(d[0], slopes) < 1e-15);
    CHECK(difference(-d[1], slopes) < 1e-15);
  };
  check(smooth_l1_loss(x, t, {.reduction = Reduction::none}),
        {0, 0.03125, 0.125, 0.5, 0.5, 0.5, inf, inf, 3e300}, {0, 0.25, 0.5, 1, -1, 1, -1, 1, 1});
  check(smooth_l1_loss(x, t, {.reduction = Reduction::none, .beta = 0.5}),
        {0, 0.0625, 0.25, 0.75, 0.75, 0.75, inf, inf, 3e300}, {0, 0.5, 1, 1, -1, 1, -1, 1, 1});
  for (const Tensor& losses : {smooth_l1_loss(x, t, {.reduction = Reduction::none, .beta = 0}),
                               l1_loss(x, t, {.reduction = Reduction::none})})
    check(losses, {0, 0.25, 0.5, 1, 1, 1, inf, inf, 3e300}, {0, 1, 1, 1, -1, 1, -1, 1, 1});
  const float most = std::numeric_limits<float>::max();
  const Tensor large = from_data(std::vector<float>{most});
  CHECK(smooth_l1_loss(large, zeros({1}), {.beta = 4}).item<float>() == most);
  const Tensor y = tensor({1, 4}), z = tensor({2, 1});
  CHECK(l1_loss(y, z).item() == 2);
  CHECK(l1_loss(y, z, {.reduction = Reduction::sum}).item() == 4);
  CHECK(smooth_l1_loss(y, z).item() == 1.5);
  for (const Dtype dtype : {float32, float64}) {  // a beta that kernels flush to 0
    const double beta = dtype == float32 ? 1e-40 : 1e-310;
    CHECK(smooth_l1_loss(tensor({3}, dtype), tensor({1}, dtype), {.beta = beta}).item() == 2);
  }
  CHECK(std::isnan(l1_loss(leaf({NAN}), leaf({1})).item()));
  CHECK(std::isnan(smooth_l1_loss(leaf({NAN}), leaf({1})).item()));
}

TEST_CASE("hinge_loss by hand, and multi_margin_loss: PyTorch's values") {
  const Tensor s = leaf({0.5, 2, 1, -0.5, -1, -3}), t = tensor({1, 1, 1, -1, -1, 1}, float64);
  CHECK(difference(hinge_loss(s, t, {.reduction = Reduction::none}), {0.5, 0, 0, 0.5, 0, 4}) == 0);
  CHECK(hinge_loss(s, t).item() == Approx(5.0 / 6));
  CHECK(difference(gradients(hinge_loss(s, t, {.reduction = Reduction::sum}), {s})[0],
                   {-1, 0, 0, 1, 0, -1}) == 0);
  CHECK(difference(
            hinge_loss(leaf({-inf, inf, NAN}), ones({3}, float64), {.reduction = Reduction::none}),
            {inf, 0, NAN}) == 0);

  const Tensor x =
      tensor({{0.1, 0.2, 0.4, 0.8}, {1, 1, 2, 0}, {0, 1, -1, 0.5}}, float64).requires_grad_();
  const Tensor y = indices({3, 2, 1});
  CHECK(multi_margin_loss(x, y).item() == Approx(0.15));
  CHECK(multi_margin_loss(x, y, {.reduction = Reduction::sum}).item() == Approx(0.45));
  const Tensor losses = multi_margin_loss(x, y, {.reduction = Reduction::none});
  CHECK(difference(losses, {0.325, 0, 0.125}) < 1e-15);
  CHECK(difference(gradients(losses, {x})[0],
                   {0.25, 0.25, 0.25, -0.75, 0, 0, 0, 0, 0, -0.25, 0, 0.25}) < 1e-15);
  const Tensor half = multi_margin_loss(x, y, {.margin = 0.5});
  CHECK(half.item() == Approx(0.008333333333333331));
  CHECK(difference(gradients(half, {x})[0], {0, 0, 1.0 / 12, -1.0 / 12, 0, 0, 0, 0, 0, 0, 0, 0}) <
        1e-15);
}

}  // namespace composed_loss_test
