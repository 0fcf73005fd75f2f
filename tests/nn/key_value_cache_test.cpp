#include "gradus/nn/key_value_cache.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/tensor/autograd.h"

using namespace gradus;

namespace {

nn::KeyValueCache sequence(int64_t tokens) {
  nn::KeyValueCache cache(1, 1, 200, 2);
  cache.append(full({1, 1, tokens, 2}, tokens), full({1, 1, tokens, 2}, -tokens));
  return cache;
}

/// Leaves NaN in the memory that the next tensors of this shape are given.
void spoil_free_memory(const Shape& shape) {
  const Tensor a = full(shape, NAN), b = full(shape, NAN);
}

}  // namespace

TEST_CASE("a key/value cache has numbers after the end of a short sequence when it grows", "[nn]") {
  const NoGrad no_grad;
  nn::KeyValueCache cache(2, 1, 200, 2);
  for (const int64_t row : {1, 0}) cache.remove_row(row);
  cache.add_row(sequence(20));
  cache.add_row(sequence(3));
  cache.remove_row(0);  // row 0 is now the short sequence, after which lie tokens of the long one
  spoil_free_memory({2, 1, 128, 2});
  cache.add_row(sequence(100));
  CHECK(cache.lengths() == std::vector<int64_t>{3, 100});
  for (const Tensor& x : {cache.keys(), cache.values()}) {
    CHECK(x.shape() == Shape{2, 1, 100, 2});
    CHECK(std::isfinite(sum(x).item()));
    const double sign = sum(x).item() > 0 ? 1 : -1;
    CHECK(sum(x.select(0, 0).slice(1, 0, 3)).item() == sign * 3 * 3 * 2);
    CHECK(sum(x.select(0, 1)).item() == sign * 100 * 100 * 2);
  }
}
