// Rows of prod, cumsum, any, all, normalize and cosine_similarity.

#include <cmath>

#include "gradus/core/ops/ops.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

/// Zeros among normal values.
Input with_zeros(const Shape& shape) {
  return {shape,
          [](const Shape& s) { return masked_fill(randn(s, float64), lt(rand(s), 0.4), 0); }};
}

std::vector<OpRow> prod_rows() {
  auto all_three = [](const Tensors& x) {
    return Tensors{prod(x[0]), prod(x[0], -1), prod(x[0], 0, keepdim)};
  };
  auto by_hand = [](const Tensor& x, int64_t dim) {
    Tensor y = x.size(dim) == 0 ? sum(x, dim) + 1.0 : x.select(dim, 0);
    for (int64_t i = 1; i < x.size(dim); ++i) y = y * x.select(dim, i);
    return y;
  };
  auto by_logarithms = [](const Tensor& x, const Axes& dims, KeepDim keep) {
    return exp(sum(log(x), dims, keep));
  };
  return {
      {.name = "prod",
       .f = all_three,
       .samples = {{uniform({2, 3}, 0.5, 2)},
                   {uniform({1, 2, 1}, 0.5, 2)},
                   {uniform({2, 0}, 1, 2)},
                   {uniform({5}, -2, -1)}},
       .large = {{uniform({71, 1031}, 0.9, 1.1)}, {uniform({1031, 31}, 0.9, 1.1)}},
       .composed =
           [=](const Tensors& x) {
             if (x[0].rank() == 1)
               return Tensors{by_hand(x[0], 0), by_hand(x[0], 0), by_hand(x[0], 0).unsqueeze(0)};
             return Tensors{by_logarithms(x[0], {}, false), by_logarithms(x[0], -1, false),
                            by_logarithms(x[0], 0, keepdim)};
           },
       .bad = {{[] { prod(f32({2}), 1); }, "prod: axis 1 is out of range for rank 1"},
               {[] { prod(full({63}, 2, int64)); },
                "prod: the int64 product of 63 elements overflows"},
               {[] { prod(Tensor()); }, "tensor: used before it was given a value"}}},
      {.name = "prod",
       .variant = "with zeros",
       .f = all_three,
       .samples = {{with_zeros({2, 3})},
                   {with_zeros({3, 4})},
                   {with_zeros({2, 1, 3})},
                   {with_zeros({0, 2})},
                   {with_zeros({7})}},
       .large = {{with_zeros({31, 5})}},
       .composed = [=](const Tensors& x) {
         return Tensors{by_hand(x[0].reshape({-1}), 0), by_hand(x[0], -1),
                        by_hand(x[0], 0).unsqueeze(0)};
       }}};
}

std::vector<OpRow> running_rows() {
  auto by_matrix = [](const Tensor& x, int64_t dim) {
    const Tensor ones_above = triu(ones({x.size(dim), x.size(dim)}, x.dtype()));
    return matmul(x.transpose(dim, -1), ones_above).transpose(dim, -1);
  };
  return {
      {.name = "cumsum",
       .f =
           [](const Tensors& x) {
             return Tensors{square(cumsum(x[0], -1)), cumsum(x[0], 0), cumsum(x[0], 1)};
           },
       .samples = {{normal({3, 4})}, {normal({2, 3, 2})}, {normal({1, 1})}, {normal({2, 0})}},
       .large = {{normal({71, 1031})}, {normal({31, 3, 307})}},
       .composed =
           [by_matrix](const Tensors& x) {
             return Tensors{square(by_matrix(x[0], -1)), by_matrix(x[0], 0), by_matrix(x[0], 1)};
           },
       .bad = {{[] { cumsum(f32({2}), 1); }, "cumsum: axis 1 is out of range for rank 1"},
               {[] { cumsum(f32({}), 0); }, "cumsum: axis 0 is out of range for rank 0"},
               {[] {
                  cumsum(full({2, 3}, 0x1p62, int64), -1);
                },
                "cumsum: an int64 sum along axis 1 of (2, 3) overflows"}}}};
}

