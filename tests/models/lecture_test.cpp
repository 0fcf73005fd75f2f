// Claims of lectures on attention and transformers as tests, with formula and source above each.
// Expected values come from the formula or were worked out by hand.
//
//   V17: Vaswani et al. 2017, arXiv 1706.03762     S21: Su et al. 2021, arXiv 2104.09864
//   B15: Bahdanau et al. 2015, arXiv 1409.0473     L15: Luong et al. 2015, arXiv 1508.04025

#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <numeric>

#include "gradus/gradus.h"
#include "tests/support/compare.h"

namespace lecture_test {

using namespace gradus;
using namespace gradus::core;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

double sigma(double x) { return 1 / (1 + std::exp(-x)); }

/// Softmax by its definition.
Values softmax_by_hand(Values scores) {
  double sum = 0;
  for (double& s : scores) sum += s = std::exp(s);
  for (double& s : scores) s /= sum;
  return scores;
}

void set(const Tensor& parameter, const Tensor& value) {
  const NoGrad no_grad;
  parameter.copy_(value);
}

/// |d(y . dy)/d(x_t)| for the last output y of a single sequence, by t's distance from the end.
Values gradient_by_distance(const std::function<Tensor(const Tensor&)>& outputs, const Tensor& x,
                            const Tensor& dy) {
  const Tensor leaf = x.detach().requires_grad_();
  const Tensor y = outputs(leaf).select(1, -1);
  Values norms = values(grad({y}, {leaf}, {.grad_outputs = {dy}})[0].norm(-1));
  std::reverse(norms.begin(), norms.end());
  return norms;
}

}  // namespace

// ---- scores and softmax ----

// softmax(s)_i = e^s_i / sum_j e^s_j. Of (8.5, 42, 3.2, 42) a lecture prints rounded weights as if
// the small ones counted: e^(8.5 - 42) / 2 = 1.4e-15 and e^(3.2 - 42) / 2 = 7e-18, so they are
// (0, 0.5, 0, 0.5) within 1e-14.
TEST_CASE("lecture: softmax of scores far apart is all or nothing", "[lecture]") {
  const Values weights = values(softmax(tensor({8.5, 42, 3.2, 42}, float64)));
  const Values expected{0, 0.5, 0, 0.5};
  for (size_t i = 0; i < 4; ++i) CHECK(std::abs(weights[i] - expected[i]) < 1e-14);
  CHECK(weights[0] == Approx(1.41e-15).epsilon(0.01));
}

// For q, k with independent components of mean 0 and variance 1, var(q . k) = d and
// var(q . k / sqrt(d)) = 1. V17, section 3.2.1, footnote 4. The sample variance of n such products
// has a variance of about (2 + 6/d) d^2 / n: with n = 40,000 and d = 4, 5 standard deviations are
// 4.7%.
TEST_CASE("lecture: q . k has variance d, q . k / sqrt(d) variance 1", "[lecture]") {
  constexpr int64_t n = 40000;
  manual_seed(1);
  for (const int64_t d : {4, 64, 256}) {
    const Tensor dots = sum(randn({n, d}) * randn({n, d}), -1);
    CHECK(std::abs(dots.mean().item()) < 5 * std::sqrt(double(d) / n));
    CHECK(dots.var().item() / double(d) == Approx(1).epsilon(0.047));
    CHECK((dots / std::sqrt(double(d))).var().item() == Approx(1).epsilon(0.047));
  }
}

// "... pushing the softmax function into regions where it has extremely small gradients" (V17,
// 3.2.1). Softmax's Jacobian is diag(w) - w w^T, its trace 1 - sum w_i^2: 0 for a one-hot w,
// 1 - 1/n for n equal weights.
TEST_CASE("lecture: without 1/sqrt(d) the softmax saturates", "[lecture]") {
  constexpr int64_t d = 512, n = 64;
  manual_seed(2);
  const Tensor q = randn({1, n, d}), k = randn({1, n, d});
  const auto trace = [](const Tensor& w) { return (1.0 - sum(w * w, -1)).mean().item(); };
  const Tensor plain = attention_weights(q, k, {.scale = 1.0}), scaled = attention_weights(q, k);
  CHECK(difference(scaled, softmax(matmul(q, k.mT()) / std::sqrt(512.0))) < 1e-5);
  CHECK(plain.max(-1).values.mean().item() > 0.85);
  CHECK(scaled.max(-1).values.mean().item() < 0.2);
  CHECK(trace(plain) < 0.2);
  CHECK(trace(scaled) > 0.9);
}

