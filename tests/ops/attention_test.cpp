// Attention: the kernels against the formula written here with basic ops, and their guarantees on
// memory, threads and masks.

#include <catch2/catch.hpp>
#include <limits>
#include <string>

#include "gradus/core/core.h"
#include "tests/ops/attention_formula.h"
#include "tests/support/compare.h"

namespace attention_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;

TEST_CASE("attention: a lecture's example") {
  // The scores 0, 2, 1 give the weights 0.09, 0.67, 0.24.
  const Tensor q = tensor({{1, 0}}, float64).unsqueeze(0);
  const Tensor k = tensor({{0, 1}, {2, 0}, {1, 1}}, float64).unsqueeze(0);
  const Tensor v = eye(3, float64).unsqueeze(0);
  const Tensor y = scaled_dot_product_attention(q, k, v, {.scale = 1});
  CHECK(difference(y, {0.09003057317038046, 0.6652409557748219, 0.24472847105479767}) < 1e-15);
}

TEST_CASE("attention: kernels equal the formula at every size") {
  const Dtype dtype = GENERATE(float64, float32);
  const bool causal = GENERATE(false, true);
  for (int64_t queries : {1, 3, 7, 63, 64, 65, 130, 300})
    for (int64_t keys : {1, 7, 64, 65, 130, 300}) {
      const Sizes sizes{.queries = queries, .keys = keys, .dim = 20, .value_dim = 16};
      INFO(dtype << " causal " << causal << " Tq " << queries << " Tk " << keys);
      CHECK(fused_difference(sizes, {.causal = causal}, dtype) < tolerance(dtype));
    }
}

TEST_CASE("attention: head sizes, batches and shared key/value heads") {
  const Dtype dtype = GENERATE(float64, float32);
  for (const Sizes& sizes : std::vector<Sizes>{{2, 4, 2, 70, 70, 32, 32},
                                               {1, 6, 1, 65, 65, 16, 24},
                                               {2, 4, 2, 2, 70, 16, 5},
                                               {3, 1, 1, 40, 40, 1, 1},
                                               {2, 8, 8, 17, 17, 3, 64},
                                               {1, 2, 1, 200, 260, 64, 64}}) {
    INFO(dtype << " H " << sizes.heads << " Hk " << sizes.kv_heads << " D " << sizes.dim);
    CHECK(fused_difference(sizes, {}, dtype) < tolerance(dtype));
    CHECK(fused_difference(sizes, {.causal = true, .scale = 0.3}, dtype) < tolerance(dtype));
  }
}

TEST_CASE("attention: boolean and additive masks, broadcast in every way") {
  const Dtype dtype = GENERATE(float64, float32);
  const bool causal = GENERATE(false, true);
  for (const auto& [Tq, Tk] : {std::pair<int64_t, int64_t>{70, 140}, {3, 9}}) {
    const Sizes sizes{.batch = 2, .heads = 4, .kv_heads = 2, .queries = Tq, .keys = Tk};
    for (const Shape& shape : {Shape{2, 4, Tq, Tk}, Shape{2, 1, 1, Tk}, Shape{4, Tq, 1},
                               Shape{Tq, Tk}, Shape{Tk}, Shape{1}}) {
      INFO(dtype << " causal " << causal << " mask " << shape);
      const Tensor mask = bool_mask(shape);
      CHECK(fused_difference(sizes, {.causal = causal, .mask = mask}, dtype) < tolerance(dtype));
      const Tensor bias = masked_fill(randn(shape, dtype) * 2, logical_not(mask), -inf);
      CHECK(fused_difference(sizes, {.causal = causal, .mask = bias}, dtype) < tolerance(dtype));
    }
  }
}

