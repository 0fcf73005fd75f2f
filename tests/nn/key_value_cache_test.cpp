#include "gradus/nn/key_value_cache.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/tensor/autograd.h"
#include "tests/support/compare.h"

namespace key_value_cache_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;
using Lengths = std::vector<int64_t>;

namespace {

nn::KeyValueCache sequence(int64_t tokens) {
  nn::KeyValueCache cache(1, 1, 200, 2);
  cache.append(full({1, 1, tokens, 2}, tokens), full({1, 1, tokens, 2}, -tokens));
  return cache;
}

/// Makes a cache without sequences, with room for `rows`.
nn::KeyValueCache without_rows(int64_t rows, int64_t capacity = 200) {
  nn::KeyValueCache cache(rows, 1, capacity, 2);
  for (int64_t row = rows; row-- > 0;) cache.remove_row(row);
  return cache;
}

/// Appends keys and values that a failed layer makes the cache forget.
void roll_back(nn::KeyValueCache& cache, const Tensor& appended) {
  try {
    const nn::KeyValueCache::Rollback rollback{&cache};
    cache.append(appended, appended);
    throw Error("a layer failed");
  } catch (const Error&) {
  }
}

/// Leaves NaN in the memory that the next tensors of this shape are given.
void spoil_free_memory(const Shape& shape) {
  const Tensor a = full(shape, NAN), b = full(shape, NAN);
}

}  // namespace

TEST_CASE("a key/value cache has numbers after the end of a short sequence when it grows", "[nn]") {
  const NoGrad no_grad;
  nn::KeyValueCache cache = without_rows(2);
  cache.add_row(sequence(20));
  cache.add_row(sequence(3));
  cache.remove_row(0);  // row 0 is now the short sequence, after which lie tokens of the long one
  spoil_free_memory({2, 1, 128, 2});
  cache.add_row(sequence(100));
  CHECK(cache.lengths() == Lengths{3, 100});
  for (const Tensor& x : {cache.keys(), cache.values()}) {
    CHECK(x.shape() == Shape{2, 1, 100, 2});
    CHECK(std::isfinite(sum(x).item()));
    const double sign = sum(x).item() > 0 ? 1 : -1;
    CHECK(sum(x.select(0, 0).slice(1, 0, 3)).item() == sign * 3 * 3 * 2);
    CHECK(sum(x.select(0, 1)).item() == sign * 100 * 100 * 2);
  }
}

TEST_CASE("a key/value cache that grew has numbers in a row that was free meanwhile", "[nn]") {
  const NoGrad no_grad;
  nn::KeyValueCache cache = without_rows(2);
  cache.add_row(sequence(20));
  cache.add_row(sequence(20));
  cache.remove_row(1);
  spoil_free_memory({2, 1, 128, 2});
  cache.append(full({1, 1, 80, 2}, 20), full({1, 1, 80, 2}, -20));
  cache.add_row(sequence(3));
  CHECK(cache.lengths() == Lengths{100, 3});
  CHECK(sum(cache.keys().select(0, 0)).item() == 100 * 20 * 2);
  CHECK(sum(cache.keys().select(0, 1)).item() == 3 * 3 * 2);  // zeros after the third token
  CHECK(sum(cache.values().select(0, 1)).item() == -3 * 3 * 2);
}

TEST_CASE("a key/value cache forgets the NaN of a sequence that was removed", "[nn]") {
  const NoGrad no_grad;
  const Tensor nan = full({1, 1, 20, 2}, NAN);
  const auto finite = [](const nn::KeyValueCache& cache) {
    return std::isfinite(sum(cache.keys()).item()) && std::isfinite(sum(cache.values()).item());
  };
  nn::KeyValueCache spoiled(1, 1, 200, 2);
  spoiled.append(nan, nan);
  nn::KeyValueCache cache = without_rows(3);
  cache.add_row(sequence(20));
  SECTION("a new sequence takes its row") {
    cache.add_row(spoiled);
    cache.remove_row(1);
    cache.add_row(sequence(3));
  }
  SECTION("the last sequence moves to its row") {
    cache.add_row(spoiled);
    cache.add_row(sequence(3));
    cache.remove_row(1);
  }
  SECTION("all sequences were cleared") {
    cache.add_row(spoiled);
    cache.clear();
    cache.append(ones({2, 1, 1, 2}), ones({2, 1, 1, 2}));
    cache.add_row(sequence(20));
  }
  CHECK(finite(cache));
}

