// Comparisons and assignments as operators, and ops as methods.

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/gradus.h"
#include "tests/support/compare.h"

namespace operators_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Contains;

namespace {

// ---- what must not compile ----

template <class A, class B>
concept Comparable = requires(A a, B b) {
  { a == b } -> std::same_as<Tensor>;
  { a != b } -> std::same_as<Tensor>;
  { a < b } -> std::same_as<Tensor>;
  { a <= b } -> std::same_as<Tensor>;
  { a > b } -> std::same_as<Tensor>;
  { a >= b } -> std::same_as<Tensor>;
};
static_assert(Comparable<Tensor, Tensor> && Comparable<Tensor, double> && Comparable<int, Tensor>);
static_assert(Comparable<const Tensor&, const Tensor&> && Comparable<const Tensor&, bool>);
static_assert(!Comparable<Tensor, const char*> && !Comparable<Tensor, std::nullptr_t>);

// Neither if (a == b) nor a && b nor a ? b : c compiles.
static_assert(!std::is_convertible_v<Tensor, bool> && !std::is_constructible_v<bool, Tensor>);
template <class A>
concept HasAnd = requires(A a) {
  a&& a;
};
static_assert(!HasAnd<Tensor> && HasAnd<bool>);

template <class A, class B>
concept Assigns = requires(A a, B b) {
  std::forward<A>(a) += b;
  std::forward<A>(a) -= b;
  std::forward<A>(a) *= b;
  std::forward<A>(a) /= b;
};
template <class A, class B>
concept AssignsAny = requires(A a, B b) {
  std::forward<A>(a) += b;
}
|| requires(A a, B b) { std::forward<A>(a) -= b; }
|| requires(A a, B b) { std::forward<A>(a) *= b; }
|| requires(A a, B b) { std::forward<A>(a) /= b; };
static_assert(Assigns<Tensor&, Tensor> && Assigns<Tensor&, double> && Assigns<Tensor&, int>);
// x[0] += y could change only a temporary; a const handle cannot refer to a new tensor.
static_assert(!AssignsAny<Tensor, Tensor> && !AssignsAny<Tensor, double>);
static_assert(!AssignsAny<const Tensor&, Tensor> && !AssignsAny<const Tensor&, double>);
static_assert(!AssignsAny<const Tensor, Tensor>);

template <class... A>
concept HasMaxMethod = requires(const Tensor& x, A... a) {
  x.max(a...);
  x.min(a...);
  x.argmax(a...);
};
template <class... A>
concept HasVarMethod = requires(const Tensor& x, A... a) {
  x.var(a...);
};
static_assert(HasMaxMethod<> && HasMaxMethod<int> && HasMaxMethod<int, KeepDim>);
static_assert(!HasMaxMethod<bool> && !HasMaxMethod<KeepDim> && !HasMaxMethod<double>);
static_assert(HasVarMethod<> && HasVarMethod<int, int, KeepDim> && !HasVarMethod<int, bool>);
static_assert(!HasVarMethod<int, KeepDim>);
}  // namespace

