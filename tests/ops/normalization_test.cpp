// Softmax, layer norm and dropout.

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "tests/support/compare.h"

namespace normalization_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double not_a_number = std::nan("");

const Tensor x34 = tensor({{0.5, -1.25, 2, 0}, {-0.75, 3, 1.5, -2}, {1, 1, -1, 0.25}}, float64);
const Tensor dy34 =
    tensor({{0.3, -0.2, 0.5, 1}, {0.1, 0.7, -0.4, 0.2}, {-1, 0.25, 0.5, 0}}, float64);

Tensor composed_softmax(const Tensor& x, int64_t dim) {
  const Tensor e = exp(x - max(x, dim, keepdim).values);
  return e / sum(e, dim, keepdim);
}

Tensor composed_layer_norm(const Tensor& x, const Tensor& w, const Tensor& b, double eps) {
  Tensor y = (x - mean(x, -1, keepdim)) / sqrt(var(x, {-1}, 0, keepdim) + eps);
  if (w.defined()) y = y * w;
  return b.defined() ? y + b : y;
}

void check_gradients(const TensorFunction& f, const std::vector<Tensor>& inputs) {
  const auto first = gradcheck(f, inputs), second = gradgradcheck(f, inputs);
  CHECKED_ELSE(first.ok) FAIL(first.message);
  CHECKED_ELSE(second.ok) FAIL(second.message);
}

}  // namespace

TEST_CASE("softmax and log_softmax: PyTorch's values") {
  struct Expected {
    bool log;
    int64_t dim;
    std::vector<double> y, dx;
  };
  for (const Expected& e : std::vector<Expected>{
           {false,
            0,
            {0.3406892610595999, 0.012408002696814375, 0.6037488961486258, 0.413332331979794,
             0.09760910753232893, 0.8698681454589867, 0.3661922162818002, 0.055938448219335045,
             0.5617016314080712, 0.11772385184419898, 0.030058887569574023, 0.530729219800871},
            {0.255426302806079, -0.01037131670727821, 0.19897933172252014, 0.2378644814699736,
             0.05365903949173927, 0.055795896571256054, -0.20888592931478112, -0.012559301603799146,
             -0.3090853422978183, -0.04542457986397785, 0.00990659759226099, -0.2253051798661745}},
           {false,
            1,
            {0.15969355003210822, 0.027750577932680404, 0.7156968377823844, 0.09685903425282705,
             0.01876337266744543, 0.797838907790184, 0.17802192326787208, 0.005375796274498496,
             0.3834794247575854, 0.3834794247575854, 0.05189829656498113, 0.18114285391984794},
            {-0.03147007372444923, -0.019343967778113983, 0.0021002821028796525,
             0.04871375939968353, -0.007322030215535949, 0.16736269747236884, -0.15848045010477643,
             -0.0015602171520564514, -0.28313803730459774, 0.19621124364238401,
             0.039528878373795345, 0.047397915288418295}},
           {true,
            0,
            {-1.0767844750362334, -4.389413635763115, -0.5045969023422835, -0.8835033316836294,
             -2.3267844750362334, -0.13941363576311525, -1.0045969023422834, -2.883503331683629,
             -0.5767844750362334, -2.1394136357631153, -3.5045969023422834, -0.6335033316836294},
            {0.5044135566357599, -0.2093060020226108, 0.13775066231082453, 0.5040012016242472,
             0.15856546451939738, 0.047598890905759916, -0.6197153297690802, 0.13287386213679794,
             -0.6629790211551573, 0.16170711111685077, 0.4819646674582556, -0.6368750637610451}},
           {true,
            -1,
            {-1.8344986126036624, -3.5844986126036624, -0.33449861260366254, -2.3344986126036624,
             -3.9758485718479193, -0.22584857184791948, -1.7258485718479195, -5.225848571847919,
             -0.9584693108329168, -0.9584693108329168, -2.9584693108329168, -1.7084693108329168},
            {0.044490319948626775, -0.24440092469228866, -0.645114940451815, 0.8450255451954767,
             0.08874197639953274, 0.22129665532588969, -0.5068131539607232, 0.19677452223530092,
             -0.9041301438106036, 0.34586985618939636, 0.5129745741412453, 0.04528571347996199}}}) {
    for (Dtype dtype : {float32, float64}) {
      const Tensor x = x34.to(dtype).clone().requires_grad_();
      const Tensor y = e.log ? log_softmax(x, e.dim) : softmax(x, e.dim);
      y.backward(dy34.to(dtype));
      CHECK(difference(y, e.y) < (dtype == float64 ? 1e-12 : 1e-6));
      CHECK(difference(x.grad(), e.dx) < (dtype == float64 ? 1e-12 : 1e-6));
    }
  }
}

