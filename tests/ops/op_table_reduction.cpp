// Rows of reductions and of indexing.

#include <cmath>

#include "gradus/core/ops/ops.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

Tensor vector_of(std::initializer_list<double> numbers) { return tensor(numbers, int64); }

// ---- sums ----

/// A reduction in its three forms (all axes, one axis, several with keepdim) as three outputs.
template <class F>
OpRow sums_row(const std::string& name, F f, TensorFunction composed) {
  const std::string not_floating = name + ": expected float32 or float64, got int64";
  OpRow row{.name = name,
            .f =
                [f](const Tensors& x) {
                  return Tensors{f(x[0], Shape{}, false), f(x[0], Shape{-1}, false),
                                 f(x[0], Shape{0, 2}, keepdim)};
                },
            .samples = {{normal({2, 2, 3})},
                        {normal({1, 3, 1})},
                        {normal({2, 1, 2, 2})},
                        {normal({2, 0, 3})}},
            .large = {{uniform({7, 11, 1031}, -1, 2)},
                      {uniform({1031, 3, 31}, -1, 2)},
                      {uniform({2, 3, 40009}, -1, 2)}},
            .composed = std::move(composed),
            .bad = {{[f] {
                       f(f32({2, 3}), {2}, false);
                     },
                     name + ": axis 2 is out of range for rank 2"},
                    {[f] {
                       f(f32({2, 3}), {1, -1}, false);
                     },
                     name + ": axis -1 is given twice in (1, -1)"}}};
  if (name != "sum") row.bad.push_back({[f] { f(i64({2}), {}, false); }, not_floating});
  return row;
}

/// The same three outputs from a reduction over a matrix's rows.
template <class F>
TensorFunction from_rows(F f) {
  return [f](const Tensors& in) {
    const Tensor& x = in[0];
    Shape kept = Shape::filled(x.rank(), 1), without_last = x.shape();
    kept[1] = x.size(1);
    for (int i = 3; i < x.rank(); ++i) kept[i] = x.size(i);
    without_last.pop_back();
    Shape rest;  // the axes that are kept, then axes 0 and 2
    for (int i = 0; i < x.rank(); ++i)
      if (i != 0 && i != 2) rest.push_back(i);
    for (int64_t axis : {0, 2}) rest.push_back(axis);
    return Tensors{f(x.reshape({1, -1})).reshape({}),
                   f(x.reshape({-1, x.size(-1)})).reshape(without_last),
                   f(x.permute(rest).reshape({-1, x.size(0) * x.size(2)})).reshape(kept)};
  };
}

/// The sums of a matrix's rows as a product with ones.
Tensor row_sums(const Tensor& x) { return matmul(x, ones({x.size(1)}, x.dtype())); }
Tensor row_means(const Tensor& x) { return row_sums(x) / static_cast<double>(x.size(1)); }

std::vector<OpRow> sum_rows() {
  auto add_up = [](const Tensor& x, const Shape& dims, KeepDim keep) { return sum(x, dims, keep); };
  auto average = [](const Tensor& x, const Shape& dims, KeepDim keep) {
    return mean(x, dims, keep);
  };
  auto biased = [](const Tensor& x, const Shape& dims, KeepDim keep) {
    return var(x, dims, 0, keep);
  };
  auto length = [](const Tensor& x, const Shape& dims, KeepDim keep) {
    return norm(x, dims, keep);
  };
  auto biased_root = [](const Tensor& x, const Shape& dims, KeepDim keep) {
    return std_dev(x, dims, 0, keep);
  };
  auto spread = [](const Tensor& x) { return row_means(square(x - row_means(x).unsqueeze(1))); };
  std::vector<OpRow> rows{sums_row("sum", add_up, from_rows(row_sums)),
                          sums_row("mean", average, from_rows(row_means)),
                          sums_row("var", biased, from_rows(spread)),
                          sums_row("std_dev", biased_root, from_rows([](const Tensor& x) {
                                     const auto n = static_cast<double>(x.size(1));
                                     return norm(x - row_means(x).unsqueeze(1), 1) / std::sqrt(n);
                                   })),
                          sums_row("norm", length, from_rows([](const Tensor& x) {
                                     return sqrt(row_sums(square(x)));
                                   })),
                          {.name = "var",
                           .variant = "unbiased",
                           .f = of_one([](const Tensor& x) { return var(x, {1}); }),
                           .samples = {{normal({2, 3})}, {normal({1, 2, 2})}, {normal({0, 3})}},
                           .large = {{normal({71, 1031})}},
                           .composed = of_one([](const Tensor& x) {
                             const auto n = static_cast<double>(x.size(1));
                             return mean(square(x - mean(x, 1, keepdim)), 1) * (n / (n - 1));
                           })},
                          {.name = "std_dev",
                           .variant = "unbiased",
                           .f = of_one([](const Tensor& x) { return std_dev(x, {1}); }),
                           .samples = {{normal({2, 3})}, {normal({1, 2, 2})}, {normal({0, 3})}},
                           .large = {{normal({71, 1031})}},
                           .composed = of_one([](const Tensor& x) { return sqrt(var(x, {1})); })}};
  return rows;
}