TEST_CASE("comparisons as operators give bool tensors") {
  const Tensor a = tensor({1, 2, 3}), b = tensor({{2}, {3}});
  CHECK(values(a < b) == Values{1, 0, 0, 1, 1, 0});
  CHECK(values(a <= b) == Values{1, 1, 0, 1, 1, 1});
  CHECK(values(a > b) == Values{0, 0, 1, 0, 0, 0});
  CHECK(values(a >= b) == Values{0, 1, 1, 0, 0, 1});
  CHECK(values(a == b) == Values{0, 1, 0, 0, 0, 1});
  CHECK(values(a != b) == Values{1, 0, 1, 1, 1, 0});
  CHECK((a == b).dtype() == boolean);
  CHECK(values(a < 2) == Values{1, 0, 0});
  CHECK(values(2 < a) == Values{0, 0, 1});
  CHECK(values(2 <= a) == Values{0, 1, 1});
  CHECK(values(2 > a) == Values{1, 0, 0});
  CHECK(values(2 >= a) == Values{1, 1, 0});
  CHECK(values(2 == a) == Values{0, 1, 0});
  CHECK(values(2 != a) == Values{1, 0, 1});
  CHECK(values(a == 2) == Values{0, 1, 0});
  CHECK(values(a != 2) == Values{1, 0, 1});
  CHECK(values(a >= 2) == Values{0, 1, 1});
  const Tensor nan = tensor({NAN});
  CHECK(values(nan == nan) == Values{0});
  CHECK(values(nan != nan) == Values{1});
  CHECK(values(nan < 1) == Values{0});
  CHECK(values(!(a > 1)) == Values{1, 0, 0});
  CHECK(values((a > 1) & (a < 3)) == Values{0, 1, 0});
  CHECK(values((a < 2) | (a > 2)) == Values{1, 0, 1});
  CHECK(!(a.detach().requires_grad_() > 1).requires_grad());
  CHECK_THROWS_WITH(!a, "logical_not: expected a bool tensor, got float32");
  CHECK_THROWS_WITH(a & a, Contains("logical_and: expected a bool tensor"));
  CHECK_THROWS_WITH((a > 1) | a, Contains("logical_or: dtypes differ"));
  CHECK_THROWS_WITH(a == a.to(int64), Contains("eq: dtypes differ"));
  CHECK_THROWS_WITH(a < ones({2}), Contains("lt: shapes do not broadcast"));
}

TEST_CASE("assignments write in place where no gradient is recorded") {
  Tensor x = tensor({{1, 2}, {3, 4}});
  const Tensor handle = x, row = x[1];
  x += tensor({10, 20});
  CHECK(values(handle) == Values{11, 22, 13, 24});
  x -= tensor({{1}, {2}});
  CHECK(values(row) == Values{11, 22});
  x *= 2;
  CHECK(values(handle) == Values{20, 42, 22, 44});
  x /= tensor({2, 4});
  CHECK(values(handle) == Values{10, 10.5, 11, 11});
  x += 1, x -= 0.5, x /= 0.5;
  CHECK(values(handle) == Values{21, 22, 23, 23});
  (x += 1) *= x;  // the operand is x itself
  CHECK(values(handle) == Values{484, 529, 576, 576});
  Tensor other_way = x.mT();
  x -= other_way;  // the overlapping operand is read as if copied first
  CHECK(values(handle) == Values{0, -47, 47, 0});
  Tensor first = x[0];
  first += 5;  // writing through a view
  CHECK(values(handle) == Values{5, -42, 47, 0});

  Tensor n = tensor({5, -7}, int64);
  n += 3, n *= n, n -= tensor({1}, int64);
  CHECK(n.to_vector<int>() == std::vector<int>{63, 15});
  Tensor scalar_left = tensor(2.0);
  CHECK_THROWS_WITH(scalar_left += tensor({1, 2}),
                    "operator+=: shape (2,) does not broadcast to ()");
  CHECK_THROWS_WITH(n /= 2, "operator/=: expected float32 or float64, got int64");
  CHECK_THROWS_WITH(n += 0.5, "operator+=: 0.5 is not an int64");
  CHECK_THROWS_WITH(n += tensor({1.0}), "operator+=: dtypes differ: int64 and float32");
  CHECK_THROWS_AS(n *= n.to(boolean), Error);
  Tensor mask = x > 0, spread = tensor({1}).expand({3}), undefined;
  CHECK_THROWS_AS(mask += mask, Error);
  CHECK_THROWS_WITH(spread += 1, Contains("operator+=: in place on an expanded tensor"));
  CHECK_THROWS_WITH(undefined += x, Contains("used before it was given a value"));
  Tensor none = zeros({0, 2});
  none += tensor({1, 2});
  CHECK(none.shape() == Shape{0, 2});
  CHECK(n.to_vector<int>() == std::vector<int>{63, 15});  // calls that threw have not changed it
}

