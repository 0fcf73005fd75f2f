// Tensors without gradients: factories, views, conversion, in-place ops, errors.

#include "gradus/core/tensor/tensor.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/autograd.h"
#include "tests/support/compare.h"

namespace tensor_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

/// 0, 1, 2, ... with this shape.
Tensor counting(const Shape& shape, Dtype dtype = float32) {
  return arange(shape.numel()).to(dtype).reshape(shape);
}

bool share_storage(const Tensor& a, const Tensor& b) {
  return a.impl().storage == b.impl().storage;
}

}  // namespace

TEST_CASE("shape: printing, broadcasting, axes", "[tensor]") {
  auto text = [](const Shape& shape) {
    std::ostringstream out;
    out << shape;
    return out.str();
  };
  CHECK(text({}) == "()");
  CHECK(text({3}) == "(3,)");
  CHECK(text({3, 4}) == "(3, 4)");
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{3, 0, 2}.numel() == 0);
  CHECK(contiguous_strides({2, 3, 4}) == Shape{12, 4, 1});
  CHECK(broadcast_shapes("op", {4, 1, 3}, {5, 1}) == Shape{4, 5, 3});
  CHECK(broadcast_shapes("op", {}, {2}) == Shape{2});
  CHECK(broadcast_shapes("op", {1}, {0}) == Shape{0});
  CHECK_THROWS_WITH(broadcast_shapes("op", {2, 3}, {2}),
                    "op: shapes do not broadcast: (2, 3) and (2,)");
  CHECK(normalize_dim("op", -1, 3) == 2);
  CHECK_THROWS_WITH(normalize_dim("op", 3, 3), "op: axis 3 is out of range for rank 3");
  CHECK_THROWS_WITH(normalize_dim("op", -4, 3), "op: axis -4 is out of range for rank 3");
  CHECK_THROWS_WITH((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), "shape: more than 8 axes");
}

TEST_CASE("factories", "[tensor]") {
  CHECK(zeros({2, 2}).dtype() == float32);
  CHECK(values(zeros({2, 2})) == Values{0, 0, 0, 0});
  CHECK(values(ones({3}, int64)) == Values{1, 1, 1});
  CHECK(values(full({2}, -2.5, float64)) == Values{-2.5, -2.5});
  CHECK(values(full({2}, 1, boolean)) == Values{1, 1});
  CHECK(values(eye(3)) == Values{1, 0, 0, 0, 1, 0, 0, 0, 1});
  CHECK(eye(0).shape() == Shape{0, 0});
  CHECK(values(arange(4)) == Values{0, 1, 2, 3});
  CHECK(arange(4).dtype() == int64);
  CHECK(values(arange(2, 3, 0.25, float64)) == Values{2, 2.25, 2.5, 2.75});
  CHECK(values(arange(5, 0, -2)) == Values{5, 3, 1});
  CHECK(arange(0).shape() == Shape{0});
  CHECK(scalar(7).shape() == Shape{});
  CHECK(values(tensor({1, 2, 3})) == Values{1, 2, 3});
  const Tensor matrix = tensor({{1, 2, 3}, {4, 5, 6}}, int64);
  CHECK(matrix.shape() == Shape{2, 3});
  CHECK(matrix.dtype() == int64);
  CHECK(values(matrix) == Values{1, 2, 3, 4, 5, 6});
  CHECK(from_data(std::vector<int>{1, 2}, {2}).dtype() == int64);
  CHECK(from_data(std::vector<bool>{true, false}, {2}).dtype() == boolean);
  CHECK(from_data(std::vector<double>{1}, {}).item() == 1);
  CHECK(from_data(std::vector<float>{}, {0, 3}).shape() == Shape{0, 3});
  CHECK(zeros_like(matrix).dtype() == int64);
  CHECK(ones_like(matrix.mT()).shape() == Shape{3, 2});
  CHECK(empty({5}).numel() == 5);
  CHECK(reinterpret_cast<uintptr_t>(empty({5}).data<float>()) % 64 == 0);
}

