// Kernels over more than one chunk, block or piece of work, against plain loops in double.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/core.h"
#include "gradus/core/tensor/autograd.h"
#include "tests/ops/op_checks.h"

namespace long_inputs_test {

using namespace gradus;
using namespace gradus::core;
using gradus::testing::relative_distance;

namespace {

using Values = std::vector<double>;

double tolerance(Dtype dtype) { return dtype == float64 ? 1e-13 : 2e-6; }

Tensor as(const Values& v, const Shape& shape, Dtype dtype) {
  return from_data(v, shape).to(dtype);
}

// x's elements in row-major order, read through its strides.
double at(const Tensor& x, std::initializer_list<int64_t> index) {
  int64_t offset = 0;
  int axis = 0;
  for (int64_t i : index) offset += i * x.strides()[axis++];
  return x.dtype() == float32 ? static_cast<double>(x.data<float>()[offset])
                              : x.data<double>()[offset];
}

}  // namespace

TEST_CASE("long inputs: elementwise loops over strides, broadcasts and chunks", "[long]") {
  for (Dtype dtype : {float32, float64}) {
    manual_seed(40);
    const Tensor whole = randn({9, 31, 2, 97}, dtype), other = randn({31, 1, 9, 1}, dtype);
    const Tensor x = whole.permute({1, 3, 0, 2}).slice(1, 1, INT64_MAX, 2);  // (31, 48, 9, 2)
    Values product;
    for (int64_t a = 0; a < 31; ++a)
      for (int64_t b = 0; b < 48; ++b)
        for (int64_t c = 0; c < 9; ++c)
          for (int64_t d = 0; d < 2; ++d)
            product.push_back(at(x, {a, b, c, d}) * at(other, {a, 0, c, 0}) + at(x, {a, b, c, d}));
    const Tensor expected = as(product, {31, 48, 9, 2}, dtype);
    CHECK(relative_distance(x * other + x, expected) < tolerance(dtype));
    // Copies in memory order, and in the order of another view.
    CHECK(relative_distance((x * other + x).permute({3, 0, 1, 2}).contiguous(),
                            expected.permute({3, 0, 1, 2})) < tolerance(dtype));
  }
}

TEST_CASE("long inputs: products, convolutions and attention add up blocks of their sums",
          "[long]") {
  // Each term added to all before it, these sums would be 1% too large in float32.
  const int64_t k = 1 << 20;
  const Tensor terms = full({k, 2}, 0.1), ones_of_k = ones({k, 2});
  const double expected = static_cast<double>(k) * 0.1f;
  const auto within = [&](const Tensor& x, double value) {
    return mean(abs(x - value)).item() < 1e-4 * value;
  };
  CHECK(within(matmul(terms.mT(), ones_of_k), expected));
  CHECK(within(matmul(terms.mT(), ones({k, 40})), expected));
  const Tensor weight = zeros({2, 2}).requires_grad_();
  linear(ones_of_k, weight).backward(terms);
  CHECK(within(weight.grad(), expected));
  const Tensor filter = zeros({2, 1, 1}).requires_grad_();
  conv1d(ones({1, 1, k}), filter).backward(full({1, 2, k}, 0.1));
  CHECK(within(filter.grad(), expected));
  const Tensor q = zeros({1, 1, 8, 16}), keys = zeros({1, 1, k, 16}),
               values = full({1, 1, k, 16}, 0.1);
  CHECK(within(scaled_dot_product_attention(q, keys, values), 0.1f));
}

TEST_CASE("long inputs: sums in pieces, over axes that do not merge", "[long]") {
  for (Dtype dtype : {float32, float64}) {
    manual_seed(41);
    // Rows: the inner axis is summed in pieces that begin and end within it.
    const Tensor x = (randn({5, 61, 701}, dtype) + 0.5).slice(2, 3, 690).slice(1, 0, 59);
    REQUIRE(x.numel() > 4 * 32768);
    double total = 0, squares = 0;
    Values rows(59), columns(687), planes(5);
    for (int64_t a = 0; a < 5; ++a)
      for (int64_t b = 0; b < 59; ++b)
        for (int64_t c = 0; c < 687; ++c) {
          const double v = at(x, {a, b, c});
          total += v, squares += v * v;
          rows[static_cast<size_t>(b)] += v, columns[static_cast<size_t>(c)] += v;
          planes[static_cast<size_t>(a)] += v;
        }
    const double n = static_cast<double>(x.numel());
    CHECK(sum(x).item() == Approx(total).epsilon(tolerance(dtype)));
    CHECK(mean(x).item() == Approx(total / n).epsilon(tolerance(dtype)));
    CHECK(norm(x).item() == Approx(std::sqrt(squares)).epsilon(tolerance(dtype)));
    CHECK(var(x, {}).item() == Approx((squares - total * total / n) / (n - 1)).epsilon(2e-6));
    CHECK(relative_distance(sum(x, {0, 2}), as(rows, {59}, dtype)) < tolerance(dtype));
    CHECK(relative_distance(sum(x, {0, 1}), as(columns, {687}, dtype)) < tolerance(dtype));
    CHECK(relative_distance(sum(x, {1, 2}), as(planes, {5}, dtype)) < tolerance(dtype));
    CHECK(relative_distance(sum(x.permute({2, 0, 1}), {0, 1}), as(rows, {59}, dtype)) <
          tolerance(dtype));
  }
}

TEST_CASE("long inputs: sums with outputs along many axes, in chunks", "[long]") {
  manual_seed(47);
  const Tensor whole = randn({7, 11, 13, 15, 9}, float64);
  Tensor x = whole;
  for (int axis = 0; axis < 5; ++axis) x = x.slice(axis, 1);  // no two axes merge
  const auto [A, B, C, D, E] = std::array<int64_t, 5>{6, 10, 12, 14, 8};
  REQUIRE(A * B * C * D > 2 * 32768 / E);
  Values last(static_cast<size_t>(A * B * C * D)), second(static_cast<size_t>(A * C * D * E));
  for (int64_t a = 0, i = 0; a < A; ++a)
    for (int64_t b = 0; b < B; ++b)
      for (int64_t c = 0; c < C; ++c)
        for (int64_t d = 0; d < D; ++d, ++i)
          for (int64_t e = 0; e < E; ++e) {
            last[static_cast<size_t>(i)] += at(x, {a, b, c, d, e});
            second[static_cast<size_t>(((a * C + c) * D + d) * E + e)] += at(x, {a, b, c, d, e});
          }
  CHECK(relative_distance(sum(x, 4), from_data(last, {A, B, C, D})) < 1e-13);
  CHECK(relative_distance(sum(x, 1), from_data(second, {A, C, D, E})) < 1e-13);
}

TEST_CASE("long inputs: softmax, log_softmax and logsumexp over blocks of a row", "[long]") {
  for (Dtype dtype : {float32, float64})
    for (int64_t n : {2047, 2048, 2049, 4097}) {
      CAPTURE(dtype, n);
      manual_seed(42);
      // The maximum is in the first, second or last block, so sums are or are not rescaled.
      const Tensor x = randn({3, n}, dtype) * 4, dy = randn({3, n}, dtype);
      const Tensor peaks = zeros({3, n}, dtype);
      {
        const NoGrad no_grad;
        peaks.select(0, 0).select(0, 1).fill_(9), peaks.select(0, 1).select(0, n / 2).fill_(9);
        peaks.select(0, 2).select(0, n - 1).fill_(9);
      }
      const Tensor leaf = (x + peaks).detach().requires_grad_();
      Values p, log_p, lse, dp, dlog_p, dlse;
      for (int64_t r = 0; r < 3; ++r) {
        double largest = -HUGE_VAL, s = 0, dot = 0, dsum = 0;
        for (int64_t c = 0; c < n; ++c) largest = std::max(largest, at(leaf, {r, c}));
        for (int64_t c = 0; c < n; ++c) s += std::exp(at(leaf, {r, c}) - largest);
        const auto prob = [&](int64_t c) { return std::exp(at(leaf, {r, c}) - largest) / s; };
        for (int64_t c = 0; c < n; ++c) dot += prob(c) * at(dy, {r, c}), dsum += at(dy, {r, c});
        for (int64_t c = 0; c < n; ++c) {
          p.push_back(prob(c)), log_p.push_back(at(leaf, {r, c}) - largest - std::log(s));
          dp.push_back(prob(c) * (at(dy, {r, c}) - dot));
          dlog_p.push_back(at(dy, {r, c}) - prob(c) * dsum);
          dlse.push_back(prob(c) * at(dy, {r, 0}));
        }
        lse.push_back(largest + std::log(s));
      }
      const auto compare = [&](const Tensor& y, const Tensor& gradient, const Values& expected,
                               const Values& slope) {
        CHECK(relative_distance(y.detach(), as(expected, y.shape(), dtype)) < tolerance(dtype));
        const Tensor dx = grad({y}, {leaf}, {.grad_outputs = {gradient}})[0];
        CHECK(relative_distance(dx, as(slope, {3, n}, dtype)) < 2 * tolerance(dtype));
      };
      compare(softmax(leaf), dy, p, dp);
      compare(log_softmax(leaf), dy, log_p, dlog_p);
      compare(logsumexp(leaf, -1), dy.select(1, 0).contiguous(), lse, dlse);
    }
}

TEST_CASE("long inputs: cross entropy with weights, smoothing and ignored rows over chunks",
          "[long]") {
  const int64_t rows = 1301, classes = 37;  // 32 KB hold 221 rows of float32
  const double e = 0.2;
  for (Dtype dtype : {float32, float64})
    for (Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      manual_seed(43);
      const Tensor x = (randn({rows, classes}, dtype) * 3).requires_grad_();
      const Tensor w = rand({classes}, dtype) + 0.1, t = randint(0, classes, {rows});
      const Tensor dy = randn({rows}, dtype);
      const auto targets = t.to_vector<int64_t>();
      const int64_t ignore = targets[5];
      Values losses, dx;
      double counted = 0, weights = 0;
      for (int64_t c = 0; c < classes; ++c) weights += at(w, {c});
      for (int64_t target : targets) counted += target == ignore ? 0 : at(w, {target});
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t target = targets[static_cast<size_t>(r)];
        double s = 0, loss = 0;
        for (int64_t c = 0; c < classes; ++c) s += std::exp(at(x, {r, c}));
        const double g = reduction == Reduction::none   ? at(dy, {r})
                         : reduction == Reduction::mean ? 1 / counted
                                                        : 1;
        for (int64_t c = 0; c < classes; ++c) {
          const double share =  // of -log p_c in the loss
              target == ignore ? 0
                               : (1 - e) * (c == target) * at(w, {c}) + e / classes * at(w, {c});
          const double all =
              target == ignore ? 0 : (1 - e) * at(w, {target}) + e / classes * weights;
          loss += share * (std::log(s) - at(x, {r, c}));
          dx.push_back(g * (all * std::exp(at(x, {r, c})) / s - share));
        }
        losses.push_back(loss);
      }
      double total = 0;
      for (double loss : losses) total += loss;
      const Tensor y = cross_entropy(x, t,
                                     {.reduction = reduction,
                                      .ignore_index = ignore,
                                      .label_smoothing = e,
                                      .class_weights = w});
      if (reduction == Reduction::none) {
        CHECK(relative_distance(y.detach(), as(losses, {rows}, dtype)) < tolerance(dtype));
        y.backward(dy);
      } else {
        CHECK(y.item() == Approx(reduction == Reduction::mean ? total / counted : total)
                              .epsilon(tolerance(dtype)));
        y.backward();
      }
      CHECK(relative_distance(x.grad(), as(dx, {rows, classes}, dtype)) < 2 * tolerance(dtype));
    }
}

