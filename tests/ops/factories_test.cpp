// Tensor factories: from literals, vectors, bytes and memory of others; sequences; random values.

#include "gradus/core/ops/factories.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <span>
#include <thread>

#include "gradus/core/ops/ops.h"
#include "tests/support/compare.h"

namespace factories_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Contains;

TEST_CASE("tril and triu: diagonals far outside the matrix") {
  const Tensor x = ones({2, 3}), none = zeros({2, 3});
  for (const int64_t far : {int64_t{3}, INT64_MAX}) {
    CHECK(allclose(tril(x, far), x));
    CHECK(allclose(triu(x, far), none));
    CHECK(allclose(tril(x, -far), none));
    CHECK(allclose(triu(x, -far), x));
  }
  CHECK(allclose(triu(x, INT64_MIN), x));
}

TEST_CASE("cat and chunk: sizes beyond int64 are refused") {
  const Tensor big = zeros({1}, boolean).expand({(int64_t{1} << 59) - 1});
  std::vector<Tensor> many(32, big);
  many.push_back(zeros({42}, boolean));
  CHECK_THROWS_WITH(cat(many), "cat: axis 0 would be too long");
  CHECK_THROWS_WITH(zeros({0}).chunk(INT64_MAX, 0),
                    "chunk: expected at most 2^30 empty pieces, got 9223372036854775807");
  CHECK(zeros({0, 2}).chunk(3, 0).size() == 3);
}

TEST_CASE("tensor: nested braces give the shape") {
  CHECK(tensor(3.5).shape() == Shape{});
  CHECK(tensor(3).item() == 3);
  CHECK(tensor({}).shape() == Shape{0});
  CHECK(tensor({1}).shape() == Shape{1});
  CHECK(tensor({1, 2}).shape() == Shape{2});
  CHECK(tensor({{1}}).shape() == Shape{1, 1});
  CHECK(tensor({{1}, {2}}).shape() == Shape{2, 1});
  CHECK(tensor({{1}, {2}, {3}}).shape() == Shape{3, 1});
  CHECK(values(tensor({{1}, {2}, {3}})) == Values{1, 2, 3});
  CHECK(tensor({{1, 2}}).shape() == Shape{1, 2});
  CHECK(tensor({{1, 2}, {3, 4}}).shape() == Shape{2, 2});
  CHECK(tensor({{}, {}}).shape() == Shape{2, 0});
  CHECK(tensor({{{1}}}).shape() == Shape{1, 1, 1});
  CHECK(tensor({{{1, 2}}, {{3, 4}}}).shape() == Shape{2, 1, 2});
  CHECK(tensor({{{1, 2}, {3, 4}, {5, 6}}}).shape() == Shape{1, 3, 2});
  CHECK(values(tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}})[1][0]) == Values{5, 6});
  const double u = 0.5;
  const int64_t n = 7;
  const size_t size = 9;
  CHECK(values(tensor({{u, 1.5f}, {static_cast<double>(n), 2}})) == Values{0.5, 1.5, 7, 2});
  CHECK(values(tensor({n, n + 1}, int64)) == Values{7, 8});
  CHECK(values(tensor({size, size}, float64)) == Values{9, 9});
  CHECK(values(tensor({{true, false}}, boolean)) == Values{1, 0});
  CHECK(values(tensor({2, 0}, boolean)) == Values{1, 0});
  // All bools make a bool tensor; integers make float32.
  CHECK(tensor({{true, false}, {false, false}}).dtype() == boolean);
  CHECK(values(tensor({{true, false}})) == Values{1, 0});
  CHECK(tensor(true).dtype() == boolean);
  for (const Tensor& x : {tensor({1, 0}), tensor({{true}, {1}}), tensor({}), tensor(1)})
    CHECK(x.dtype() == float32);
  CHECK(tensor({true, false}, float64).dtype() == float64);
  // Integers keep all digits.
  CHECK(tensor({(int64_t{1} << 53) + 1, INT64_MIN}, int64).to_vector<int64_t>() ==
        std::vector<int64_t>{(int64_t{1} << 53) + 1, INT64_MIN});
  CHECK(tensor({5.0}, int64).item<int64_t>() == 5);
  CHECK(std::isnan(tensor({NAN}).item()));
  CHECK(tensor({UINT64_MAX}, float64).item() == 0x1p64);
}