TEST_CASE("softmax: infinities, NaN and large values") {
  for (Dtype dtype : {float32, float64}) {
    const double within = dtype == float64 ? 1e-15 : 1e-7;
    CHECK(difference(softmax(tensor({-inf, -inf, -inf}, dtype)), {0, 0, 0}) == 0);
    CHECK(difference(log_softmax(tensor({-inf, -inf}, dtype)), {-inf, -inf}) == 0);
    CHECK(difference(softmax(tensor({-inf, 1, 1}, dtype)), {0, 0.5, 0.5}) < within);
    CHECK(difference(log_softmax(tensor({-inf, 2}, dtype)), {-inf, 0}) < within);
    CHECK(difference(softmax(tensor({1000, 1000, -1000}, dtype)), {0.5, 0.5, 0}) < within);
    CHECK(difference(log_softmax(tensor({1000, -1000}, dtype)), {0, -2000}) < within);
    CHECK(difference(softmax(tensor({not_a_number, 1, 2}, dtype)),
                     {not_a_number, not_a_number, not_a_number}) == 0);
    CHECK(difference(log_softmax(tensor({1, not_a_number}, dtype)), {not_a_number, not_a_number}) ==
          0);
    CHECK(difference(softmax(tensor({not_a_number, not_a_number}, dtype)),
                     {not_a_number, not_a_number}) == 0);
    CHECK(difference(softmax(tensor({-inf, not_a_number}, dtype)), {not_a_number, not_a_number}) ==
          0);
    CHECK(difference(softmax(tensor({inf, 1}, dtype)), {not_a_number, 0}) >
          1);  // NaN, and no crash
  }
  const Tensor x = tensor({-inf, -inf}).requires_grad_();
  softmax(x).backward(tensor({1, 2}));
  CHECK(difference(x.grad(), {0, 0}) == 0);
  // Each block has larger elements than all earlier ones.
  const Tensor rising = arange(0, 5000, 1, float64) * 0.01;
  CHECK(difference(log_softmax(rising), rising - logsumexp(rising, 0)) < 1e-13);
}

TEST_CASE("softmax: equals its composed form along any axis, at any strides and sizes") {
  manual_seed(1);
  for (const Shape& shape : std::vector<Shape>{{1},
                                               {5},
                                               {3, 1},
                                               {1, 7},
                                               {33, 65},
                                               {4, 3, 5},
                                               {2, 3, 4, 5},
                                               {3, 4500},
                                               {700, 33},
                                               {0, 3}})
    for (int64_t dim = 0; dim < shape.size(); ++dim)
      for (Dtype dtype : {float32, float64}) {
        INFO(shape << " along " << dim << " " << dtype);
        if (shape[static_cast<int>(dim)] == 0) continue;
        const Tensor x = randn(shape, dtype) * 3.0, strided = x.transpose(0, -1);
        const auto fused = [&](auto in) { return softmax(in[0], dim); };
        CHECK(difference(fused, [&](auto in) { return composed_softmax(in[0], dim); }, {x}) <
              tolerance(dtype));
        CHECK(difference([&](auto in) { return log_softmax(in[0], dim); },
                         [&](auto in) { return in[0] - logsumexp(in[0], dim, keepdim); },
                         {x}) < tolerance(dtype));
        if (strided.size(dim) == 0) continue;
        CHECK(difference([&](auto in) { return softmax(in[0], dim).transpose(0, -1); },
                         [&](auto in) { return composed_softmax(in[0], dim).transpose(0, -1); },
                         {strided}) < tolerance(dtype));
      }
}

