// Rows of views, copies, joining and splitting.

#include "gradus/core/ops/ops.h"
#include "tests/ops/op_table.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

const Draw numbers = [](const Shape& shape) { return normal(shape); };

std::vector<Sample> samples_of(std::initializer_list<Shape> shapes) {
  std::vector<Sample> samples;
  for (const Shape& shape : shapes) samples.push_back({normal(shape)});
  return samples;
}

/// Squares the elements, so that a function that only moves elements has second derivatives.
std::vector<OpRow> copy_rows() {
  return {{.name = "to",
           .f = of_one([](const Tensor& x) { return x.to(float32).to(float64).to(x.dtype()); }),
           .samples = one_input(numbers),
           .large = one_large(numbers),
           .composed = of_one([](const Tensor& x) { return x.to(float32).to(x.dtype()); }),
           .bad = {{[] { Tensor().to(float32); }, "tensor: used before it was given a value"}},
           .eps = 0.01},
          {.name = "clone",
           .f = of_one([](const Tensor& x) { return x.clone(); }),
           .samples = one_input(numbers),
           .large = one_large(numbers),
           .composed = of_one([](const Tensor& x) { return x * 1.0; })},
          {.name = "clone",
           .variant = "contiguous",
           .f = of_one([](const Tensor& x) { return x.transpose(0, 1).contiguous(); }),
           .samples = samples_of({{3, 4}, {1, 3}, {2, 0}, {2, 2, 2}}),
           .large = {{normal({71, 1031})}},
           .composed = of_one([](const Tensor& x) { return x.transpose(0, 1); })}};
}

std::vector<OpRow> view_rows() {
  auto even_columns = [](const Tensor& x) { return x.slice(1, 0, INT64_MAX, 2); };
  return {
      {.name = "reshape",
       .f = of_one([](const Tensor& x) {
         return square(x.reshape({-1, 2}));
       }),
       .samples = samples_of({{3, 4}, {2}, {0, 4}, {2, 1, 3}}),
       .large = {{normal({72, 1031})}},
       .composed = of_one([](const Tensor& x) {
         return square(x).reshape({-1, 2});
       })},
      {.name = "reshape",
       .variant = "with a copy, flatten, squeeze, unsqueeze",
       .f = of_one([=](const Tensor& x) {
         return square(even_columns(x).flatten().unsqueeze(0).unsqueeze(-1).squeeze(0).squeeze());
       }),
       .samples = samples_of({{3, 4}, {2, 3, 2}, {0, 4}}),
       .large = {{normal({71, 1031})}},
       .composed = of_one([=](const Tensor& x) {
         return square(even_columns(x)).reshape({even_columns(x).numel()});
       })},
      {.name = "permute",
       .f = of_one([](const Tensor& x) {
         return square(x.permute({2, 0, 1}));
       }),
       .samples = samples_of({{2, 3, 2}, {1, 1, 2}, {2, 0, 3}}),
       .large = {{normal({7, 103, 101})}},
       .composed = of_one(
           [](const Tensor& x) { return square(x).transpose(0, 2).transpose(1, 2).clone(); })}};
}