TEST_CASE("factories refuse bad arguments", "[tensor]") {
  CHECK_THROWS_WITH(zeros({2, -1}), "empty: negative size in shape (2, -1)");
  CHECK_THROWS_WITH(empty({int64_t{1} << 40, int64_t{1} << 40}),
                    Contains("too many elements in shape (1099511627776, 1099511627776)"));
  CHECK_THROWS_WITH(empty({int64_t{1} << 62}), Contains("too many elements"));
  CHECK_THROWS_WITH(empty({int64_t{1} << 58}), Contains("cannot allocate"));
  CHECK_THROWS_WITH(arange(0, 5, 0), "arange: step 0 does not lead from 0 to 5");
  CHECK_THROWS_WITH(arange(0, 5, -1), "arange: step -1 does not lead from 0 to 5");
  CHECK_THROWS_WITH(arange(0, NAN), Contains("does not lead from 0 to nan"));
  CHECK_THROWS_WITH(arange(0, 5, INFINITY, float32), "arange: step inf does not lead from 0 to 5");
  CHECK_THROWS_WITH(arange(0, 1e30), Contains("arange: too many elements"));
  CHECK_THROWS_WITH(arange(0, 2, 1, boolean),
                    Contains("arange: expected float32, float64 or int64"));
  CHECK_THROWS_WITH(from_data(std::vector<float>{1, 2, 3}, {2, 2}),
                    "from_data: 3 values for shape (2, 2)");
  CHECK_THROWS_WITH(from_data(std::vector<float>{}, {int64_t{1} << 32, int64_t{1} << 32}),
                    Contains("(4294967296, 4294967296)"));
  CHECK_THROWS_WITH(tensor({{1, 2}, {3}}), "tensor: rows of 2 and of 1 numbers");
  CHECK_THROWS_WITH(eye(-1), Contains("negative size"));
  CHECK_THROWS_WITH(randn({2}, int64), Contains("randn: expected float32 or float64, got int64"));
  CHECK_THROWS_WITH(rand({2}, boolean), Contains("rand: expected float32 or float64, got bool"));
  CHECK_THROWS_WITH(randint(3, 3, {2}), Contains("randint: expected low < high, got 3 and 3"));
  CHECK_THROWS_WITH(randperm(-1), Contains("randperm: expected 0 <= n < 2^59, got -1"));
}

TEST_CASE("an undefined tensor says so", "[tensor]") {
  const Tensor x;
  CHECK_FALSE(x.defined());
  CHECK(x.to_string() == "tensor(undefined)");
  CHECK_THROWS_WITH(x.shape(),
                    "tensor: used before it was given a value; a grad() has one after backward()");
  CHECK_THROWS_WITH(x + x, Catch::Matchers::Contains("used before it was given a value"));
}

TEST_CASE("random factories: moments, ranges, seeds, threads", "[tensor]") {
  for (Dtype dtype : {float32, float64}) {
    manual_seed(3);
    const Tensor x = randn({100000}, dtype).to(float64);
    CHECK(mean(x).item() == Approx(0).margin(0.02));
    CHECK(mean(x * x).item() == Approx(1).margin(0.02));
    CHECK(mean(x * x * x * x).item() == Approx(3).margin(0.15));
    const Tensor u = rand({100000}, dtype).to(float64);
    CHECK(min(u).item() >= 0);
    CHECK(max(u).item() < 1);
    CHECK(mean(u).item() == Approx(0.5).margin(0.01));
    CHECK(var(u, {0}).item() == Approx(1.0 / 12).margin(0.003));
  }
  const Tensor die = randint(1, 7, {60000});
  CHECK(min(die).item<int64_t>() == 1);
  CHECK(max(die).item<int64_t>() == 6);
  for (int face = 1; face <= 6; ++face)
    CHECK(sum(eq(die, face)).item() == Approx(10000).margin(500));
  CHECK(values(sort(randperm(1000)).values) == values(arange(1000)));
  CHECK(randperm(0).numel() == 0);

  const int threads = num_threads();
  auto draw = [] {
    manual_seed(11);
    return cat({randn({50001}), rand({7}), randint(0, 1000, {50001}).to(float32),
                randperm(100).to(float32)});
  };
  set_num_threads(1);
  const Tensor one = draw();
  set_num_threads(2);
  const Tensor two = draw();
  set_num_threads(threads);
  CHECK(values(one) == values(two));
  CHECK(values(randn({10})) != values(randn({10})));
}

