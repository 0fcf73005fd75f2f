// Shape checks: what fits, and the messages.

#include "gradus/core/tensor/checks.h"

#include <catch2/catch.hpp>

#include "gradus/core/ops/factories.h"

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
  CHECK_THROWS_WITH(check_shape("op", "x", {}, {"B"}),
                    "op: expected x (B,), got an undefined tensor");
}
