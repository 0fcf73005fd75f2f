// The fused linear layer with its activation.

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "tests/support/compare.h"

namespace linear_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;

namespace {

/// A strided copy of x: every second element of a larger tensor, its last two axes swapped.
Tensor strided(const Tensor& x) {
  const NoGrad no_grad;
  Tensor wide = zeros({x.size(-1), x.size(0), 2}, x.dtype());
  Tensor view = wide.select(2, 1).transpose(0, 1);
  view.copy_(x);
  return view;
}

Tensor composed_linear(const Tensor& x, const Tensor& w, const Tensor& b, Activation activation) {
  Tensor z = matmul(x, w.mT());
  if (b.defined()) z = z + b;
  return activate(z, activation);
}

struct Expected {
  Activation activation;
  std::vector<double> y, dx, dw, db;
};
/// From PyTorch, for x, w, b and dy of the test below.
const std::vector<Expected> expected_values{
    {Activation::none,
     {2.775, -1.1625, -0.7, 0.4, -1.175, 2.15},
     {-0.55, -0.625, 1.375, 0.8, 3.05, 0.375, -1.25, -1.925, 0.825, 0.9375, -2.0625, -1.2},
     {-1.1875, -2.0, 3.875, -0.875, -1.0, 7.375, 1.25, -3.8125},
     {-0.25, 2.25}},
    {Activation::relu,
     {2.775, 0.0, 0.0, 0.4, 0.0, 2.15},
     {0.2, -0.5, 1.0, 0.3, 3.0, 0.5, -1.5, -2.0, 1.125, 0.1875, -0.5625, -0.75},
     {0.5, -1.25, 2.0, 0.0, -0.75, 6.75, 2.25, -3.8125},
     {1.0, 2.75}},
    {Activation::gelu,
     {2.7673407630392464, -0.14242509684879498, -0.16937455655615108, 0.2621686966441297,
      -0.14099689553133962, 2.1160781441091556},
     {0.2892452402769226, -0.49621411415728617, 0.9782470416561335, 0.24951243385567987,
      2.4093586881382776, 0.39844166150753424, -1.1982482218808952, -1.6037056530483316,
      1.2374258236264257, 0.1142003870121024, -0.4288860831540902, -0.7501702832488718},
     {0.6785802890138521, -1.0858789836539913, 1.8777810711022114, 0.031449511625721426,
      -0.3737910867610611, 5.547414089617269, 1.7196976499429293, -3.010433881796729},
     {1.199206920583601, 2.4641255786166036}},
    {Activation::tanh,
     {0.992255193118658, -0.8218529445288736, -0.6043677771171634, 0.3799489622552249,
      -0.8258684551194575, 0.9732261643446705},
     {-0.24033237683110423, -0.04828453306067994, 0.1371387833175124, 0.16690775830332658,
      2.598653337742656, 0.34847694429278153, -1.124773281626152, -1.663672102913671,
      -0.035947701287249646, 0.24836175232300553, -0.5066292858400662, -0.18269670745359062},
     {-0.5882107995150845, -0.020144289432375395, 0.7457985519594326, -0.4365977805557046,
      -1.3249744887378512, 5.376304427244049, 2.202735495898093, -3.412649363130656},
     {-0.3027974130332314, 1.5886218281539657}},
    {Activation::sigmoid,
     {0.9413098250079087, 0.23821331895369913, 0.33181222783183395, 0.598687660112452,
      0.235952400202534, 0.8956687768809987},
     {-0.12505167254977395, -0.05030628587908978, 0.12329603846152486, 0.10730755831882785,
      0.7318678808892429, 0.09241626370912594, -0.30496290028901646, -0.4638930259860751,
      0.05104333686432214, 0.15273031484367816, -0.3229817957501365, -0.15121015351965963},
     {-0.2843666421285093, -0.1731906905313253, 0.46405190174968974, -0.17846101103700351,
      -0.33567338776786343, 1.625066472217022, 0.4692298393467042, -0.9435218169033364},
     {-0.1597444408870296, 0.45987228892079796}},
    {Activation::silu,
     {2.612134764396947, -0.27692298328367526, -0.2322685594822837, 0.2394750640449808,
      -0.2772440702379774, 1.9256878702941471},
     {0.1984804853272172, -0.5507153705432188, 1.104837875913011, 0.34201348073628113,
      2.0932065360535237, 0.3253193271386996, -0.998034633481931, -1.3763379255786279,
      1.22641299606725, 0.22370195303451013, -0.6530123087691849, -0.8332897410012661},
     {0.4780061569492062, -1.271997777565311, 2.2916499997327686, -0.09735338343050154,
      -0.22656859646608363, 5.008221035387908, 1.234685185813944, -2.57355943093609},
     {1.1025826748962642, 2.198388988312492}},
    {Activation::quick_gelu,
     {2.7505530060010237, -0.14120983488167616, -0.16310604827684985, 0.2655668902881656,
      -0.14008193955244547, 2.0960262104330445},
     {0.2737420885371091, -0.5050069821342149, 0.998804699317895, 0.26489268844871044,
      2.4484790667534, 0.40540159672567844, -1.2187156474269305, -1.6301433015523574,
      1.2247428207037299, 0.13150241334269475, -0.46258979325426575, -0.757490334339796},
     {0.6486150676622698, -1.1393103677601406, 1.936232453636322, 0.023997847613509947,
      -0.40297896575014636, 5.637242989229715, 1.738808977182216, -3.063714665235713},
     {1.1736193151216527, 2.474826741979939}},
    {Activation::gelu_tanh,
     {2.7678095453504454, -0.14262948265988423, -0.1694298652948832, 0.2621611694273562,
      -0.14120451391112293, 2.1163042394588207},
     {0.2890239886500973, -0.49618969127879636, 0.9782312400359398, 0.24961013019365785,
      2.409158642328879, 0.3983740695422937, -1.198077556294868, -1.6035444602403306,
      1.2382728846410544, 0.11454375773019171, -0.42972663854368515, -0.7508992731213409},
     {0.6780955430046888, -1.0859217677869812, 1.8780266474995382, 0.03122629200460697,
      -0.37313547425432936, 5.547768786248311, 1.7186051511017009, -3.009996214598944},
     {1.1987770936430926, 2.4644667312609414}}};

}  // namespace

