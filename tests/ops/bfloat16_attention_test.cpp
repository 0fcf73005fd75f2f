// Attention in the mode Bfloat16Products, beside its formula in float64, in which the operands of
// each product are rounded. On processors without such products nothing is rounded on either side.

#include <catch2/catch.hpp>

#include "gradus/gradus.h"
#include "tests/ops/attention_formula.h"
#include "tests/ops/rounded.h"

namespace bfloat16_attention_test {

using namespace gradus;
using namespace gradus::testing;

namespace {

struct Case {
  Sizes sizes;
  AttentionOptions options = {};
};

/// Returns the output and the gradients of q, k and v of the fused op, whose forward pass runs in
/// the mode and whose backward pass runs outside of it.
std::vector<Tensor> fused(const Case& c, const std::vector<Tensor>& in, const Tensor& dy) {
  manual_seed(3);
  std::vector<Tensor> leaves;
  for (const Tensor& x : in) leaves.push_back(x.to(float32).requires_grad_());
  Tensor y;
  {
    const Bfloat16Products products;
    y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], c.options);
  }
  std::vector<Tensor> result = grad({y}, leaves, {.grad_outputs = {dy.to(float32)}});
  result.insert(result.begin(), y.detach());
  return result;
}

/// Returns the same by the formulas of core/kernels/attention_backward.cpp, in float64. Keys and
/// values have as many heads as queries.
std::vector<Tensor> by_formula(const Case& c, const std::vector<Tensor>& in, const Tensor& dy) {
  const AttentionOptions& o = c.options;
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(in[0].size(-1))));
  const Tensor q = rounded(in[0] * scale), k = rounded(in[1]), v = rounded(in[2]);
  const Tensor scores = masked(matmul(q, k.mT()), o);
  const Tensor shifted = exp(scores - max(scores, -1, true).values);
  const Tensor total = sum(shifted, -1, true), weights = shifted / total;
  Tensor keep = ones_like(weights);
  if (o.dropout > 0) keep = dropout(keep, o.dropout, RandomKey{3, 0});
  const double factor = 1 / (1 - o.dropout);
  const Tensor y = matmul(rounded(shifted * (keep / factor)), v) * factor / total;
  const Tensor d = rounded(dy), delta = sum(d * y, -1, true);
  const Tensor d_scores = rounded(weights * (keep * matmul(d, v.mT()) - delta));
  return {y, matmul(d_scores, rounded(in[1] * scale)), matmul(d_scores.mT(), q),
          matmul(rounded(keep * weights).mT(), d)};
}

std::vector<Tensor> random_inputs(const Sizes& s) {
  manual_seed(7);
  return {randn({s.batch, s.heads, s.queries, s.dim}, float64),
          randn({s.batch, s.heads, s.keys, s.dim}, float64),
          randn({s.batch, s.heads, s.keys, s.value_dim}, float64)};
}

Tensor random_gradient(const Sizes& s) {
  manual_seed(8);
  return randn({s.batch, s.heads, s.queries, s.value_dim}, float64);
}

/// A rounding error of float32 moves few weights to the next bfloat16, 2^-8 away.
constexpr double tight = 3e-4;

/// Checks the output and gradients of rounded operands. Beyond 128 keys, the weights of a tile are
/// rounded before later tiles scale them: the output is then compared within `of_output`, and the
/// gradients of q and k, which depend on the output, within a third of it.
void check_case(const Case& c, double of_output = tight) {
  const std::vector<Tensor> in = random_inputs(c.sizes);
  const Tensor dy = random_gradient(c.sizes);
  const auto got = fused(c, in, dy), expected = by_formula(c, in, dy);
  for (size_t i = 0; i < got.size(); ++i) {
    INFO("output " << i << " of " << c.sizes.queries << " x " << c.sizes.keys << " of "
                   << c.sizes.dim << " and " << c.sizes.value_dim << ", window " << c.options.window
                   << ", dropout " << c.options.dropout);
    // The scores of a single key have no gradient: what is left are float32's rounding errors.
    const auto size = [](const Tensor& x) { return norm(x).item<double>(); };
    const double bound = i == 0 ? of_output : i == 3 ? tight : std::max(tight, of_output / 3);
    CHECK(size(got[i].to(float64) - expected[i]) < bound * size(expected[i]) + 1e-6 * size(dy));
  }
}