TEST_CASE("a key/value cache forgets the NaN of tokens that were rolled back", "[nn]") {
  const NoGrad no_grad;
  nn::KeyValueCache cache = without_rows(2);
  cache.add_row(sequence(3));
  roll_back(cache, full({1, 1, 5, 2}, NAN));
  CHECK(cache.lengths() == Lengths{3});
  cache.add_row(sequence(8));
  CHECK(sum(cache.keys().select(0, 0)).item() == 3 * 3 * 2);
  CHECK(sum(cache.values().select(0, 0)).item() == -3 * 3 * 2);
}

TEST_CASE("a key/value cache whose sequences change places forgets rolled back NaN", "[nn]") {
  const NoGrad no_grad;
  nn::KeyValueCache cache = without_rows(2);
  cache.add_row(sequence(5));
  cache.add_row(sequence(2));
  roll_back(cache, full({2, 1, 2, 2}, NAN));
  cache.reorder(from_data<int64_t>({1, 0}, {2}));
  cache.append(ones({2, 1, 1, 2}), ones({2, 1, 1, 2}));
  CHECK(cache.lengths() == Lengths{3, 6});
  CHECK(std::isfinite(sum(cache.keys()).item()));
  CHECK(std::isfinite(sum(cache.values()).item()));
}

TEST_CASE("a key/value cache's memory doubles, up to the capacity or what a call needs", "[nn]") {
  const NoGrad no_grad;
  // The keys of a head are as far from the next head's as there is room for.
  const auto room = [](const nn::KeyValueCache& cache) { return cache.keys().strides()[1] / 8; };
  const auto append = [](nn::KeyValueCache& cache, int64_t tokens) {
    cache.append(ones({1, 2, tokens, 8}), ones({1, 2, tokens, 8}));
  };
  nn::KeyValueCache cache(1, 2, 300, 8);
  for (const auto& [tokens, expected] :
       {std::pair{1, 64}, {63, 64}, {1, 128}, {63, 128}, {1, 256}, {128, 300}}) {
    append(cache, tokens);
    CHECK(room(cache) == expected);
  }
  CHECK(cache.length() == 257);
  CHECK(sum(cache.keys()).item() == 257 * 2 * 8);
  nn::KeyValueCache at_once(1, 2, 300, 8), small(1, 2, 5, 8);
  append(at_once, 200);
  CHECK(room(at_once) == 200);
  CHECK(at_once.keys().shape() == Shape{1, 2, 200, 8});
  append(small, 5);
  CHECK(room(small) == 5);
}

TEST_CASE("a key/value cache without sequences has no tokens", "[nn]") {
  const NoGrad no_grad;
  nn::KeyValueCache cache = sequence(5);
  cache.remove_row(0);
  CHECK(cache.length() == 0);
  CHECK_FALSE(cache.uneven());
  CHECK(cache.keys().shape() == Shape{0, 1, 0, 2});
}

TEST_CASE("a key/value cache reorders sequences of different lengths", "[nn]") {
  const NoGrad no_grad;
  nn::KeyValueCache cache = without_rows(3);
  for (const int64_t tokens : {3, 5, 1}) cache.add_row(sequence(tokens));
  cache.reorder(from_data(Lengths{1, 2, 1}));
  CHECK(cache.lengths() == Lengths{5, 1, 5});
  for (const auto& [row, tokens] : {std::pair{0, 5}, {1, 1}, {2, 5}}) {
    const Tensor keys = cache.keys()[row].slice(1, 0, tokens),
                 values = cache.values()[row].slice(1, 0, tokens);
    CHECK(difference(keys, full({1, tokens, 2}, tokens)) == 0);
    CHECK(difference(values, full({1, tokens, 2}, -tokens)) == 0);
  }
}

TEST_CASE("a key/value cache's previous tokens stay with their sequences", "[nn]") {
  const NoGrad no_grad;
  // A sequence whose last token is n for attention and 10 n for the MLP.
  const auto with_previous = [](int64_t n) {
    nn::KeyValueCache cache = sequence(n);
    cache.previous_tokens(0, full({1, 2, 1}, n));
    cache.previous_tokens(1, full({1, 1, 1}, 10 * n));
    return cache;
  };
  nn::KeyValueCache cache = without_rows(4);
  for (const int64_t n : {1, 2, 3, 4}) cache.add_row(with_previous(n));
  cache.remove_row(0);
  CHECK(cache.lengths() == Lengths{4, 2, 3});
  cache.reorder(from_data(Lengths{0, 2, 1}));
  cache.remove_row(2);
  CHECK(cache.lengths() == Lengths{4, 3});
  const Tensor next = tensor({{{7}, {8}}, {{5}, {6}}});
  CHECK(difference(cache.previous_tokens(0, next), {4, 7, 3, 5}) == 0);
  CHECK(difference(cache.previous_tokens(1, next), {40, 7, 30, 5}) == 0);
  CHECK(difference(cache.previous_tokens(0, next), {8, 7, 6, 5}) == 0);
  // The next first sequence starts without a token before it.
  for (const int64_t row : {1, 0}) cache.remove_row(row);
  cache.add_row(nn::KeyValueCache(1, 1, 200, 2));
  CHECK(difference(cache.previous_tokens(0, tensor({{{7}, {8}}})), {0, 7}) == 0);
  // Sequences without tokens before and after one with tokens.
  nn::KeyValueCache mixed = without_rows(3);
  mixed.add_row(nn::KeyValueCache(1, 1, 200, 2));
  mixed.add_row(with_previous(3));
  mixed.add_row(nn::KeyValueCache(1, 1, 200, 2));
  CHECK(difference(mixed.previous_tokens(0, tensor({{{7}}, {{8}}, {{9}}})), {0, 3, 0}) == 0);
}