TEST_CASE("conversion", "[tensor]") {
  const Tensor x = tensor({-1.7, 0, 2.7, 1e10}, float64);
  CHECK(values(x.to(int64)) == Values{-1, 0, 2, 1e10});
  CHECK(values(x.to(boolean)) == Values{1, 0, 1, 1});
  CHECK(x.to(float32).dtype() == float32);
  CHECK(values(from_data(std::vector<bool>{true, false}, {2}).to(float64)) == Values{1, 0});
  CHECK(share_storage(x, x.to(float64)));
  CHECK(values(counting({2, 3}).mT().to(float64)) == Values{0, 3, 1, 4, 2, 5});
  for (const int64_t at : {0, 1, 2}) {
    const Tensor bad = zeros({3}), ids = ones({3}, int64);
    bad[at].fill_(at == 1 ? 1e19 : NAN);
    CHECK_THROWS_WITH(bad.to(int64), Contains("to: ") && Contains("does not fit"));
    CHECK_THROWS_WITH(ids.copy_(bad), Contains("copy_: ") && Contains("does not fit"));
    CHECK(values(ids) == Values{1, 1, 1});
  }
}

TEST_CASE("item, data and to_vector", "[tensor]") {
  CHECK(scalar(2.5).item() == 2.5);
  CHECK(tensor({2.5}).reshape({1, 1}).item<int>() == 2);
  CHECK(full({1}, 3, int64).item<int64_t>() == 3);
  CHECK(full({}, 1, boolean).item<bool>());
  const int64_t big = (int64_t{1} << 62) + 1;
  CHECK(from_data(std::vector<int64_t>{big}, {1}).item<int64_t>() == big);
  // Converted in one step: neither through int64, which ends at 2^63, nor through double.
  CHECK(tensor({1e19}, float64).item<uint64_t>() == 10'000'000'000'000'000'000u);
  CHECK(full({1}, 0x1p60, int64).add_(full({1}, 0x1p36 + 1, int64)).item<float>() ==
        0x1p60f + 0x1p37f);
  CHECK_THROWS_WITH(tensor({1, 2}).item(), "item: expected one element, got shape (2,)");
  CHECK_THROWS_WITH(empty({0}).item(), "item: expected one element, got shape (0,)");
  CHECK_THROWS_WITH(scalar(1).data<double>(), "data: tensor holds float32, requested float64");
  CHECK(counting({2, 2}).mT().to_vector<int>() == std::vector<int>{0, 2, 1, 3});
  CHECK(counting({3}).to_vector<bool>() == std::vector<bool>{false, true, true});
  CHECK(empty({0, 2}).to_vector<float>().empty());
  CHECK(*counting({3, 4}).select(0, 2).data<float>() == 8);
}

TEST_CASE("size, rank and axes", "[tensor]") {
  const Tensor x = zeros({2, 3, 4});
  CHECK(x.rank() == 3);
  CHECK(x.size(-1) == 4);
  CHECK(x.size(0) == 2);
  CHECK_THROWS_WITH(x.size(3), "size: axis 3 is out of range for rank 3");
  CHECK(x.numel() == 24);
  CHECK(x.strides() == Shape{12, 4, 1});
  CHECK(x.is_contiguous());
  CHECK_FALSE(x.mT().is_contiguous());
  CHECK(zeros({3, 0}).mT().is_contiguous());
  CHECK(zeros({1, 5}).mT().is_contiguous());
}

