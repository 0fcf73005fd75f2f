// Formatting tensors as text.

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/ops/ops.h"
#include "gradus/core/tensor/tensor.h"

namespace print_test {

using namespace gradus;
using namespace gradus::core;

TEST_CASE("printing", "[tensor]") {
  CHECK(scalar(2.5).to_string() == "2.5000  float32 ()");
  CHECK(tensor({1, -2, 3}).to_string() == "[ 1.0, -2.0,  3.0]  float32 (3,)");
  CHECK(tensor({{1, 0.5}, {-10, 100}}, float64).to_string() ==
        "[[  1.0000,   0.5000],\n"
        " [-10.0000, 100.0000]]  float64 (2, 2)");
  CHECK(arange(4).reshape({2, 1, 2}).to_string() ==
        "[[[0, 1]],\n"
        " [[2, 3]]]  int64 (2, 1, 2)");
  CHECK(arange(8).reshape({2, 2, 2}).to_string() ==
        "[[[0, 1],\n"
        "  [2, 3]],\n"
        " [[4, 5],\n"
        "  [6, 7]]]  int64 (2, 2, 2)");
  CHECK(from_data(std::vector<bool>{true, false}, {2}).to_string() == "[ true, false]  bool (2,)");
  CHECK(empty({0}).to_string() == "[]  float32 (0,)");
  CHECK(empty({1 << 30, 0}).to_string().starts_with("[[],\n [],\n [],\n ...,\n []"));
  CHECK(empty({2, 0}).to_string() == "[[],\n []]  float32 (2, 0)");
  CHECK(tensor({1e-6, 1}).to_string() == "[1.0000e-06, 1.0000e+00]  float32 (2,)");
  CHECK(tensor({NAN, INFINITY, -INFINITY, 1.5}).to_string() ==
        "[   nan,    inf,   -inf, 1.5000]  float32 (4,)");
  CHECK(arange(6).to(float32).reshape({2, 3}).mT().to_string() ==
        "[[0.0, 3.0],\n"
        " [1.0, 4.0],\n"
        " [2.0, 5.0]]  float32 (3, 2)");
  CHECK(arange(2000).to_string() == "[   0,    1,    2, ..., 1997, 1998, 1999]  int64 (2000,)");
  CHECK(zeros({40, 40}).to_string() ==
        "[[0.0, 0.0, 0.0, ..., 0.0, 0.0, 0.0],\n"
        " [0.0, 0.0, 0.0, ..., 0.0, 0.0, 0.0],\n"
        " [0.0, 0.0, 0.0, ..., 0.0, 0.0, 0.0],\n"
        " ...,\n"
        " [0.0, 0.0, 0.0, ..., 0.0, 0.0, 0.0],\n"
        " [0.0, 0.0, 0.0, ..., 0.0, 0.0, 0.0],\n"
        " [0.0, 0.0, 0.0, ..., 0.0, 0.0, 0.0]]  float32 (40, 40)");
  CHECK(from_data(std::vector<int64_t>{INT64_MAX, (int64_t{1} << 53) + 1}, {2}).to_string() ==
        "[9223372036854775807,    9007199254740993]  int64 (2,)");
  std::ostringstream out;
  out << scalar(1);
  CHECK(out.str() == "1.0  float32 ()");
}

TEST_CASE("printing: when numbers are written with exponents", "[tensor]") {
  auto row = [](std::initializer_list<double> numbers) {
    const std::string text = tensor(numbers, float64).to_string();
    return text.substr(0, text.find("  float64"));
  };
  CHECK(row({99999999, -2}) == "[99999999.0,       -2.0]");
  CHECK(row({1e8, 2}) == "[1.0000e+08, 2.0000e+00]");
  CHECK(row({-1e8, 2}) == "[-1.0000e+08,  2.0000e+00]");
  CHECK(row({1e-4, 1}) == "[0.0001, 1.0000]");
  CHECK(row({-0.9e-4, 1}) == "[-9.0000e-05,  1.0000e+00]");
  CHECK(row({0.5, 4e7}) == "[       0.5000, 40000000.0000]");
  CHECK(row({0.5, 5e7}) == "[       0.5000, 50000000.0000]");
  CHECK(row({0.25, 5e7}) == "[2.5000e-01, 5.0000e+07]");  // too far apart
  CHECK(row({1e9, INFINITY, NAN, 0}) == "[1.0000e+09,        inf,        nan, 0.0000e+00]");
  CHECK(row({NAN, -INFINITY}) == "[ nan, -inf]");
  CHECK(row({0, -0.0}) == "[ 0.0, -0.0]");
  CHECK(scalar(-INFINITY).to_string() == "-inf  float32 ()");
}

TEST_CASE("printing: views of compressed tensors", "[tensor]") {
  const Tensor w = tensor({{1, 0.5}, {-10, 100}}), h = w.to(bfloat16), q = w.to(int8);
  CHECK(h.mT().to_string() ==
        "[[  1.0000, -10.0000],\n"
        " [  0.5000, 100.0000]]  bfloat16 (2, 2)");
  CHECK(h.slice(1, 1).to_string() == "[[  0.5000],\n [100.0000]]  bfloat16 (2, 1)");
  CHECK(h[1].to_string() == "[-10.0, 100.0]  bfloat16 (2,)");
  CHECK(q.to_string().starts_with("[["));
  CHECK(q.detach().to_string() == q.to_string());
  CHECK(q[0].to_string() == "[...]  int8 (2,)");
  CHECK(q.mT().to_string() == "[...]  int8 (2, 2)");
}

TEST_CASE("printing: large tensors show the ends of their axes", "[tensor]") {
  const std::string whole = arange(1000).to_string();
  CHECK(whole.find("...") == std::string::npos);
  CHECK(arange(1001).to_string() == "[   0,    1,    2, ...,  998,  999, 1000]  int64 (1001,)");
  CHECK(zeros({2, 501}).to_string() ==
        "[[0.0, 0.0, 0.0, ..., 0.0, 0.0, 0.0],\n"
        " [0.0, 0.0, 0.0, ..., 0.0, 0.0, 0.0]]  float32 (2, 501)");
  CHECK(zeros({201, 6}).to_string().substr(0, 31) == "[[0.0, 0.0, 0.0, 0.0, 0.0, 0.0]");
  CHECK(zeros({201, 7}).to_string().substr(0, 36) == "[[0.0, 0.0, 0.0, ..., 0.0, 0.0, 0.0]");
  // Elements not shown do not affect the format.
  const Tensor x = zeros({2000});
  x.slice(0, 3, 1997).fill_(1e-9);
  CHECK(x.requires_grad_().to_string() == "[0.0, 0.0, 0.0, ..., 0.0, 0.0, 0.0]  float32 (2000,)");
}

}  // namespace print_test