// Scores a(q, k): q . k, q . k / sqrt(d), q^T W k (L15, equation 8) and v^T tanh(W1 q + b + W2 k)
// (B15, A.1.2), for q = (1, 2), the keys (1, 0), (0, 1), (1, 1) and the values (10, 0), (0, 10),
// (5, 5). The dot products are 1, 2, 3 and e^1 : e^2 : e^3 = 0.0900 : 0.2447 : 0.6652.
TEST_CASE("lecture: four scores computed by hand", "[lecture]") {
  const NoGrad no_grad;
  const Tensor q = tensor({{{1, 2}}}, float64), k = tensor({{{1, 0}, {0, 1}, {1, 1}}}, float64),
               v = tensor({{{10, 0}, {0, 10}, {5, 5}}}, float64);
  const auto check_scores = [&](nn::Attention& attention, const Values& scores) {
    attention.to(float64);
    const auto [output, weights] = attention(q, k, v);
    const Values w = softmax_by_hand(scores);
    CHECK(difference(weights, w) < 1e-12);
    CHECK(difference(output, {10 * w[0] + 5 * w[2], 10 * w[1] + 5 * w[2]}) < 1e-12);
  };
  nn::Attention dot(nn::Score::dot, 2, 2), scaled(nn::Score::scaled_dot, 2, 2),
      bilinear(nn::Score::bilinear, 2, 2), additive(nn::Score::additive, 2, 2);
  check_scores(dot, {1, 2, 3});
  CHECK(difference(dot(q, k, v).weights, {0.09003057317, 0.24472847105, 0.66524095578}) < 1e-10);
  const double root = std::sqrt(2.0);
  check_scores(scaled, {1 / root, 2 / root, 3 / root});

  // q^T W = (1 * 0.1 + 2 * 0.3, 1 * 0.2 + 2 * 0.4) = (0.7, 1)
  bilinear.to(float64);
  set(bilinear.w, tensor({{0.1, 0.2}, {0.3, 0.4}}, float64));
  check_scores(bilinear, {0.7, 1, 1.7});

  // W1 q + b = (1, 2.5); W2 k = (1, 0), (1, 1), (2, 1)
  additive.to(float64);
  set(additive.query->weight, tensor({{1, 0}, {0, 1}}, float64));
  set(additive.query->bias, tensor({0, 0.5}, float64));
  set(additive.key->weight, tensor({{1, 1}, {0, 1}}, float64));
  set(additive.v, tensor({{1, -1}}, float64));
  check_scores(additive, {std::tanh(2) - std::tanh(2.5), std::tanh(2) - std::tanh(3.5),
                          std::tanh(3) - std::tanh(3.5)});
  // tanh 2 = 0.96403, 2.5: 0.98661, 3: 0.99505, 3.5: 0.99818
  CHECK(difference(additive(q, k, v).weights, {0.332429, 0.328607, 0.338963}) < 1e-5);
}

// ---- masks ----

// The scores ln 1, ln 2, ln 5 have the weights 1/8, 2/8, 5/8. With the third masked before the
// softmax (-inf), the first two are 1/3, 2/3; masked after it, they are still 1/8 and 2/8 and sum
// to 3/8.
TEST_CASE("lecture: a mask belongs before the softmax", "[lecture]") {
  const Tensor scores = tensor({0, std::log(2.0), std::log(5.0)}, float64);
  const Tensor hidden = gt(tensor({0, 0, 1}), 0.5);
  const Tensor before = softmax(masked_fill(scores, hidden, -inf));
  const Tensor after = masked_fill(softmax(scores), hidden, 0);
  CHECK(difference(before, {1.0 / 3, 2.0 / 3, 0}) < 1e-14);
  CHECK(before.sum().item() == Approx(1).epsilon(1e-14));
  CHECK(difference(after, {1.0 / 8, 2.0 / 8, 0}) < 1e-14);
  CHECK(after.sum().item() == Approx(3.0 / 8).epsilon(1e-14));

  // The library masks before the softmax: q = 1, keys ln 1, ln 2, ln 5.
  const Tensor q = ones({1, 1, 1}, float64), k = scores.reshape({1, 3, 1});
  CHECK(difference(attention_weights(q, k, {.mask = !hidden, .scale = 1.0}),
                   {1.0 / 3, 2.0 / 3, 0}) < 1e-14);
}

