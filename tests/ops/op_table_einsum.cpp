// Rows of einsum, outer products and diagonals.

#include "gradus/core/ops/ops.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

/// The identity matrix, with an axis of size 1 after it.
Tensor eye_of(const Tensor& x) { return eye(x.size(0), x.dtype()).unsqueeze(2); }

std::vector<BadCall> bad_equations() {
  auto call = [](const std::string& equation, const std::vector<Shape>& shapes,
                 const std::string& message) {
    return BadCall{[=] {
                     Tensors x;
                     for (const Shape& shape : shapes) x.push_back(f32(shape));
                     einsum(equation, x);
                   },
                   "einsum: \"" + equation + "\"" + message};
  };
  return {
      call("ij->ik", {{2, 3}}, ": no tensor has the output's k"),
      call("ij->ii", {{2, 3}}, ": the output has i twice"),
      call("ij,jk->ik", {{2, 3}, {4, 5}}, ": j has sizes 3 and 4"),
      call("ij,jk,ki", {{2, 1}, {4, 5}, {5, 3}}, ": i has sizes 2 and 3"),
      call("ii", {{2, 3}}, ": i has sizes 2 and 3"),
      call("ii", {{1, 3}}, ": i has sizes 1 and 3"),
      call("i,ii", {{3}, {1, 3}}, ": i has sizes 1 and 3"),
      call("...i,...i", {{2, 3}, {4, 3}}, ": an axis of ... has sizes 2 and 4"),
      call("ij,jk", {{2, 3}}, " names 2 tensors, got 1"),
      call("ij", {{2, 3}, {2, 3}}, " names 1 tensors, got 2"),
      call("", {}, " names 1 tensors, got 0"),
      call("ijk", {{2, 3}}, ": expected \"ijk\", got shape (2, 3)"),
      call("i", {{2, 3}}, ": expected \"i\", got shape (2, 3)"),
      call("...ijk", {{2, 3}}, ": expected \"...ijk\", got shape (2, 3)"),
      call("i1", {{2, 3}},
           ": expected letters and at most one \"...\" for each tensor, got \"i1\""),
      call("i.j", {{2, 3}}, ": expected letters and at most one \"...\""),
      call("...i...", {{2, 3}}, ": expected letters and at most one \"...\""),
      call("ij->i->j", {{2, 3}}, ": expected letters and at most one \"...\""),
      call("abcde,fghij", {{2, 2, 2, 2, 2}, {2, 2, 2, 2, 2}}, ": a product has 10 axes, at most 8"),
      {[] {
         einsum("ij,jk", {f32({2, 3}), f64({3, 2})});
       },
       "einsum: dtypes differ: float32 and float64"},
      {[] {
         einsum("ij,jk", {i64({2, 3}), i64({3, 2})});
       },
       "einsum: expected float32 or float64, got int64"},
      {[] {
         einsum("ij,jk", {f32({2, 3}), Tensor()});
       },
       "tensor: used before it was given a value"}};
}

OpRow pair_row() {
  return {.name = "einsum",
          .f =
              [](const Tensors& x) {
                Tensors all;
                for (const char* equation : {"ij,jk->ik", "ij, jk -> ki", "ij,jk", "ij,jk->",
                                             "ij,jk->jik", "ij,jk->j", "ij,jk->i"})
                  all.push_back(einsum(equation, x));
                return all;
              },
          .samples = {{normal({2, 3}), normal({3, 2})},
                      {normal({2, 1}), normal({3, 2})},
                      {normal({2, 3}), normal({1, 1})},
                      {normal({1, 1}), normal({1, 1})},
                      {normal({2, 0}), normal({0, 3})},
                      {normal({0, 3}), normal({1, 2})}},
          .large = {{normal({61, 103}), normal({103, 67})}},
          .composed =
              [](const Tensors& x) {
                const Tensor all = x[0].unsqueeze(2) * x[1].unsqueeze(0);  // i, j, k
                return Tensors{sum(all, 1),         sum(all, 1).mT(), sum(all, 1),     sum(all),
                               all.transpose(0, 1), sum(all, {0, 2}), sum(all, {1, 2})};
              },
          .bad = bad_equations()};
}

