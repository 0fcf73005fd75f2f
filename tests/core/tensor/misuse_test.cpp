// Calls that could be misread: they do what they appear to do, do not compile, or throw.

#include <catch2/catch.hpp>
#include <concepts>
#include <type_traits>

#include "gradus/core/tensor/reuse.h"
#include "gradus/gradus.h"
#include "tests/support/compare.h"

namespace misuse_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Contains;

namespace {

struct Net : nn::Module {
  nn::Linear out;
  const Tensor scale;
  Net() : out(child("out", nn::Linear(2, 5))), scale(param("scale", ones({5}))) {}
  void adopt_itself() { child("self", *this); }
  void adopt(const nn::Module& other) { child("other", other); }
};

// ---- what must not compile ----

template <class T>
concept HasData = requires(const Tensor& x) {
  x.data<T>();
};
static_assert(HasData<float> && HasData<const double> && HasData<int64_t> && HasData<bool>);
// f(x).shape() outlives f(x).
static_assert(std::is_same_v<decltype(std::declval<Tensor>().shape()), Shape> &&
              std::is_same_v<decltype(std::declval<const Tensor>().strides()), Shape>);
static_assert(std::is_same_v<decltype(std::declval<Tensor&>().shape()), const Shape&>);
static_assert(std::is_constructible_v<nn::RMSNorm, int, double> &&
              !std::is_constructible_v<nn::RMSNorm, int, bool>);  // `true` could mean eps = 1
static_assert(!HasData<int> && !HasData<unsigned> && !HasData<char> && !HasData<long double>);

// x[0] = y would assign to a temporary handle.
static_assert(!std::is_assignable_v<Tensor, const Tensor&> &&
              !std::is_assignable_v<Tensor, Tensor>);
static_assert(std::is_assignable_v<Tensor&, const Tensor&> &&
              std::is_assignable_v<Tensor&, Tensor>);

// A registered layer or parameter cannot be replaced without the module's knowledge.
static_assert(!std::is_assignable_v<nn::Linear&, nn::Linear> && !std::is_assignable_v<Net&, Net>);
static_assert(!std::is_assignable_v<decltype((std::declval<nn::Linear&>().weight)), Tensor>);
static_assert(!std::is_assignable_v<decltype((std::declval<nn::LayerNorm&>().bias)), Tensor>);
static_assert(
    !std::is_assignable_v<decltype((std::declval<models::GPT&>().config.vocab)), int64_t>);
static_assert(std::is_copy_constructible_v<Net> &&
              std::is_nothrow_move_constructible_v<nn::Linear>);

// A copy of a cache would share its memory but not its length.
static_assert(!std::is_copy_constructible_v<nn::KeyValueCache>);
static_assert(!std::is_copy_assignable_v<nn::KeyValueCache>);
static_assert(std::is_nothrow_move_constructible_v<nn::KeyValueCache>);

// Neither keepdim nor true is an axis or a number of degrees of freedom.
template <class... A>
concept Summable = requires(const Tensor& x, A... a) {
  sum(x, a...);
};
template <class... A>
concept Sortable = requires(const Tensor& x, A... a) {
  sort(x, a...);
};
template <class... A>
concept HasMax = requires(const Tensor& x, A... a) {
  max(x, a...);
};
template <class... A>
concept HasVar = requires(const Tensor& x, A... a) {
  var(x, a...);
};
static_assert(Summable<> && Summable<int> && Summable<int64_t, KeepDim> && Summable<size_t, bool>);
static_assert(!Summable<double> && !Summable<int, int> && !Summable<int, int, int>);
static_assert(Sortable<int, bool> && !Sortable<bool> && HasMax<int, bool> && !HasMax<bool>);
static_assert(!HasMax<KeepDim> && HasVar<int, int, KeepDim> && !HasVar<int, bool> &&
              !HasVar<int, KeepDim>);

}  // namespace

TEST_CASE("sums: an empty list of axes means all axes, and keepdim is not an axis") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  CHECK(sum(x, {}).item() == 21);
  CHECK(sum(x, {}).shape() == Shape{});
  CHECK(sum(x, keepdim).shape() == Shape{1, 1});
  CHECK(sum(x, true).item() == 21);
  CHECK(mean(x, keepdim).shape() == Shape{1, 1});
  CHECK(norm(x, keepdim).shape() == Shape{1, 1});
  CHECK(sum(x, {}, keepdim).shape() == Shape{1, 1});
  CHECK(sum(x, 1, keepdim).shape() == Shape{2, 1});
  CHECK(sum(x, {0, -1}, true).shape() == Shape{1, 1});
  CHECK(sum(x, -2).to_vector<int>() == std::vector<int>{5, 7, 9});
  CHECK(var(x, {}, 0).item() == Approx(35.0 / 12));
}

