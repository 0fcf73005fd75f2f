// Attention: what its results promise beside their values: random numbers, traces, memory layout;
// and rotary positions for none of the heads.

#include <catch2/catch.hpp>

#include "tests/ops/attention_formula.h"

namespace attention_results_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;

TEST_CASE("attention_weights: no dropout, and no random numbers drawn for it") {
  const auto in = operands({}, float64);
  manual_seed(4);
  const Tensor weights = attention_weights(in[0], in[1], {.dropout = 0.5});
  CHECK(default_generator().state().counter == 0);
  CHECK(same_bits(weights, attention_weights(in[0], in[1])));
}

TEST_CASE("attention's trace: operands with several leading axes and a mask of some of them") {
  manual_seed(12);
  const Tensor q = randn({2, 3, 4, 5, 8}, float64), k = randn({2, 3, 2, 5, 8}, float64);
  const Tensor mask = bool_mask({3, 1, 5, 5});
  const AttentionTrace trace;
  scaled_dot_product_attention(q, k, k, {.mask = mask});
  REQUIRE(trace.weights().size() == 1);
  const Tensor expected = attention_weights(q, k, {.mask = mask});
  CHECK(difference(trace.weights()[0], expected.reshape({6, 4, 5, 5})) < 1e-14);
}

TEST_CASE("attention: the output's heads lie in memory as those of q") {
  const Tensor apart = randn({2, 3, 5, 8}), joined = randn({2, 5, 3, 8}).transpose(1, 2);
  CHECK(scaled_dot_product_attention(apart, apart, apart).is_contiguous());
  CHECK(scaled_dot_product_attention(apart[0], apart[0], apart[0]).is_contiguous());
  const Tensor y = scaled_dot_product_attention(joined, joined, joined);
  CHECK(y.transpose(1, 2).is_contiguous());
  CHECK(scaled_dot_product_attention(joined, apart, apart).transpose(1, 2).is_contiguous());
}

TEST_CASE("rotary: no heads to rotate leave x and its gradient as they are") {
  const Tensor x = randn({2, 3, 4}).requires_grad_(), dy = randn({2, 3, 4});
  const Tensor y = rotary(x, rand({2, 4}), 0);
  y.backward(dy);
  CHECK(same_bits(y, x));
  CHECK(same_bits(x.grad(), dy));
}

}  // namespace attention_results_test
