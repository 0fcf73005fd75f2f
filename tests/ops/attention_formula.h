#pragma once
// Attention computed from basic ops by its formula, softmax(scale q k^T + mask) v, and comparisons
// of scaled_dot_product_attention with the formula.

#include <limits>

#include "gradus/core/core.h"
#include "tests/support/compare.h"
#include "tests/support/same_bits.h"

namespace gradus::testing {
using namespace gradus::core;

inline constexpr double inf = std::numeric_limits<double>::infinity();

/// Returns the scores (..., Tq, Tk) after masking. If `causal`, `window` or a bool mask in the
/// options hides a key from a query, the score of this pair becomes -infinity. If the options
/// contain a floating mask, it is added to the scores.
inline Tensor masked(Tensor scores, const AttentionOptions& o) {
  const int64_t Tq = scores.size(-2), Tk = scores.size(-1);
  if (o.causal) {
    const Tensor last = arange(Tk - Tq, Tk).unsqueeze(1);
    scores = masked_fill(scores, gt(arange(Tk), last), -inf);
    if (o.window > 0) scores = masked_fill(scores, lt(arange(Tk) + o.window, last + 1), -inf);
  }
  if (!o.mask.defined()) return scores;
  if (o.mask.dtype() == boolean) return masked_fill(scores, logical_not(o.mask), -inf);
  return scores + o.mask.to(scores.dtype());
}

/// Returns softmax(scale q k^T + mask) v, computed from basic ops. `key` determines which attention
/// weights dropout zeroes.
inline Tensor formula(const Tensor& q, const Tensor& k, const Tensor& v,
                      const AttentionOptions& o = {}, RandomKey key = {}) {
  const int64_t group = q.size(-3) / k.size(-3);
  auto repeated = [&](const Tensor& x) {
    std::vector<Tensor> heads;
    for (int64_t h = 0; h < q.size(-3); ++h) heads.push_back(x.slice(-3, h / group, h / group + 1));
    return cat(heads, -3);
  };
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
  Tensor weights = softmax(masked(matmul(q, repeated(k).mT()) * scale, o));
  if (o.dropout > 0) weights = dropout(weights, o.dropout, key);
  return matmul(weights, repeated(v));
}

struct Sizes {
  int64_t batch = 1, heads = 2, kv_heads = 2, queries = 5, keys = 5, dim = 8, value_dim = 8;
};

inline std::vector<Tensor> operands(const Sizes& s, Dtype dtype) {
  manual_seed(7);
  return {randn({s.batch, s.heads, s.queries, s.dim}, dtype),
          randn({s.batch, s.kv_heads, s.keys, s.dim}, dtype),
          randn({s.batch, s.kv_heads, s.keys, s.value_dim}, dtype)};
}

/// Returns the largest difference() (compare.h) between scaled_dot_product_attention and formula(),
/// in outputs and gradients, on random q, k and v of these sizes.
inline double fused_difference(const Sizes& sizes, const AttentionOptions& options, Dtype dtype) {
  constexpr uint64_t seed = 3;
  return difference(
      [&](std::vector<Tensor> in) {
        manual_seed(seed);
        return scaled_dot_product_attention(in[0], in[1], in[2], options);
      },
      [&](std::vector<Tensor> in) {
        return formula(in[0], in[1], in[2], options, RandomKey{seed, 0});
      },
      operands(sizes, dtype));
}

/// Returns a random bool mask (..., queries, keys) that hides each key from each query with
/// probability 0.3. If there are several queries, the first attends to no key and the second to all
/// keys. A shape of rank 1 is (keys).
inline Tensor bool_mask(const Shape& shape) {
  manual_seed(5);
  Tensor mask = gt(rand(shape), 0.3);
  if (mask.rank() >= 2 && mask.size(-2) > 1) {
    mask.select(-2, 0).fill_(0);
    mask.select(-2, 1).fill_(1);
  }
  return mask;
}

}  // namespace gradus::testing
