// Shape checks: what fits, and the messages.

#include "gradus/core/tensor/checks.h"

#include <catch2/catch.hpp>
#include <locale>

#include "gradus/core/ops/factories.h"

namespace checks_test {

using namespace gradus;
using core::check_shape;

TEST_CASE("check_shape: names, sizes and any number of axes", "[checks]") {
  const Tensor x = zeros({2, 3, 4});
  check_shape("op", "x", x, {"B", "T", 4});
  check_shape("op", "x", x, {"...", 4});
  check_shape("op", "x", x, {2, "..."});
  check_shape("op", "x", x, {2, "...", 4});
  check_shape("op", "x", x, {"...", "B", "T", "C"});
  check_shape("op", "x", zeros({5, 2, 5}), {"N", "M", "N"});
  check_shape("op", "x", zeros({}), {});
  check_shape("op", "x", zeros({}), {"..."});

  CHECK_THROWS_WITH(check_shape("op", "x", zeros({3, 4}), {"B", "T", 64}),
                    "op: expected x (B, T, 64), got (3, 4)");
  CHECK_THROWS_WITH(check_shape("op", "x", x, {"B", "T", 5}),
                    "op: expected x (B, T, 5), got (2, 3, 4)");
  CHECK_THROWS_WITH(check_shape("op", "x", x, {"...", "N", "N"}),
                    "op: expected x (..., N, N), got (2, 3, 4)");
  CHECK_THROWS_WITH(check_shape("op", "bias", x, {"C"}), "op: expected bias (C,), got (2, 3, 4)");
  CHECK_THROWS_WITH(check_shape("op", "x", x, {}), "op: expected x (), got (2, 3, 4)");
  CHECK_THROWS_WITH(check_shape("op", "x", zeros({}), {"A", "B", "..."}),
                    "op: expected x (A, B, ...), got ()");
  CHECK_THROWS_WITH(check_shape("op", "x", {}, {"B"}),
                    "op: expected x (B,), got an undefined tensor");
}

TEST_CASE("the largest number of elements", "[checks]") {
  constexpr int64_t most = INT64_MAX / 16;
  CHECK(zeros({0, most}).shape() == Shape{0, most});  // sizes count although there is no element
  CHECK_THROWS_WITH(zeros({0, most + 1}), Catch::Contains("too many elements in shape (0, "));
}

TEST_CASE("messages: the same in a program with another locale", "[checks]") {
  struct Grouped : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale(), new Grouped));
  const std::string shape = zeros({1234, 2}).to_string(), number = tensor({1234.5}).to_string();
  std::string message;
  try {
    check_shape("op", "x", zeros({1234, 2}), {4321});
  } catch (const Error& e) {
    message = e.what();
  }
  std::string plain;
  try {
    core::fail("got ", 1234.5, ", ", int64_t{1234567});
  } catch (const Error& e) {
    plain = e.what();
  }
  std::locale::global(before);
  CHECK(message == "op: expected x (4321,), got (1234, 2)");
  CHECK(plain == "got 1234.5, 1234567");
  CHECK_THAT(shape, Catch::Contains("(1234, 2)"));
  CHECK_THAT(number, Catch::Contains("1234.5"));
}

}  // namespace checks_test