TEST_CASE("tensor: ragged braces and values that do not fit int64 are refused") {
  CHECK_THROWS_WITH(tensor({{1, 2}, {3}}), "tensor: rows of 2 and of 1 numbers");
  CHECK_THROWS_WITH(tensor({{1}, {2, 3}}), "tensor: rows of 1 and of 2 numbers");
  CHECK_THROWS_WITH(tensor({{}, {1}}), "tensor: rows of 0 and of 1 numbers");
  CHECK_THROWS_WITH(tensor({{{1, 2}}, {{3, 4}, {5, 6}}}), "tensor: rows of 1 and of 2 numbers");
  CHECK_THROWS_WITH(tensor({1, {2}}),
                    "tensor: expected lists of equal depth, got a number beside a list");
  CHECK_THROWS_WITH(tensor({{1}, 2}),
                    "tensor: expected lists of equal depth, got a number beside a list");
  CHECK_THROWS_WITH(tensor({{{1}}, {2}}),
                    "tensor: expected lists of equal depth, got a number beside a list");
  CHECK_THROWS_WITH(tensor({{{{{{{{{1}}}}}}}}}), "shape: more than 8 axes");
  CHECK_THROWS_WITH(tensor({0.5}, int64), "tensor: 0.5 is not an int64");
  CHECK_THROWS_WITH(tensor({{1}, {NAN}}, int64), "tensor: nan is not an int64");
  CHECK_THROWS_WITH(tensor({UINT64_MAX}, int64), Contains("is not an int64"));
}

TEST_CASE("from_data: numbers of every width, with and without a shape") {
  CHECK(from_data(std::vector<float>{1, 2}).dtype() == float32);
  CHECK(from_data(std::vector<double>{1, 2}).dtype() == float64);
  CHECK(from_data(std::vector<bool>{true, false}).dtype() == boolean);
  const auto whole = [](auto first) {
    using T = decltype(first);
    const std::vector<T> numbers{first, std::numeric_limits<T>::max()};
    const Tensor x = from_data(numbers);
    CHECK(x.dtype() == int64);
    CHECK(x.shape() == Shape{2});
    CHECK(x.to_vector<T>() == numbers);
    CHECK(from_data(numbers, {2, 1}).shape() == Shape{2, 1});
  };
  whole(int8_t{-5}), whole(uint8_t{5}), whole(int16_t{-5}), whole(uint16_t{5}), whole(-5);
  whole(5u), whole(int64_t{-5}), whole(static_cast<long long>(-5));
  CHECK(from_data(std::vector<size_t>{1, 2}).to_vector<size_t>() == std::vector<size_t>{1, 2});
  CHECK_THROWS_WITH(from_data(std::vector<size_t>{1, SIZE_MAX}),
                    Contains("from_data: 18446744073709551615 does not fit"));
  CHECK_THROWS_WITH(from_data(std::vector<int>{1, 2}, {3}), "from_data: 2 values for shape (3,)");
  CHECK_THROWS_AS(from_data(std::vector<int>{}, {-1}), Error);
  CHECK(from_data(std::vector<float>{}).shape() == Shape{0});
  const Tensor rows = from_data(std::vector<std::vector<int>>{{1, 2, 3}, {4, 5, 6}});
  CHECK(rows.shape() == Shape{2, 3});
  CHECK(rows.dtype() == int64);
  CHECK(values(rows[1]) == Values{4, 5, 6});
  CHECK(from_data(std::vector<std::vector<float>>{}).shape() == Shape{0, 0});
  CHECK_THROWS_WITH(from_data(std::vector<std::vector<double>>{{1}, {}}),
                    "from_data: rows of 1 and of 0 numbers");
  CHECK_THROWS_WITH(from_data(std::vector<int>{300}).to_vector<uint8_t>(),
                    Contains("to_vector: 300 does not fit"));
  CHECK_THROWS_WITH(from_data(std::vector<int>{-1}).to_vector<size_t>(), Contains("does not fit"));
}