Sizes sizes(int64_t queries, int64_t keys, int64_t dim, int64_t value_dim) {
  return {.batch = 2,
          .heads = 3,
          .kv_heads = 3,
          .queries = queries,
          .keys = keys,
          .dim = dim,
          .value_dim = value_dim};
}

}  // namespace

TEST_CASE("bfloat16 attention: output and gradients of rounded operands, at all kinds of sizes",
          "[fused]") {
  for (int64_t queries : {1, 2, 7, 8, 17, 64, 65, 130})
    for (int64_t keys : {1, 2, 9, 16, 33, 128}) check_case({sizes(queries, keys, 16, 16)});
  for (int64_t dim : {1, 2, 3, 15, 16, 17, 31, 32, 33, 64, 100})
    for (int64_t value_dim : {1, 5, 16, 24, 32, 47, 64})
      check_case({sizes(19, 21, dim, value_dim)});
  for (int64_t keys : {129, 200, 257, 300}) {
    check_case({sizes(70, keys, 32, 32)}, 4e-3);
    check_case({sizes(70, keys, 20, 5)}, 4e-3);
  }
}

TEST_CASE("bfloat16 attention: causal, windows, masks, scale and dropout", "[fused]") {
  for (int64_t queries : {1, 5, 16, 63, 64, 77})
    for (int64_t extra : {0, 1, 6, 29}) {
      const Sizes s = sizes(queries, queries + extra, 24, 40);
      check_case({s, {.causal = true}});
      for (int64_t window : {1, 2, 3, 17, 64}) check_case({s, {.causal = true, .window = window}});
      check_case({s, {.dropout = 0.3}});
      check_case({s, {.causal = true, .dropout = 0.5}});
      check_case({s, {.scale = 0.7}});
      check_case({s, {.mask = 2.0 * randn({3, queries, queries + extra})}});
      Tensor seen = gt(rand({queries, queries + extra}), 0.4);
      seen.select(1, 0).fill_(1);
      check_case({s, {.mask = seen}});
    }
  check_case({sizes(150, 150, 32, 32), {.causal = true, .window = 40}}, 4e-3);
  check_case({sizes(270, 270, 32, 32), {.causal = true}}, 4e-3);
  check_case({sizes(70, 257, 24, 40), {.causal = true, .dropout = 0.3}}, 4e-3);
}

TEST_CASE(
    "bfloat16 attention: near the formula with other heads, hidden queries and heads of size 0") {
  const Bfloat16Products products;  // of the formula too
  const double near = 0.05;
  const Sizes grouped{.batch = 2, .heads = 6, .kv_heads = 2, .queries = 37, .keys = 37, .dim = 24};
  CHECK(fused_difference(grouped, {}, float32) < near);
  CHECK(fused_difference(grouped, {.causal = true, .window = 5}, float32) < near);
  CHECK(fused_difference({.heads = 4, .kv_heads = 1, .queries = 9, .keys = 300}, {}, float32) <
        near);
  CHECK(fused_difference({.queries = 7, .keys = 10}, {.mask = bool_mask({7, 10})}, float32) < near);
  const Tensor v = randn({1, 1, 5, 2}), none = zeros({1, 1, 9, 0}).requires_grad_();
  const Tensor y = scaled_dot_product_attention(none, zeros({1, 1, 5, 0}), v);
  CHECK(difference(y.detach(), mean(v, 2, keepdim).expand(y.shape())) < near);
}

TEST_CASE("bfloat16 attention: fewer keys than causal queries, of which the first see none") {
  const Sizes s = sizes(9, 6, 16, 16);
  const Case c{s, {.causal = true}};
  const auto in = random_inputs(s);
  const Tensor dy = random_gradient(s);
  const auto whole = fused(c, in, dy);
  const auto seen = fused(Case{sizes(6, 6, 16, 16), {.causal = true}},
                          {in[0].slice(2, 3, 9), in[1], in[2]}, dy.slice(2, 3, 9));
  for (size_t i = 0; i < 2; ++i) {
    CHECK(sum(abs(whole[i].slice(2, 0, 3))).item<double>() == 0);
    CHECK(difference(whole[i].slice(2, 3, 9), seen[i]) < 1e-6);
  }
  for (size_t i = 2; i < 4; ++i) CHECK(difference(whole[i], seen[i]) < 1e-6);
}