TEST_CASE("attention: dropout draws the same mask for kernels and formula") {
  const Dtype dtype = GENERATE(float64, float32);
  for (const Sizes& sizes : std::vector<Sizes>{
           {2, 4, 2, 70, 133, 8, 8}, {2, 2, 2, 2, 31, 8, 8}, {1, 2, 2, 65, 65, 7, 7}}) {
    for (const bool causal : {false, true}) {
      INFO(dtype << " Tq " << sizes.queries << " causal " << causal);
      const Tensor mask = bool_mask({sizes.queries, sizes.keys});
      CHECK(fused_difference(sizes, {.causal = causal, .dropout = 0.3}, dtype) < tolerance(dtype));
      CHECK(fused_difference(sizes, {.causal = causal, .mask = mask, .dropout = 0.5}, dtype) <
            tolerance(dtype));
      CHECK(fused_difference(sizes, {.causal = causal, .dropout = 1}, dtype) < tolerance(dtype));
    }
  }
  const auto in = operands({}, dtype);
  const EvalMode eval;
  CHECK(same_bits(scaled_dot_product_attention(in[0], in[1], in[2], {.dropout = 0.5}),
                  scaled_dot_product_attention(in[0], in[1], in[2])));
}

TEST_CASE("attention: the kernel for few queries without a gradient equals the formula") {
  const Dtype dtype = GENERATE(float64, float32);
  const bool causal = GENERATE(false, true);
  const NoGrad no_grad;
  for (int64_t queries : {1, 2, 3}) {
    const Sizes sizes{.batch = 2, .heads = 4, .kv_heads = 2, .queries = queries, .keys = 37};
    const auto in = operands(sizes, dtype);
    for (const Shape& shape : {Shape{2, 4, queries, 37}, Shape{4, queries, 1}, Shape{queries, 37}})
      for (double p : {0.0, 0.4}) {
        INFO(dtype << " causal " << causal << " Tq " << queries << " mask " << shape << " p " << p);
        const Tensor mask = bool_mask(shape);
        const Tensor bias = masked_fill(randn(shape, dtype), logical_not(mask), -inf);
        for (const Tensor& m : {Tensor(), mask, bias})
          for (int64_t window : {0, 1, 9, 36}) {
            const AttentionOptions options{
                .causal = causal, .mask = m, .dropout = p, .window = causal ? window : 0};
            manual_seed(3);
            const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], options);
            CHECK(difference(y, formula(in[0], in[1], in[2], options, {.seed = 3, .counter = 0})) <
                  tolerance(dtype));
          }
      }
  }
}

TEST_CASE("attention: keys hidden at both ends change no bits of the kernel for few queries",
          "[fused]") {
  const Dtype dtype = GENERATE(float64, float32);
  const NoGrad no_grad;
  const auto in = operands({.batch = 9, .queries = 1, .keys = 29}, dtype);
  Tensor mask = zeros({29}, boolean);
  mask.slice(0, 3, 24).fill_(1);
  const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {.mask = mask});
  CHECK(same_bits(
      y, scaled_dot_product_attention(in[0], in[1].slice(2, 3, 24), in[2].slice(2, 3, 24))));
}

TEST_CASE("attention: a query that attends to no key has output 0 and gradient 0") {
  const int64_t queries = GENERATE(2, 70);
  auto in = operands({.queries = queries, .keys = 6}, float32);
  for (Tensor& x : in) x.requires_grad_();
  const Tensor nothing = zeros({queries, 6}, boolean);
  for (const Tensor& mask :
       {nothing, masked_fill(zeros({queries, 6}), logical_not(nothing), -inf)}) {
    const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {.mask = mask});
    CHECK(difference(y, zeros_like(y)) == 0);
    for (const Tensor& d : grad({y}, in, {.grad_outputs = {ones_like(y)}}))
      CHECK(difference(d, zeros_like(d)) == 0);
  }
  // With a causal mask and fewer keys than queries, the first queries attend to no key.
  const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true});
  if (queries > 6)
    CHECK(difference(y.slice(2, 0, queries - 6), zeros({1, 2, queries - 6, 8})) == 0);
}

TEST_CASE("attention: large scores do not overflow, and NaN reaches only queries that see it") {
  auto in = operands({.queries = 40, .keys = 40}, float32);
  const Tensor large = scaled_dot_product_attention(in[0] * 100, in[1] * 100, in[2]);
  CHECK(difference(large, formula(in[0] * 100, in[1] * 100, in[2])) < 1e-5);
  in[1].select(2, 3).fill_(std::nan(""));
  const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true});
  CHECK_FALSE(std::isnan(y.slice(2, 0, 3).to_vector<float>()[0]));
  CHECK(std::isnan(sum(y.slice(2, 3)).item()));
}