TEST_CASE("softmax: gradients and gradients of gradients") {
  manual_seed(2);
  for (int64_t dim : {0, 1, 2}) {
    const std::vector<Tensor> inputs{randn({3, 4, 2}, float64).requires_grad_()};
    check_gradients([&](auto in) { return std::vector<Tensor>{softmax(in[0], dim)}; }, inputs);
    check_gradients([&](auto in) { return std::vector<Tensor>{log_softmax(in[0], dim)}; }, inputs);
  }
}

TEST_CASE("softmax: errors") {
  CHECK(error_of([] { softmax(ones({2, 3}), 2); }) == "softmax: axis 2 is out of range for rank 2");
  CHECK(error_of([] {
          log_softmax(ones({2, 3}, int64));
        }) == "log_softmax: expected float32 or float64, got int64");
}

// ---- layer norm ----

TEST_CASE("layer_norm: PyTorch's values") {
  for (Dtype dtype : {float32, float64}) {
    const double within = dtype == float64 ? 1e-12 : 2e-6;
    const Tensor x = x34.to(dtype).clone().requires_grad_();
    const Tensor w = tensor({1.5, 0.5, -1, 2}, dtype).requires_grad_();
    const Tensor b = tensor({0.1, -0.2, 0.3, 0}, dtype).requires_grad_();
    const Tensor y = layer_norm(x, w, b);
    y.backward(dy34.to(dtype));
    CHECK(difference(y, {0.3415717660939392, -0.8710326835942757, -1.1494305965636353,
                         -0.5368261468754205, -0.8183984438776722, 0.46060238945586957,
                         -0.2478166156463309, -2.513511530612577, 1.3617770914422864,
                         0.22059236381409547, 1.905898116381092, -0.15294267775058024}) < within);
    CHECK(difference(x.grad(), {0.025742633133623738, -0.7871364994473133, -0.4983998615479578,
                                1.2597937278616473, -0.08336210687977211, -0.0019274077463947714,
                                0.03252568674992301, 0.05276382787624387, -1.1707730885716772,
                                0.8174817221858651, -0.2119705840088082, 0.5652619503946203}) <
          within);
    CHECK(difference(w.grad(), {-0.8540969373345813, 1.4035526005829753, -0.29736040616726067,
                                -0.5197642264989679}) < within);
    CHECK(difference(b.grad(), {-0.6, 0.75, 0.6, 1.2}) < within);

    const Tensor plain = x34.to(dtype).clone().requires_grad_();
    const Tensor z = layer_norm(plain, {}, {}, 0.1);
    z.backward(dy34.to(dtype));
    CHECK(difference(z, {0.1554174680400523, -1.2951455670004357, 1.3987572123604708,
                         -0.25902911340008716, -0.6042870647009079, 1.3039878764598538,
                         0.5406778999955492, -1.240378711754495, 0.7845144159090222,
                         0.7845144159090222, -1.4977093394626788, -0.07131949235536567}) < within);
    CHECK(difference(plain.grad(),
                     {-0.10691520506716645, -0.29712015790201307, -0.13334368272421881,
                      0.5373790456933982, 0.004385596466030012, 0.21551191647857249,
                      -0.3065696646993125, 0.08667215175471012, -0.7705117078473889,
                      0.6558781392599242, 0.07052141054874408, 0.04411215803872057}) < within);
  }
}

TEST_CASE("layer_norm: equals its composed form, output and gradients") {
  manual_seed(3);
  for (const Shape& shape :
       std::vector<Shape>{{4}, {3, 1}, {5, 7}, {2, 3, 33}, {900, 40}, {3, 1000}, {0, 3}, {20, 128}})
    for (int parameters = 0; parameters < 4; ++parameters)
      for (Dtype dtype : {float32, float64}) {
        INFO(shape << " parameters " << parameters << " " << dtype);
        const int64_t n = shape.back();
        const Tensor x = randn(shape, dtype) * 2.0 + 1.0;
        const Tensor w = parameters & 1 ? randn({n}, dtype) : Tensor();
        const Tensor b = parameters & 2 ? randn({n}, dtype) : Tensor();
        CHECK(difference([&](auto in) { return layer_norm(in[0], in[1], in[2], 1e-3); },
                         [&](auto in) { return composed_layer_norm(in[0], in[1], in[2], 1e-3); },
                         {x, w, b}) < (dtype == float64 ? 1e-10 : 2e-5));
      }
  const Tensor x = randn({4, 5, 3}, float64).permute({2, 0, 1});
  const Tensor w = randn({5, 2}, float64).select(1, 0), b = randn({5}, float64);
  CHECK(difference(
            [&](auto in) { return layer_norm(in[0], in[1], in[2]).transpose(0, 2); },
            [&](auto in) { return composed_layer_norm(in[0], in[1], in[2], 1e-5).transpose(0, 2); },
            {x, w, b}) < 1e-10);
}