// Each query's weights are positive and sum to 1, and a causal mask leaves a triangle.
TEST_CASE("lecture: attention weights sum to one, and causal ones are triangular", "[lecture]") {
  const NoGrad no_grad;
  manual_seed(3);
  const models::GPT model({.vocab = 11, .context = 9, .layers = 3, .heads = 2, .dim = 16});
  const AttentionTrace trace;
  model(randint(0, 11, {2, 9}));
  REQUIRE(trace.weights().size() == 3);
  for (const Tensor& w : trace.weights()) {
    REQUIRE(w.shape() == Shape{2, 2, 9, 9});
    CHECK(difference(sum(w, -1), ones({2, 2, 9})) < 1e-6);
    CHECK(w.min().item() >= 0);
    CHECK(triu(w, 1).max().item() == 0);
    CHECK(difference(w.slice(2, 0, 1).slice(3, 0, 1), ones({2, 2, 1, 1})) == 0);  // only itself
  }
}

namespace {

/// Changes inputs from `from` on: earlier outputs must be bit-identical, the others must change.
void check_no_leak(const std::string& what, const std::function<Tensor(const Tensor&)>& model,
                   const Tensor& x, const Tensor& other) {
  const NoGrad no_grad;
  INFO(what);
  const Tensor y = model(x);
  const int64_t T = x.size(1);
  for (const int64_t from : {int64_t{1}, T / 2, T - 1}) {
    const Tensor changed = model(cat({x.slice(1, 0, from), other.slice(1, from)}, 1));
    CHECK(values(changed.slice(1, 0, from)) == values(y.slice(1, 0, from)));
    CHECK(difference(changed.select(1, from), y.select(1, from)) > 1e-6);
  }
}

}  // namespace

// With future scores at -inf, output t depends only on inputs 0 ... t. V17, 3.2.3.
TEST_CASE("lecture: no layer leaks information from the future", "[lecture]") {
  manual_seed(4);
  const Tensor x = randn({2, 37, 16}), other = randn({2, 37, 16}) * 10;
  const nn::MultiHeadAttention plain(16, {.heads = 4, .causal = true}),
      rotary_attention(16, {.heads = 4, .kv_heads = 2, .rotary = 40, .causal = true});
  const nn::Block block(16, {.heads = 4, .causal = true});
  const nn::Block post(16, {.heads = 2, .causal = true, .norm_first = false});
  const nn::Block llama = nn::llama_block(16, {.heads = 4, .kv_heads = 2, .context = 40});
  check_no_leak(
      "attention", [&](auto& in) { return plain(in); }, x, other);
  check_no_leak(
      "rotary", [&](auto& in) { return rotary_attention(in); }, x, other);
  check_no_leak(
      "Block", [&](auto& in) { return block(in); }, x, other);
  check_no_leak(
      "post-norm Block", [&](auto& in) { return post(in); }, x, other);
  check_no_leak(
      "llama_block", [&](auto& in) { return llama(in); }, x, other);

  const nn::DecoderBlock decoder(16, {.heads = 4});
  const nn::DecoderBlock post_decoder(16, {.heads = 4, .norm_first = false});
  const Tensor source = randn({2, 5, 16});
  const nn::KeysAndValues memory = decoder.cross.keys_and_values(source),
                          post_memory = post_decoder.cross.keys_and_values(source);
  check_no_leak(
      "DecoderBlock", [&](auto& in) { return decoder(in, memory); }, x, other);
  check_no_leak(
      "post-norm DecoderBlock", [&](auto& in) { return post_decoder(in, post_memory); }, x, other);
}