namespace {

struct AxisOp {
  const char* name;
  int rank;  // of the axes that it takes
  std::function<Tensor(int64_t axis)> apply;
};

/// Methods and joins of tensors of shape (2, 3, 2), whose axes 0 and 2 fit the same arguments.
std::vector<AxisOp> methods_with_an_axis() {
  const Tensor x = counting({2, 3, 2}), flat = counting({1, 3, 1});
  return {{"size", 3, [=](int64_t d) { return scalar(static_cast<double>(x.size(d))); }},
          {"slice", 3, [=](int64_t d) { return x.slice(d, 1); }},
          {"select", 3, [=](int64_t d) { return x.select(d, 1); }},
          {"transpose from", 3, [=](int64_t d) { return x.transpose(d, 1); }},
          {"transpose to", 3, [=](int64_t d) { return x.transpose(1, d); }},
          {"flatten from", 3, [=](int64_t d) { return x.flatten(d, -1); }},
          {"flatten to", 3, [=](int64_t d) { return x.flatten(0, d); }},
          {"squeeze", 3, [=](int64_t d) { return flat.squeeze(d); }},
          {"unsqueeze", 4, [=](int64_t d) { return x.unsqueeze(d); }},
          {"split", 3, [=](int64_t d) { return x.split(1, d)[1]; }},
          {"split into", 3,
           [=](int64_t d) {
             return x.split({0, 2}, d)[1];
           }},
          {"chunk", 3, [=](int64_t d) { return x.chunk(2, d)[1]; }},
          {"unbind", 3, [=](int64_t d) { return unbind(x, d)[1]; }},
          {"stack", 4,
           [=](int64_t d) {
             return stack({x, x + 9}, d);
           }},
          {"cat", 3,
           [=](int64_t d) {
             return cat({x, x + 9}, d);
           }},
          {"flip", 3, [=](int64_t d) { return flip(x, d); }},
          {"roll", 3, [=](int64_t d) { return roll(x, 1, d); }},
          {"diagonal", 3, [=](int64_t d) { return diagonal(x, 0, d, 1); }}};
}

/// Ops that compute along an axis of such a tensor.
std::vector<AxisOp> ops_along_an_axis() {
  const Tensor x = counting({2, 3, 2}) / 7.0, index = ones({2, 3, 2}, int64),
               both = tensor({1, 0}, int64);
  return {{"sum", 3, [=](int64_t d) { return sum(x, d); }},
          {"mean", 3, [=](int64_t d) { return mean(x, d, keepdim); }},
          {"var", 3, [=](int64_t d) { return var(x, d); }},
          {"norm", 3, [=](int64_t d) { return norm(x, d); }},
          {"prod", 3, [=](int64_t d) { return prod(x, d); }},
          {"logsumexp", 3, [=](int64_t d) { return logsumexp(x, d); }},
          {"max", 3, [=](int64_t d) { return max(x, d).values; }},
          {"argmin", 3, [=](int64_t d) { return argmin(x, d); }},
          {"sort", 3, [=](int64_t d) { return sort(x, d, true).values; }},
          {"topk", 3, [=](int64_t d) { return topk(x, 1, d).values; }},
          {"median", 3, [=](int64_t d) { return median(x, d).values; }},
          {"quantile", 3, [=](int64_t d) { return quantile(x, 0.25, d); }},
          {"cumsum", 3, [=](int64_t d) { return cumsum(x, d); }},
          {"cumprod", 3, [=](int64_t d) { return cumprod(x, d); }},
          {"gather", 3, [=](int64_t d) { return gather(x, d, index); }},
          {"scatter", 3, [=](int64_t d) { return scatter(x, d, index, -1.0); }},
          {"scatter_add", 3, [=](int64_t d) { return scatter_add(x, d, index, x); }},
          {"index_select", 3, [=](int64_t d) { return index_select(x, d, both); }},
          {"index_add", 3, [=](int64_t d) { return index_add(x, d, both, x); }},
          {"softmax", 3, [=](int64_t d) { return softmax(x, d); }},
          {"log_softmax", 3, [=](int64_t d) { return log_softmax(x, d); }},
          {"normalize", 3, [=](int64_t d) { return normalize(x, d); }},
          {"cosine_similarity", 3, [=](int64_t d) { return cosine_similarity(x, x * x, d); }}};
}

}  // namespace

TEST_CASE("axes: -rank is the first, -1 the last, and beyond both is an error", "[tensor]") {
  std::vector<AxisOp> all = methods_with_an_axis();
  for (const AxisOp& op : ops_along_an_axis()) all.push_back(op);
  for (const auto& [name, rank, apply] : all) {
    CAPTURE(name);
    CHECK(difference(apply(-rank), apply(0)) == 0);
    CHECK(difference(apply(-1), apply(rank - 1)) == 0);
    for (const int64_t beyond : {rank, -rank - 1})
      CHECK_THAT(error_of([&, &op = apply] { op(beyond); }),
                 Contains("axis " + std::to_string(beyond) + " is out of range for rank " +
                          std::to_string(rank)));
  }
}

TEST_CASE("views share storage", "[tensor]") {
  const Tensor x = counting({3, 4});
  const Tensor column = x.select(1, 1), block = x.slice(0, 1).slice(1, 1, 3);
  column.fill_(-1);
  CHECK(values(x) == Values{0, -1, 2, 3, 4, -1, 6, 7, 8, -1, 10, 11});
  block.zero_();
  CHECK(values(x) == Values{0, -1, 2, 3, 4, 0, 0, 7, 8, 0, 0, 11});
  for (const Tensor& view : {x.mT(), x.reshape({2, 6}), x[0], x.unsqueeze(0), x.split(2, 1)[1],
                             x.expand({2, 3, 4}), x.detach(), x.contiguous(), x.to(float32)})
    CHECK(share_storage(x, view));
  CHECK_FALSE(share_storage(x, x.clone()));
  CHECK_FALSE(share_storage(x, x.mT().contiguous()));
}