TEST_CASE("negative indices of a shape count from its end; indices out of range throw") {
  Shape shape{2, 3, 4};
  CHECK(shape[-1] == 4);
  CHECK(shape[-3] == 2);
  shape[-2] = 7;
  CHECK(shape == Shape{2, 7, 4});
  CHECK_THROWS_WITH(shape[3], "shape: no entry 3 in (2, 7, 4)");
  CHECK_THROWS_WITH(shape[-4], "shape: no entry -4 in (2, 7, 4)");
  CHECK_THROWS_AS(Shape{}.back(), Error);
  CHECK_THROWS_AS(Shape{}.pop_back(), Error);
  CHECK_THROWS_AS(shape.insert(4, 1), Error);
  CHECK_THROWS_AS(shape.erase(3), Error);
}

TEST_CASE("a custom rule that asks for an input or output its op lacks throws") {
  const Tensor x = ones({2}).requires_grad_();
  for (int bad : {-1, 1, 7})
    for (int call = 0; call < 5; ++call) {
      const Tensor y = x.detach().clone();
      core::record("double", {y}, {x}, core::saves_nothing, [=](core::Backward& b) {
        if (call == 0) b.give(bad, b.grad());
        if (call == 1) b.grad(bad);
        if (call == 2) b.needs(bad);
        if (call == 3) b.has_grad(bad);
        if (call == 4) internal::sum_in_place(b, bad);
      });
      CHECK_THROWS_WITH(y.backward(ones({2})),
                        Contains("double: backward: no ") && Contains(" of 1"));
    }
}

TEST_CASE("a module is not its own child") {
  Net net, other;
  CHECK_THROWS_WITH(net.adopt_itself(), Contains("module: the child 'self' is or contains"));
  net.adopt(other);
  CHECK_THROWS_WITH(other.adopt(net), Contains("module: the child 'other' is or contains"));
  CHECK(net.parameters().size() == 6);
}

TEST_CASE("caches: a moved cache keeps its tokens") {
  const NoGrad no_grad;
  nn::KeyValueCache cache(1, 1, 4, 2);
  cache.append(ones({1, 1, 3, 2}), ones({1, 1, 3, 2}));
  const nn::KeyValueCache moved = std::move(cache);
  CHECK(moved.length() == 3);
  CHECK(moved.keys().shape() == Shape{1, 1, 3, 2});
}

TEST_CASE("a parameter frozen between forward and backward pass gets no gradient, as PyTorch's") {
  const Tensor x = tensor({2, 3}).requires_grad_(), w = tensor({4, 5}).requires_grad_();
  const Tensor y = sum(x * w);
  w.requires_grad_(false);
  y.backward();
  CHECK_FALSE(w.grad().defined());
  CHECK(x.grad()[0].item() == 4);
}

TEST_CASE("optimisers skip frozen parameters, and name a parameter that they refuse") {
  const Tensor a = ones({2}).requires_grad_(), frozen = ones({3});
  optim::AdamW optimizer({a, frozen}, {.lr = 0.1});
  a.set_grad(ones({2}));
  frozen.set_grad(ones({3}));
  CHECK(optimizer.step({.max_grad_norm = 100}) == Approx(std::sqrt(2.0)));
  CHECK(frozen.to_vector<float>() == std::vector<float>{1, 1, 1});
  CHECK(a[0].item() < 1);
  frozen.requires_grad_();  // from now on it is trained, from its own first step
  optimizer.step();
  CHECK(frozen[0].item() == Approx(1 - 0.1 * (1 + 0.01)));
  a.requires_grad_(false);
  const float before = a[0].item<float>();
  optimizer.step();
  CHECK(a[0].item<float>() == before);
  // Its state can be saved and restored at any time.
  optim::AdamW again({a, frozen}, {.lr = 0.1});
  again.load_state_dict(optimizer.state_dict());
  CHECK(again.state_dict()[0].second.to_vector<int>() == std::vector<int>{2, 2});

  const Tensor w = ones({2, 2}).requires_grad_();
  CHECK_THROWS_WITH(optim::SGD({a, w, w}),
                    Contains("SGD: parameter 2 of shape (2, 2) is listed twice"));
  CHECK_THROWS_WITH(optim::SGD({w, w * 2.0}),
                    Contains("SGD: parameter 1 of shape (2, 2): expected"));
  CHECK_THROWS_WITH(optim::SGD({w, Tensor()}), Contains("SGD: parameter 1 is undefined"));
  CHECK_THROWS_WITH(optim::SGD({ones({2}), ones({3})}),
                    Contains("none of the 2 parameters requires"));
  const Tensor first = w.detach()[0].requires_grad_();
  CHECK_THROWS_WITH(optim::SGD({w, first}),
                    Contains("parameter 1 of shape (2,) shares memory with parameter 0"));
  const Tensor second = w.detach()[1].requires_grad_();
  optim::SGD({first, second});  // adjacent slices do not overlap
  optim::SGD({second, first});
}

}  // namespace misuse_test