TEST_CASE("layer_norm: gradients and gradients of gradients") {
  manual_seed(4);
  const Tensor x = randn({2, 3, 4}, float64).requires_grad_();
  const Tensor w = randn({4}, float64).requires_grad_(), b = randn({4}, float64).requires_grad_();
  const auto list = [](const Tensor& y) { return std::vector<Tensor>{y}; };
  check_gradients([&](auto in) { return list(layer_norm(in[0], in[1], in[2])); }, {x, w, b});
  check_gradients([&](auto in) { return list(layer_norm(in[0], in[1])); }, {x, w});
  check_gradients([&](auto in) { return list(layer_norm(in[0], {}, in[1])); }, {x, b});
  check_gradients([&](auto in) { return list(layer_norm(in[0])); }, {x});
}

TEST_CASE("layer_norm: the residual's gradient is added in place, unless shared") {
  manual_seed(5);
  const Tensor x = randn({6, 5}, float64), w = randn({5}, float64), b = randn({5}, float64);
  const auto block = [](auto norm) {
    return [norm](std::vector<Tensor> in) {
      const Tensor h = in[0] * 2.0;
      const Tensor a = h + norm(h, in[1], in[2]) * 3.0;
      return a + norm(a, in[1], in[2]);
    };
  };
  CHECK(difference(block([](auto... in) { return layer_norm(in...); }),
                   block([](auto... in) { return composed_layer_norm(in..., 1e-5); }),
                   {x, w, b}) < 1e-12);
  const Tensor leaf = x.clone().requires_grad_(), weight = w.clone().requires_grad_();
  const Tensor dy = randn({6, 5}, float64), copy = dy.clone();
  const auto once = grad({layer_norm(leaf, weight)}, {leaf, weight}, {.grad_outputs = {dy}});
  layer_norm(leaf, weight).backward(dy);
  layer_norm(leaf, weight).backward(dy);
  CHECK(difference(dy, copy) == 0);
  CHECK(difference(leaf.grad(), once[0] * 2.0) < 1e-13);
  CHECK(difference(weight.grad(), once[1] * 2.0) < 1e-13);
}

TEST_CASE("layer_norm: the same bits at any number of threads") {
  manual_seed(6);
  const int before = num_threads();
  const Tensor x = randn({3000, 50}), w = randn({50}), b = randn({50});
  auto run = [&](int threads) {
    set_num_threads(threads);
    return output_and_gradients([](auto in) { return layer_norm(in[0], in[1], in[2]); }, {x, w, b});
  };
  const auto one = run(1), three = run(3);
  set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) CHECK(difference(one[i], three[i]) == 0);
}

TEST_CASE("norms: the smallest values, without eps", "[fused]") {
  for (const double size : {1e-10, 1e-19, 1e-22, 1e-30}) {
    CAPTURE(size);
    const Tensor x = tensor({1.1, 1, 1, 0.9, 0.5}) * size, exact = x.to(float64);
    CHECK(difference(layer_norm(x, {}, {}, 0).to(float64), layer_norm(exact, {}, {}, 0)) < 1e-5);
    CHECK(difference(rms_norm(x, {}, 0).to(float64), rms_norm(exact, {}, 0)) < 1e-5);
  }
}