TEST_CASE("transpose and permute", "[tensor]") {
  const Tensor x = counting({2, 3, 2});
  const Tensor t = x.transpose(0, -1);
  CHECK(t.shape() == Shape{2, 3, 2});
  CHECK(t.strides() == Shape{1, 2, 6});
  CHECK(values(t) == Values{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11});
  const Tensor p = x.permute({2, 0, 1});
  CHECK(p.shape() == Shape{2, 2, 3});
  CHECK(values(p) == Values{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11});
  CHECK(values(x.permute({-1, 0, 1})) == values(p));
  CHECK(scalar(1).permute({}).shape() == Shape{});
  CHECK_THROWS_WITH(x.permute({0, 1}), "permute: expected 3 axes, got (0, 1)");
  CHECK_THROWS_WITH(x.permute({0, 1, -2}), "permute: axis 1 appears twice in (0, 1, -2)");
  CHECK_THROWS_WITH(x.transpose(0, 3), "transpose: axis 3 is out of range for rank 3");
  CHECK_THROWS_WITH(scalar(1).mT(), Contains("is out of range for rank 0"));
}

TEST_CASE("slice and select", "[tensor]") {
  CHECK(zeros({4, 6}).slice(1, 0, 6, 2).slice(0, 0, 0).is_contiguous());  // no elements
  const Tensor x = counting({10});
  CHECK(values(x.slice(0, 2, 5)) == Values{2, 3, 4});
  CHECK(values(x.slice(0, 1, 9, 3)) == Values{1, 4, 7});
  CHECK(values(x.slice(0, 1, 8, 3)) == Values{1, 4, 7});
  CHECK(values(x.slice(0, -3)) == Values{7, 8, 9});
  CHECK(values(x.slice(0, 0, -8)) == Values{0, 1});
  CHECK(values(x.slice(0, -100, 100, 4)) == Values{0, 4, 8});
  CHECK(x.slice(0, 5, 2).shape() == Shape{0});
  CHECK(x.slice(0, 20).shape() == Shape{0});
  CHECK(values(x.slice(0, 3, INT64_MAX, INT64_MAX)) == Values{3});
  CHECK(x.slice(0, INT64_MIN, INT64_MIN).numel() == 0);
  CHECK(x.slice(0, 1, 9, 3).strides() == Shape{3});
  CHECK_THROWS_WITH(x.slice(0, 0, 5, 0), "slice: step must be positive, got 0");
  CHECK_THROWS_WITH(x.slice(1, 0), "slice: axis 1 is out of range for rank 1");

  const Tensor m = counting({3, 4});
  CHECK(values(m.select(-1, -1)) == Values{3, 7, 11});
  CHECK(values(m[1]) == Values{4, 5, 6, 7});
  CHECK(m[1][2].item() == 6);
  CHECK(values(m.slice(0, 0, 3, 2).slice(1, 1, 4, 2)) == Values{1, 3, 9, 11});
  CHECK(values(m.mT().slice(0, 1, 3).mT()) == Values{1, 2, 5, 6, 9, 10});
  CHECK_THROWS_WITH(m[3], "select: index 3 is outside axis 0 of size 3");
  CHECK_THROWS_WITH(m.select(1, -5), "select: index -5 is outside axis 1 of size 4");
  CHECK_THROWS_WITH(scalar(1)[0], "select: axis 0 is out of range for rank 0");
}