std::vector<OpRow> part_rows() {
  return {
      {.name = "slice",
       .f = of_one([](const Tensor& x) { return square(x.slice(-1, 1, -1, 2)); }),
       .samples = samples_of({{2, 5}, {7}, {2, 2, 4}, {0, 5}, {2, 1}}),
       .large = {{normal({71, 1031})}},
       .composed = of_one([](const Tensor& x) {
         const int64_t n = x.size(-1);
         return square(index_select(
             x, -1, n > 2 ? arange(1, static_cast<double>(n - 1), 2) : empty({0}, int64)));
       })},
      {.name = "slice",
       .variant = "select",
       .f = of_one([](const Tensor& x) { return square(x.select(1, -2)); }),
       .samples = samples_of({{2, 5}, {1, 2}, {2, 2, 3}, {0, 3}}),
       .large = {{normal({1031, 71})}},
       .composed = of_one([](const Tensor& x) {
         return square(index_select(x, 1, tensor({static_cast<double>(x.size(1) - 2)}, int64)))
             .squeeze(1);
       })},
      {.name = "expand",
       .f = of_one([](const Tensor& x) {
         return square(x.expand({2, -1, 3}));
       }),
       .samples = samples_of({{2, 1}, {2, 3}, {1, 2, 1}, {1, 1}, {0, 3}}),
       .large = {{normal({20011, 1})}},
       .composed = of_one([](const Tensor& x) {
         return square(x + zeros({2, x.size(-2), 3}, x.dtype()));
       })},
      {.name = "split",
       .f =
           [](const Tensors& x) {
             const Tensors p = x[0].split({1, 0, 3}, -1);
             return Tensors{square(p[0]), p[1], p[2]};
           },
       .samples = samples_of({{2, 4}, {4}, {0, 4}, {2, 1, 4}}),
       .large = {{normal({20011, 4})}},
       .composed =
           [](const Tensors& x) {
             return Tensors{square(x[0].slice(-1, 0, 1)), x[0].slice(-1, 1, 1), x[0].slice(-1, 1)};
           }},
      {.name = "split",
       .variant = "chunk, of which one piece is used",
       .f = [](const Tensors& x) { return Tensors{square(x[0].chunk(3, 0)[1])}; },
       .samples = samples_of({{5, 2}, {3}, {7, 0}}),
       .large = {{normal({1031, 71})}},
       .composed =
           [](const Tensors& x) {
             const int64_t size = (x[0].size(0) + 2) / 3;
             return Tensors{square(x[0].slice(0, size, 2 * size))};
           }}};
}

std::vector<OpRow> joining_rows() {
  const auto joined = [](const Tensors& x) { return Tensors{square(cat(x, 1))}; };
  return {{.name = "cat",
           .f = joined,
           .samples = {{normal({2, 2}), normal({2, 1}), normal({2, 3})},
                       {normal({2, 1, 2}), normal({2, 2, 2})},
                       {normal({2, 0}), normal({2, 2})},
                       {normal({2, 2})}},
           .large = {{normal({171, 203}), normal({171, 1}), normal({171, 301})}},
           .composed =
               [](const Tensors& x) {
                 int64_t total = 0, at = 0;
                 for (const Tensor& t : x) total += t.size(1);
                 Tensor y;
                 for (const Tensor& t : x) {
                   Shape shape = t.shape();
                   shape[1] = total;
                   const Tensor padded = pad_slice(square(t), shape, 1, at);
                   y = y.defined() ? y + padded : padded;
                   at += t.size(1);
                 }
                 return Tensors{y};
               },
           .bad = {{[] { cat({}); }, "cat: expected at least one tensor"},
                   {[] {
                      cat({ones({2}), ones({2}, float64)});
                    },
                    "cat: dtypes differ: float32 and float64"},
                   {[] {
                      cat({ones({2, 3}), ones({3, 3})}, 1);
                    },
                    "cat: shapes differ outside axis 1: (2, 3) and (3, 3)"},
                   {[] {
                      cat({ones({2, 3}), ones({2})}, 1);
                    },
                    "cat: shapes differ outside axis 1: (2, 3) and (2,)"},
                   {[] { cat({ones({2})}, 1); }, "cat: axis 1 is out of range for rank 1"},
                   {[] { cat({scalar(1)}); }, "cat: axis 0 is out of range for rank 0"},
                   {[] {
                      cat({ones({2}), Tensor()});
                    },
                    "tensor: used before it was given a value"}}},
          {.name = "stack",
           .f = [](const Tensors& x) { return Tensors{square(stack(x, -1))}; },
           .samples = {{normal({2, 2}), normal({2, 2})},
                       {normal({}), normal({}), normal({})},
                       {normal({0, 2}), normal({0, 2})},
                       {normal({3})}},
           .large = {{normal({171, 203}), normal({171, 203})}},
           .composed =
               [](const Tensors& x) {
                 Tensors rows;
                 for (const Tensor& t : x) rows.push_back(square(t).unsqueeze(t.rank()));
                 return Tensors{cat(rows, x[0].rank())};
               },
           .bad = {{[] { stack({}); }, "stack: expected at least one tensor"},
                   {[] {
                      stack({ones({2}), ones({1})});
                    },
                    "stack: shapes differ: (2,) and (1,)"},
                   {[] { stack({ones({2})}, 2); }, "stack: axis 2 is out of range for rank 2"}}}};
}