TEST_CASE("attention: operands may have any memory layout") {
  const Dtype dtype = GENERATE(float64, float32);
  manual_seed(11);
  // The operands: q, k and v as a projection lays them out, with permuted axes, and broadcast.
  const Tensor qkv = randn({2, 70, 3 * 4 * 16}, dtype);
  auto parts = [](const Tensor& x) {
    auto p = x.reshape({2, 70, 12, 16}).split(4, 2);
    for (Tensor& t : p) t = t.transpose(1, 2);
    return p;
  };
  auto strided = [&](auto attention) {
    return [=](std::vector<Tensor> in) {
      const auto p = parts(in[0]);
      return attention(p[0], p[1], p[2]);
    };
  };
  auto op = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return scaled_dot_product_attention(q, k, v, {.causal = true});
  };
  auto same = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return formula(q, k, v, {.causal = true});
  };
  CHECK(difference(strided(op), strided(same), {qkv}) < tolerance(dtype));
  auto odd = [](auto attention) {
    return [=](std::vector<Tensor> in) {
      const Tensor q = in[0].permute({3, 2, 1, 0});
      return attention(q, q.slice(3, 0, 8, 2).expand({5, 3, 20, 4}), q).transpose(1, 3);
    };
  };
  auto op2 = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return scaled_dot_product_attention(q.slice(3, 0, 4), k, v);
  };
  auto same2 = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return formula(q.slice(3, 0, 4), k, v);
  };
  CHECK(difference(odd(op2), odd(same2), {randn({8, 20, 3, 5}, dtype)}) < tolerance(dtype));
}

TEST_CASE("attention: any number of leading axes") {
  manual_seed(12);
  const Tensor q = randn({2, 3, 4, 9, 8}, float64), k = randn({2, 3, 2, 9, 8}, float64);
  const Tensor mask = bool_mask({3, 1, 9, 9});
  const Tensor y = scaled_dot_product_attention(q, k, k, {.mask = mask});
  CHECK(difference(y, formula(q, k, k, {.mask = mask})) < 1e-12);
  const Tensor one = scaled_dot_product_attention(q[0][1], k[0][1], k[0][1], {.mask = mask[1]});
  CHECK(difference(y[0][1], one) < 1e-12);
}

TEST_CASE("attention: empty axes") {
  const Bfloat16Products products(GENERATE(false, true));
  auto run = [](const Sizes& sizes) {
    auto in = operands(sizes, float32);
    for (Tensor& x : in) x.requires_grad_();
    const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true});
    for (const Tensor& d : grad({y}, in, {.grad_outputs = {ones_like(y)}}))
      CHECK(difference(d, zeros_like(d)) == 0);
    CHECK(difference(y, zeros_like(y)) == 0);
  };
  run({.batch = 0});
  run({.queries = 0});
  run({.queries = 1, .keys = 0});
  run({.queries = 70, .keys = 0});
  run({.value_dim = 0});
}

TEST_CASE("attention: with heads of size 0, each query takes the mean of the values") {
  const Tensor values = randn({1, 1, 5, 2}, float64);
  for (const int64_t queries : {1, 3, 4, 70}) {
    CAPTURE(queries);
    const NoGrad no_grad;
    {  // leaves NaN where a kernel takes its scratch memory
      std::vector<Tensor> blocks;
      for (int64_t n = 1; n <= 40; ++n) blocks.push_back(full({n}, NAN, float64));
    }
    const Tensor y = scaled_dot_product_attention(empty({1, 1, queries, 0}, float64),
                                                  empty({1, 1, 5, 0}, float64), values);
    CHECK(difference(y, mean(values, 2, keepdim).expand(y.shape())) < 1e-15);
  }
}