TEST_CASE("reshape and view", "[tensor]") {
  const Tensor x = counting({2, 6});
  CHECK(x.reshape({3, -1}).shape() == Shape{3, 4});
  CHECK(x.reshape({-1}).strides() == Shape{1});
  CHECK(x.reshape({2, 1, 6, 1}).numel() == 12);
  CHECK(counting({1}).reshape({}).shape() == Shape{});
  CHECK(zeros({0, 3}).reshape({0}).shape() == Shape{0});
  CHECK(zeros({0, 3}).reshape({5, -1, 3}).shape() == Shape{5, 0, 3});

  // Strided views: an axis can be split anywhere, and axes merge if contiguous with each other.
  const Tensor half = x.slice(1, 0, 3);  // (2, 3), strides (6, 1)
  CHECK(values(half.view({2, 3, 1})) == Values{0, 1, 2, 6, 7, 8});
  CHECK_THROWS_WITH(half.view({6}),
                    "view: (2, 3) with strides (6, 1) cannot be viewed as (6,) without a copy; use "
                    "reshape");
  CHECK(values(half.reshape({6})) == Values{0, 1, 2, 6, 7, 8});
  CHECK_FALSE(share_storage(x, half.reshape({6})));
  const Tensor even = counting({4, 6}).slice(1, 0, 6, 2);  // (4, 3), strides (6, 2): one run
  CHECK(even.view({12}).strides() == Shape{2});
  CHECK(even.view({2, 6}).strides() == Shape{12, 2});
  CHECK(values(even.view({3, 4})[1]) == Values{8, 10, 12, 14});
  const Tensor t = counting({2, 3, 4}).permute({2, 0, 1});  // (4, 2, 3), strides (1, 12, 4)
  CHECK(t.view({4, 6}).strides() == Shape{1, 4});
  CHECK(t.view({2, 2, 6}).strides() == Shape{2, 1, 4});
  CHECK(values(t.reshape({24})) == values(t.contiguous()));
  const Tensor rows = counting({3}).expand({4, 3});
  CHECK(rows.view({2, 2, 3}).strides() == Shape{0, 0, 1});
  CHECK(values(rows.reshape({12})) == Values{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2});
  CHECK(scalar(5).expand({2, 3}).view({6}).strides() == Shape{0});

  CHECK_THROWS_WITH(x.reshape({5, -1}),
                    "reshape: (2, 6) has 12 elements, which do not fit (5, -1)");
  CHECK_THROWS_WITH(x.reshape({2, 5}), "reshape: (2, 6) has 12 elements, which do not fit (2, 5)");
  CHECK_THROWS_WITH(x.reshape({-1, -1}), "reshape: more than one -1 in (-1, -1)");
  CHECK_THROWS_WITH(x.reshape({-2, -6}), "reshape: negative size in shape (-2, -6)");
  CHECK_THROWS_WITH(zeros({0}).reshape({0, -1}), Contains("do not fit (0, -1)"));
  const int64_t huge = int64_t{1} << 32;
  CHECK_THROWS_WITH(x.reshape({huge, huge}),
                    Contains("too many elements in shape (4294967296, 4294967296)"));
  CHECK_THROWS_WITH(zeros({0}).reshape({huge, huge}), Contains("too many elements"));
}

TEST_CASE("flatten, squeeze, unsqueeze", "[tensor]") {
  const Tensor x = counting({2, 3, 4});
  CHECK(x.flatten().shape() == Shape{24});
  CHECK(x.flatten(1).shape() == Shape{2, 12});
  CHECK(x.flatten(0, 1).shape() == Shape{6, 4});
  CHECK(x.flatten(-2, -2).shape() == Shape{2, 3, 4});
  CHECK(scalar(1).flatten().shape() == Shape{1});
  CHECK_THROWS_WITH(x.flatten(2, 1), "flatten: axis 2 comes after axis 1");
  const Tensor y = zeros({1, 3, 1});
  CHECK(y.squeeze().shape() == Shape{3});
  CHECK(y.squeeze(-1).shape() == Shape{1, 3});
  CHECK(zeros({1, 1}).squeeze().shape() == Shape{});
  CHECK_THROWS_WITH(y.squeeze(1), "squeeze: axis 1 of (1, 3, 1) does not have size 1");
  CHECK(x.unsqueeze(0).shape() == Shape{1, 2, 3, 4});
  CHECK(x.unsqueeze(-1).shape() == Shape{2, 3, 4, 1});
  CHECK(scalar(1).unsqueeze(0).shape() == Shape{1});
  CHECK_THROWS_WITH(x.unsqueeze(4), "unsqueeze: axis 4 is out of range for rank 4");
  CHECK_THROWS_WITH(zeros({1, 1, 1, 1, 1, 1, 1, 1}).unsqueeze(0), "shape: more than 8 axes");
}