TEST_CASE("lecture: no form of GPT leaks information from the future", "[lecture]") {
  manual_seed(5);
  const Tensor ids = randint(0, 12, {2, 37}), others = 11 - ids;  // all different
  for (const auto positions :
       {models::Positions::learned, models::Positions::sinusoidal, models::Positions::rotary})
    for (const auto norm : {nn::NormKind::layer, nn::NormKind::rms})
      for (const int64_t kv_heads : {1, 2, 4}) {
        const models::GPT model({.vocab = 12,
                                 .context = 40,
                                 .layers = 2,
                                 .heads = 4,
                                 .dim = 16,
                                 .gated = norm == nn::NormKind::rms,
                                 .kv_heads = kv_heads,
                                 .positions = positions,
                                 .norm = norm});
        for (const Tensor& p : model.parameters()) set(p, p * 5.0);  // so that tokens matter
        check_no_leak(
            "positions " + std::to_string(int(positions)) + ", norm " + std::to_string(int(norm)) +
                ", kv_heads " + std::to_string(kv_heads),
            [&](auto& in) { return model(in); }, ids, others);
      }
}

// ---- order ----

// Without positions self-attention is permutation-equivariant: SelfAttn(P X) = P SelfAttn(X) for
// every permutation P, and a query's output does not depend on the order of keys and values.
TEST_CASE("lecture: self-attention without positions ignores order", "[lecture]") {
  const NoGrad no_grad;
  manual_seed(6);
  const Tensor x = randn({2, 7, 16}, float64), query = randn({2, 1, 16}, float64);
  const Tensor order = from_data<int64_t>({3, 0, 6, 1, 5, 2, 4});
  const auto permuted = [&](const Tensor& y) { return index_select(y, 1, order); };
  nn::MultiHeadAttention attention(16, {.heads = 4}), causal(16, {.heads = 4, .causal = true}),
      rotary_attention(16, {.heads = 4, .rotary = 8});
  nn::Block block(16, {.heads = 4});
  for (nn::Module* m :
       std::initializer_list<nn::Module*>{&attention, &causal, &rotary_attention, &block})
    m->to(float64);

  CHECK(difference(attention(permuted(x)), permuted(attention(x))) < 1e-13);
  CHECK(difference(block(permuted(x)), permuted(block(x))) < 1e-13);
  CHECK(difference(attention.cross(query, permuted(x)), attention.cross(query, x)) < 1e-13);

  // Added or rotary positions break that; so does a causal mask.
  const Tensor places = nn::sinusoidal_positions(7, 16).to(float64);
  CHECK(difference(attention(permuted(x) + places), permuted(attention(x + places))) > 0.01);
  CHECK(difference(rotary_attention(permuted(x)), permuted(rotary_attention(x))) > 0.01);
  CHECK(difference(causal(permuted(x)), permuted(causal(x))) > 0.01);
}

// ---- sinusoidal positions ----

// PE(t, 2i) = sin(t w_i), PE(t, 2i+1) = cos(t w_i), w_i = 10000^(-2i/d): V17, 3.5. For d = 4, w is
// 1 and 1/100.
TEST_CASE("lecture: sinusoidal positions computed by hand", "[lecture]") {
  CHECK(difference(nn::sinusoidal_positions(3, 4),
                   {0, 1, 0, 1,                                              //
                    0.8414709848, 0.5403023059, 0.0099998333, 0.9999500004,  //
                    0.9092974268, -0.4161468365, 0.0199986667, 0.9998000067}) < 1e-7);
}

