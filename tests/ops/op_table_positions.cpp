// Rows of scatter, nonzero, bincount, unique, medians and quantiles.

#include <cmath>
#include <map>

#include "gradus/core/ops/ops.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

/// scatter along the last axis of matrices, one column of src after the other.
Tensor in_turn(const Tensor& x, const Tensor& index, const Tensor& src) {
  const Tensor places = arange(x.size(1));
  Tensor y = x.slice(0, 0, index.size(0)) + sum(src) * 0.0;  // src may be empty
  for (int64_t k = 0; k < index.size(1); ++k)
    y = where(index.slice(1, k, k + 1) == places, src.slice(1, k, k + 1), y);
  return cat({y, x.slice(0, index.size(0))});
}

std::vector<OpRow> scatter_rows() {
  const std::vector<BadCall> bad{
      {[] {
         scatter(f32({2, 3}), 1, i64({2}), f32({2}));
       },
       "scatter: index (2,) and x (2, 3) differ in rank"},
      {[] {
         scatter(f32({2, 3}), 1, i64({3, 3}), f32({3, 3}));
       },
       "scatter: index (3, 3) is larger than x (2, 3) at axis 0, which is not axis 1"},
      {[] {
         scatter(f32({2, 3}), 1, i64({2, 3}), f32({2, 2}));
       },
       "scatter: expected src of float32 (2, 3), got float32 (2, 2)"},
      {[] { scatter(f32({3}), 0, i64({2}), f64({2})); },
       "scatter: expected src of float32 (2,), got float64 (2,)"},
      {[] { scatter(f32({3}), 1, i64({2}), f32({2})); }, "scatter: axis 1 is out of range"},
      {[] { scatter(f32({1}), 0, i64({2}), f32({2})); },
       "scatter: index 1 at position 0 is outside [0, 1)"},
      {[] { scatter(f32({3}), 0, -i64({2}), f32({2})); },
       "scatter: index -1 at position 0 is outside [0, 3)"},
      {[] { scatter(f32({3}), 0, f32({2}), f32({2})); },
       "scatter: expected index of int64, got float32"},
      {[] { scatter(i64({3}), 0, i64({2}), 0.5); }, "scatter: 0.5 is not an int64"}};
  return {{.name = "scatter",
           .f =
               [](const Tensors& x) {
                 return Tensors{square(scatter(x[0], 1, x[1], x[2])),
                                square(scatter(x[0], -1, x[1], 2.5))};
               },
           .samples = {{normal({2, 3}), indices({2, 4}, 3), normal({2, 4})},
                       {normal({3, 2}), indices({2, 1}, 2), normal({2, 1})},
                       {normal({1, 1}), indices({1, 3}, 1), normal({1, 3})},
                       {normal({2, 3}), indices({2, 0}, 3), normal({2, 0})}},
           .large = {{normal({61, 103}), indices({61, 301}, 103), normal({61, 301})}},
           .composed =
               [](const Tensors& x) {
                 return Tensors{square(in_turn(x[0], x[1], x[2])),
                                square(in_turn(x[0], x[1], full_like(x[2], 2.5)))};
               },
           .bad = bad},
          {.name = "scatter",
           .variant = "first axis",
           .f = [](const Tensors& x) { return Tensors{square(scatter(x[0], 0, x[1], x[2]))}; },
           .samples = {{normal({3, 2}), indices({4, 2}, 3), normal({4, 2})},
                       {normal({1, 3}), indices({1, 2}, 1), normal({1, 2})},
                       {normal({3, 2}), indices({0, 2}, 3), normal({0, 2})}},
           .large = {{normal({103, 61}), indices({301, 61}, 103), normal({301, 61})}},
           .composed =
               [](const Tensors& x) {
                 return Tensors{square(in_turn(x[0].mT(), x[1].mT(), x[2].mT()).mT())};
               }}};
}

// ---- positions and counts ----

OpRow nonzero_row() {
  return {.name = "nonzero",
          .f = of_one(nonzero),
          .samples = {{on_grid({2, 3, 4}, 0)}, {on_grid({}, 0)}, {mask({5})}, {on_grid({2, 0}, 0)}},
          .large = {{on_grid({71, 1031}, 0)}},
          .composed = of_one([](const Tensor& x) {
            std::vector<int64_t> found;
            const auto values = x.to_vector<double>();
            for (size_t i = 0; i < values.size(); ++i) {
              if (values[i] == 0) continue;
              const Shape at = index_of(x.shape(), static_cast<int64_t>(i));
              found.insert(found.end(), at.begin(), at.end());
            }
            const int64_t count = sum(x != 0).item<int64_t>();
            return from_data(found, {count, x.rank()});
          }),
          .differentiable = false};
}