TEST_CASE("layer_norm: errors") {
  CHECK(error_of([] { layer_norm(scalar(1)); }) == "layer_norm: expected x (..., C), got ()");
  CHECK(error_of([] {
          layer_norm(ones({2, 3}, int64));
        }) == "layer_norm: expected float32 or float64, got int64");
  CHECK(error_of([] {
          layer_norm(ones({2, 3}), ones({2}));
        }) == "layer_norm: expected weight of float32 (3,), got float32 (2,)");
  CHECK(error_of([] {
          layer_norm(ones({2, 3}), {}, ones({3}, float64));
        }) == "layer_norm: expected bias of float32 (3,), got float64 (3,)");
  CHECK(error_of([] {
          layer_norm(ones({2, 3}), {}, {}, -1);
        }) == "layer_norm: expected eps >= 0, got -1");
}

// ---- dropout ----

TEST_CASE("dropout: drops a fraction p and scales the rest, in the gradient too") {
  manual_seed(7);
  const Tensor x = ones({200, 501}, float64).requires_grad_();
  const Tensor y = dropout(x, 0.3);
  const double kept = sum(gt(y, 0).to(float64)).item() / static_cast<double>(x.numel());
  CHECK(kept == Approx(0.7).margin(0.005));
  CHECK(difference(y, where(gt(y, 0), full(y.shape(), 1 / 0.7, float64), zeros_like(y))) < 1e-15);
  y.backward(full(y.shape(), 2, float64));
  CHECK(difference(x.grad(), y.detach() * 2.0) < 1e-15);
  CHECK(difference(dropout(x, 0.3), y) > 0.1);  // other elements are dropped each time
  manual_seed(7);
  CHECK(difference(dropout(x, 0.3), y) == 0);  // the same seed drops the same elements
}

TEST_CASE("dropout: off in evaluation mode and at p = 0, all dropped at p = 1") {
  const Tensor x = randn({5, 3}).requires_grad_();
  CHECK(dropout(x, 0).impl_ptr() == x.impl_ptr());
  {
    const EvalMode eval;
    CHECK(dropout(x, 0.5).impl_ptr() == x.impl_ptr());
  }
  CHECK(difference(dropout(x, 1), zeros({5, 3})) == 0);
  CHECK(difference(dropout(tensor({inf, not_a_number}), 1), {0, 0}) == 0);
  CHECK(dropout(ones({0, 3}), 0.5).shape() == Shape{0, 3});
  CHECK(error_of([&] { dropout(x, 1.5); }) ==
        "dropout: expected a probability from 0 to 1, got 1.5");
  CHECK(error_of([&] { dropout(x, not_a_number); }) ==
        "dropout: expected a probability from 0 to 1, got nan");
  const uint64_t drawn = default_generator().state().counter;
  CHECK(error_of([] { dropout(arange(8), 0.5); }) ==
        "dropout: expected float32 or float64, got int64");
  CHECK(default_generator().state().counter == drawn);
}

TEST_CASE("dropout: a key determines the mask, at any strides, dtype and thread count") {
  const RandomKey key{3, 1000};
  const Tensor x = ones({300, 101});
  const Tensor y = dropout(x, 0.25, key);
  CHECK(difference(dropout(x, 0.25, key), y) == 0);
  CHECK(difference(dropout(ones({101, 300}).mT(), 0.25, key), y) == 0);
  CHECK(difference(dropout(x.to(float64), 0.25, key).to(float32), y) < 1e-7);
  const int before = num_threads();
  set_num_threads(before == 1 ? 3 : 1);
  CHECK(difference(dropout(x, 0.25, key), y) == 0);
  set_num_threads(before);
  manual_seed(8);
  check_gradients([&](auto in) { return std::vector<Tensor>{dropout(in[0], 0.25, key)}; },
                  {randn({3, 4}, float64).requires_grad_()});
}