OpRow pad_slice_row() {
  return {
      .name = "pad_slice",
      .f = of_one([](const Tensor& x) {
        return square(pad_slice(x, {2, 9, 2}, 1, 1, 3));
      }),
      .samples = samples_of({{2, 3, 2}, {2, 1, 2}, {2, 0, 2}}),
      .large = {},
      .composed = of_one([](const Tensor& x) {
        Tensor y = zeros({2, 9, 2}, x.dtype()) * sum(x);
        for (int64_t i = 0; i < x.size(1); ++i) {
          const Tensor index = full({1}, static_cast<double>(1 + 3 * i), int64);
          y = index_add(y, 1, index, square(x.slice(1, i, i + 1)));
        }
        return y;
      }),
      .bad = {{[] {
                 pad_slice(ones({2, 3}), {2, 5}, 1, 0, 3);
               },
               "pad_slice: (2, 3) is not a slice from 0 by 3 along axis 1 of (2, 5)"},
              {[] {
                 pad_slice(ones({2, 3}), {3, 5}, 1, 0);
               },
               "pad_slice: (2, 3) is not a slice"},
              {[] { pad_slice(ones({3}), {5}, 0, -1); }, "pad_slice: (3,) is not a slice from -1"},
              {[] { pad_slice(ones({3}), {5}, 0, 1, 2); },  // the third would be at position 5
               "pad_slice: (3,) is not a slice from 1 by 2"},
              {[] { pad_slice(ones({1}), {5}, 0, 5, 2); },
               "pad_slice: (1,) is not a slice from 5 by 2"},
              {[] {
                 pad_slice(ones({3}), {3, 5}, 0, 0);
               },
               "pad_slice: (3,) is not a slice"},
              {[] { pad_slice(ones({3}), {5}, 0, 0, INT64_MAX); },
               "pad_slice: (3,) is not a slice from 0 by 9223372036854775807 along axis 0 of (5,)"},
              {[] { pad_slice(ones({3}), {5}, 0, INT64_MAX); },
               "pad_slice: (3,) is not a slice from 9223372036854775807"},
              {[] { pad_slice(ones({3}), {5}, 1, 0); }, "pad_slice: axis 1 is out of range"}}};
}