TEST_CASE("expand", "[tensor]") {
  const Tensor x = counting({3, 1});
  CHECK(values(x.expand({3, 2})) == Values{0, 0, 1, 1, 2, 2});
  CHECK(x.expand({2, -1, 2}).shape() == Shape{2, 3, 2});
  CHECK(x.expand({2, 3, 4}).strides() == Shape{0, 1, 0});
  CHECK(scalar(4).expand({2, 2}).numel() == 4);
  CHECK(x.expand({3, 0}).numel() == 0);
  CHECK_THROWS_WITH(x.expand({4, 2}), "expand: (3, 1) does not expand to (4, 2)");
  CHECK_THROWS_WITH(x.expand({3}), "expand: (3, 1) has more axes than (3,)");
  CHECK_THROWS_WITH(x.expand({-1, 3, 2}), "expand: (3, 1) does not expand to (-1, 3, 2)");
  const int64_t huge = int64_t{1} << 40;
  CHECK_THROWS_WITH(scalar(1).expand({huge, huge}), Contains("too many elements"));
  CHECK(scalar(1).expand({huge}).numel() == huge);
  CHECK_THROWS_WITH(scalar(1).expand({huge << 10}).clone(), Contains("cannot allocate"));
}

TEST_CASE("split and chunk", "[tensor]") {
  auto sizes = [](const std::vector<Tensor>& pieces, int64_t dim) {
    std::vector<int64_t> out;
    for (const Tensor& piece : pieces) out.push_back(piece.size(dim));
    return out;
  };
  using Sizes = std::vector<int64_t>;
  const Tensor x = counting({2, 10});
  CHECK(sizes(x.split(4, 1), 1) == Sizes{4, 4, 2});
  CHECK(values(x.split(4, 1)[2]) == Values{8, 9, 18, 19});
  CHECK(sizes(x.split({1, 0, 9}, -1), 1) == Sizes{1, 0, 9});
  CHECK_THROWS_WITH(x.split({4}, 1), Contains("the sizes sum to 4"));  // not pieces of 4
  // As in PyTorch: pieces of ceil(size / n), possibly fewer than n.
  CHECK(sizes(x.chunk(4, 1), 1) == Sizes{3, 3, 3, 1});
  CHECK(sizes(x.chunk(6, 1), 1) == Sizes{2, 2, 2, 2, 2});
  CHECK(sizes(x.chunk(INT64_MAX, 0), 0) == Sizes{1, 1});
  CHECK(sizes(zeros({0, 2}).chunk(3, 0), 0) == Sizes{0, 0, 0});
  CHECK(sizes(zeros({0, 2}).split(3, 0), 0) == Sizes{0});
  CHECK_THROWS_WITH(x.split({4, 4}, 1), "split: the sizes sum to 8, but axis 1 of (2, 10) has 10");
  CHECK_THROWS_WITH(x.split({-2, 12}, 1), "split: no piece of size -2 fits axis 1 of (2, 10)");
  CHECK_THROWS_WITH(x.split({INT64_MAX, INT64_MAX, 12}, 1), Contains("split: no piece"));
  CHECK_THROWS_WITH(x.split(0, 1), "split: size must be positive, got 0");
  CHECK_THROWS_WITH(x.chunk(0, 1), "chunk: expected at least one piece, got 0");
}

TEST_CASE("in-place ops", "[tensor]") {
  const Tensor x = zeros({2, 3});
  x.copy_(tensor({1, 2, 3}));
  CHECK(values(x) == Values{1, 2, 3, 1, 2, 3});
  x.add_(tensor({10, 20}).unsqueeze(1), 0.5);
  CHECK(values(x) == Values{6, 7, 8, 11, 12, 13});
  x.mul_(2).add_(x);
  CHECK(values(x) == Values{24, 28, 32, 44, 48, 52});
  x.mT().copy_(counting({3, 2}));
  CHECK(values(x) == Values{0, 2, 4, 1, 3, 5});
  x.slice(1, 0, 3, 2).fill_(9);
  CHECK(values(x) == Values{9, 2, 9, 9, 3, 9});
  x.copy_(tensor({1.9, -1.9}, float64).unsqueeze(1).to(int64));
  CHECK(values(x) == Values{1, 1, 1, -1, -1, -1});
  zeros({0, 3}).fill_(1).add_(scalar(1)).mul_(2).copy_(zeros({0, 3}));
  const Tensor counts = arange(3);
  CHECK(values(counts.mul_(3).add_(counts, -2)) == Values{0, -3, -6});

  CHECK_THROWS_WITH(x.copy_(zeros({3, 3})), Contains("copy_: shapes do not broadcast"));
  CHECK_THROWS_WITH(zeros({3}).copy_(x),
                    "copy_: source of shape (2, 3) does not broadcast to (3,)");
  CHECK_THROWS_WITH(zeros({1, 3}).add_(x),
                    "add_: addend of shape (2, 3) does not broadcast to (1, 3)");
  CHECK_THROWS_WITH(x.add_(ones({3}, float64)), "add_: dtypes differ: float32 and float64");
  CHECK_THROWS_WITH(zeros({2}, boolean).mul_(2),
                    Contains("mul_: expected float32, float64 or int64"));
  CHECK_THROWS_WITH(counts.mul_(0.5), "mul_: 0.5 is not an int64");
  CHECK_THROWS_WITH(counts.add_(counts, 0.5), "add_: 0.5 is not an int64");
  CHECK_THROWS_WITH(scalar(1).expand({3}).fill_(2),
                    "fill_: in place on an expanded tensor, whose elements share memory: (3,)");
  CHECK_THROWS_WITH(scalar(1).expand({3}).add_(ones({3})), Contains("expanded tensor"));
}