std::vector<OpRow> bincount_rows() {
  auto hits = [](const Tensor& x, int64_t bins) {
    return arange(bins).unsqueeze(1) == x;  // (bins, n)
  };
  auto bins_of = [](const Tensor& x) { return x.numel() == 0 ? 0 : max(x).item<int64_t>() + 1; };
  return {
      {.name = "bincount",
       .f =
           [](const Tensors& x) {
             return Tensors{bincount(x[0]), bincount(x[0], {}, 9)};
           },
       .samples = {{indices({7}, 4)}, {indices({1}, 3)}, {indices({0}, 3)}},
       .large = {{indices({40009}, 7)}},
       .composed =
           [=](const Tensors& x) {
             return Tensors{sum(hits(x[0], bins_of(x[0])), 1), sum(hits(x[0], 9), 1)};
           },
       .bad = {{[] { bincount(-i64({3})); },
                "bincount: x -1 at position 0 is outside [0, 9223372036854775807)"},
               {[] {
                  bincount(i64({2, 3}));
                },
                "bincount: expected x (n,), got (2, 3)"},
               {[] { bincount(f32({3})); }, "bincount: expected x of int64, got float32"},
               {[] { bincount(i64({3}), {}, -1); }, "bincount: expected minlength >= 0, got -1"},
               {[] { bincount(i64({3}), f32({2})); },
                "bincount: expected weights of float32 (3,), got float32 (2,)"},
               {[] { bincount(i64({3}), i64({3})); },
                "bincount: expected float32 or float64, got int64"}},
       .differentiable = false},
      {.name = "bincount",
       .variant = "weights",
       .f =
           [](const Tensors& x) {
             return Tensors{square(bincount(x[0], x[1])), bincount(x[0], x[1], 9)};
           },
       .samples = {{indices({7}, 4), normal({7})},
                   {indices({1}, 3), normal({1})},
                   {indices({0}, 3), normal({0})}},
       .large = {{indices({40009}, 7), normal({40009})}},
       .composed =
           [=](const Tensors& x) {
             auto total = [&](int64_t bins) {
               return matmul(hits(x[0], bins).to(x[1].dtype()), x[1]);
             };
             return Tensors{square(total(bins_of(x[0]))), total(9)};
           }}};
}

OpRow unique_row() {
  return {.name = "unique",
          .f =
              [](const Tensors& x) {
                const auto [values, inverse, counts] = unique(x[0]);
                return Tensors{values, inverse, counts};
              },
          .samples = {{on_grid({3, 4}, 0)}, {on_grid({}, 0)}, {mask({2, 1, 3})}, {on_grid({0}, 0)}},
          .large = {{on_grid({71, 103}, 0)}},
          .composed =
              [](const Tensors& x) {
                std::map<double, int64_t> found;
                const auto all = x[0].to_vector<double>();
                for (const double value : all) ++found[value];
                std::vector<double> values;
                std::vector<int64_t> counts, inverse;
                for (const auto& [value, count] : found)
                  values.push_back(value), counts.push_back(count);
                for (const double value : all)
                  inverse.push_back(std::distance(found.begin(), found.find(value)));
                return Tensors{from_data(values).to(x[0].dtype()), from_data(inverse, x[0].shape()),
                               from_data(counts)};
              },
          .differentiable = false};
}

// ---- medians and quantiles ----

