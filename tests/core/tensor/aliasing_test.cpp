// Shared memory: an op that writes through one tensor must not change what it reads through
// another.

#include <catch2/catch.hpp>

#include "gradus/gradus.h"
#include "tests/support/compare.h"

namespace aliasing_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Contains;

namespace {

/// Checks that op(x, source(x)) in place gives the same as with a copy of the source.
template <class Op, class Source>
void check_as_copied(const Tensor& x, Op op, Source source) {
  const Tensor expected = x.clone();
  op(expected, source(expected).clone());
  for (int threads : {1, 2}) {
    const int before = num_threads();
    set_num_threads(threads);
    const Tensor got = x.clone();
    op(got, source(got));
    set_num_threads(before);
    CHECK((values(got) == values(expected)));
  }
}

}  // namespace

TEST_CASE("in-place ops on overlapping memory give what a copy of the source gives") {
  manual_seed(1);
  const Tensor x = randn({400, 400});  // more than one chunk of work
  auto add = [](const Tensor& to, const Tensor& from) { to.add_(from, 2); };
  auto copy = [](const Tensor& to, const Tensor& from) { to.copy_(from); };
  check_as_copied(x, add, [](const Tensor& t) { return t.mT(); });
  check_as_copied(x, copy, [](const Tensor& t) { return t.mT(); });
  check_as_copied(x, add, [](const Tensor& t) { return t[0]; });
  check_as_copied(x, copy, [](const Tensor& t) { return t.slice(1, 7, 8); });
  check_as_copied(x, add, [](const Tensor& t) { return t; });
  auto shifted = [](auto op, int64_t by) {
    return [=](const Tensor& to, const Tensor& from) {
      op(to.slice(0, by), from.slice(0, 0, 400 - by));
    };
  };
  check_as_copied(x, shifted(copy, 1), [](const Tensor& t) { return t; });
  check_as_copied(x, shifted(add, 3), [](const Tensor& t) { return t; });
  auto meeting = [](auto op) {  // in one element
    return
        [=](const Tensor& to, const Tensor& from) { op(to.slice(0, 100), from.slice(0, 0, 101)); };
  };
  check_as_copied(randn({201}), meeting(copy), [](const Tensor& t) { return t; });
  check_as_copied(randn({201}), meeting(add), [](const Tensor& t) { return t; });
  // Expected values computed by hand.
  const Tensor y = tensor({1, 2, 3, 4});
  y.slice(0, 1).copy_(y.slice(0, 0, 3));
  CHECK(values(y) == Values{1, 1, 2, 3});
  y.slice(0, 0, 2).add_(y.slice(0, 2));  // adjacent slices do not overlap
  CHECK(values(y) == Values{3, 4, 2, 3});
}

TEST_CASE("an expanded tensor may be written if no two of its elements share memory") {
  const Tensor x = tensor({1, 2}), one = x.expand({1, 2}), none = scalar(1).expand({3, 0});
  REQUIRE(one.strides()[0] == 0);
  REQUIRE(none.strides()[0] == 0);
  one.fill_(5);
  CHECK(values(x) == Values{5, 5});
  CHECK_NOTHROW(none.fill_(5));
  CHECK_THROWS_WITH(x.expand({2, 2}).fill_(5), Contains("in place on an expanded tensor"));
}

TEST_CASE("a module loads a state that shares its own memory") {
  const nn::Linear layer(3, 3, {.bias = false});
  const Tensor transposed = layer.weight.detach().mT().clone();
  layer.weight.detach().contiguous();
  nn::Linear copy = layer;
  copy.load_state_dict({{"weight", layer.weight.detach().mT()}});
  CHECK(values(layer.weight.detach()) == values(transposed));
}

TEST_CASE("gradients returned by grad share memory with no other tensor") {
  const bool create_graph = GENERATE(false, true);
  const Tensor x = tensor({1, 2}).requires_grad_(), y = tensor({3, 4}).requires_grad_();
  const Tensor dy = tensor({10, 20});
  auto both = [&](const Tensor& out) {
    return grad({out}, {x, y, x}, {.grad_outputs = {dy}, .create_graph = create_graph});
  };
  auto results = both(x + y);
  {
    const NoGrad no_grad;
    results[0].detach().add_(ones({2}));
  }
  CHECK(values(results[1].detach()) == Values{10, 20});
  CHECK(values(results[2].detach()) == Values{10, 20});
  CHECK(values(dy) == Values{10, 20});
  // An expanded gradient gets its own elements too.
  const Tensor dx = grad({sum(x)}, {x}, {.create_graph = create_graph})[0];
  CHECK(dx.is_contiguous());
  const NoGrad no_grad;
  dx.detach()[0].fill_(5);
  CHECK(values(dx.detach()) == Values{5, 1});
}

TEST_CASE("gradients returned by grad share no memory with what a hook keeps or returns") {
  const bool create_graph = GENERATE(false, true);
  const Tensor x = tensor({1, 2}).requires_grad_(), y = tensor({1, 2}).requires_grad_();
  const Tensor h = x + 1.0;  // its gradient is also x's
  const Tensor returned = tensor({5, 5});
  Tensor kept;
  h.register_hook([&](const Tensor& g) {
    kept = g;
    return Tensor();
  });
  y.register_hook([&](const Tensor&) { return returned; });
  const auto results = grad({sum(h * h * y)}, {x, y}, {.create_graph = create_graph});
  CHECK(values(results[0].detach()) == Values{4, 12});
  CHECK(values(results[1].detach()) == Values{5, 5});
  CHECK(results[0].impl().storage != kept.impl().storage);
  CHECK(results[1].impl().storage != returned.impl().storage);
}

TEST_CASE("a hook's in-place write changes only its own tensor's gradient") {
  const Tensor x = tensor({1, 2}).requires_grad_(), y = tensor({3, 4}).requires_grad_();
  x.register_hook([](const Tensor& g) {
    g.mul_(100);
    return Tensor();
  });
  const Tensor dy = tensor({1, 1});
  (x + y).backward(dy);
  CHECK(values(x.grad()) == Values{100, 100});
  CHECK(values(y.grad()) == Values{1, 1});
  CHECK(values(dy) == Values{1, 1});

  const Tensor z = tensor({1, 2}).requires_grad_(), made = z * 2.0;
  made.register_hook([](const Tensor& g) {
    g.zero_();
    return Tensor();
  });
  const Tensor other = z * 3.0;
  (made + other).backward(dy);
  CHECK(values(z.grad()) == Values{3, 3});
}

TEST_CASE("a hook may not hold its own tensor, but may hold another") {
  const int64_t before = memory_stats().live;
  {
    const Tensor x = tensor({1, 2}).requires_grad_(), y = x * 2.0;
    auto holding = [](const Tensor& t) { return [t](const Tensor& g) { return g * t.detach(); }; };
    CHECK_THROWS_WITH(x.register_hook(holding(x)), Contains("register_hook: the hook holds"));
    CHECK_THROWS_WITH(y.register_hook(holding(y)), Contains("register_hook: the hook holds"));
    y.register_hook(holding(x));
    x.register_hook(holding(x.detach()));
    y.backward(ones({2}));
    CHECK(values(x.grad()) == Values{2, 8});  // 2 x from y's hook, times x from its own
  }
  CHECK(memory_stats().live == before);
}

}  // namespace aliasing_test