TEST_CASE("long inputs: layer norm's sums of gradients over chunks of rows", "[long]") {
  const int64_t rows = 1003, n = 41;
  for (Dtype dtype : {float32, float64}) {
    manual_seed(44);
    const Tensor x = (randn({rows, n}, dtype) + 1).requires_grad_();
    const Tensor w = randn({n}, dtype).requires_grad_(), b = randn({n}, dtype).requires_grad_();
    const Tensor dy = randn({rows, n}, dtype);
    Values y, dx, dw(n), db(n);
    for (int64_t r = 0; r < rows; ++r) {
      double mean = 0, var = 0, g_mean = 0, gx_mean = 0;
      for (int64_t c = 0; c < n; ++c) mean += at(x, {r, c}) / n;
      for (int64_t c = 0; c < n; ++c) var += (at(x, {r, c}) - mean) * (at(x, {r, c}) - mean) / n;
      const double rstd = 1 / std::sqrt(var + 1e-5);
      const auto xhat = [&](int64_t c) { return (at(x, {r, c}) - mean) * rstd; };
      const auto g = [&](int64_t c) { return at(dy, {r, c}) * at(w, {c}); };
      for (int64_t c = 0; c < n; ++c) {
        y.push_back(xhat(c) * at(w, {c}) + at(b, {c}));
        g_mean += g(c) / n, gx_mean += g(c) * xhat(c) / n;
        dw[static_cast<size_t>(c)] += at(dy, {r, c}) * xhat(c);
        db[static_cast<size_t>(c)] += at(dy, {r, c});
      }
      for (int64_t c = 0; c < n; ++c) dx.push_back(rstd * (g(c) - g_mean - xhat(c) * gx_mean));
    }
    const Tensor out = layer_norm(x, w, b);
    CHECK(relative_distance(out.detach(), as(y, {rows, n}, dtype)) < tolerance(dtype));
    out.backward(dy);
    CHECK(relative_distance(x.grad(), as(dx, {rows, n}, dtype)) < tolerance(dtype));
    CHECK(relative_distance(w.grad(), as(dw, {n}, dtype)) < tolerance(dtype));
    CHECK(relative_distance(b.grad(), as(db, {n}, dtype)) < tolerance(dtype));
  }
}

