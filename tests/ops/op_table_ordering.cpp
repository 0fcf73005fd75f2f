// Rows of maxima, minima and sorting.

#include "gradus/core/ops/ops.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

/// A row for max (min) along an axis, composed of a sort's values and indices.
template <class F>
OpRow extreme_row(const std::string& name, F f, bool descending) {
  return {.name = name,
          .f =
              [f](const Tensors& x) {
                const auto [values, indices] = f(x[0], 1, false);
                return Tensors{square(values), indices};
              },
          .samples = {{distinct({2, 3})},
                      {distinct({2, 3, 2})},
                      {distinct({3, 1})},
                      {distinct({0, 2})}},
          .large = {{distinct({71, 1031})}, {distinct({3, 1031, 31})}},
          .composed =
              [descending](const Tensors& x) {
                const auto [values, indices] = sort(x[0], 1, descending);
                return Tensors{square(values.select(1, 0)), indices.select(1, 0)};
              },
          .bad = {{[f] {
                     f(f32({2, 0}), 1, false);
                   },
                   name + ": axis 1 of shape (2, 0) is empty"},
                  {[f] {
                     f(f32({2, 3}), 2, false);
                   },
                   name + ": axis 2 is out of range for rank 2"}}};
}

template <class F>
OpRow extreme_of_all_row(const std::string& name, F f, bool descending) {
  return {.name = name,
          .variant = "of all",
          .f = of_one([f](const Tensor& x) { return square(f(x)); }),
          .samples = {{distinct({2, 3})}, {distinct({})}, {distinct({2, 1, 2})}},
          .large = {{distinct({71, 1031})}},
          .composed = of_one([descending](const Tensor& x) {
            return square(sort(x.reshape({-1}), 0, descending).values[0]);
          }),
          .bad = {{[f] {
                     f(f32({0, 2}));
                   },
                   name + ": a tensor of shape (0, 2) has no elements"}},
          .accepts_empty = false};
}

/// A row for argmax (argmin): the first among equal elements, as in a stable sort.
template <class F>
OpRow place_row(const std::string& name, F f, bool descending) {
  return {.name = name,
          .f =
              [f](const Tensors& x) {
                return Tensors{f(x[0], 1, false), f(x[0], -1, keepdim)};
              },
          .samples = {{on_grid({2, 3}, 0)}, {on_grid({2, 3, 2}, 0)}, {on_grid({0, 2}, 0)}},
          .large = {{on_grid({71, 1031}, 0)}},
          .composed =
              [descending](const Tensors& x) {
                return Tensors{sort(x[0], 1, descending).indices.select(1, 0),
                               sort(x[0], -1, descending).indices.slice(-1, 0, 1)};
              },
          .bad = {{[f] {
                     f(f32({2, 0}), 1, false);
                   },
                   name + ": axis 1 of shape (2, 0) is empty"},
                  {[f] { f(f32({2}), -2, false); }, name + ": axis -2 is out of range for rank 1"}},
          .differentiable = false};
}

template <class F>
OpRow place_of_all_row(const std::string& name, F f, bool descending) {
  return {.name = name,
          .variant = "of all",
          .f = of_one(f),
          .samples = {{on_grid({2, 3}, 0)}, {on_grid({}, 0)}, {on_grid({2, 1, 2}, 0)}},
          .large = {{on_grid({71, 1031}, 0)}},
          .composed = of_one([descending](const Tensor& x) {
            return sort(x.reshape({-1}), 0, descending).indices[0];
          }),
          .bad = {{[f] {
                     f(f32({0, 2}));
                   },
                   name + ": a tensor of shape (0, 2) has no elements"}},
          .differentiable = false,
          .accepts_empty = false};
}