OpRow one_tensor_row() {
  return {.name = "einsum",
          .variant = "one tensor",
          .f =
              [](const Tensors& x) {
                return Tensors{einsum("iij->ji", x), einsum("iij", x), einsum("iij->", x),
                               einsum("cab", x),     einsum("Zba", x), einsum("i...->...", x)};
              },
          .samples = {{normal({3, 3, 2})}, {normal({1, 1, 3})}, {normal({0, 0, 2})}},
          .large = {{normal({61, 61, 31})}},
          .composed =
              [](const Tensors& x) {
                const Tensor diagonal = sum(x[0] * eye_of(x[0]), 1);
                return Tensors{diagonal.mT(),           sum(diagonal, 0),        sum(diagonal),
                               x[0].permute({1, 2, 0}), x[0].permute({0, 2, 1}), sum(x[0], 0)};
              }};
}

OpRow batch_row() {
  return {
      .name = "einsum",
      .variant = "axes of ...",
      .f =
          [](const Tensors& x) {
            Tensors all;
            for (const char* equation : {"...ij,...jk", "...ij,...jk->ik", "...ij,...jk->i...k"})
              all.push_back(einsum(equation, x));
            return all;
          },
      .samples = {{normal({2, 1, 2, 3}), normal({2, 3, 2})},
                  {normal({2, 3}), normal({2, 3, 1})},
                  {normal({2, 2, 3}), normal({2, 3, 2})},
                  {normal({0, 2, 3}), normal({3, 2})}},
      .large = {{normal({7, 1, 31, 37}), normal({3, 37, 29})}},
      .composed =
          [](const Tensors& x) {
            const Tensor y = matmul(x[0], x[1]);
            Shape order{y.rank() - 2}, batch;
            for (int i = 0; i < y.rank() - 2; ++i) order.push_back(i), batch.push_back(i);
            order.push_back(y.rank() - 1);
            return Tensors{y, sum(y, batch), y.permute(order)};
          }};
}

std::vector<OpRow> long_rows() {
  return {{.name = "einsum",
           .variant = "four tensors",
           .f =
               [](const Tensors& x) {
                 return Tensors{einsum("bi,oij,bj,o->bo", x), einsum("bi,oij,bj,o", x)};
               },
           .samples = {{normal({2, 3}), normal({2, 3, 2}), normal({2, 2}), normal({2})},
                       {normal({1, 1}), normal({2, 1, 2}), normal({3, 2}), normal({1})},
                       {normal({0, 2}), normal({2, 2, 2}), normal({0, 2}), normal({2})}},
           .large = {{normal({17, 31}), normal({13, 31, 11}), normal({17, 11}), normal({13})}},
           .composed =
               [](const Tensors& x) {
                 const Tensor first = x[0].unsqueeze(1).unsqueeze(3);  // b, o, i, j
                 const Tensor all = first * x[1] * x[2].unsqueeze(1).unsqueeze(1);
                 const Tensor y = sum(all, {2, 3}) * x[3];
                 return Tensors{y, sum(y)};
               }},
          {.name = "einsum",
           .variant = "diagonals of two tensors",
           .f =
               [](const Tensors& x) {
                 return Tensors{einsum("iij,jkk->ik", x), einsum("iij,jkk", x)};
               },
           .samples = {{normal({2, 2, 3}), normal({3, 2, 2})},
                       {normal({1, 1, 2}), normal({2, 3, 3})},
                       {normal({2, 2, 0}), normal({0, 1, 1})}},
           .large = {{normal({23, 23, 31}), normal({31, 19, 19})}},
           .composed =
               [](const Tensors& x) {
                 const Tensor a = sum(x[0] * eye_of(x[0]), 1);
                 const Tensor b = sum(x[1] * eye(x[1].size(1), x[1].dtype()), 2), y = matmul(a, b);
                 return Tensors{y, sum(y)};
               }}};
}

// ---- outer products and diagonals ----

OpRow outer_row() {
  return {
      .name = "outer",
      .f = of_two(outer),
      .samples = {{normal({3}), normal({2})},
                  {normal({1}), normal({3})},
                  {normal({0}), normal({2})}},
      .large = {{normal({71}), normal({1031})}},
      .composed = of_two(
          [](const Tensor& a, const Tensor& b) { return matmul(a.unsqueeze(1), b.unsqueeze(0)); }),
      .bad = {{[] {
                 outer(f32({2, 3}), f32({3}));
               },
               "outer: expected two vectors, got (2, 3) and (3,)"},
              {[] { outer(f32({2}), f64({2})); }, "outer: dtypes differ: float32 and float64"}}};
}