TEST_CASE("linear: PyTorch's values") {
  const Tensor x = tensor({{0.5, -1.25, 2, 0}, {-0.75, 3, 1.5, -2}, {1, 1, -1, 0.25}}, float64);
  const Tensor w = tensor({{0.2, -0.5, 1, 0.3}, {1.5, 0.25, -0.75, -1}}, float64);
  const Tensor b = tensor({0.05, -0.1}, float64);
  const Tensor dy = tensor({{1, -0.5}, {0.25, 2}, {-1.5, 0.75}}, float64);
  for (const Expected& e : expected_values) {
    for (Dtype dtype : {float32, float64}) {
      const Tensor lx = x.to(dtype).clone().requires_grad_(),
                   lw = w.to(dtype).clone().requires_grad_(),
                   lb = b.to(dtype).clone().requires_grad_();
      const Tensor y = linear(lx, lw, lb, e.activation);
      y.backward(dy.to(dtype));
      const double within = dtype == float64 ? 1e-10 : 1e-6;
      CHECK(difference(y, e.y) < within);
      CHECK(difference(lx.grad(), e.dx) < within);
      CHECK(difference(lw.grad(), e.dw) < within);
      CHECK(difference(lb.grad(), e.db) < within);
    }
  }
}

TEST_CASE("linear: equals its composed form, output and gradients") {
  manual_seed(5);
  for (Activation activation : activations)
    for (const Shape& shape : std::vector<Shape>{{7},
                                                 {5, 7},
                                                 {2, 3, 7},
                                                 {1, 1, 1},
                                                 {37, 33},
                                                 {0, 7},
                                                 {900, 40},
                                                 {50, 90},
                                                 {2, 100, 100}})
      for (int64_t out : {1, 6, 500})
        for (bool biased : {true, false})
          for (Dtype dtype : {float32, float64}) {
            const int64_t in = shape.back();
            INFO(shape << " -> " << out << " bias " << biased << " " << dtype);
            const auto scaled = [&](const Shape& s) {
              return randn(s, dtype) * (1 / std::sqrt(in));
            };
            const Tensor x = randn(shape, dtype), w = scaled({out, in});
            const Tensor b = biased ? scaled({out}) : Tensor();
            CHECK(difference(
                      [&](auto in) { return linear(in[0], in[1], in[2], activation); },
                      [&](auto in) { return composed_linear(in[0], in[1], in[2], activation); },
                      {x, w, b}) < (dtype == float64 ? 1e-10 : 5e-5));
          }
}