TEST_CASE("a C++ number must suit its tensor's dtype", "[tensor]") {
  const Tensor counts = arange(3);
  CHECK(values(counts * 2.0 + 1.0) == Values{1, 3, 5});
  CHECK_THROWS_WITH(counts + 0.5, "add_scalar: 0.5 is not an int64");
  CHECK_THROWS_WITH(counts / 2.0, Contains("div: expected float32 or float64, got int64"));
  CHECK_THROWS_WITH(lt(counts, 0.5), "lt: 0.5 is not an int64");
  CHECK(values(eq(counts, 1)) == Values{0, 1, 0});
  CHECK_THROWS_WITH(counts + zeros({3}), "add: dtypes differ: int64 and float32");
}

TEST_CASE("default arguments of ops", "[tensor]") {
  const Tensor x = tensor({{1, 4, 2}, {3, 0, 9}}, float64), small = x * 1e-3;
  // Each row of the softmax sums to 1, no column does.
  CHECK(values(sum(softmax(x), 1))[0] == Approx(1));
  CHECK(values(sum(exp(log_softmax(x)), 1))[1] == Approx(1));
  // With variances up to 1e-6, eps = 1e-5 dominates.
  const Tensor centred = small - mean(small, 1, keepdim);
  const Tensor expected = centred / sqrt(var(small, 1, 0, keepdim) + 1e-5);
  CHECK(norm(layer_norm(small) - expected).item() < 1e-12);
  CHECK(gelu(scalar(1, float64)).item() == Approx(0.5 * (1 + std::erf(std::sqrt(0.5)))));
  CHECK(values(sort(x).values) == Values{1, 2, 4, 0, 3, 9});
  CHECK(values(topk(x, 2).values) == Values{4, 2, 9, 3});
  CHECK(var(tensor({1, 2, 6}, float64)).item() == Approx(7));
  CHECK(std::isinf(var(tensor({1, 2}), {}, 5).item()));  // never a negative divisor
  CHECK(cat({x, x}).shape() == Shape{4, 3});
  CHECK(stack({x, x, x}).shape() == Shape{3, 2, 3});
  CHECK(values(tril(x)) == Values{1, 0, 0, 3, 0, 0});
  CHECK(values(triu(x)) == Values{1, 4, 2, 0, 0, 9});
  CHECK_THROWS_AS(multinomial(ones({2}), 3), Error);  // without replacement
  CHECK(linear(-ones({1, 2}), ones({1, 2})).item() == -2);
  CHECK(mse_loss(ones({4}), full({4}, 3)).item() == 4);
  CHECK(binary_cross_entropy_with_logits(zeros({4}), ones({4})).item() == Approx(std::log(2)));
  const Tensor logits = zeros({2, 4}), ignored = from_data(std::vector<int64_t>{-100, 2}, {2});
  CHECK(cross_entropy(logits, ignored).item() == Approx(std::log(4)));
  const Tensor q = tensor({1, 0, 0, 0}, float64),
               k = tensor({{2, 0, 0, 0}, {0, 0, 0, 0}}, float64).unsqueeze(0);
  const Tensor v = tensor({1, 0}, float64).reshape({1, 2, 1});  // scores 2/sqrt(4) and 0
  CHECK(scaled_dot_product_attention(q.reshape({1, 1, 4}), k, v).item() ==
        Approx(1 / (1 + std::exp(-1))));
}

}  // namespace tensor_test