// "For any fixed offset k, PE(p + k) can be represented as a linear function of PE(p)" (V17, 3.5):
//   [sin((p+k) w)]   [ cos(k w)  sin(k w)] [sin(p w)]
//   [cos((p+k) w)] = [-sin(k w)  cos(k w)] [cos(p w)]     for every p.
// So PE(p) . PE(q) = sum_i cos((p - q) w_i) depends only on the offset, and |PE(p)|^2 = d / 2.
TEST_CASE("lecture: position p + k is position p rotated", "[lecture]") {
  constexpr int64_t d = 32, length = 300;
  const Tensor codes = nn::sinusoidal_positions(length, d).to(float64);
  for (const int64_t k : {1, 7, 100}) {
    const Tensor turn = zeros({d, d}, float64);
    for (int64_t i = 0; i < d / 2; ++i) {
      const double angle = double(k) * std::pow(10000, -2 * double(i) / double(d));
      set(turn.slice(0, 2 * i, 2 * i + 2).slice(1, 2 * i, 2 * i + 2),
          tensor({{std::cos(angle), std::sin(angle)}, {-std::sin(angle), std::cos(angle)}},
                 float64));
    }
    CHECK(difference(matmul(codes.slice(0, 0, length - k), turn.mT()), codes.slice(0, k)) < 2e-7);
  }
  const Tensor dots = matmul(codes, codes.mT());
  for (const int64_t offset : {0, 1, 13, 200}) {
    double expected = 0;
    for (int64_t i = 0; i < d / 2; ++i)
      expected += std::cos(double(offset) * std::pow(10000, -2 * double(i) / double(d)));
    if (offset == 0) CHECK(expected == d / 2);
    for (const int64_t p : {0, 50, 99})
      CHECK(std::abs(dots[p][p + offset].item() - expected) < 1e-5);
  }
}

// A position code should be unique, bounded and independent of the text's length; positions 0, 1,
// 2, ... are unbounded, and divided by the length they depend on it.
TEST_CASE("lecture: position codes are unique and bounded", "[lecture]") {
  constexpr int64_t d = 32, length = 1500;
  const Tensor codes = nn::sinusoidal_positions(length, d);
  CHECK(codes.abs().max().item() <= 1);
  CHECK(values(codes.slice(0, 0, 10)) == values(nn::sinusoidal_positions(10, d)));
  // |PE(p) - PE(q)|^2 = d - 2 PE(p) . PE(q): for adjacent positions
  // 2 sum_i (1 - cos w_i) > 2 (1 - cos 1).
  const Tensor square = double(d) - matmul(codes, codes.mT()) * 2.0 + eye(length) * 100.0;
  CHECK(square.min().item() > 2 * (1 - std::cos(1.0)));
}

// ---- rotary positions ----

namespace {

/// Interleaved (sin, cos) as in nn::sinusoidal_positions, in double precision.
Tensor turns(int64_t length, int64_t dim) {
  Values table;
  for (int64_t t = 0; t < length; ++t)
    for (int64_t i = 0; i < dim / 2; ++i) {
      const double angle = double(t) * std::pow(10000, -2 * double(i) / double(dim));
      table.insert(table.end(), {std::sin(angle), std::cos(angle)});
    }
  return from_data(table, {length, dim});
}

}  // namespace

// (R_m q) . (R_n k) = q . R_(n-m) k (S21, equation 16): for each pair of features, with
// a = (n - m) w,
//   (q0 k0 + q1 k1) cos a + (q1 k0 - q0 k1) sin a.
TEST_CASE("lecture: rotary scores depend only on the offset", "[lecture]") {
  constexpr int64_t D = 16, length = 600;
  manual_seed(7);
  const Tensor q = randn({D}, float64), k = randn({D}, float64);
  const Values a = values(q), b = values(k);
  for (const Dtype dtype : {float32, float64}) {
    const Tensor table = dtype == float64 ? turns(length, D) : nn::sinusoidal_positions(length, D);
    const double limit = dtype == float64 ? 1e-10 : 1e-5;
    const auto everywhere = [&](const Tensor& x) {  // (length, D): x at each position
      return rotary(x.to(dtype).expand({length, 1, D}).contiguous(), table, 1).reshape({length, D});
    };
    const Tensor scores = matmul(everywhere(q), everywhere(k).mT()).to(float64);
    for (const int64_t offset : {-100, -1, 0, 1, 37, 250}) {
      double expected = 0;
      for (size_t i = 0; i < D; i += 2) {
        const double angle = double(offset) * std::pow(10000, -double(i) / double(D));
        expected += (a[i] * b[i] + a[i + 1] * b[i + 1]) * std::cos(angle) +
                    (a[i + 1] * b[i] - a[i] * b[i + 1]) * std::sin(angle);
      }
      for (const int64_t m : {100, 101, 349})
        CHECK(std::abs(scores[m][m + offset].item() - expected) < limit * (1 + std::abs(expected)));
    }
  }
}