TEST_CASE("self_attention equals attention on its q, k and v") {
  const Dtype dtype = GENERATE(float64, float32);
  const int64_t kv_heads = GENERATE(4, 2, 1);
  const double p = GENERATE(0.0, 0.25);
  manual_seed(13);
  const Tensor mask = bool_mask({2, 1, 70, 70});
  auto op = [&](std::vector<Tensor> in) {
    manual_seed(1);
    return self_attention(in[0], 4, kv_heads, {.causal = true, .mask = mask, .dropout = p});
  };
  auto same = [&](std::vector<Tensor> in) {
    const Tensor x = in[0].reshape({2, 70, 4 + 2 * kv_heads, 12});
    auto heads = x.split(Shape{4, kv_heads, kv_heads}, 2);
    for (Tensor& t : heads) t = t.transpose(1, 2);
    const Tensor y = formula(heads[0], heads[1], heads[2],
                             {.causal = true, .mask = mask, .dropout = p}, RandomKey{1, 0});
    return y.transpose(1, 2).reshape({2, 70, 48});
  };
  CHECK(difference(op, same, {randn({2, 70, (4 + 2 * kv_heads) * 12}, dtype)}) < tolerance(dtype));
}

TEST_CASE("attention: gradients and gradients of gradients") {
  manual_seed(14);
  auto leaf = [](const Shape& shape) { return randn(shape, float64).requires_grad_(); };
  const Tensor mask = bool_mask({3, 5}), bias = leaf({2, 3, 5});
  auto check_gradients = [](const TensorFunction& f, const std::vector<Tensor>& inputs) {
    const auto first = gradcheck(f, inputs), second = gradgradcheck(f, inputs);
    CHECKED_ELSE(first.ok) FAIL(first.message);
    CHECKED_ELSE(second.ok) FAIL(second.message);
  };
  auto attention = [](const AttentionOptions& options) {
    return [=](const std::vector<Tensor>& in) {
      manual_seed(2);
      return std::vector<Tensor>{scaled_dot_product_attention(in[0], in[1], in[2], options)};
    };
  };
  const std::vector<Tensor> in{leaf({2, 3, 4}), leaf({1, 5, 4}), leaf({1, 5, 2})};
  check_gradients(attention({.causal = true}), in);
  check_gradients(attention({.mask = mask, .dropout = 0.4}), in);
  check_gradients(attention({.causal = true, .window = 2}), in);
  check_gradients(attention({.causal = true, .mask = mask, .dropout = 0.4, .window = 3}), in);
  check_gradients(
      [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{
            scaled_dot_product_attention(in[0], in[1], in[2], {.mask = in[3]})};
      },
      {in[0], in[1], in[2], bias});
  check_gradients(
      [](const std::vector<Tensor>& in) {
        manual_seed(2);
        return std::vector<Tensor>{
            self_attention(in[0], 2, 1, {.causal = true, .dropout = 0.2, .window = 3})};
      },
      {leaf({2, 5, 12})});
  // One input is used as q, k and v.
  check_gradients(
      [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{scaled_dot_product_attention(in[0], in[0], in[0])};
      },
      {leaf({2, 5, 4})});
}

TEST_CASE("attention: only the required gradients are computed") {
  const int64_t keys = GENERATE(70, 300);  // one tile of keys, and several parts
  const auto all = operands({.queries = 70, .keys = keys}, float64);
  const auto whole = output_and_gradients(
      [](std::vector<Tensor> in) { return scaled_dot_product_attention(in[0], in[1], in[2]); },
      all);
  for (size_t i = 0; i < 3; ++i) {
    std::vector<Tensor> in = all;
    in[i] = in[i].detach().requires_grad_();
    const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2]);
    manual_seed(99);
    const Tensor d = grad({y}, {in[i]}, {.grad_outputs = {randn(y.shape(), float64)}})[0];
    CHECK(difference(d, whole[i]) < 1e-14);
  }
}

TEST_CASE("attention: the same bits at any number of threads") {
  const int before = num_threads();
  for (const Sizes& sizes : std::vector<Sizes>{{1, 2, 1, 300, 300, 20, 20},
                                               {3, 8, 4, 65, 65, 32, 32},
                                               {1, 1, 1, 700, 700, 16, 16},
                                               {4, 4, 4, 1, 500, 16, 16}}) {
    auto run = [&](int threads) {
      set_num_threads(threads);
      return output_and_gradients(
          [&](std::vector<Tensor> in) {
            manual_seed(1);
            return scaled_dot_product_attention(in[0], in[1], in[2],
                                                {.causal = true, .dropout = 0.1});
          },
          operands(sizes, float32));
    };
    const auto one = run(1), two = run(2), five = run(5);
    for (size_t i = 0; i < one.size(); ++i) {
      CHECK(same_bits(one[i], two[i]));
      CHECK(same_bits(one[i], five[i]));
    }
  }
  set_num_threads(before);
}