TEST_CASE("long inputs: embedding, gather and scatter over more ids than a chunk", "[long]") {
  for (const auto& [count, ids, dim] :
       {std::array<int64_t, 3>{113, 5003, 7}, {40'000, 35'001, 1}, {3, 301, 515}})
    for (Dtype dtype : {float32, float64}) {
      CAPTURE(count, ids, dim, dtype);
      manual_seed(45);
      const Tensor weight = randn({count, dim}, dtype).requires_grad_();
      const Tensor id = randint(0, count, {ids}), dy = randn({ids, dim}, dtype);
      const auto row = id.to_vector<int64_t>();
      Values y, dw(static_cast<size_t>(count * dim));
      for (int64_t i = 0; i < ids; ++i)
        for (int64_t j = 0; j < dim; ++j) {
          y.push_back(at(weight, {row[static_cast<size_t>(i)], j}));
          dw[static_cast<size_t>(row[static_cast<size_t>(i)] * dim + j)] += at(dy, {i, j});
        }
      const Tensor expected = as(y, {ids, dim}, dtype), slope = as(dw, {count, dim}, dtype);
      const Tensor index = id.unsqueeze(1).expand({ids, dim});
      const auto gradient = [&](const Tensor& out) {
        CHECK(relative_distance(out.detach(), expected) == 0);
        return grad({out}, {weight}, {.grad_outputs = {dy}})[0];
      };
      CHECK(relative_distance(gradient(embedding(weight, id)), slope) < tolerance(dtype));
      CHECK(relative_distance(gradient(index_select(weight, 0, id)), slope) < tolerance(dtype));
      CHECK(relative_distance(gradient(gather(weight, 0, index)), slope) < tolerance(dtype));
      const Tensor zero = zeros({count, dim}, dtype);
      CHECK(relative_distance(index_add(zero, 0, id, dy), slope) < tolerance(dtype));
      CHECK(relative_distance(scatter_add(zero, 0, index, dy), slope) < tolerance(dtype));
    }
}