TEST_CASE("linear: strided inputs and output gradients") {
  manual_seed(6);
  for (Activation activation : activations) {
    const Tensor x = randn({6, 5, 4}, float64).permute({1, 2, 0}),
                 w = strided(randn({3, 6}, float64));
    const Tensor b = randn({3, 2}, float64).select(1, 1);
    CHECK(
        difference([&](auto in) { return linear(in[0], in[1], in[2], activation).transpose(0, 2); },
                   [&](auto in) {
                     return composed_linear(in[0], in[1], in[2], activation).transpose(0, 2);
                   },
                   {x, w, b}) < 1e-12);
    const Tensor expanded = randn({1, 6}, float64).expand({4, 6});
    CHECK(difference([&](auto in) { return sum(linear(in[0], in[1], in[2], activation)); },
                     [&](auto in) { return sum(composed_linear(in[0], in[1], in[2], activation)); },
                     {expanded, w, b}) < 1e-12);
  }
}

TEST_CASE("linear: gradients and gradients of gradients") {
  manual_seed(7);
  for (Activation activation : activations)
    for (bool biased : {true, false}) {
      const TensorFunction f = [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{linear(in[0], in[1], biased ? in[2] : Tensor(), activation)};
      };
      std::vector<Tensor> inputs{randn({2, 3, 4}, float64).requires_grad_(),
                                 randn({5, 4}, float64).requires_grad_()};
      if (biased) inputs.push_back(randn({5}, float64).requires_grad_());
      const auto first = gradcheck(f, inputs), second = gradgradcheck(f, inputs);
      CHECKED_ELSE(first.ok) FAIL(first.message);
      CHECKED_ELSE(second.ok) FAIL(second.message);
    }
}

TEST_CASE("linear: a weight used twice, gradients over two passes, and only the required ones") {
  manual_seed(8);
  const Tensor w = randn({4, 4}, float64).requires_grad_(),
               b = randn({4}, float64).requires_grad_();
  const Tensor x = randn({3, 4}, float64).requires_grad_();
  for (Activation activation : activations) {
    auto fused = [&](auto in) {
      const Tensor h = linear(in[0], in[1], in[2], activation);
      return linear(h + in[0], in[1], in[2], activation) + h;
    };
    auto composed = [&](auto in) {
      const Tensor h = composed_linear(in[0], in[1], in[2], activation);
      return composed_linear(h + in[0], in[1], in[2], activation) + h;
    };
    CHECK(difference(fused, composed, {x, w, b}) < 1e-12);
  }
  auto loss = [&] { return sum(pow(linear(x, w, b, Activation::gelu), 2)); };
  const auto once = grad({loss()}, {x, w, b});
  loss().backward();
  loss().backward();
  CHECK(difference(x.grad(), once[0] * 2.0) < 1e-12);
  CHECK(difference(w.grad(), once[1] * 2.0) < 1e-12);
  CHECK(difference(b.grad(), once[2] * 2.0) < 1e-12);
  const Tensor kept = loss();
  kept.backward({}, true);
  kept.backward();
  CHECK(difference(w.grad(), once[1] * 4.0) < 1e-12);
  CHECK(difference(grad({loss()}, {b})[0], once[2]) == 0);
}