TEST_CASE("from_bytes: 0 to 255, unscaled") {
  const std::vector<uint8_t> bytes{0, 1, 128, 255};
  CHECK(values(from_bytes(bytes, {2, 2})) == Values{0, 1, 128, 255});
  CHECK(from_bytes(bytes, {2, 2}).dtype() == float32);
  CHECK(from_bytes({bytes.data() + 1, 2}, {2}, float64).dtype() == float64);
  CHECK(values(from_bytes({bytes.data() + 1, 2}, {2}, float64)) == Values{1, 128});
  CHECK_THROWS_WITH(from_bytes(bytes, {3}), "from_bytes: 4 bytes for shape (3,)");
  CHECK_THROWS_WITH(from_bytes(bytes, {4}, int64), Contains("expected float32 or float64"));
}

TEST_CASE("arange: integers across almost the whole range of int64") {
  const Tensor x = arange(-9e18, 9e18, 1e18), y = arange(9e18, -9e18, -1e18);
  std::vector<int64_t> up, down;
  for (int64_t i = -9; i < 9; ++i) up.push_back(i * 1'000'000'000'000'000'000);
  for (const int64_t v : up) down.push_back(-v);
  CHECK(x.to_vector<int64_t>() == up);
  CHECK(y.to_vector<int64_t>() == down);
}

namespace {
template <class T>
concept HasArange = requires(T end) {
  arange(end);
};
template <class T>
concept HasEye = requires(T n) {
  eye(n);
};
}  // namespace

TEST_CASE("arange and eye take counts of every integer type, but no fraction and no bool") {
  CHECK((HasArange<int> && HasArange<int64_t> && HasArange<size_t>));
  CHECK((HasEye<int> && HasEye<int64_t> && HasEye<size_t>));
  CHECK_FALSE((HasArange<double> || HasArange<float> || HasArange<bool>));
  CHECK_FALSE((HasEye<double> || HasEye<float> || HasEye<bool>));
}

TEST_CASE("arange: the distance may exceed the largest double") {
  constexpr double big = 0x1p1023;
  CHECK(values(arange(-1e308, 1e308, 1e308, float64)) == Values{-1e308, 0});
  CHECK(values(arange(-1.5 * big, 1.5 * big, big, float64)) ==
        Values{-1.5 * big, -0.5 * big, 0.5 * big});
  CHECK(values(arange(1.5 * big, -1.5 * big, -big, float64)) ==
        Values{1.5 * big, 0.5 * big, -0.5 * big});
  CHECK_THROWS_WITH(arange(-1e308, 1e308, 1, float64), Contains("arange: too many elements"));
  CHECK_THROWS_WITH(arange(-1e308, 1e308, -1e308, float64), Contains("does not lead from -1e+308"));
}

TEST_CASE("linspace: both ends are exact") {
  CHECK(difference(linspace(0, 1, 5, float64), Values{0, 0.25, 0.5, 0.75, 1}) < 1e-15);
  CHECK(difference(linspace(-3, 7, 4, float64), Values{-3, 1.0 / 3, 11.0 / 3, 7}) < 1e-15);
  CHECK(values(linspace(3, -1, 5)) == Values{3, 2, 1, 0, -1});
  CHECK(values(linspace(2, 2, 3)) == Values{2, 2, 2});
  CHECK(values(linspace(5, 1, 1)) == Values{5});
  CHECK(values(linspace(5, 1, 2)) == Values{5, 1});
  CHECK(linspace(5, 1, 0).shape() == Shape{0});
  for (int64_t n : {2, 3, 7, 10, 1000}) {
    const Tensor x = linspace(0.1, 0.7, n, float64);
    CHECK(x[0].item() == 0.1);
    CHECK(x[n - 1].item() == 0.7);
  }
  const double most = std::numeric_limits<double>::max();
  CHECK(values(linspace(-most, most, 3, float64)) == Values{-most, 0, most});
  CHECK(values(linspace(-most, most, 2, float64)) == Values{-most, most});
  CHECK(values(linspace(0, 10, 6, int64)) == Values{0, 2, 4, 6, 8, 10});
  CHECK(values(linspace(4, -2, 4, int64)) == Values{4, 2, 0, -2});
  CHECK(linspace(-0x1p63, 0, 3, int64).to_vector<int64_t>() ==
        std::vector<int64_t>{INT64_MIN, INT64_MIN / 2, 0});
  CHECK_THROWS_WITH(linspace(0, 1, 3, int64),
                    "linspace: 3 numbers from 0 to 1 are not all integers");
  CHECK_THROWS_WITH(linspace(0.5, 1, 2, int64), "linspace: 0.5 is not an int64");
  CHECK_THROWS_WITH(linspace(0, 1, -1), Contains("elements >= 0, got -1"));
  CHECK_THROWS_WITH(linspace(0, INFINITY, 3), Contains("expected finite ends"));
  CHECK_THROWS_AS(linspace(0, 1, 3, boolean), Error);
}

