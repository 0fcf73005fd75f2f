// Matrix products.

#include <sys/mman.h>

#include <catch2/catch.hpp>

#include "gradus/core/core.h"
#include "tests/support/compare.h"

namespace matmul_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;

namespace {

/// The product by its definition, in float64.
Tensor naive_matmul(const Tensor& a, const Tensor& b) {
  const NoGrad no_grad;
  return sum(a.to(float64).unsqueeze(-1) * b.to(float64).unsqueeze(-3), -2);
}

/// A strided copy of x: every second element of a larger tensor, its last two axes swapped.
Tensor strided(const Tensor& x) {
  const NoGrad no_grad;
  Tensor wide = zeros({x.size(-1), x.size(0), 2}, x.dtype());
  Tensor view = wide.select(2, 1).transpose(0, 1);
  view.copy_(x);
  return view;
}

struct Pair {
  Shape a, b;
};
const std::vector<Pair> pairs = {
    {{2, 3}, {3, 4}},       {{1, 1}, {1, 1}},       {{5, 1}, {1, 7}},    {{1, 9}, {9, 1}},
    {{4, 3, 5}, {5, 2}},    {{2, 3, 4, 5}, {5, 3}}, {{3, 4}, {2, 4, 5}}, {{2, 1, 3, 4}, {5, 4, 2}},
    {{3, 2, 4}, {3, 4, 5}}, {{1, 2, 4}, {3, 4, 1}}, {{7}, {7}},          {{3}, {3, 4}},
    {{2, 3}, {3}},          {{4}, {2, 4, 3}},       {{2, 3, 4}, {4}}};

}  // namespace

TEST_CASE("matmul: values worked out by hand") {
  const Tensor a = tensor({{1, 2, 3}, {4, 5, 6}}), b = tensor({{1, 0}, {-1, 2}, {0.5, 1}});
  CHECK(difference(matmul(a, b), {0.5, 7, 2, 16}) == 0);
  CHECK(matmul(tensor({1, 2, 3}), tensor({4, 5, 6})).item() == 32);
  CHECK(matmul(tensor({1, 2, 3}), tensor({4, 5, 6})).rank() == 0);
  CHECK(difference(matmul(a, tensor({1, -1, 2})), {5, 11}) == 0);
  CHECK(difference(matmul(tensor({1, -1}), a), {-3, -3, -3}) == 0);
}

TEST_CASE("matmul: equals its definition for all ranks, broadcasts and strides") {
  manual_seed(1);
  for (const auto& [sa, sb] : pairs) {
    if (sa.size() == 1 || sb.size() == 1) continue;
    for (Dtype dtype : {float32, float64}) {
      const Tensor a = randn(sa, dtype), b = randn(sb, dtype);
      INFO(sa << " x " << sb << " " << dtype);
      CHECK(difference(matmul(a, b).to(float64), naive_matmul(a, b)) < tolerance(dtype));
      const Tensor at = a.transpose(-1, -2).contiguous().mT();  // column-major
      const Tensor bt = b.transpose(-1, -2).contiguous().mT();
      CHECK(difference(matmul(at, bt).to(float64), naive_matmul(a, b)) < tolerance(dtype));
      const Tensor as = stack({a, a}, -1).select(-1, 0);  // no axis contiguous: copied
      const Tensor bs = stack({b, b}, -1).select(-1, 0);
      CHECK(difference(matmul(as, bs).to(float64), naive_matmul(a, b)) < tolerance(dtype));
    }
  }
  const Tensor row = randn({4}).expand({3, 4}), column = randn({4, 1}).expand({4, 5});
  CHECK(difference(matmul(row, column).to(float64), naive_matmul(row, column)) < 1e-6);
}

TEST_CASE("matmul: rows that lie further apart than BLAS can say") {
  // 16 GB of addresses, of which this test touches two pages.
  const int64_t far = int64_t{1} << 31, bytes = 2 * far * int64_t{sizeof(float)};
  void* memory = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  {
    const Tensor rows = from_blob(memory, {2, 3}, {far, 1}, float32);
    rows.copy_(tensor({{1, 2, 3}, {4, 5, 6}}));
    const Tensor near = rows.clone(), b = tensor({{1, 0}, {-1, 2}, {0.5, 1}});
    CHECK(difference(matmul(rows, b), matmul(near, b)) == 0);
    CHECK(difference(matmul(b, rows), matmul(b, near)) == 0);
    CHECK(difference(matmul(rows.mT(), near), matmul(near.mT(), near)) == 0);
    CHECK(difference(matmul(rows.slice(0, 1), b), matmul(near.slice(0, 1), b)) == 0);
    const Tensor both = rows.expand({4, 2, 3});
    CHECK(difference(matmul(both, b), matmul(near.expand({4, 2, 3}), b)) == 0);
    CHECK(difference(linear(near, rows), matmul(near, near.mT())) == 0);
    CHECK(difference(linear(rows, near), matmul(near, near.mT())) == 0);
  }
  munmap(memory, static_cast<size_t>(bytes));
}