std::vector<OpRow> moving_rows() {
  auto reversed = [](const Tensor& x, int64_t dim) {
    const auto n = static_cast<double>(x.size(dim));
    return index_select(x, dim, n > 0 ? arange(n - 1, -1, -1) : empty({0}, int64));
  };
  auto rolled = [](const Tensor& x, int64_t shift, int64_t dim) {  // 0 <= shift
    const int64_t n = x.size(dim), tail = n == 0 ? 0 : shift % n;
    return cat({x.slice(dim, n - tail), x.slice(dim, 0, n - tail)}, dim);
  };
  return {{.name = "flip",
           .f =
               [](const Tensors& x) {
                 return Tensors{square(flip(x[0], 0)), flip(x[0], {-1, 0}), flip(x[0], {})};
               },
           .samples = samples_of({{2, 3}, {3, 2, 2}, {1, 1}, {2, 0}}),
           .large = {{normal({71, 1031})}, {normal({37, 3, 401})}},
           .composed =
               [reversed](const Tensors& x) {
                 return Tensors{square(reversed(x[0], 0)), reversed(reversed(x[0], 0), -1), x[0]};
               },
           .bad = {{[] {
                      flip(ones({2, 3}), {0, -2});
                    },
                    "flip: axis -2 is given twice in (0, -2)"},
                   {[] { flip(ones({2}), 1); }, "flip: axis 1 is out of range for rank 1"}}},
          {.name = "roll",
           .f =
               [](const Tensors& x) {
                 return Tensors{square(roll(x[0], 1, -1)), roll(x[0], {-1, 5}, {0, 1}),
                                roll(x[0], 2), roll(x[0], 0, 0)};
               },
           .samples = samples_of({{2, 3}, {3, 2, 2}, {1, 1}, {2, 0}}),
           .large = {{normal({71, 1031})}, {normal({37, 3, 401})}},
           .composed =
               [rolled](const Tensors& x) {
                 const Tensor both = rolled(rolled(x[0], x[0].size(0) - 1, 0), 5, 1);
                 return Tensors{square(rolled(x[0], 1, -1)), both,
                                rolled(x[0].flatten(), 2, 0).reshape(x[0].shape()), x[0]};
               },
           .bad = {{[] {
                      roll(ones({2, 3}), {1, 2}, {0});
                    },
                    "roll: 2 shifts (1, 2) for 1 axes (0,)"},
                   {[] { roll(ones({2}), 1, 1); }, "roll: axis 1 is out of range for rank 1"}}},
          {.name = "repeat",
           .f =
               [](const Tensors& x) {
                 return Tensors{square(repeat(x[0], {2, 1, 3})), repeat(x[0], {1, 1, 1}),
                                repeat(x[0], {2, 0, 1})};
               },
           .samples = samples_of({{2, 3}, {2, 1, 2}, {}, {2, 0}}),
           .large = {{normal({31, 1031})}},
           .composed =
               [](const Tensors& x) {
                 Tensor y = x[0];
                 while (y.rank() < 3) y = y.unsqueeze(0);
                 const Tensor wide = cat({y, y, y}, 2);
                 return Tensors{square(cat({wide, wide}, 0)), y,
                                cat({y.slice(1, 0, 0), y.slice(1, 0, 0)}, 0)};
               },
           .bad = {{[] {
                      repeat(ones({2, 3}), {2});
                    },
                    "repeat: expected a size for each axis of (2, 3), got (2,)"},
                   {[] { repeat(ones({2}), {-1}); }, "repeat: negative size in (-1,)"},
                   {[] {
                      repeat(ones({2}), {INT64_MAX, 2});
                    },
                    "too many elements"}}}};
}