std::vector<OpRow> extreme_rows() {
  return {
      extreme_row(
          "max", [](const Tensor& x, int64_t d, bool k) { return max(x, d, k); }, true),
      extreme_row(
          "min", [](const Tensor& x, int64_t d, bool k) { return min(x, d, k); }, false),
      extreme_of_all_row(
          "max", [](const Tensor& x) { return max(x); }, true),
      extreme_of_all_row(
          "min", [](const Tensor& x) { return min(x); }, false),
      place_row(
          "argmax", [](const Tensor& x, int64_t d, KeepDim k) { return argmax(x, d, k); }, true),
      place_row(
          "argmin", [](const Tensor& x, int64_t d, KeepDim k) { return argmin(x, d, k); }, false),
      place_of_all_row(
          "argmax", [](const Tensor& x) { return argmax(x); }, true),
      place_of_all_row(
          "argmin", [](const Tensor& x) { return argmin(x); }, false)};
}

std::vector<OpRow> sorting_rows() {
  auto in_order = [](const Tensors& x) {                            // sorts by each element's rank
    const Tensor above = gt(x[0].unsqueeze(1), x[0].unsqueeze(2));  // (b, i, j): x_j > x_i
    const Tensor place = sum(above, 2);
    const Tensor one_hot = eq(place.unsqueeze(1), arange(x[0].size(1)).unsqueeze(1));
    return sum(one_hot.to(x[0].dtype()) * x[0].unsqueeze(1), 2);
  };
  return {{.name = "sort",
           .f =
               [](const Tensors& x) {
                 const auto [values, indices] = sort(x[0], 1, true);
                 return Tensors{square(values), indices};
               },
           .samples = {{distinct({2, 4})}, {distinct({3, 1})}, {distinct({2, 0})}},
           .large = {{distinct({31, 203})}},
           .composed =
               [in_order](const Tensors& x) {
                 return Tensors{square(in_order(x)), topk(x[0], x[0].size(1), 1).indices};
               },
           .bad = {{[] { sort(f32({2}), 1); }, "sort: axis 1 is out of range for rank 1"}}},
          {.name = "sort",
           .variant = "ascending, along the first axis",
           .f =
               [](const Tensors& x) {
                 const auto [values, indices] = sort(x[0], 0);
                 return Tensors{square(values), indices};
               },
           .samples = {{distinct({4, 2})}, {distinct({3})}, {distinct({2, 0})}},
           .large = {{distinct({1031, 71})}},
           .composed =
               [](const Tensors& x) {
                 const Tensor order = sort(x[0] * -1.0, 0, true).indices;
                 return Tensors{square(gather(x[0], 0, order)), order};
               }},
          {.name = "argsort",
           .f =
               [](const Tensors& x) {
                 return Tensors{argsort(x[0]), argsort(x[0], 0, true)};
               },
           .samples = {{on_grid({2, 4}, 0)}, {on_grid({3, 1}, 0)}, {on_grid({2, 0}, 0)}},
           .large = {{on_grid({71, 203}, 0)}},
           .composed =
               [](const Tensors& x) {
                 return Tensors{sort(x[0]).indices, sort(x[0], 0, true).indices};
               },
           .bad = {{[] { argsort(f32({2}), 1); }, "argsort: axis 1 is out of range for rank 1"},
                   {[] { argsort(f32({})); }, "argsort: axis -1 is out of range for rank 0"}},
           .differentiable = false},
          {.name = "topk",
           .f =
               [](const Tensors& x) {
                 const auto [values, indices] = topk(x[0], 2, -1);
                 return Tensors{square(values), indices};
               },
           .samples = {{distinct({2, 4})}, {distinct({2, 2, 2})}, {distinct({0, 3})}},
           .large = {{distinct({71, 1031})}},
           .composed =
               [](const Tensors& x) {
                 const auto [values, indices] = sort(x[0], -1, true);
                 return Tensors{square(values.slice(-1, 0, 2)), indices.slice(-1, 0, 2)};
               },
           .bad = {{[] {
                      topk(f32({2, 3}), 4);
                    },
                    "topk: expected 0 <= k <= 3 for axis -1 of shape (2, 3), got 4"},
                   {[] {
                      topk(f32({2, 3}), -1);
                    },
                    "topk: expected 0 <= k <= 3"},
                   {[] { topk(f32({2}), 1, 1); }, "topk: axis 1 is out of range for rank 1"}}}};
}

}  // namespace

std::vector<OpRow> ordering_rows() {
  std::vector<OpRow> rows;
  for (auto some : {extreme_rows, sorting_rows})
    for (OpRow& row : some()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace gradus::testing