TEST_CASE("norms of rows up to the largest values equal those of the rows scaled down",
          "[normalization]") {
  for (const Dtype dtype : {float32, float64}) {
    const double largest = dtype == float32 ? 3.4e38 : 1.79e308;
    for (const double size : {1.0, 0.5, 1e-3, 1e-10}) {
      CAPTURE(dtype, size);
      // An ordinary row next to a huge one keeps its bits.
      const Tensor huge = tensor({{1, -1, 0.25, -0.5}}).to(dtype) * largest * size,
                   usual = randn({1, 4}, dtype), small = tensor({{1, -1, 0.25, -0.5}}).to(dtype);
      const Tensor x = cat({huge, usual}, 0).requires_grad_();
      const Tensor weight = randn({4}, dtype).requires_grad_(), dy = randn({2, 4}, dtype);
      for (const bool centred : {true, false}) {
        const auto norm = [&](const Tensor& x, double eps) {
          return centred ? layer_norm(x, weight, {}, eps) : rms_norm(x, weight, eps);
        };
        const Tensor y = norm(x, 1e-5), want = norm(small, 0);
        CHECK(difference(y.slice(0, 0, 1), want) < 1e-6);
        CHECK(difference(y.slice(0, 1), norm(usual, 1e-5)) == 0);
        const auto got = grad({y}, {weight, x}, {.grad_outputs = {dy}});
        const Tensor expected =
            grad({cat({want, norm(usual, 1e-5)}, 0)}, {weight}, {.grad_outputs = {dy}})[0];
        CHECK(difference(got[0], expected) < 1e-5);
        for (const double g : values(got[1])) CHECK(std::isfinite(g));
      }
    }
    CHECK(std::isnan(layer_norm(tensor({{inf, 1}}).to(dtype)).sum().item()));
    CHECK(std::isnan(rms_norm(tensor({{inf, 1}}).to(dtype)).sum().item()));
  }
}

TEST_CASE("group_norm: eps is added to each group's variance", "[normalization]") {
  const Tensor x = tensor({{1, -1, 2, -2}}, float64);
  const double a = 1 / std::sqrt(1 + 3.0), b = 2 / std::sqrt(4 + 3.0);
  CHECK(difference(group_norm(x, 2, {}, {}, 3), {a, -a, b, -b}) < 1e-15);
  CHECK(difference(group_norm(x, 2, {}, {}, 0), {1, -1, 1, -1}) < 1e-15);
}

// With eps = 0, norms do not depend on the size a of x: y(a x) = y(x), and dy/dx is 1/a as large.
TEST_CASE("norms: gradients of gradients of inputs of every magnitude", "[normalization]") {
  using Norm = std::function<Tensor(const Tensor&, const Tensor&, double)>;
  const Norm norms[] = {
      [](const Tensor& x, const Tensor& w, double eps) { return layer_norm(x, w, {}, eps); },
      [](const Tensor& x, const Tensor& w, double eps) { return rms_norm(x, w, eps); },
      [](const Tensor& x, const Tensor& w, double eps) { return batch_norm(x, w, {}, eps).y; },
      [](const Tensor& x, const Tensor& w, double eps) { return group_norm(x, 2, w, {}, eps); }};
  manual_seed(11);
  const Tensor x = randn({6, 4, 4}), weight = randn({4}), dy = randn({6, 4, 4}),
               ddx = randn_like(x);
  for (const Norm& norm : norms) {
    const auto gradients = [&](Dtype dtype, double size, double eps) {
      const Tensor in = (x.to(dtype) * size).requires_grad_(), w = weight.to(dtype).clone();
      w.requires_grad_();
      const Tensor y = norm(in, w, eps);
      auto all = grad({y}, {in, w}, {.grad_outputs = {dy.to(dtype)}, .create_graph = true});
      all[0] = all[0] * size;
      for (const Tensor& g : grad({sum(all[0] * ddx.to(dtype))}, {in, w})) all.push_back(g);
      all[2] = all[2] * size;
      return all;
    };
    const auto expected = gradients(float64, 1, 0);
    for (const auto& [dtype, sizes] :
         {std::pair{float32, std::vector<double>{1e-30, 1e-20, 1, 1e20, 1e30}},
          std::pair{float64, std::vector<double>{1e-150, 1, 1e150}}})
      for (const double size : sizes)
        for (const double eps : {0.0, size < 1e10 ? 0.0 : 1e-5}) {
          INFO("norm " << &norm - norms << " of " << std::log10(size) << ", eps " << eps * 1e5);
          const auto got = gradients(dtype, size, eps);
          for (size_t i = 0; i < got.size(); ++i)
            CHECK(difference(got[i].to(float64), expected[i]) < (dtype == float32 ? 1e-5 : 1e-12));
        }
  }
}

}  // namespace normalization_test