TEST_CASE("linear: an output gradient with other owners is not modified") {
  for (Activation activation : activations) {
    const Tensor x = randn({3, 4}).requires_grad_(), w = randn({2, 4}).requires_grad_();
    const Tensor dy = randn({3, 2}), copy = dy.clone();
    linear(x, w, randn({2}).requires_grad_(), activation).backward(dy);
    CHECK(difference(dy, copy) == 0);
    const Tensor y = linear(x, w, {}, activation), other = randn({3, 2}).requires_grad_();
    (y + other).backward(dy);  // add gives both inputs the same gradient
    CHECK(difference(other.grad(), copy) == 0);
  }
}

TEST_CASE("linear: the same bits on one and two threads") {
  manual_seed(9);
  const int before = num_threads();
  const Tensor x = randn({700, 96}), w = randn({200, 96}), b = randn({200});
  auto run = [&](int threads) {
    set_num_threads(threads);
    return output_and_gradients(
        [](auto in) { return linear(in[0], in[1], in[2], Activation::gelu); }, {x, w, b});
  };
  const auto one = run(1), two = run(2);
  set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) CHECK(difference(one[i], two[i]) == 0);
}

TEST_CASE("linear: ReLU propagates NaN, and gradients are recorded only if required") {
  const Tensor x = tensor({{std::nan(""), 1}});
  CHECK(std::isnan(linear(x, ones({1, 2}), {}, Activation::relu).item()));
  const Tensor w = ones({1, 2}).requires_grad_();
  CHECK(linear(x, w).requires_grad());
  const NoGrad no_grad;
  CHECK_FALSE(linear(x, w).requires_grad());
}

TEST_CASE("linear: refuses operands that do not fit") {
  const auto refused = [](const Tensor& x, const Tensor& w, const Tensor& b = {}) {
    return error_of([&] { linear(x, w, b); });
  };
  CHECK(refused(ones({2, 64}), ones({384, 128})) ==
        "linear: expected x (..., 128) for weight (384, 128), got (2, 64)");
  CHECK(refused(scalar(1), ones({3, 4})) ==
        "linear: expected x (..., 4) for weight (3, 4), got ()");
  CHECK(refused(ones({2, 3}), ones({3})) ==
        "linear: expected a weight of rank 2, (out, in), got (3,)");
  CHECK(refused(ones({2, 3}), ones({4, 3}), ones({3})) ==
        "linear: expected bias of float32 (4,), got float32 (3,)");
  CHECK(refused(ones({2, 3}), ones({4, 3}, float64)) ==
        "linear: expected x and weight both float32 or both float64, got float32 and float64");
  CHECK(refused(ones({2, 3}), ones({4, 3}), ones({4}, float64)) ==
        "linear: expected bias of float32 (4,), got float64 (4,)");
}

TEST_CASE("feed_forward: a vector that is also a bias gets all parts of its gradient", "[matmul]") {
  manual_seed(5);
  const Tensor w1 = randn({5, 5}, float64), w2 = randn({5, 5}, float64);
  for (const bool both : {false, true}) {
    CAPTURE(both);
    const Tensor fused = randn({5}, float64).requires_grad_(),
                 composed = fused.detach().clone().requires_grad_(), other = randn({5}, float64);
    const Tensor last = both ? fused : other;
    (sum(feed_forward(fused, w1, fused, Activation::gelu, w2, last)) + sum(fused * fused))
        .backward();
    const Tensor& x = composed;
    const Tensor y = matmul(w2, gelu(matmul(w1, x) + x)) + (both ? x : other);
    (sum(y) + sum(x * x)).backward();
    CHECK(difference(fused.grad(), composed.grad()) < 1e-12);
  }
}

}  // namespace linear_test