/// Rows for cumprod: without zeros, and with several in a row.
std::vector<OpRow> running_product_rows() {
  auto by_hand = [](const Tensor& x, int64_t dim) {
    std::vector<Tensor> products;
    for (const Tensor& entry : unbind(x, dim))
      products.push_back(products.empty() ? entry : products.back() * entry);
    return products.empty() ? x * 1.0 : stack(products, dim);
  };
  const OpRow row{.name = "cumprod",
                  .f =
                      [](const Tensors& x) {
                        return Tensors{square(cumprod(x[0], -1)), cumprod(x[0], 0)};
                      },
                  .samples = {},
                  .composed =
                      [by_hand](const Tensors& x) {
                        return Tensors{square(by_hand(x[0], -1)), by_hand(x[0], 0)};
                      }};
  OpRow plain = row, zeros = row;
  plain.samples = {{uniform({3, 4}, 0.5, 2)},
                   {uniform({2, 1, 3}, -2, -0.5)},
                   {uniform({5}, 0.5, 2)},
                   {uniform({1, 1}, 1, 2)},
                   {uniform({2, 0}, 1, 2)}};
  plain.large = {{uniform({71, 203}, 0.9, 1.1)}, {uniform({203, 3, 31}, 0.9, 1.1)}};
  plain.bad = {{[] { cumprod(f32({2}), 1); }, "cumprod: axis 1 is out of range for rank 1"},
               {[] { cumprod(f32({}), 0); }, "cumprod: axis 0 is out of range for rank 0"},
               {[] {
                  cumprod(full({2, 3}, 0x1p31, int64), -1);
                },
                "cumprod: an int64 product along axis 1 of (2, 3) overflows"}};
  zeros.variant = "with zeros";
  zeros.samples = {
      {with_zeros({3, 4})}, {with_zeros({2, 3, 2})}, {with_zeros({7})}, {with_zeros({0, 2})}};
  zeros.large = {{with_zeros({31, 5})}};
  return {plain, zeros};
}

/// A row for any or all, composed from the number of true elements.
template <class F, class Composed>
OpRow truth_row(const std::string& name, F f, double p, Composed from_count) {
  auto small = [](const Shape& shape) { return mask(shape); };
  return {.name = name,
          .f =
              [f](const Tensors& x) {
                return Tensors{f(x[0], {}, false), f(x[0], {-1}, false), f(x[0], {0, 2}, keepdim)};
              },
          .samples = {{small({2, 2, 3})},
                      {small({1, 3, 1})},
                      {small({2, 1, 2, 2})},
                      {small({2, 0, 3})}},
          .large = {{mask({7, 11, 1031}, p)}, {mask({1031, 3, 31}, p)}, {mask({2, 3, 40009}, p)}},
          .composed =
              [from_count](const Tensors& x) {
                const auto total = static_cast<double>(x[0].numel());
                const auto last = static_cast<double>(x[0].size(-1));
                const auto both = static_cast<double>(x[0].size(0) * x[0].size(2));
                return Tensors{from_count(sum(x[0]), total), from_count(sum(x[0], -1), last),
                               from_count(sum(x[0], {0, 2}, keepdim), both)};
              },
          .bad = {{[f] { f(f32({2}), {}, false); }, name + ": expected a bool tensor, got float32"},
                  {[f] { f(ones({2}, boolean), {1}, false); },
                   name + ": axis 1 is out of range for rank 1"}},
          .differentiable = false};
}

std::vector<OpRow> truth_rows() {
  return {truth_row(
              "any", [](const Tensor& x, const Axes& d, KeepDim k) { return any(x, d, k); }, 0.001,
              [](const Tensor& count, double) { return gt(count, 0); }),
          truth_row(
              "all", [](const Tensor& x, const Axes& d, KeepDim k) { return all(x, d, k); }, 0.999,
              [](const Tensor& count, double n) { return eq(count, n); })};
}

/// Values that are not near 0, no two of equal magnitude.
Input off(const Shape& shape) {
  return {shape, [](const Shape& s) {
            const Tensor sizes = distinct(s).draw(s) + 1.2;
            return where(lt(rand(s), 0.5), sizes, -sizes);
          }};
}