TEST_CASE("a key/value cache refuses bad sizes, and keys or values of another shape", "[nn]") {
  const NoGrad no_grad;
  const auto refused = [](int64_t batch, int64_t heads, int64_t capacity, int64_t key_dim,
                          int64_t value_dim) {
    const std::string error =
        error_of([&] { nn::KeyValueCache(batch, heads, capacity, key_dim, float32, value_dim); });
    CHECK_THAT(error, Contains("KeyValueCache: expected sizes > 0, got (") &&
                          Catch::Matchers::EndsWith(", and value_dim >= 0, got " +
                                                    std::to_string(value_dim)));
  };
  refused(0, 1, 4, 2, 3);
  refused(1, 0, 4, 2, 3);
  refused(1, 1, 0, 2, 3);
  refused(1, 1, 4, 0, 3);
  refused(1, 1, 4, 2, -1);
  nn::KeyValueCache cache(1, 1, 4, 2, float32, 3);
  const Tensor k = ones({1, 1, 2, 2}), v = ones({1, 1, 2, 3});
  const std::string keys = "KeyValueCache: expected keys of float32 (1, 1, 2, 2)",
                    values = "KeyValueCache: expected values of float32 (1, 1, 2, 3)";
  CHECK_THROWS_WITH(cache.append(k, v.slice(2, 0, 1)), Contains(values));  // would broadcast
  CHECK_THROWS_WITH(cache.append(k, v.slice(3, 0, 1)), Contains(values));
  CHECK_THROWS_WITH(cache.append(k.slice(3, 0, 1), v), Contains(keys));
  CHECK_THROWS_WITH(cache.append(k[0], v), Contains("KeyValueCache: expected keys of float32"));
  CHECK_THROWS_WITH(cache.append(k.to(float64), v), Equals(keys + ", got float64 (1, 1, 2, 2)"));
  CHECK_THROWS_WITH(cache.append(k, v.to(float64)), Equals(values + ", got float64 (1, 1, 2, 3)"));
  CHECK(cache.length() == 0);
  cache.append(k, v);
  CHECK(cache.length() == 2);
}

TEST_CASE("a key/value cache keeps its last token when one of another size is refused", "[nn]") {
  const NoGrad no_grad;
  nn::KeyValueCache cache(1, 1, 4, 2);
  cache.previous_tokens(0, full({1, 1, 2}, 5));
  CHECK_THROWS_WITH(cache.previous_tokens(0, ones({1, 1, 3})), Contains("shapes differ"));
  CHECK(difference(cache.previous_tokens(0, ones({1, 1, 2})), {5, 5}) == 0);
  cache.previous_tokens(0, full({1, 1, 2}, 7), /*save=*/false);
  CHECK(difference(cache.previous_tokens(0, ones({1, 1, 2})), {1, 1}) == 0);
}

TEST_CASE("a key/value cache refuses sequences of other sizes, and those that do not fit", "[nn]") {
  const NoGrad no_grad;
  nn::KeyValueCache cache = without_rows(2, 4);
  const auto refused = [&](const nn::KeyValueCache& other) {
    CHECK_THROWS_WITH(cache.add_row(other),
                      Contains("KeyValueCache: expected one sequence of up to 4 tokens"));
    CHECK(cache.lengths().empty());
  };
  refused(nn::KeyValueCache(2, 1, 4, 2));              // two sequences
  refused(without_rows(1, 4));                         // none
  refused(nn::KeyValueCache(1, 2, 4, 2));              // heads
  refused(nn::KeyValueCache(1, 1, 4, 3, float32, 2));  // size of keys
  refused(nn::KeyValueCache(1, 1, 4, 2, float32, 3));  // size of values
  refused(nn::KeyValueCache(1, 1, 4, 2, float64));
  refused(sequence(5));
  cache.add_row(sequence(4));
  CHECK(cache.lengths() == Lengths{4});
}

}  // namespace key_value_cache_test