/// The row-major indices of a diagonal of a matrix (n, m).
Tensor positions(int64_t n, int64_t m, int64_t offset) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < n; ++i)
    if (i + offset >= 0 && i + offset < m) all.push_back(i * m + i + offset);
  return from_data(all);
}

OpRow diagonal_row() {
  auto by_index = [](const Tensor& x, int64_t offset, const Shape& order) {
    const Tensor y = x.permute(order);
    const int64_t n = y.size(1), m = y.size(2);
    return index_select(y.reshape({y.size(0), n * m}), 1, positions(n, m, offset));
  };
  return {.name = "diagonal",
          .f =
              [](const Tensors& x) {
                return Tensors{square(diagonal(x[0], 1, 0, 2)), diagonal(x[0], -1, -1, 0),
                               diagonal(x[0])};
              },
          .samples = {{normal({3, 2, 4})}, {normal({1, 3, 1})}, {normal({2, 0, 2})}},
          .large = {{normal({61, 31, 67})}},
          .composed =
              [by_index](const Tensors& x) {
                return Tensors{square(by_index(x[0], 1, {1, 0, 2})), by_index(x[0], -1, {1, 2, 0}),
                               by_index(x[0], 0, {2, 0, 1})};
              },
          .bad = {{[] {
                     diagonal(f32({2, 3}), 0, 1, -1);
                   },
                   "diagonal: expected two axes, got 1 and -1 of (2, 3)"},
                  {[] { diagonal(f32({2})); }, "diagonal: axis 1 is out of range for rank 1"}}};
}

std::vector<OpRow> diag_rows() {
  const int64_t offsets[] = {0, 1, -2, 7, -7};
  auto from_matrix = [](const Tensor& x, int64_t offset) {
    return index_select(x.reshape({x.numel()}), 0, positions(x.size(0), x.size(1), offset));
  };
  auto to_matrix = [](const Tensor& x, int64_t offset) {
    const int64_t n = x.size(0) + std::abs(offset);
    return index_sum({n * n}, 0, positions(n, n, offset), x).reshape({n, n});
  };
  auto each = [offsets](auto f) {
    return [=](const Tensors& x) {
      Tensors all;
      for (const int64_t offset : offsets) all.push_back(square(f(x[0], offset)));
      return all;
    };
  };
  auto by_diag = [](const Tensor& x, int64_t offset) { return diag(x, offset); };
  return {{.name = "diag",
           .variant = "of a matrix",
           .f = each(by_diag),
           .samples = {{normal({3, 4})}, {normal({4, 2})}, {normal({1, 1})}, {normal({2, 0})}},
           .large = {{normal({71, 103})}},
           .composed = each(from_matrix),
           .bad = {{[] {
                      diag(f32({2, 3, 4}));
                    },
                    "diag: expected a vector or a matrix, got (2, 3, 4)"},
                   {[] { diag(f32({})); }, "diag: expected a vector or a matrix, got ()"}}},
          {.name = "diag",
           .variant = "from a vector",
           .f = each(by_diag),
           .samples = {{normal({3})}, {normal({1})}, {normal({0})}},
           .large = {{normal({131})}},
           .composed = each(to_matrix),
           .bad = {{[] { diag(f32({2}), INT64_MIN); },
                    "diag: expected an offset from -2^30 to 2^30, got -9223372036854775808"},
                   {[] { diag(f32({1}).expand({int64_t{1} << 32})); },
                    "diag: too many elements in shape (4294967296, 4294967296)"},
                   {[] { diag(f32({1}).expand({int64_t{1} << 58}), -(int64_t{1} << 30)); },
                    "diag: too many elements in shape"}}}};
}

}  // namespace

std::vector<OpRow> einsum_rows() {
  std::vector<OpRow> rows{pair_row(), one_tensor_row(), batch_row(), outer_row(), diagonal_row()};
  for (auto some : {long_rows, diag_rows})
    for (OpRow& row : some()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace gradus::testing