TEST_CASE("bfloat16 attention: a gradient alone, and one of equal rows, have the same bits") {
  for (const Sizes& s : {sizes(20, 20, 24, 16), sizes(5, 600, 24, 16)}) {  // the second in parts
    const auto in = random_inputs(s);
    const auto gradients = [&](int wanted, bool summed) {
      std::vector<Tensor> leaves, some;
      for (int i = 0; i < 3; ++i) {
        leaves.push_back(in[static_cast<size_t>(i)].to(float32));
        if (wanted >> i & 1) some.push_back(leaves.back().requires_grad_());
      }
      const Bfloat16Products products;
      const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2]);
      return summed ? grad({sum(y)}, some) : grad({y}, some, {.grad_outputs = {ones_like(y)}});
    };
    const auto all = gradients(7, false);
    for (int wanted = 1; wanted < 8; ++wanted) {
      const auto some = gradients(wanted, true);
      for (size_t i = 0, j = 0; i < 3; ++i)
        if (wanted >> i & 1) CHECK(same_bits(some[j++], all[i]));
    }
  }
}

TEST_CASE("bfloat16 attention: groups of query heads, and self_attention, give the same bits") {
  manual_seed(11);
  const int64_t heads = 6, kv_heads = 2, time = 37, dim = 24;
  const Tensor qkv = randn({2, time, (heads + 2 * kv_heads) * dim});
  const auto split =
      qkv.reshape({2, time, heads + 2 * kv_heads, dim}).split(Shape{heads, kv_heads, kv_heads}, 2);
  const Bfloat16Products products;
  const Tensor leaf = qkv.clone().requires_grad_();
  const Tensor joined = self_attention(leaf, heads, kv_heads, {.causal = true});
  const auto leaf_of = [&](size_t i) {
    return split[i].transpose(1, 2).contiguous().requires_grad_();
  };
  const Tensor q = leaf_of(0), k = leaf_of(1), v = leaf_of(2);
  const Tensor apart = scaled_dot_product_attention(q, k, v, {.causal = true});
  CHECK(same_bits(joined, apart.transpose(1, 2).reshape({2, time, heads * dim})));
  const Tensor dy = randn({2, heads, time, dim});
  const auto d = grad({apart}, {q, k, v}, {.grad_outputs = {dy}});
  const auto d_joined =
      grad({joined}, {leaf},
           {.grad_outputs = {dy.transpose(1, 2).reshape({2, time, heads * dim})}})[0]
          .reshape({2, time, heads + 2 * kv_heads, dim})
          .split(Shape{heads, kv_heads, kv_heads}, 2);
  for (size_t i = 0; i < 3; ++i) CHECK(same_bits(d_joined[i].transpose(1, 2), d[i]));
  // Each group's keys, repeated for its query heads, give the same output.
  std::vector<Tensor> k_heads, v_heads;
  for (int64_t h = 0; h < heads; ++h) {
    k_heads.push_back(k.detach().slice(1, h / 3, h / 3 + 1));
    v_heads.push_back(v.detach().slice(1, h / 3, h / 3 + 1));
  }
  CHECK(same_bits(
      scaled_dot_product_attention(q, cat(k_heads, 1), cat(v_heads, 1), {.causal = true}), apart));
}

TEST_CASE("bfloat16 attention: the same bits on any number of threads") {
  for (const Sizes& s : {Sizes{.batch = 3, .queries = 90, .keys = 90, .dim = 32, .value_dim = 32},
                         Sizes{.heads = 1, .queries = 700, .keys = 700}}) {
    const Case c{s, {.causal = true, .dropout = 0.1}};
    const auto on = [&](int threads) {
      const int before = num_threads();
      set_num_threads(threads);
      const auto result = fused(c, random_inputs(s), random_gradient(s));
      set_num_threads(before);
      return result;
    };
    const auto one = on(1), two = on(2), three = on(3);
    for (size_t i = 0; i < one.size(); ++i) {
      CHECK(same_bits(one[i], two[i]));
      CHECK(same_bits(one[i], three[i]));
    }
  }
}