TEST_CASE("long inputs: linear's bias and activation over chunks of rows", "[long]") {
  const int64_t rows = 1003, in = 5, out = 19;
  for (Dtype dtype : {float32, float64}) {
    manual_seed(46);
    const Tensor x = randn({rows, in}, dtype), w = randn({out, in}, dtype).requires_grad_();
    const Tensor b = randn({out}, dtype).requires_grad_(), dy = randn({rows, out}, dtype);
    Values y, dw(static_cast<size_t>(out * in)), db(static_cast<size_t>(out));
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < out; ++o) {
        double s = at(b, {o});
        for (int64_t i = 0; i < in; ++i) s += at(x, {r, i}) * at(w, {o, i});
        const double cdf = 0.5 * std::erfc(-s / std::sqrt(2.0));
        const double density = std::exp(-s * s / 2) / std::sqrt(2 * 3.14159265358979323846);
        y.push_back(s * cdf);
        const double g = at(dy, {r, o}) * (cdf + s * density);
        db[static_cast<size_t>(o)] += g;
        for (int64_t i = 0; i < in; ++i) dw[static_cast<size_t>(o * in + i)] += g * at(x, {r, i});
      }
    const Tensor got = linear(x, w, b, Activation::gelu);
    CHECK(relative_distance(got.detach(), as(y, {rows, out}, dtype)) < tolerance(dtype));
    got.backward(dy);
    CHECK(relative_distance(w.grad(), as(dw, {out, in}, dtype)) < tolerance(dtype));
    CHECK(relative_distance(b.grad(), as(db, {out}, dtype)) < tolerance(dtype));
  }
}

