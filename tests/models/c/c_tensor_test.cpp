// The C interface's tensors and ops, by worked examples.

#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>

#include "gradus/core/debug/build_info.h"
#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/runtime/threads.h"
#include "gradus/models/c/handles.h"
#include "tests/support/compare.h"

namespace c_tensor_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Matchers::Contains, Catch::Matchers::StartsWith;

namespace {

/// The result of an op.
Tensor result(const char* op, const Tensor& x, const Tensor& y = {}) {
  const gradus_tensor first{x}, second{y};
  const gradus_tensor* const inputs[] = {&first, &second};
  gradus_tensor* out = nullptr;
  REQUIRE(gradus_op(op, inputs, y.defined() ? 2 : 1, &out) == GRADUS_OK);
  const Tensor value = out->value;
  gradus_tensor_free(out);
  return value;
}

/// Checks an op of two tensors, whose result has the elements `expected`.
void check_pair(const char* op, const Tensor& x, const Tensor& y, const Values& expected) {
  CAPTURE(op);
  CHECK(difference(result(op, x, y), expected) < 1e-12);
}

/// Checks an op that computes f of each element.
void check_each(const char* op, const Tensor& x, double (*f)(double)) {
  CAPTURE(op);
  Values expected;
  for (const double v : values(x)) expected.push_back(f(v));
  CHECK(difference(result(op, x), expected) < 1e-12);
}

}  // namespace

TEST_CASE("C: each op, by hand") {
  const Tensor x = tensor({{0.5, 2}, {1, 4}}, float64), y = tensor({{2, 4}, {8, 0.5}}, float64);
  check_pair("add", x, y, {2.5, 6, 9, 4.5});
  check_pair("sub", x, y, {-1.5, -2, -7, 3.5});
  check_pair("mul", x, y, {1, 8, 8, 2});
  check_pair("div", x, y, {0.25, 0.5, 0.125, 8});
  check_pair("matmul", x, y, {17, 3, 34, 6});
  check_pair("mse_loss", x, y, {(2.25 + 4 + 49 + 12.25) / 4});
  check_each("log", x, std::log);
  check_each("sqrt", x, std::sqrt);

  const Tensor z = tensor({{-1, 2}, {0.5, -3}}, float64);
  check_each("neg", z, [](double v) { return -v; });
  check_each("exp", z, std::exp);
  check_each("tanh", z, std::tanh);
  check_each("relu", z, [](double v) { return v > 0 ? v : 0; });
  check_each("sigmoid", z, [](double v) { return 1 / (1 + std::exp(-v)); });
  check_each("silu", z, [](double v) { return v / (1 + std::exp(-v)); });
  check_each("gelu", z, [](double v) { return v * (1 + std::erf(v / std::sqrt(2.0))) / 2; });
  CHECK(values(result("sum", z)) == Values{-1.5});
  CHECK(values(result("mean", z)) == Values{-0.375});
  CHECK(values(result("transpose", z)) == Values{-1, 0.5, 2, -3});
  // A softmax of two numbers is the sigmoid of their difference: 3 and 3.5 here.
  const double a = 1 / (1 + std::exp(-3.0)), b = 1 / (1 + std::exp(-3.5));
  CHECK(difference(result("softmax", z), {1 - a, a, b, 1 - b}) < 1e-12);
  CHECK(difference(result("log_softmax", z),
                   {std::log(1 - a), std::log(a), std::log(b), std::log(1 - b)}) < 1e-12);
  check_pair("cross_entropy", z, from_data<int64_t>({1, 1}),
             {-(std::log(a) + std::log(1 - b)) / 2});
}