/// Unit vectors, except that vectors shorter than eps = 1.2 stay shorter.
std::vector<OpRow> length_rows() {
  auto over = [](const Tensor& x, const Tensor& length, double eps) {
    return x / maximum(length, full({}, eps, x.dtype()));
  };
  auto euclid = [](const Tensor& x, int64_t dim) { return sqrt(sum(x * x, dim, keepdim)); };
  auto large = [](const Shape& shape) { return uniform(shape, 0.5, 2); };
  return {
      {.name = "normalize",
       .f =
           [](const Tensors& x) {
             return Tensors{normalize(x[0], 1, 0.01), normalize(x[0], 0, 1.2)};
           },
       .samples = {{normal({2, 3})}, {normal({3, 2, 2})}, {off({1, 1})}, {normal({2, 0})}},
       .large = {{normal({71, 1031})}, {normal({37, 41, 31})}},
       .composed =
           [=](const Tensors& x) {
             return Tensors{over(x[0], euclid(x[0], 1), 0.01), over(x[0], euclid(x[0], 0), 1.2)};
           },
       .bad = {{[] { normalize(f32({2})); }, "normalize: axis 1 is out of range for rank 1"},
               {[] { normalize(ones({2}, int64), 0); },
                "normalize: expected float32 or float64, got int64"},
               {[] { normalize(f32({2}), 0, -1); }, "normalize: expected eps >= 0, got -1"},
               {[] { normalize(f32({2}), 0, NAN); }, "normalize: expected eps >= 0, got nan"},
               {[] { normalize(f32({2}), 0, 0, 0.5); }, "normalize: expected p >= 1, got 0.5"}}},
      {.name = "normalize",
       .variant = "p = 1, 3 and infinity",
       .f =
           [](const Tensors& x) {
             return Tensors{normalize(x[0], -1, 1e-3, 1), normalize(x[0], -1, 1e-3, 3),
                            normalize(x[0], -1, 1e-3, INFINITY)};
           },
       .samples = {{off({2, 3})}, {off({3, 2, 2})}, {off({1, 1})}, {off({2, 0})}},
       .large = {{large({71, 1031})}},
       .composed =
           [=](const Tensors& x) {
             const Tensor &t = x[0], size = abs(t);
             if (t.numel() == 0) return Tensors{t * 1.0, t * 1.0, t * 1.0};
             const Tensor cubes = size * size * size;
             return Tensors{over(t, sum(size, -1, keepdim), 1e-3),
                            over(t, exp(log(sum(cubes, -1, keepdim)) / 3.0), 1e-3),
                            over(t, max(size, -1, keepdim).values, 1e-3)};
           }},
      {.name = "cosine_similarity",
       .f =
           [](const Tensors& x) {
             return Tensors{cosine_similarity(x[0], x[1]), cosine_similarity(x[0], x[1], 0, 1.2)};
           },
       .samples = {{normal({2, 3}), normal({2, 3})},
                   {normal({2, 1}), normal({3})},
                   {normal({2, 2, 2}), normal({2, 1})},
                   {normal({2, 0}), normal({2, 0})}},
       .large = {{normal({71, 1031}), normal({71, 1031})}, {normal({71, 1031}), normal({1031})}},
       .composed =
           [=](const Tensors& x) {
             const Shape shape = (x[0] + x[1]).shape();
             const Tensor a = x[0].expand(shape), b = x[1].expand(shape);
             auto cosine = [&](int64_t dim, double eps) {
               return sum(over(a, euclid(a, dim), eps) * over(b, euclid(b, dim), eps), dim);
             };
             return Tensors{cosine(1, 1e-8), cosine(0, 1.2)};
           },
       .bad = {{[] {
                  cosine_similarity(f32({2, 3}), f32({2}));
                },
                "cosine_similarity: shapes do not broadcast: (2, 3) and (2,)"},
               {[] { cosine_similarity(f32({2}), f32({2})); },
                "cosine_similarity: axis 1 is out of range for rank 1"},
               {[] { cosine_similarity(f32({2}), ones({2}, float64), 0); },
                "cosine_similarity: dtypes differ: float32 and float64"},
               {[] { cosine_similarity(ones({2}, int64), ones({2}, int64), 0); },
                "cosine_similarity: expected float32 or float64, got int64"}}}};
}

}  // namespace

std::vector<OpRow> product_rows() {
  std::vector<OpRow> rows;
  for (auto some : {prod_rows, running_rows, running_product_rows, truth_rows, length_rows})
    for (OpRow& row : some()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace gradus::testing