// The same holds in the layer: tokens read in two pieces after 90 others in the cache have the same
// relative attention weights as at the beginning in one piece.
TEST_CASE("lecture: rotary attention after cached tokens equals that at the start", "[lecture]") {
  const NoGrad no_grad;
  manual_seed(8);
  const nn::MultiHeadAttention attention(32, {.heads = 2, .rotary = 128, .causal = true});
  const Tensor x = randn({1, 9, 32}), others = randn({1, 90, 32});
  const auto weights = [&](const std::vector<Tensor>& pieces) {  // of the last 5 tokens over all 9
    nn::KeyValueCache cache = attention.make_cache(1, 128);
    const AttentionTrace trace;
    for (const Tensor& piece : pieces) attention(piece, cache);
    const Tensor all = trace.weights().back(), own = all.slice(2, -5).slice(3, -9);
    return own / sum(own, -1, keepdim);
  };
  const Tensor first = x.slice(1, 0, 4), second = x.slice(1, 4);
  CHECK(weights({x}).shape() == Shape{1, 2, 5, 9});
  CHECK(difference(weights({others, first, second}), weights({x})) < 1e-5);
  CHECK(difference(weights({first, others, second}), weights({others, first, second})) > 1e-3);
}

// ---- heads ----

// d_k = d_model / h: 512 = 8 * 64 (V17, 3.2.2). A lecture's "six heads of d_model 512" do not
// exist: 512 / 6 is not a whole number.
TEST_CASE("lecture: eight heads divide 512, six do not", "[lecture]") {
  CHECK_THROWS_WITH(nn::MultiHeadAttention(512, {.heads = 6}),
                    Contains("heads must divide dim") && Contains("512") && Contains("6"));
  const nn::MultiHeadAttention attention(512, {.heads = 8});
  CHECK(attention.key_dim == 64);
  CHECK(attention.value_dim == 64);
  // W_Q, W_K, W_V and W_O with biases, for any number of heads.
  CHECK(attention.num_parameters() == 4 * (512 * 512 + 512));
}

// Queries of one group share a head of keys and values (Ainslie et al. 2023, arXiv 2305.13245; a
// single one: Shazeer 2019, arXiv 1911.02150): the same as multi-head attention whose key and value
// heads are repeated.
TEST_CASE("lecture: shared key/value heads equal repeated ones", "[lecture]") {
  const NoGrad no_grad;
  constexpr int64_t heads = 4, D = 8, dim = heads * D;
  manual_seed(9);
  const Tensor x = randn({2, 11, dim}, float64);
  for (const int64_t kv_heads : {1, 2}) {
    nn::MultiHeadAttention shared(dim, {.heads = heads, .kv_heads = kv_heads, .causal = true}),
        full(dim, {.heads = heads, .causal = true});
    shared.to(float64);
    full.to(float64);
    // Rows of qkv: query heads, then key heads, then value heads, D rows each.
    const auto repeated = [&](const Tensor& rows) {
      std::vector<Tensor> parts{rows.slice(0, 0, dim)};
      for (const int64_t first : {heads, heads + kv_heads})
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t row = (first + h / (heads / kv_heads)) * D;
          parts.push_back(rows.slice(0, row, row + D));
        }
      return cat(parts);
    };
    set(full.qkv.weight, repeated(shared.qkv.weight));
    set(full.qkv.bias, repeated(shared.qkv.bias));
    set(full.proj.weight, shared.proj.weight);
    set(full.proj.bias, shared.proj.bias);
    CHECK(difference(shared(x), full(x)) < 1e-13);
    // The cache shrinks by heads / kv_heads (Shazeer's motivation).
    CHECK(shared.make_cache(1, 5).keys().size(1) == kv_heads);
  }
}

// ---- how far gradients reach ----