TEST_CASE("matmul: many small, few large and large products") {
  manual_seed(2);
  for (const auto& [sa, sb] : std::vector<Pair>{{{64, 33, 17}, {64, 17, 29}},
                                                {{3, 180, 190}, {3, 190, 200}},
                                                {{2, 2, 1, 170, 180}, {2, 3, 180, 150}},
                                                {{10, 180, 190}, {190, 200}}}) {
    const Tensor a = randn(sa), b = randn(sb);
    const Tensor exact = matmul(a.to(float64), b.to(float64));
    CHECK(difference(matmul(a, b).to(float64), exact) < 5e-5);
  }
}

TEST_CASE("matmul: empty axes") {
  CHECK(difference(matmul(ones({2, 0}), ones({0, 3})), zeros({2, 3})) == 0);
  CHECK(matmul(ones({0, 2}), ones({2, 3})).shape() == Shape{0, 3});
  CHECK(difference(matmul(ones({4, 2, 0}), ones({0, 3})), zeros({4, 2, 3})) == 0);
  CHECK(difference(matmul(ones({4, 2, 0}), ones({4, 0, 3})), zeros({4, 2, 3})) == 0);
  CHECK(matmul(ones({0, 2, 3}), ones({0, 3, 4})).shape() == Shape{0, 2, 4});
  CHECK(matmul(ones({5, 2, 3}), ones({3, 0})).shape() == Shape{5, 2, 0});
  CHECK(matmul(ones({0}), ones({0})).item() == 0);
  const Tensor a = ones({2, 0}).requires_grad_(), b = ones({0, 3}).requires_grad_();
  matmul(a, b).backward(ones({2, 3}));
  CHECK(a.grad().shape() == Shape{2, 0});
  CHECK(b.grad().shape() == Shape{0, 3});
  const Tensor c = ones({4, 2, 3}).requires_grad_(), d = ones({3, 0}).requires_grad_();
  matmul(c, d).backward(ones({4, 2, 0}));
  CHECK(difference(c.grad(), zeros({4, 2, 3})) == 0);
  CHECK(d.grad().shape() == Shape{3, 0});
}

TEST_CASE("matmul: gradients and gradients of gradients") {
  manual_seed(3);
  const TensorFunction f = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{matmul(in[0], in[1])};
  };
  for (const auto& [sa, sb] : pairs) {
    INFO(sa << " x " << sb);
    const std::vector<Tensor> inputs{randn(sa, float64).requires_grad_(),
                                     randn(sb, float64).requires_grad_()};
    const auto first = gradcheck(f, inputs), second = gradgradcheck(f, inputs);
    CHECKED_ELSE(first.ok) FAIL(first.message);
    CHECKED_ELSE(second.ok) FAIL(second.message);
  }
  const TensorFunction square = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{matmul(in[0], in[0].mT()), matmul(in[0].mT(), in[0])};
  };
  const std::vector<Tensor> x{strided(randn({3, 4}, float64)).requires_grad_()};
  CHECK(gradcheck(square, x).ok);
  CHECK(gradgradcheck(square, x).ok);
}

TEST_CASE("matmul: gradients are accumulated in place") {
  manual_seed(4);
  const Tensor w = randn({5, 5}, float64).requires_grad_(), x = randn({3, 5}, float64);
  auto loss = [&] { return sum(matmul(matmul(x, w), w) * matmul(x, w)); };
  const Tensor once = grad({loss()}, {w})[0];
  loss().backward();
  CHECK(difference(w.grad(), once) < 1e-12);
  const auto* before = w.grad().data<double>();
  loss().backward();
  CHECK(difference(w.grad(), once * 2.0) < 1e-12);
  CHECK(w.grad().data<double>() == before);
  const Tensor held = w.grad();  // a second owner, whose values must not change
  loss().backward();
  CHECK(difference(w.grad(), once * 3.0) < 1e-12);
  CHECK(difference(held, once * 2.0) < 1e-12);
  // An operand is saved only if the other one requires a gradient, and only required gradients are
  // computed.
  const Tensor y = matmul(x, w);
  x.fill_(0);
  CHECK_THROWS_WITH(y.backward(ones({3, 5}, float64)), Catch::Contains("changed in place"));
}

TEST_CASE("matmul: refuses operands that do not fit") {
  const auto refused = [](const Tensor& a, const Tensor& b) {
    return error_of([&] { matmul(a, b); });
  };
  CHECK(refused(ones({3, 4}), ones({5, 6})) == "matmul: inner sizes differ: (3, 4) x (5, 6)");
  CHECK(refused(ones({4}), ones({5, 6})) == "matmul: inner sizes differ: (4,) x (5, 6)");
  CHECK(refused(ones({2, 3, 4}), ones({5, 4, 6})) ==
        "matmul: shapes do not broadcast: (2,) and (5,)");
  CHECK(refused(scalar(1), ones({2})) ==
        "matmul: expected tensors of rank 1 or more, got () x (2,)");
  CHECK(refused(ones({2, 2}), ones({2, 2}, float64)) ==
        "matmul: expected both float32 or both float64, got float32 and float64");
  CHECK(refused(ones({2, 2}, int64), ones({2, 2}, int64)) ==
        "matmul: expected both float32 or both float64, got int64 and int64");
}

}  // namespace matmul_test