TEST_CASE("attention: memory grows linearly with the length", "[fused]") {
  auto peak = [](int64_t time) {
    const Tensor qkv = randn({1, time, 3 * 2 * 16}).requires_grad_();
    reset_peak_memory();
    const int64_t before = memory_stats().live;
    sum(self_attention(qkv, 2, 2, {.causal = true, .dropout = 0.1})).backward();
    return memory_stats().peak - before;
  };
  peak(256);
  const int64_t once = peak(2048), twice = peak(4096);
  CHECK(twice <= 2 * once + (1 << 20));
  CHECK(twice < int64_t{4096} * 4096);  // one byte per pair of a head
}

TEST_CASE("attention: invalid arguments are refused") {
  const Tensor q = zeros({2, 4, 5, 8}), k = zeros({2, 2, 7, 8}), v = zeros({2, 2, 7, 6});
  auto message = [](const Tensor& q, const Tensor& k, const Tensor& v,
                    const AttentionOptions& options = {}) {
    return error_of([&] { scaled_dot_product_attention(q, k, v, options); });
  };
  const std::string op = "scaled_dot_product_attention: expected ";
  const std::string shapes = ", got q (2, 4, 5, 8), k (2, 2, 7, 8), v ";
  CHECK(message(q, k, v).empty());
  CHECK(message(q[0][0], k[0][0], v[0][0]) ==
        op + "q (..., H, Tq, D), k (..., Hk, Tk, D) and v (..., Hk, Tk, Dv) of one rank from 3 up"
             ", got q (5, 8), k (7, 8), v (7, 6)");
  CHECK(message(q, k, zeros({3, 2, 7, 6})) ==
        op + "the same leading axes" + shapes + "(3, 2, 7, 6)");
  CHECK(message(q, k, zeros({2, 2, 6, 6})) ==
        op + "as many keys as values" + shapes + "(2, 2, 6, 6)");
  CHECK(message(q, k, zeros({2, 4, 7, 6})) ==
        op + "as many key as value heads, at least one, and a multiple of them of query heads" +
            shapes + "(2, 4, 7, 6)");
  CHECK(message(q, zeros({2, 2, 7, 9}), v) ==
        op + "q and k of one head size, got q (2, 4, 5, 8), k (2, 2, 7, 9), v (2, 2, 7, 6)");
  CHECK(message(q, k, v.to(float64)) == op + "one dtype, got q float32, k float32, v float64");
  CHECK(message(q.to(int64), k.to(int64), v.to(int64)) == op + "float32 or float64, got int64");
  CHECK(message(q, k, v, {.mask = zeros({5, 6})}) ==
        op + "a mask that broadcasts to (2, 4, 5, 7), got (5, 6)");
  CHECK(message(q, k, v, {.mask = zeros({5, 7}, float64)}) ==
        op + "a mask of bool or float32, got float64");
  CHECK(message(q, k, v, {.dropout = 1.5}) == op + "dropout from 0 to 1, got 1.5");
  CHECK(error_of([&] {
          self_attention(zeros({2, 5, 24}), 3, 2);
        }) ==
        "self_attention: expected heads to be a multiple of kv_heads below 2^31, got 3 and 2");
  CHECK(error_of([&] {
          self_attention(zeros({2, 5, 20}), 2, 2);
        }) ==
        "self_attention: expected qkv (B, T, (heads + 2 kv_heads) D) with heads + 2 kv_heads = 6, "
        "got (2, 5, 20)");
  CHECK(error_of([&] {
          self_attention(zeros({2, 5, 24}), 2, 2, {.mask = zeros({4, 5})});
        }) == "self_attention: expected a mask that broadcasts to (2, 2, 5, 5), got (4, 5)");
}

}  // namespace attention_test