TEST_CASE("long inputs: feed_forward over parts of the rows", "[long]") {
  const int64_t rows = 2051, dim = 3, hidden = 7;
  for (const Activation activation : {Activation::gelu, Activation::relu, Activation::none}) {
    CAPTURE(static_cast<int>(activation));
    manual_seed(47);
    const auto leaf = [](const Shape& shape) { return randn(shape, float64).requires_grad_(); };
    const std::vector<Tensor> in{leaf({rows, dim}), leaf({hidden, dim}), leaf({hidden}),
                                 leaf({dim, hidden}), leaf({dim})};
    const Tensor dy = randn({rows, dim}, float64);
    const Tensor h = activate(matmul(in[0], in[1].mT()) + in[2], activation),
                 y = matmul(h, in[3].mT()) + in[4];
    const std::vector<Tensor> expected = grad({y + in[0]}, in, {.grad_outputs = {dy}});

    // x's gradient is added to the residual connection's in place.
    const Tensor got = feed_forward(in[0], in[1], in[2], activation, in[3], in[4]);
    const std::vector<Tensor> gradients = grad({got + in[0]}, in, {.grad_outputs = {dy}});
    CHECK(relative_distance(got.detach(), y.detach()) < 1e-13);
    for (size_t i = 0; i < in.size(); ++i)
      CHECK(relative_distance(gradients[i], expected[i]) < 1e-13);
    // With accumulated gradients.
    for (int pass = 0; pass < 2; ++pass)
      (feed_forward(in[0], in[1], in[2], activation, in[3], in[4]) + in[0]).backward(dy);
    for (size_t i = 0; i < in.size(); ++i)
      CHECK(relative_distance(in[i].grad(), 2 * expected[i]) < 1e-13);
    const NoGrad no_grad;
    CHECK(relative_distance(feed_forward(in[0], in[1], in[2], activation, in[3], in[4]), y) <
          1e-13);
  }
}

}  // namespace long_inputs_test