TEST_CASE("bfloat16 attention: what stays as it is", "[fused]") {
  const Case c{sizes(20, 20, 16, 16)};
  const auto in = random_inputs(c.sizes);
  const auto same = [&](Dtype dtype, int64_t queries, bool recorded) {
    const auto run = [&](bool products) {
      const Bfloat16Products mode(products);
      const Tensor q = in[0].slice(2, 0, queries).to(dtype).contiguous();
      const Tensor k = in[1].clone().to(dtype).requires_grad_(recorded);
      return scaled_dot_product_attention(q, k, in[2].to(dtype));
    };
    return same_bits(run(true), run(false));
  };
  CHECK(same(float64, 20, true));
  CHECK(same(float32, 3, false));  // dot products of single queries
  CHECK(same(float32, 3, true) != has_bfloat16_products());
  CHECK(same(float32, 20, false) != has_bfloat16_products());
}

// A query that sees one key gives it the weight 1, so that its scores have no gradient.
TEST_CASE("bfloat16 attention: dropout's factor 1 / (1 - p) is not rounded", "[fused]") {
  manual_seed(5);
  std::vector<Tensor> leaves;
  for (int i = 0; i < 3; ++i)
    leaves.push_back(rounded(randn({2, 4, 64, 32}, float64)).to(float32).requires_grad_());
  const Tensor dy = rounded(randn({2, 4, 64, 32}, float64)).to(float32);
  const Bfloat16Products products;
  const AttentionOptions options{.causal = true, .dropout = 0.1, .window = 1};
  const Tensor y = scaled_dot_product_attention(leaves[0], leaves[1], leaves[2], options);
  // Where a weight was dropped, y is 0.
  const Tensor kept = ne(y.detach(), 0).to(float32);
  CHECK(difference(y.detach(), leaves[2].detach() * kept / 0.9f) < 1e-6);
  for (const Tensor& g : grad({y}, {leaves[0], leaves[1]}, {.grad_outputs = {dy}}))
    CHECK(difference(g, zeros_like(g)) < 1e-4);
}

TEST_CASE("bfloat16 attention: scores of any size, NaN and hidden queries") {
  Sizes s = sizes(9, 11, 8, 8);
  auto in = random_inputs(s);
  const Tensor large = in[0] * 1e18;  // scores of 1e18: one weight is 1
  const Bfloat16Products products;
  const auto attend = [&](const Tensor& q, const AttentionOptions& o = {}) {
    return scaled_dot_product_attention(q.to(float32), in[1].to(float32), in[2].to(float32), o);
  };
  const Tensor best = argmax(matmul(rounded(large), rounded(in[1]).mT()), -1);
  const Tensor y = attend(large);
  for (int64_t h = 0; h < s.heads; ++h)
    for (int64_t i = 0; i < s.queries; ++i) {
      const int64_t j = best.to_vector<int64_t>()[static_cast<size_t>(h * s.queries + i)];
      const Tensor value = rounded(in[2].select(0, 0).select(0, h).select(0, j));
      CHECK(difference(y.select(0, 0).select(0, h).select(0, i).to(float64), value) < 1e-6);
    }
  Tensor broken = in[0].clone();
  broken.select(0, 1).select(0, 2).select(0, 4).fill_(std::nan(""));
  const Tensor with_nan = attend(broken), without = attend(in[0]);
  for (int64_t i = 0; i < s.queries; ++i) {
    const auto row = [&](const Tensor& x) { return x.select(0, 1).select(0, 2).select(0, i); };
    if (i == 4)
      CHECK(std::isnan(values(row(with_nan))[0]));
    else
      CHECK(same_bits(row(with_nan), row(without)));
  }
  Tensor seen = ones({9, 11}, boolean);
  seen.select(0, 5).fill_(0);
  const Tensor hidden = attend(in[0], {.mask = seen});
  CHECK(values(hidden.select(2, 5)) == Values(static_cast<size_t>(2 * 3 * 8), 0.0));
}

TEST_CASE("bfloat16 attention: queries that see no key beside others that do") {
  manual_seed(3);
  const Tensor q = randn({1, 1, 64, 32}), k = randn({1, 1, 16, 32}), v = randn({1, 1, 16, 32});
  for (int64_t n = 256; n < 40000; n = n * 9 / 8) full({n}, std::nan(""));  // memory to reuse
  const Bfloat16Products products;
  // Causal: the last 16 queries see keys.
  const Tensor y = scaled_dot_product_attention(q, k, v, {.causal = true});
  CHECK(values(y.slice(2, 0, 48)) == Values(48 * 32, 0.0));
  CHECK(difference(y.select(2, 48).flatten().to(float64), rounded(v)[0][0][0]) < 1e-6);
}

}  // namespace bfloat16_attention_test