std::vector<OpRow> median_rows() {
  return {{.name = "median",
           .f =
               [](const Tensors& x) {
                 const auto [values, indices] = median(x[0], 1);
                 return Tensors{square(values), indices, median(x[0], -1, keepdim).values};
               },
           .samples = {{distinct({2, 3})},
                       {distinct({2, 4})},
                       {distinct({2, 2, 3})},
                       {distinct({3, 1})},
                       {distinct({0, 2})}},
           .large = {{distinct({31, 203})}, {distinct({3, 301, 7})}},
           .composed =
               [](const Tensors& x) {
                 const auto [values, indices] = sort(x[0], 1);
                 const Tensor last = sort(x[0], -1).values;
                 const int64_t i = (x[0].size(1) - 1) / 2, k = (x[0].size(-1) - 1) / 2;
                 return Tensors{square(values.select(1, i)), indices.select(1, i),
                                last.slice(-1, k, k + 1)};
               },
           .bad = {{[] {
                      median(f32({2, 0}), 1);
                    },
                    "median: axis 1 of shape (2, 0) is empty"},
                   {[] { median(f32({2}), 1); }, "median: axis 1 is out of range for rank 1"}}},
          {.name = "median",
           .variant = "of all",
           .f = of_one([](const Tensor& x) { return square(median(x)); }),
           .samples = {{distinct({2, 3})}, {distinct({})}, {distinct({5})}},
           .large = {{distinct({71, 103})}},
           .composed = of_one([](const Tensor& x) {
             return square(sort(x.reshape({-1}), 0).values[(x.numel() - 1) / 2]);
           }),
           .bad = {{[] {
                      median(f32({0, 2}));
                    },
                    "median: a tensor of shape (0, 2) has no elements"}},
           .accepts_empty = false}};
}

/// The quantile by its definition, with size 1 along dim.
Tensor between_sorted(const Tensor& x, double q, int64_t dim) {
  const Tensor sorted = sort(x, dim).values;
  const double position = q * static_cast<double>(x.size(dim) - 1), part = std::fmod(position, 1);
  const auto i = static_cast<int64_t>(position);
  const int64_t next = std::min(i + 1, x.size(dim) - 1);
  return sorted.slice(dim, i, i + 1) * (1 - part) + sorted.slice(dim, next, next + 1) * part;
}

std::vector<OpRow> quantile_rows() {
  return {
      {.name = "quantile",
       .f =
           [](const Tensors& x) {
             return Tensors{square(quantile(x[0], 0.3, 1)), quantile(x[0], 1, -1, keepdim),
                            quantile(x[0], 0, 1), quantile(x[0], 0.5, 1)};
           },
       .samples = {{distinct({2, 3})},
                   {distinct({2, 4})},
                   {distinct({2, 2, 3})},
                   {distinct({3, 1})},
                   {distinct({0, 2})}},
       .large = {{distinct({31, 203})}, {distinct({3, 301, 7})}},
       .composed =
           [](const Tensors& x) {
             return Tensors{square(between_sorted(x[0], 0.3, 1).squeeze(1)),
                            between_sorted(x[0], 1, -1), between_sorted(x[0], 0, 1).squeeze(1),
                            between_sorted(x[0], 0.5, 1).squeeze(1)};
           },
       .bad = {{[] { quantile(f32({2}), 1.5, 0); }, "quantile: expected 0 <= q <= 1, got 1.5"},
               {[] { quantile(f32({2}), -0.1); }, "quantile: expected 0 <= q <= 1, got -0.1"},
               {[] { quantile(f32({2}), NAN, 0); }, "quantile: expected 0 <= q <= 1, got nan"},
               {[] { quantile(i64({2}), 0.5); },
                "quantile: expected float32 or float64, got int64"},
               {[] { quantile(f32({2}), 0.5, 1); }, "quantile: axis 1 is out of range for rank 1"},
               {[] {
                  quantile(f32({2, 0}), 0.5, 1);
                },
                "quantile: axis 1 of shape (2, 0) is empty"}}},
      {.name = "quantile",
       .variant = "of all",
       .f = of_one([](const Tensor& x) { return square(quantile(x, 0.85)); }),
       .samples = {{distinct({2, 3})}, {distinct({})}, {distinct({5})}},
       .large = {{distinct({71, 103})}},
       .composed = of_one([](const Tensor& x) {
         return square(between_sorted(x.reshape({-1}), 0.85, 0).squeeze(0));
       }),
       .bad = {{[] {
                  quantile(f32({0, 2}), 0.5);
                },
                "quantile: a tensor of shape (0, 2) has no elements"}},
       .accepts_empty = false}};
}

}  // namespace

std::vector<OpRow> position_rows() {
  std::vector<OpRow> rows{nonzero_row(), unique_row()};
  for (auto some : {scatter_rows, bincount_rows, median_rows, quantile_rows})
    for (OpRow& row : some()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace gradus::testing