// ---- along one axis ----

std::vector<OpRow> logarithm_rows() {
  auto by_matrix = [](const Tensors& x) {  // the logarithm of exp(x) times ones
    return Tensors{
        log(matmul(exp(x[0]).transpose(1, -1), ones({x[0].size(1), 1}, x[0].dtype()))).squeeze(-1)};
  };
  return {
      {.name = "logsumexp",
       .f = of_one([](const Tensor& x) { return logsumexp(x, 1); }),
       .samples = {{normal({2, 3})}, {normal({2, 2, 2})}, {normal({2, 1})}, {normal({0, 2})}},
       .large = {{normal({71, 1031})}, {normal({2, 40009})}},
       .composed = by_matrix,
       .bad = {
           {[] { logsumexp(i64({2}), 0); }, "logsumexp: expected float32 or float64, got int64"},
           {[] { logsumexp(f32({2}), 1); }, "logsumexp: axis 1 is out of range for rank 1"}}}};
}

}  // namespace

std::vector<OpRow> reduction_rows() {
  std::vector<OpRow> rows = sum_rows();
  for (OpRow& row : logarithm_rows()) rows.push_back(std::move(row));
  return rows;
}

// ---- by index ----

namespace {

/// A matrix (m, n) with 1 at (i, index[i]) and 0 elsewhere.
Tensor one_hot_rows(const Tensor& index, int64_t n, Dtype dtype) {
  return eq(index.reshape({-1, 1}), arange(n)).to(dtype);
}

std::vector<BadCall> refused_indices(const std::string& name, const std::string& what,
                                     const std::function<void(const Tensor&)>& f) {
  return {{[f] {
             f(vector_of({0, 3}));
           },
           name + ": " + what + " 3 at position 1 is outside [0, 3)"},
          {[f] {
             f(vector_of({-1, 0}));
           },
           name + ": " + what + " -1 at position 0 is outside [0, 3)"},
          {[f] { f(f32({2})); }, name + ": expected " + what + " of int64, got float32"}};
}

/// A tensor (r, m, n) with 1 at (r, m, index[r, m]) and 0 elsewhere.
Tensor one_hot_columns(const Tensor& index, int64_t n, Dtype dtype) {
  return eq(index.unsqueeze(2), arange(n)).to(dtype);
}

OpRow one_hot_row() {
  OpRow row{.name = "one_hot",
            .f =
                [](const Tensors& x) {
                  return Tensors{one_hot(x[0], 5), one_hot(x[0], 4, boolean)};
                },
            .samples = {{indices({2, 3}, 4)}, {indices({}, 4)}, {indices({0, 2}, 4)}},
            .large = {{indices({71, 1031}, 4)}},
            .composed =
                [](const Tensors& x) {
                  const Tensor ids = x[0].unsqueeze(-1);
                  return Tensors{eq(ids, arange(5)).to(int64), eq(ids, arange(4))};
                },
            .bad = refused_indices("one_hot", "id", [](const Tensor& i) { one_hot(i, 3); }),
            .differentiable = false};
  row.bad.back().message = "one_hot: expected ids of int64, got float32";
  row.bad.push_back({[] { one_hot(i64({2}), 0); },
                     "one_hot: expected a number of classes, or -1 for the largest id's, got 0"});
  row.bad.push_back(
      {[] { one_hot(i64({0})); }, "one_hot: no ids to infer the number of classes from"});
  row.bad.push_back({[] {
                       one_hot(vector_of({-1, -2}));
                     },
                     "one_hot: cannot infer the number of classes from id -1"});
  return row;
}

OpRow gather_row() {
  OpRow row{
      .name = "gather",
      .f = [](const Tensors& x) { return Tensors{square(gather(x[0], 1, x[1]))}; },
      .samples = {{normal({2, 3}), indices({2, 5}, 3)},
                  {normal({3, 2}), indices({2, 1}, 2)},
                  {normal({2, 1}), indices({2, 3}, 1)},
                  {normal({2, 3}), indices({0, 2}, 3)}},
      .large = {{normal({61, 103}), indices({61, 301}, 103)}},
      .composed =
          [=](const Tensors& x) {
            const Tensor h = one_hot_columns(x[1], x[0].size(1), x[0].dtype());
            return Tensors{
                square(matmul(h, x[0].slice(0, 0, x[1].size(0)).unsqueeze(2)).squeeze(2))};
          },
      .bad = refused_indices("gather", "index", [](const Tensor& i) { gather(f32({3}), 0, i); })};
  row.bad.push_back({[] {
                       gather(f32({2, 3}), 1, i64({2}));
                     },
                     "gather: index (2,) and x (2, 3) differ in rank"});
  row.bad.push_back(
      {[] {
         gather(f32({2, 3}), 1, i64({3, 3}));
       },
       "gather: index (3, 3) is larger than x (2, 3) at axis 0, which is not axis 1"});
  row.bad.push_back({[] {
                       gather(f32({2, 3}), 2, i64({2, 3}));
                     },
                     "gather: axis 2 is out of range"});
  return row;
}

std::vector<OpRow> scatter_add_rows() {
  std::vector<OpRow> rows{
      {.name = "scatter_add",
       .f = [](const Tensors& x) { return Tensors{square(scatter_add(x[0], 1, x[1], x[2]))}; },
       .samples = {{normal({2, 3}), indices({2, 4}, 3), normal({2, 4})},
                   {normal({3, 2}), indices({2, 1}, 2), normal({2, 1})},
                   {normal({1, 1}), indices({1, 3}, 1), normal({1, 3})},
                   {normal({2, 3}), indices({2, 0}, 3), normal({2, 0})}},
       .large = {{normal({61, 103}), indices({61, 301}, 103), normal({61, 301})}},
       .composed =
           [=](const Tensors& x) {
             const Tensor h = one_hot_columns(x[1], x[0].size(1), x[0].dtype());
             const Tensor added = matmul(x[2].unsqueeze(1), h).squeeze(1);
             return Tensors{square(x[0] + pad_slice(added, x[0].shape(), 0, 0))};
           },
       .bad = refused_indices("scatter_add", "index",
                              [](const Tensor& i) { scatter_add(f32({3}), 0, i, f32({2})); })},
      {.name = "scatter_sum",
       .f =
           [](const Tensors& x) {
             return Tensors{square(scatter_sum({3, 3}, 1, x[0], x[1]))};
           },
       .samples = {{indices({2, 4}, 3), normal({2, 4})},
                   {indices({3, 1}, 3), normal({3, 1})},
                   {indices({2, 0}, 3), normal({2, 0})}},
       .large = {{indices({3, 40009}, 3), normal({3, 40009})}},
       .composed =
           [](const Tensors& x) {
             return Tensors{square(scatter_add(zeros({3, 3}, x[1].dtype()), 1, x[0], x[1]))};
           },
       .bad = refused_indices("scatter_sum", "index",
                              [](const Tensor& i) { scatter_sum({3}, 0, i, f32({2})); })}};
  rows[0].bad.push_back({[] {
                           scatter_add(f32({2, 3}), 1, i64({2, 3}), f32({2, 2}));
                         },
                         "scatter_add: expected src of float32 (2, 3), got float32 (2, 2)"});
  rows[0].bad.push_back({[] { scatter_add(f32({3}), 0, i64({2}), f64({2})); },
                         "scatter_add: expected src of float32 (2,), got float64 (2,)"});
  rows[1].bad.push_back({[] { scatter_sum({-3}, 0, i64({2}), f32({2})); }, "negative size"});
  return rows;
}

/// Rows for indexing along the first of three axes; composed of the same op along the last axis,
/// with both axes swapped.
std::vector<OpRow> first_axis_rows() {
  auto turned = [](const Tensor& x) { return x.transpose(0, 2); };
  const Shape sum_shape{3, 2, 2};
  return {
      {.name = "gather",
       .variant = "first axis",
       .f = [](const Tensors& x) { return Tensors{square(gather(x[0], 0, x[1]))}; },
       .samples = {{normal({3, 2, 2}), indices({4, 1, 2}, 3)},
                   {normal({1, 2, 2}), indices({1, 2, 1}, 1)},
                   {normal({3, 2, 2}), indices({2, 0, 2}, 3)}},
       .large = {{normal({31, 37, 41}), indices({29, 37, 31}, 31)}},
       .composed =
           [=](const Tensors& x) {
             return Tensors{square(turned(gather(turned(x[0]).clone(), 2, turned(x[1]).clone())))};
           }},
      {.name = "scatter_add",
       .variant = "first axis",
       .f = [](const Tensors& x) { return Tensors{square(scatter_add(x[0], 0, x[1], x[2]))}; },
       .samples = {{normal({3, 2, 2}), indices({4, 1, 2}, 3), normal({4, 1, 2})},
                   {normal({1, 2, 2}), indices({1, 2, 1}, 1), normal({1, 2, 1})},
                   {normal({3, 2, 2}), indices({2, 0, 2}, 3), normal({2, 0, 2})}},
       .large = {{normal({31, 37, 41}), indices({29, 37, 31}, 31), normal({29, 37, 31})}},
       .composed =
           [=](const Tensors& x) {
             return Tensors{square(turned(scatter_add(turned(x[0]).clone(), 2, turned(x[1]).clone(),
                                                      turned(x[2]).clone())))};
           }},
      {.name = "scatter_sum",
       .variant = "first axis",
       .f =
           [=](const Tensors& x) { return Tensors{square(scatter_sum(sum_shape, 0, x[0], x[1]))}; },
       .samples = {{indices({4, 1, 2}, 3), normal({4, 1, 2})},
                   {indices({1, 2, 2}, 3), normal({1, 2, 2})},
                   {indices({0, 2, 2}, 3), normal({0, 2, 2})}},
       .composed =
           [=](const Tensors& x) {
             return Tensors{
                 square(turned(scatter_sum(turned(zeros(sum_shape)).shape(), 2,
                                           turned(x[0]).clone(), turned(x[1]).clone())))};
           }}};
}

std::vector<OpRow> entry_rows() {
  std::vector<OpRow> rows{
      {.name = "index_select",
       .f = [](const Tensors& x) { return Tensors{square(index_select(x[0], 1, x[1]))}; },
       .samples = {{normal({2, 3, 2}), indices({4}, 3)},
                   {normal({2, 3}), indices({2}, 3)},
                   {normal({1, 1}), indices({3}, 1)},
                   {normal({2, 3}), indices({0}, 3)},
                   {normal({0, 3}), indices({2}, 3)}},
       .large = {{normal({3, 31, 1031}), indices({57}, 31)},
                 {normal({71, 1031}), indices({203}, 1031)}},
       .composed =
           [](const Tensors& x) {
             const Tensor h = one_hot_rows(x[1], x[0].size(1), x[0].dtype());
             return Tensors{square(matmul(x[0].transpose(1, -1), h.mT()).transpose(1, -1))};
           },
       .bad = refused_indices("index_select", "index",
                              [](const Tensor& i) {
                                index_select(f32({3, 2}), 0, i);
                              })},
      {.name = "index_add",
       .f = [](const Tensors& x) { return Tensors{square(index_add(x[0], 1, x[1], x[2]))}; },
       .samples = {{normal({2, 3, 2}), indices({4}, 3), normal({2, 4, 2})},
                   {normal({2, 3}), indices({1}, 3), normal({2, 1})},
                   {normal({1, 1}), indices({3}, 1), normal({1, 3})},
                   {normal({2, 3}), indices({0}, 3), normal({2, 0})}},
       .large = {{normal({3, 31, 1031}), indices({57}, 31), normal({3, 57, 1031})}},
       .composed =
           [](const Tensors& x) {
             const Tensor h = one_hot_rows(x[1], x[0].size(1), x[0].dtype());
             return Tensors{square(x[0] + matmul(x[2].transpose(1, -1), h).transpose(1, -1))};
           },
       .bad = refused_indices("index_add", "index",
                              [](const Tensor& i) { index_add(f32({3}), 0, i, f32({2})); })}};
  rows[0].bad.push_back({[] {
                           index_select(f32({3}), 0, i64({1, 2}));
                         },
                         "index_select: expected index (n,), got (1, 2)"});
  rows[0].bad.push_back(
      {[] { index_select(f32({3}), 1, i64({2})); }, "index_select: axis 1 is out of range"});
  rows[1].bad.push_back({[] {
                           index_add(f32({3, 2}), 0, i64({2}), f32({2, 3}));
                         },
                         "index_add: expected src of float32 (2, 2), got float32 (2, 3)"});
  return rows;
}

std::vector<OpRow> embedding_rows() {
  std::vector<OpRow> rows{
      {.name = "index_sum",
       .f =
           [](const Tensors& x) {
             return Tensors{square(index_sum({3, 2}, 0, x[0], x[1]))};
           },
       .samples = {{indices({4}, 3), normal({4, 2})},
                   {indices({1}, 3), normal({1, 2})},
                   {indices({0}, 3), normal({0, 2})}},
       .large = {{indices({40009}, 3), normal({40009, 2})}},
       .composed =
           [](const Tensors& x) {
             return Tensors{square(index_add(zeros({3, 2}, x[1].dtype()), 0, x[0], x[1]))};
           },
       .bad = refused_indices("index_sum", "index",
                              [](const Tensor& i) { index_sum({3}, 0, i, f32({2})); })},
      {.name = "embedding",
       .f = [](const Tensors& x) { return Tensors{square(embedding(x[0], x[1]))}; },
       .samples = {{normal({3, 2}), indices({2, 3}, 3)},
                   {normal({3, 2}), indices({}, 3)},
                   {normal({1, 1}), indices({3}, 1)},
                   {normal({3, 2}), indices({2, 0}, 3)}},
       .large = {{normal({203, 131}), indices({7, 101}, 203)}},
       .composed =
           [](const Tensors& x) {
             Shape shape = x[1].shape();
             shape.push_back(x[0].size(1));
             return Tensors{square(
                 matmul(one_hot_rows(x[1], x[0].size(0), x[0].dtype()), x[0]).reshape(shape))};
           },
       .bad = refused_indices("embedding", "id", [](const Tensor& i) {
         embedding(f32({3, 2}), i);
       })}};
  rows[1].bad.push_back(
      {[] { embedding(f32({3}), i64({2})); }, "embedding: expected weight (n, d), got (3,)"});
  rows[1].bad.push_back({[] {
                           embedding(f32({3, 2}), i64({1, 1, 1, 1, 1, 1, 1, 1}));
                         },
                         "shape: more than 8 axes"});
  return rows;
}

}  // namespace

std::vector<OpRow> indexing_rows() {
  std::vector<OpRow> rows{gather_row(), one_hot_row()};
  for (auto some : {scatter_add_rows, first_axis_rows, entry_rows, embedding_rows})
    for (OpRow& row : some()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace gradus::testing