// h_t = tanh(W x_t + U h_(t-1)): dh_T/dx_t = W^T prod diag(1 - h^2) U^T (Pascanu et al. 2013, arXiv
// 1211.5063). With W = 1 and U = 1/2 the gradient at distance d is |dy| / 2^d where h = 0;
// elsewhere each step has a further factor of at most max(1 - h^2) < 1.
TEST_CASE("lecture: in a tanh RNN gradients vanish exponentially", "[lecture]") {
  constexpr int64_t T = 50, H = 6;
  manual_seed(10);
  nn::RNN rnn(H, H, {.bias = false});
  rnn.to(float64);
  set(rnn.weights[0].weight_ih, eye(H, float64));
  set(rnn.weights[0].weight_hh, eye(H, float64) * 0.5);
  const Tensor dy = randn({1, H}, float64);
  const auto outputs = [&](const Tensor& x) { return rnn(x).output; };
  const Values at_rest = gradient_by_distance(outputs, zeros({1, T, H}, float64), dy);
  const Values moving = gradient_by_distance(outputs, randn({1, T, H}, float64), dy);
  REQUIRE(at_rest.size() == T);
  for (size_t d = 0; d < T; ++d) {
    CHECK(at_rest[d] == Approx(dy.norm().item() * std::pow(0.5, d)).epsilon(1e-10));
    CHECK(moving[d] < at_rest[d]);
  }
  CHECK(moving[40] < 1e-6 * moving[20]);
}

// c_t = f c_(t-1) + i g: where gates do not read h, dc_T/dc_t = prod f (Gers et al. 2000), so on
// constant inputs the gradient falls by exactly f per step from distance 1 on. With a
// forget bias of 5 f is 0.9933: after 48 steps 72% are left; with 0 f is 0.5, and 4e-15 are.
TEST_CASE("lecture: in an LSTM gradients shrink by the forget gate", "[lecture]") {
  constexpr int64_t T = 50, H = 6;
  manual_seed(11);
  for (const double bias : {0.0, 5.0}) {
    nn::LSTM lstm(H, H);
    lstm.to(float64);
    const nn::RecurrentWeights& w = lstm.weights[0];
    set(w.weight_hh, zeros({4 * H, H}, float64));
    set(w.bias_hh, zeros({4 * H}, float64));
    set(w.weight_ih.slice(0, H, 2 * H), zeros({H, H}, float64));  // gates i, f, g, o
    set(w.bias_ih.slice(0, H, 2 * H), full({H}, bias, float64));
    const Values norms =
        gradient_by_distance([&](const Tensor& x) { return lstm(x).output; },
                             full({1, T, H}, 0.3, float64), randn({1, H}, float64));
    for (size_t d = 1; d < T; ++d)
      CHECK(norms[d] == Approx(norms[1] * std::pow(sigma(bias), double(d) - 1)).epsilon(1e-9));
  }
}

// Attention reaches each position in one step (V17, table 1: path length 1). On inputs of 0,
// without biases, all weights are 1/T and the gradient is |W_V^T W_O^T dy| / T at every distance.
TEST_CASE("lecture: in attention gradients do not shrink with distance", "[lecture]") {
  constexpr int64_t T = 50, dim = 16;
  manual_seed(12);
  nn::MultiHeadAttention attention(dim, {.heads = 2, .causal = true, .bias = false});
  attention.to(float64);
  const Tensor dy = randn({1, dim}, float64);
  const auto outputs = [&](const Tensor& x) { return attention(x); };
  const Tensor by_values =
      matmul(matmul(dy, attention.proj.weight), attention.qkv.weight.slice(0, 2 * dim));
  for (const double norm : gradient_by_distance(outputs, zeros({1, T, dim}, float64), dy))
    CHECK(norm == Approx(by_values.norm().item() / T).epsilon(1e-10));

  const Values norms = gradient_by_distance(outputs, randn({1, T, dim}, float64), dy);
  const auto mean = [&](size_t begin, size_t end) {
    return std::accumulate(norms.begin() + long(begin), norms.begin() + long(end), 0.0) /
           double(end - begin);
  };
  CHECK(mean(40, 50) > 0.6 * mean(1, 11));
}

}  // namespace lecture_test