std::vector<OpRow> padding_rows() {
  return {
      {.name = "pad",
       .f =
           [](const Tensors& x) {
             return Tensors{square(pad(x[0], {1, 2}, 1.5)), pad(x[0], {0, 1, 2, 0}), pad(x[0], {})};
           },
       .samples = samples_of({{2, 3}, {2, 2, 2}, {1, 1}, {2, 0}}),
       .large = {{normal({71, 1031})}, {normal({37, 3, 401})}},
       .composed =
           [](const Tensors& x) {
             Shape one = x[0].shape(), two = x[0].shape();
             one[-1] += 3;
             two[-1] += 1;
             const Tensor right = pad_slice(x[0], two, -1, 0);
             two[-2] += 2;
             return Tensors{square(pad_slice(x[0] - 1.5, one, -1, 1) + 1.5),
                            pad_slice(right, two, -2, 2), x[0]};
           },
       .bad = {{[] {
                  pad(ones({2}), {1, -1});
                },
                "pad: negative padding (1, -1) of axis 0; use slice to crop"},
               {[] { pad(ones({2}), {1}); },
                "pad: expected pairs for at most the 1 axes of (2,), got 1 numbers"},
               {[] {
                  pad(ones({2}), {1, 1, 1, 1});
                },
                "pad: expected pairs for at most the 1 axes of (2,), got 4 numbers"},
               {[] {
                  pad(ones({2}, int64), {1, 1}, 0.5);
                },
                "pad: 0.5 is not an int64"},
               {[] {
                  pad(ones({2}), {INT64_MAX, 1});
                },
                "pad: axis 0 would be too long"}}},
      {.name = "unbind",
       .f =
           [](const Tensors& x) {
             const Tensors entries = unbind(x[0], -1);
             return entries.empty() ? Tensors{sum(x[0])}
                                    : Tensors{square(entries[0]), entries.back() * entries[0]};
           },
       .samples = samples_of({{2, 3}, {4}, {2, 1, 2}, {2, 0}, {0, 2}}),
       .large = {{normal({71, 1031})}, {normal({1031, 71})}},
       .composed =
           [](const Tensors& x) {
             if (x[0].size(-1) == 0) return Tensors{sum(x[0])};
             const Tensor first = x[0].select(-1, 0);
             return Tensors{square(first), x[0].select(-1, -1) * first};
           },
       .bad = {{[] { unbind(scalar(1)); }, "unbind: axis 0 is out of range for rank 0"}}}};
}

std::vector<OpRow> cutting_rows() {
  auto triangle = [](const Tensor& x, int64_t diagonal, bool lower) {
    const Tensor rows = arange(x.size(-2)).unsqueeze(1), columns = arange(x.size(-1));
    const Tensor offset = columns - rows;
    const auto limit = static_cast<double>(diagonal);
    return x * (lower ? le(offset, limit) : ge(offset, limit)).to(x.dtype());
  };
  return {{.name = "sum_to",
           .f = of_one([](const Tensor& x) {
             return square(sum_to(x, {3, 1}));
           }),
           .samples = samples_of({{2, 3, 2}, {3, 2}, {3, 1}, {2, 3, 0}, {1, 3, 1}}),
           .large = {{normal({11, 3, 2503})}},
           .composed = of_one([](const Tensor& x) {
             const Tensor y = x.rank() == 3 ? sum(x, 0) : x;
             return square(sum(y, 1, keepdim));
           }),
           .bad = {{[] {
                      sum_to(ones({2, 3}), {2, 2});
                    },
                    "sum_to: shapes do not broadcast: (2, 3) and (2, 2)"},
                   {[] {
                      sum_to(ones({1, 3}), {2, 3});
                    },
                    "sum_to: (2, 3) does not broadcast to (1, 3)"}}},
          {.name = "tril",
           .f = of_one([](const Tensor& x) { return square(tril(x, 1)); }),
           .samples = samples_of({{3, 4}, {2, 3, 2}, {1, 1}, {0, 2}}),
           .large = {{normal({3, 171, 203})}},
           .composed = of_one([=](const Tensor& x) { return square(triangle(x, 1, true)); }),
           .bad = {{[] { tril(ones({3})); }, "tril: expected x (..., n, m), got (3,)"}}},
          {.name = "triu",
           .f = of_one([](const Tensor& x) { return square(triu(x, -1)); }),
           .samples = samples_of({{4, 3}, {2, 3, 2}, {1, 1}, {0, 2}}),
           .large = {{normal({3, 171, 203})}},
           .composed = of_one([=](const Tensor& x) { return square(triangle(x, -1, false)); }),
           .bad = {{[] { triu(ones({3})); }, "triu: expected x (..., n, m), got (3,)"}}}};
}

}  // namespace

std::vector<OpRow> shape_rows() {
  std::vector<OpRow> rows{pad_slice_row()};
  for (auto some :
       {copy_rows, view_rows, part_rows, joining_rows, moving_rows, padding_rows, cutting_rows})
    for (OpRow& row : some()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace gradus::testing