TEST_CASE("a manual update: in place under NoGrad, an error while gradients are recorded") {
  Tensor w = tensor({1, 2}).requires_grad_();
  const Tensor handle = w;
  sum(w * w).backward();
  {
    const NoGrad no_grad;
    w -= 0.1 * w.grad();
  }
  CHECK(difference(handle.detach(), Values{0.8, 1.6}) < 1e-6);
  CHECK(w.requires_grad());
  CHECK(w.is_leaf());
  CHECK(values(w.grad()) == Values{2, 4});
  CHECK_THROWS_WITH(w += 1, Contains("operator+=: on a leaf that requires grad while gradients"));
  CHECK_THROWS_WITH(w *= tensor({1, 2}), Contains("operator*=: on a leaf"));
  CHECK(difference(handle.detach(), Values{0.8, 1.6}) < 1e-6);
  Tensor x = tensor({1, 2});  // saved by the product, then written over
  const Tensor y = sum(w * x);
  x += 1;
  CHECK_THROWS_WITH(y.backward(), Contains("changed in place"));
}

TEST_CASE("a sum accumulated in a loop has the right gradients") {
  const Tensor w = tensor({1, 1}).requires_grad_();
  Tensor loss = zeros({});
  const Tensor start = loss;
  for (int k = 0; k < 3; ++k) loss += sum(w * static_cast<double>(k));
  CHECK(start.item() == 0);  // another handle keeps the old tensor
  CHECK(loss.item() == 6);
  loss.backward();
  CHECK(values(w.grad()) == Values{3, 3});

  const Tensor a = tensor({2, 3}, float64).requires_grad_();
  Tensor y = a * a;  // 4, 9
  y *= a;            // a^3
  y /= 2;
  y -= a;
  y += tensor(10.0, float64);
  y /= a;  // a^2/2 - 1 + 10/a
  CHECK(difference(y.detach(), Values{6, 4.5 - 1 + 10.0 / 3}) < 1e-14);
  sum(y).backward();
  CHECK(difference(a.grad(), Values{2 - 2.5, 3 - 10.0 / 9}) < 1e-14);
  Tensor z = a.sum();
  CHECK_THROWS_WITH(z += a, "operator+=: shape (2,) does not broadcast to ()");
  CHECK(z.shape() == Shape{});
}

TEST_CASE("methods equal the functions of the same names") {
  manual_seed(2);
  const Tensor x = rand({3, 4}, float64) + 0.5, m = randn({4, 2}, float64);
  const auto same = [](const Tensor& a, const Tensor& b) { CHECK(difference(a, b) == 0); };
  same(x.sum(), sum(x)), same(x.sum(1), sum(x, 1)), same(x.sum({0, 1}), sum(x));
  same(x.sum(0, keepdim), sum(x, 0, keepdim)), same(x.mean(-1), mean(x, -1));
  same(x.mean({}, keepdim), mean(x, keepdim)), same(x.var(), var(x));
  same(x.var(1, 0, keepdim), var(x, 1, 0, keepdim)), same(x.norm(), norm(x));
  same(x.norm(1, keepdim), norm(x, 1, keepdim)), same(x.max(), max(x)), same(x.min(), min(x));
  same(x.max(1).values, max(x, 1).values), same(x.min(0, keepdim).indices, min(x, 0, true).indices);
  same(x.argmax(1), argmax(x, 1)), same(x.argmax(0, keepdim), argmax(x, 0, keepdim));
  same(x.exp(), exp(x)), same(x.log(), log(x)), same(x.sqrt(), sqrt(x)), same((-x).abs(), x);
  same(x.pow(3), pow(x, 3)), same(x.pow(x), pow(x, x)), same(x.tanh(), tanh(x));
  same(x.sigmoid(), sigmoid(x)), same((x - 1.0).relu(), relu(x - 1.0));
  same(x.softmax(), softmax(x)), same(x.softmax(0), softmax(x, 0));
  same(x.log_softmax(0), log_softmax(x, 0)), same(x.matmul(m), matmul(x, m));
  same(x.clamp(0.6, 1), clamp(x, 0.6, 1));
  same(x.masked_fill(x > 1, 0), masked_fill(x, gt(x, 1), 0));
  CHECK(tensor({{1, 5}, {7, 2}}).argmax().item<int>() == 2);
  CHECK(tensor({{1, 7}, {7, 2}}).mT().argmax().item<int>() == 1);
  CHECK_THROWS_AS(zeros({0}).argmax(), Error);
  const Tensor a = tensor({1, 2}).requires_grad_();
  a.exp().sum().log().backward();
  CHECK(difference(a.grad(), softmax(a.detach())) < 1e-6);
}