TEST_CASE("factories name themselves in errors about the value or the dtype") {
  const std::string others = ": expected float32, float64, int64 or bool, got int8";
  CHECK_THROWS_WITH(full({2}, 0.5, int64), "full: 0.5 is not an int64");
  CHECK_THROWS_WITH(full_like(arange(2), 0.5), "full_like: 0.5 is not an int64");
  CHECK_THROWS_WITH(scalar(0.5, int64), "scalar: 0.5 is not an int64");
  CHECK_THROWS_WITH(zeros({2}, int8), "zeros" + others);
  CHECK_THROWS_WITH(ones({2}, int8), "ones" + others);
  CHECK_THROWS_WITH(eye(2, int8), "eye" + others);
}

TEST_CASE("tensors like another have its shape and dtype; the same key draws the same values") {
  const Tensor x = zeros({2, 3}, float64);
  manual_seed(3);
  const Tensor n = randn_like(x), u = rand_like(x);
  manual_seed(3);
  CHECK(difference(n, randn({2, 3}, float64)) == 0);
  CHECK(difference(u, rand({2, 3}, float64)) == 0);
  CHECK(values(full_like(x.to(int64), 7)) == Values(6, 7));
  CHECK(full_like(x.to(int64), 7).dtype() == int64);
  CHECK_THROWS_WITH(randn_like(x.to(int64)), Contains("randn: expected float32 or float64"));

  const RandomKey key{5, 0};
  CHECK(values(randperm(9, key)) == values(randperm(9, key)));
  CHECK(values(randperm(9, key)) != values(randperm(9, {6, 0})));
  manual_seed(5);
  CHECK(values(randperm(9)) == values(randperm(9, key)));
}

TEST_CASE("from_data: spans of arrays") {
  const std::array<int32_t, 3> fixed{1, -2, 3};
  CHECK(from_data(std::span(fixed)).dtype() == int64);
  CHECK(values(from_data(std::span(fixed), {3, 1})) == Values{1, -2, 3});
  double given[] = {1.5, 2};
  const Tensor copy = from_data(std::span<double>(given, 2));
  given[0] = 7;
  CHECK(copy.dtype() == float64);
  CHECK(values(copy) == Values{1.5, 2});
  CHECK_THROWS_WITH(from_data(std::span(fixed), {2}),
                    Contains("from_data: 3 values for shape (2,)"));
}

TEST_CASE("from_blob: shares memory both ways, in place and through views") {
  float memory[] = {1, 2, 3, 4, 5, 6};
  const int64_t live = memory_stats().live;
  const Tensor x = from_blob(memory, {2, 3});
  CHECK(memory_stats().live == live);
  memory[4] = 50;
  CHECK(values(x) == Values{1, 2, 3, 4, 50, 6});
  x[1].mul_(2);
  CHECK(memory[3] == 8);
  CHECK(memory[2] == 3);
  const Tensor column = from_blob(memory + 1, {2}, Shape{3}, float32);  // elements 1 and 4
  CHECK(values(column) == Values{2, 100});
  column.fill_(-1);
  CHECK(memory[4] == -1);
  CHECK(memory[5] == 12);
  CHECK(values(from_blob(memory, {3, 1}, {1, 2}, float32)) == Values{1, -1, 3});  // any stride fits
  CHECK(values(from_blob(memory, {3, 2}, {1, 3}, float32)) == Values{1, 8, -1, -1, 3, 12});
}

