// Values, edge cases and messages of the ops that PyTorch's users reach for. Numbers are worked by
// hand or come from PyTorch 1.13.1.

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "gradus/core/core.h"

using namespace gradus;
using namespace gradus::core;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double NaN = std::numeric_limits<double>::quiet_NaN();
using Ints = std::vector<int64_t>;

}  // namespace

TEST_CASE("argmax and argmin: the first of equals, NaN before all, every dtype") {
  const Tensor x = tensor({{3, -1, 7}, {7, -1, 0}}, float64);
  CHECK(argmax(x).item<int64_t>() == 2);
  CHECK(argmin(x).item<int64_t>() == 1);
  CHECK(argmin(x.mT()).item<int64_t>() == 2);
  CHECK((argmax(x).shape() == Shape{} && argmax(x).dtype() == int64));
  CHECK(argmin(x, 0).to_vector<int64_t>() == Ints{0, 0, 1});
  CHECK(argmin(x, -1, keepdim).shape() == Shape{2, 1});
  CHECK(argmin(tensor({1, NaN, -inf, NaN})).item<int64_t>() == 1);
  CHECK(argmax(tensor({1, NaN, inf})).item<int64_t>() == 1);
  CHECK(argmin(tensor({{inf, inf}, {NaN, -inf}}), 1).to_vector<int64_t>() == Ints{0, 0});
  CHECK(argmin(from_data<int64_t>({5, INT64_MIN, INT64_MAX}, {3})).item<int64_t>() == 1);
  CHECK(argmax(from_data<int64_t>({5, INT64_MIN, INT64_MAX}, {3})).item<int64_t>() == 2);
  CHECK(argmax(tensor({0, 1, 1}, boolean)).item<int64_t>() == 1);
  CHECK(argmin(scalar(NaN)).item<int64_t>() == 0);
}

TEST_CASE("argsort: stable, NaN largest, every dtype") {
  CHECK(argsort(tensor({2, NaN, -inf, 2, inf})).to_vector<int64_t>() == Ints{2, 0, 3, 4, 1});
  CHECK(argsort(tensor({2, NaN, -inf, 2, inf}), 0, true).to_vector<int64_t>() ==
        Ints{1, 4, 0, 3, 2});
  CHECK(argsort(tensor({1, 0, 1}, boolean)).to_vector<int64_t>() == Ints{1, 0, 2});
  CHECK(argsort(tensor({{3, 1}, {2, 2}}, int64), 0).to_vector<int64_t>() == Ints{1, 0, 0, 1});
  CHECK(argsort(zeros({2, 0})).shape() == Shape{2, 0});
}