TEST_CASE("a tensor of indices lists entries along the first axis") {
  const Tensor C = arange(12).reshape({4, 3}).to(float64).requires_grad_();
  const Tensor x = tensor({{3, 0}, {1, 3}}, int64);
  const Tensor e = C[x];
  CHECK(e.shape() == Shape{2, 2, 3});
  CHECK(e.to_vector<int>() == std::vector<int>{9, 10, 11, 0, 1, 2, 3, 4, 5, 9, 10, 11});
  e.sum().backward();
  CHECK(C.grad().to_vector<int>() == std::vector<int>{1, 1, 1, 1, 1, 1, 0, 0, 0, 2, 2, 2});
  CHECK(arange(5)[tensor({4, 2}, int64)].to_vector<int>() == std::vector<int>{4, 2});
  CHECK(arange(5)[scalar(3, int64)].item() == 3);
  CHECK(C[zeros({0, 2}, int64)].shape() == Shape{0, 2, 3});
  CHECK_THROWS_WITH(C[tensor({4}, int64)], Contains("4 at position 0 is outside [0, 4)"));
  CHECK_THROWS_WITH(C[tensor({1})], Contains("int64"));
  CHECK_THROWS_WITH(scalar(1)[tensor({0}, int64)], Contains("no first axis"));
  const Tensor block = randn({3, 2, 2});
  CHECK(block[tensor({2}, int64)].reshape({4}).to_vector<float>() ==
        block[2].reshape({4}).to_vector<float>());
}

TEST_CASE("numbers as operands, and the mean of a bool tensor") {
  const Tensor x = tensor({-1, 0, 2});
  CHECK(maximum(x, 0.5).to_vector<float>() == std::vector<float>{0.5, 0.5, 2});
  CHECK(minimum(x, 0).to_vector<float>() == std::vector<float>{-1, 0, 0});
  CHECK(maximum(arange(3), 1).to_vector<int>() == std::vector<int>{1, 1, 2});
  CHECK_THROWS_WITH(maximum(arange(3), 0.5), "maximum: 0.5 is not an int64");
  CHECK_THROWS_WITH(minimum(arange(3), 0.5), "minimum: 0.5 is not an int64");
  const Tensor half = mean(x > 0);
  CHECK(half.dtype() == float32);
  CHECK(half.item() == Approx(1.0 / 3));
  CHECK((tensor({{1, 2}, {3, 4}}) > 2).mean(0).to_vector<float>() == std::vector<float>{0.5, 0.5});
}

TEST_CASE("an in-place op returns a handle that stays valid") {
  const Tensor& w = zeros({2}).requires_grad_();  // the reference is bound to the returned handle
  CHECK(w.requires_grad());
  const Tensor x = ones({2});
  CHECK(x.add_(x).mul_(3).to_vector<float>() == std::vector<float>{6, 6});
  CHECK(&x.zero_().impl() == &x.impl());
  static_assert(!std::is_constructible_v<Tensor, int> &&
                !std::is_constructible_v<Tensor, std::nullptr_t>);
}

}  // namespace operators_test