TEST_CASE("from_blob: calls the deleter once, after the last tensor, view and graph node") {
  double memory[] = {1, 2};
  std::vector<void*> freed;
  const auto deleter = [&](void* p) { freed.push_back(p); };
  {
    Tensor x = from_blob(memory, {2}, float64, deleter);
    x.requires_grad_();
    Tensor y = (x * x).sum();
    const Tensor view = x.slice(0, 1);
    x = Tensor();
    y.backward();
    CHECK(freed.empty());
  }
  CHECK(freed == std::vector<void*>{memory});
  Tensor w = tensor({3, 4}, float64).requires_grad_();
  Tensor loss = (w * from_blob(memory, {2}, float64, deleter)).sum();  // a graph node holds it
  CHECK(freed.size() == 1);
  std::thread([&] { loss.backward(); }).join();
  CHECK(freed.size() == 2);
  CHECK(values(w.grad()) == Values{1, 2});
  from_blob(nullptr, {0, 3}, float32, deleter);
  CHECK(freed.size() == 3);
}

TEST_CASE("from_blob: gradients, and no op takes the memory for its results") {
  float logits[] = {1, 2, 3, 0}, gradient[] = {1, 1};
  {
    const Tensor x = from_blob(logits, {2, 2}).requires_grad_();
    cross_entropy(x, tensor({0, 1}, int64)).backward();
    CHECK_THAT(x.grad().to_vector<double>(),
               Catch::Approx(std::vector<double>{-0.36552929, 0.36552929, 0.47628706, -0.47628706})
                   .epsilon(1e-6));
  }
  CHECK(logits[0] == 1);
  const Tensor w = tensor({2, 3}).requires_grad_();
  const Tensor y = w.tanh();
  y.register_hook([&](const Tensor&) { return from_blob(gradient, {2}); });
  y.sum().backward();
  w.grad().fill_(5);  // in memory of its own
  CHECK(gradient[0] == 1);
  CHECK(gradient[1] == 1);
  CHECK_FALSE(from_blob(gradient, {2}).is_sole_owner());
}

TEST_CASE("from_blob: refuses what it cannot share, and leaves the memory to the caller") {
  alignas(8) float memory[16] = {};
  int freed = 0;
  auto refused = [&](void* data, const Shape& shape, const Shape& strides, Dtype dtype,
                     const char* message) {
    CHECK_THROWS_WITH(from_blob(data, shape, strides, dtype, [&](void*) { ++freed; }),
                      Contains(message));
  };
  refused(nullptr, {2}, {1}, float32, "from_blob: null data for shape (2,)");
  refused(reinterpret_cast<char*>(memory) + 2, {2}, {1}, float32,
          "from_blob: data for float32 must be aligned to 4 bytes");
  refused(memory + 1, {2}, {1}, int64, "from_blob: data for int64 must be aligned to 8 bytes");
  refused(memory, {2}, {-1}, float32, "from_blob: expected strides >= 0, got (-1,)");
  refused(memory, {3, 3}, {1, 1}, float32, "share memory");
  refused(memory, {2, 3}, {2, 1}, float32, "share memory");
  refused(memory, {2, 3}, {3}, float32, "from_blob: 1 strides for shape (2, 3)");
  refused(memory, {-1}, {1}, float32, "from_blob: negative size in shape (-1,)");
  refused(memory, {INT64_MAX / 2, 3}, {3, 1}, float32, "from_blob: too many elements in shape");
  refused(memory, {3}, {INT64_MAX / 2}, float32, "reach too far");
  refused(memory, {2}, {1}, bfloat16, "expected float32, float64, int64 or bool, got bfloat16");
  CHECK(freed == 0);
  const Tensor repeated = from_blob(memory, {3, 2}, {0, 1}, float32);
  CHECK(values(repeated + 1) == Values{1, 1, 1, 1, 1, 1});
  CHECK_THROWS_WITH(repeated.add_(repeated), Contains("elements share memory"));
}

}  // namespace factories_test