TEST_CASE("C: arrays of bool and of float64, of the smallest and the largest rank") {
  uint8_t truth[] = {1, 0, 1, 1};
  double numbers[] = {1, 2, 3, 4, 5, 6};
  const auto copied = [](const gradus_array& array) {
    gradus_tensor* t = nullptr;
    REQUIRE(gradus_tensor_copy(&array, &t) == GRADUS_OK);
    gradus_array seen{};
    REQUIRE(gradus_tensor_array(t, &seen) == GRADUS_OK);
    CHECK((seen.dtype == array.dtype && seen.rank == array.rank));
    const Tensor value = t->value;
    gradus_tensor_free(t);
    return value;
  };
  const Tensor booleans = copied({truth, GRADUS_BOOL, 1, {4}, {1}});
  CHECK(booleans.dtype() == boolean);
  CHECK(values(booleans) == Values{1, 0, 1, 1});
  const Tensor scalar = copied({numbers, GRADUS_FLOAT64, 0, {}, {}});
  CHECK(scalar.shape() == Shape{});
  CHECK(scalar.item() == 1);
  const Tensor deep =
      copied({numbers, GRADUS_FLOAT64, 8, {1, 1, 1, 1, 1, 1, 3, 2}, {0, 0, 0, 0, 0, 0, 1, 3}});
  CHECK(deep.shape() == Shape{1, 1, 1, 1, 1, 1, 3, 2});
  CHECK(values(deep) == Values{1, 4, 2, 5, 3, 6});

  const gradus_tensor one{deep.reshape({-1}).slice(0, 1, 2)};
  gradus_tensor* none_left = nullptr;  // no axis is left
  REQUIRE(gradus_tensor_reshape(&one, nullptr, 0, &none_left) == GRADUS_OK);
  CHECK(none_left->value.shape() == Shape{});
  CHECK(none_left->value.item() == 4);
  gradus_tensor_free(none_left);
}

TEST_CASE("C: compressed elements are not shown") {
  const gradus_tensor weight{ones({4, 4}).to(int8)};
  gradus_array seen{};
  CHECK(gradus_tensor_array(&weight, &seen) == GRADUS_INVALID);
  CHECK_THAT(gradus_last_error(), Contains("elements of int8 have no C type"));
  CHECK(seen.data == nullptr);
}

TEST_CASE("C: a tensor's gradient is computed only while it is required") {
  gradus_tensor x{tensor({3.0})};
  CHECK(gradus_tensor_requires_grad(&x, 1) == GRADUS_OK);
  CHECK(result("exp", x.value).requires_grad());
  CHECK(gradus_tensor_requires_grad(&x, 0) == GRADUS_OK);
  CHECK_FALSE(result("exp", x.value).requires_grad());
}

TEST_CASE("C: the version, the seed and the threads are the library's") {
  CHECK(std::string(gradus_version()) == version());
  CHECK(gradus_seed(5) == GRADUS_OK);
  const Values drawn = values(rand({3}));
  manual_seed(5);
  CHECK(values(rand({3})) == drawn);
  const int before = num_threads();
  CHECK(gradus_set_threads(2) == GRADUS_OK);
  CHECK(num_threads() == 2);
  CHECK(gradus_set_threads(1) == GRADUS_OK);
  CHECK(num_threads() == 1);
  set_num_threads(before);
}

TEST_CASE("C: each kind of exception has its code") {
  using models::internal::guarded;
  CHECK(guarded([] {}) == GRADUS_OK);
  CHECK(guarded([] { core::fail("a reason"); }) == GRADUS_INVALID);
  CHECK(std::string(gradus_last_error()) == "a reason");
  CHECK(guarded([] { throw std::bad_alloc(); }) == GRADUS_NO_MEMORY);
  CHECK(std::string(gradus_last_error()) == "out of memory");
  for (const int64_t n : {int64_t{1} << 44, int64_t{1} << 46}) {  // 64 and 256 TB
    CHECK(guarded([n] { zeros({n}); }) == GRADUS_NO_MEMORY);
    CHECK_THAT(gradus_last_error(), Contains("storage: "));
    CHECK(guarded([n] { core::naming("a file", [n] { return zeros({n}); }); }) == GRADUS_NO_MEMORY);
    CHECK_THAT(gradus_last_error(), StartsWith("a file: storage: "));
  }
  CHECK(guarded([] { throw std::runtime_error("another"); }) == GRADUS_INTERNAL);
  CHECK(std::string(gradus_last_error()) == "another");
  CHECK(guarded([] { throw 1; }) == GRADUS_INTERNAL);
  CHECK_THAT(gradus_last_error(), Contains("unknown type"));
  CHECK(guarded([] {}) == GRADUS_OK);  // the last message stays
  CHECK_THAT(gradus_last_error(), Contains("unknown type"));
}

}  // namespace c_tensor_test
