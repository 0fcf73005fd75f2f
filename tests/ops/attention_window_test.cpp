// Attention with a window: the kernels against the formula, and what the window hides.

#include <catch2/catch.hpp>

#include "tests/ops/attention_formula.h"

namespace attention_window_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;

TEST_CASE("attention: kernels with a window equal the formula at every size") {
  const Dtype dtype = GENERATE(float64, float32);
  for (int64_t window : {1, 2, 7, 63, 64, 65, 127, 128, 129, 200})
    for (int64_t queries : {1, 3, 64, 65, 300})
      for (int64_t keys : {1, 65, 130, 300, 301}) {
        const Sizes sizes{.queries = queries, .keys = keys, .dim = 20, .value_dim = 16};
        INFO(dtype << " window " << window << " Tq " << queries << " Tk " << keys);
        CHECK(fused_difference(sizes, {.causal = true, .window = window}, dtype) <
              tolerance(dtype));
      }
}

TEST_CASE("attention: a window with masks, dropout and shared key/value heads") {
  const Dtype dtype = GENERATE(float64, float32);
  for (const auto& [Tq, Tk] : {std::pair<int64_t, int64_t>{300, 300}, {70, 333}, {3, 40}, {40, 3}})
    for (int64_t window : {1, 23, 150}) {
      const Sizes sizes{.batch = 2, .heads = 4, .kv_heads = 2, .queries = Tq, .keys = Tk};
      INFO(dtype << " window " << window << " Tq " << Tq << " Tk " << Tk);
      const Tensor mask = bool_mask({4, Tq, Tk});
      const Tensor bias = masked_fill(randn({Tk}, dtype), logical_not(bool_mask({Tk})), -inf);
      for (const AttentionOptions& o : {AttentionOptions{.mask = mask},
                                        {.mask = bias},
                                        {.dropout = 0.3},
                                        {.mask = mask, .dropout = 0.5}}) {
        AttentionOptions options = o;
        options.causal = true, options.window = window;
        CHECK(fused_difference(sizes, options, dtype) < tolerance(dtype));
      }
    }
}

TEST_CASE("attention: a window of all keys or more gives the bits of no window") {
  for (const auto& [Tq, Tk] : {std::pair<int64_t, int64_t>{300, 300}, {70, 200}, {2, 40}})
    for (const bool recording : {true, false}) {
      const GradMode mode(recording);
      auto run = [&, Tq = Tq, Tk = Tk](int64_t window) {
        manual_seed(1);
        auto in = operands({.queries = Tq, .keys = Tk}, float32);
        auto attend = [&](const std::vector<Tensor>& x) {
          return scaled_dot_product_attention(x[0], x[1], x[2],
                                              {.causal = true, .dropout = 0.1, .window = window});
        };
        return recording ? output_and_gradients(attend, in) : std::vector<Tensor>{attend(in)};
      };
      const auto unlimited = run(0);
      for (const int64_t window : {Tk, Tk + 1, INT64_MAX}) {
        const auto y = run(window);
        for (size_t i = 0; i < y.size(); ++i) CHECK(same_bits(y[i], unlimited[i]));
      }
    }
}

TEST_CASE("attention: a NaN key reaches only the queries whose window holds it") {
  auto in = operands({.queries = 40, .keys = 40}, float32);
  in[1].select(2, 3).fill_(std::nan(""));
  const Tensor near =
      scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true, .window = 4});
  for (int64_t i = 0; i < 40; ++i)
    CHECK(std::isnan(sum(near.select(2, i)).item()) == (i >= 3 && i < 7));
}

}  // namespace attention_window_test
