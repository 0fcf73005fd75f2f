#pragma once
// The kernel of sum, mean, var, std_dev, norm, any and all: sums over any axes of a strided array,
// without a copy.
//
// Axes are sorted by stride and merged, which leaves two cases. If the innermost axis is summed
// over, each result is the sum of a row. If the innermost axis is kept, the results are column
// sums: whole rows are added up. `sum` adds float32 elements in short blocks in float32, and the
// block sums in double. `mean`, `var`, `std_dev` and `norm` convert each element to double. Long
// sums are split into pieces for threads. The split depends only on shape and strides.

#include <type_traits>

#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/ceil_div.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/tensor/odometer.h"

namespace gradus::kernel {

/// Describes how to sum x over some of its axes. The other axes are kept: they are the axes of the
/// result y, which is contiguous. The innermost loop runs over one axis, called the inner axis. All
/// other axes are called outer axes. Axes are merged where their strides allow it.
struct SumPlan {
  Shape kept, kept_x, kept_y;                   // outer kept axes: sizes, strides in x and in y
  Shape reduced, reduced_x;                     // outer reduced axes: sizes, strides in x
  bool columns = false;                         // whether the inner axis is kept, not summed over
  int64_t inner = 1, inner_x = 1, inner_y = 0;  // inner axis: size, strides in x and in y

  SumPlan(const Shape& shape, const Shape& strides, const std::array<bool, max_rank>& is_reduced) {
    struct StridedAxis {
      int64_t size, x, y;
    };
    std::vector<StridedAxis> stay, go;
    int64_t y = 1;
    for (int i = shape.size() - 1; i >= 0; --i) {
      const bool gone = is_reduced[static_cast<size_t>(i)];
      std::vector<StridedAxis>& axes = gone ? go : stay;
      if (shape[i] != 1) axes.push_back({shape[i], strides[i], gone ? 0 : y});
      if (!gone) y *= shape[i];
    }
    // Sorts by decreasing stride, with broadcast axes (stride 0) outermost, and merges axes.
    for (std::vector<StridedAxis>* axes : {&stay, &go}) {
      auto key = [](const StridedAxis& a) { return a.x == 0 ? INT64_MAX : a.x; };
      std::stable_sort(axes->begin(), axes->end(),
                       [&](const StridedAxis& a, const StridedAxis& b) { return key(a) > key(b); });
      size_t n = 0;
      for (const StridedAxis& a : *axes) {
        if (n > 0 && (*axes)[n - 1].x == a.x * a.size && (*axes)[n - 1].y == a.y * a.size)
          (*axes)[n - 1] = {(*axes)[n - 1].size * a.size, a.x, a.y};
        else
          (*axes)[n++] = a;
      }
      axes->resize(n);
    }
    columns = go.empty() || (!stay.empty() && stay.back().x != 0 &&
                             (go.back().x == 0 || stay.back().x < go.back().x));
    if (std::vector<StridedAxis>& from = columns ? stay : go; !from.empty()) {
      inner = from.back().size;
      inner_x = from.back().x;
      inner_y = from.back().y;
      from.pop_back();
    }
    for (const StridedAxis& a : stay) {
      kept.push_back(a.size);
      kept_x.push_back(a.x);
      kept_y.push_back(a.y);
    }
    for (const StridedAxis& a : go) {
      reduced.push_back(a.size);
      reduced_x.push_back(a.x);
    }
  }
};

/// Elements per chunk of work.
inline constexpr int64_t reduction_grain = 32768;

/// Returns the number of pieces into which each of `units` sums of `n` elements is split, so that
/// many threads have work. A piece has at least reduction_grain elements, unless n is smaller.
inline int64_t sum_pieces(int64_t n, int64_t units) {
  const int64_t max_pieces = (64 + units - 1) / std::max<int64_t>(units, 1);
  return std::clamp<int64_t>(n / reduction_grain, 1, max_pieces);
}

/// Returns the sum of term(x[i * stride]) for i in [0, n). Vector loops sum blocks of elements in
/// the type that `term` returns, and the block sums are added in Acc. With stride 1, up to three
/// elements at the end are added to the total one by one.
template <class Acc, class X, class Term>
Acc sum_strided(const X* x, int64_t n, int64_t stride, const Term& term) {
  using Value = decltype(term(*x));
  constexpr int64_t block = 512;
  Acc total{};
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t m = std::min(block, n - begin), quarter = m / 4;
    const X* p = x + begin * stride;
    if (stride != 1) {
      total += simd_sum<Value>(m, [=](int64_t i) { return term(p[i * stride]); });
      continue;
    }
    // Add four independent quarters, so that additions do not wait for each other.
    const X *q = p + quarter, *r = q + quarter, *s = r + quarter;
    total += simd_sum<Value>(
        quarter, [=](int64_t i) { return (term(p[i]) + term(q[i])) + (term(r[i]) + term(s[i])); });
    for (int64_t i = 4 * quarter; i < m; ++i) total += term(p[i]);
  }
  return total;
}

template <class Acc, class X, class Y, class Term, class Finish>
void reduce_rows(const SumPlan& plan, const X* x, Y* y, const Term& term, const Finish& finish) {
  const int64_t outputs = plan.kept.numel(), outer = plan.reduced.numel();
  const int64_t length = outer * plan.inner;
  // Returns the sum of terms [begin, end) of output k. `from` points to the element of term 0.
  auto sum_range = [&](const X* from, int64_t k, int64_t begin, int64_t end) {
    auto term_k = [&term, k](X v) { return term(v, k); };
    if (outer == 1)
      return sum_strided<Acc>(from + begin * plan.inner_x, end - begin, plan.inner_x, term_k);
    Acc total{};
    internal::Odometer<1> row(plan.reduced, {&plan.reduced_x}, begin / plan.inner);
    for (int64_t column = begin % plan.inner; begin < end; column = 0, row.next()) {
      const int64_t n = std::min(plan.inner - column, end - begin);
      total +=
          sum_strided<Acc>(from + row.offset[0] + column * plan.inner_x, n, plan.inner_x, term_k);
      begin += n;
    }
    return total;
  };
  const int64_t pieces = sum_pieces(length, outputs);
  if (pieces == 1) {
    const int64_t grain = reduction_grain / std::max<int64_t>(length, 1);
    parallel_for(outputs, grain, [&](int64_t begin, int64_t end) {
      internal::Odometer<2> at(plan.kept, {&plan.kept_x, &plan.kept_y}, begin);
      for (int64_t o = begin; o < end; ++o, at.next())
        y[at.offset[1]] = finish(sum_range(x + at.offset[0], at.offset[1], 0, length));
    });
    return;
  }
  const Scratch<Acc> partial(outputs * pieces);
  parallel_for_each(outputs * pieces, 1, [&](int64_t unit) {
    const internal::Odometer<2> at(plan.kept, {&plan.kept_x, &plan.kept_y}, unit / pieces);
    const int64_t piece = unit % pieces;
    partial[unit] = sum_range(x + at.offset[0], at.offset[1], length * piece / pieces,
                              length * (piece + 1) / pieces);
  });
  internal::Odometer<1> at(plan.kept, {&plan.kept_y});
  for (int64_t o = 0; o < outputs; ++o, at.next()) {
    Acc total{};
    for (int64_t piece = 0; piece < pieces; ++piece) total += partial[o * pieces + piece];
    y[at.offset[0]] = finish(total);
  }
}

/// Rows [begin, end) of `width` neighbouring columns. Each column is summed separately. The sum of
/// the first column is part of output k.
struct ColumnPart {
  int64_t k, width, begin, end;
};

/// Adds the terms of each column j of `part` to total[j], eight rows at a time.
template <class Acc, class X, class Term>
void add_rows(const SumPlan& plan, const X* x, const ColumnPart& part, const Term& term,
              Acc* total) {
  const int64_t k = part.k, width = part.width, begin = part.begin, end = part.end;
  internal::Odometer<1> row(plan.reduced, {&plan.reduced_x}, begin);
  auto next = [&] {
    const X* p = x + row.offset[0];
    row.next();
    return p;
  };
  auto add = [&](auto stride_x, auto stride_y) {
    int64_t i = begin;
    for (; i + 8 <= end; i += 8) {
      const X *a = next(), *b = next(), *c = next(), *d = next();
      const X *e = next(), *f = next(), *g = next(), *h = next();
      simd_for(width, [=](int64_t j) {
        const int64_t at = j * stride_x, o = k + j * stride_y;
        total[j] += ((term(a[at], o) + term(b[at], o)) + (term(c[at], o) + term(d[at], o))) +
                    ((term(e[at], o) + term(f[at], o)) + (term(g[at], o) + term(h[at], o)));
      });
    }
    for (; i < end; ++i) {
      const X* a = next();
      simd_for(width, [=](int64_t j) { total[j] += term(a[j * stride_x], k + j * stride_y); });
    }
  };
  using One = std::integral_constant<int64_t, 1>;
  if (plan.inner_x == 1 && plan.inner_y == 1)
    add(One{}, One{});
  else
    add(plan.inner_x, plan.inner_y);
}

template <class Acc, class X, class Y, class Term, class Finish>
void reduce_columns(const SumPlan& plan, const X* x, Y* y, const Term& term, const Finish& finish) {
  constexpr int64_t max_tile = 1024;  // columns summed at once; their totals stay in L1
  const int64_t tile = std::min(plan.inner, max_tile), tiles = internal::ceil_div(plan.inner, tile);
  const int64_t rows = plan.reduced.numel(), units = plan.kept.numel() * tiles;
  const int64_t pieces = sum_pieces(rows * tile, units);
  const Scratch<Acc> partial(pieces > 1 ? units * pieces * tile : 0);
  // Calls body(offset of the tile's first column in x, its offset in y, number of columns).
  auto with_tile = [&](int64_t unit, auto&& body) {
    const internal::Odometer<2> at(plan.kept, {&plan.kept_x, &plan.kept_y}, unit / tiles);
    const int64_t column = unit % tiles * tile;
    body(at.offset[0] + column * plan.inner_x, at.offset[1] + column * plan.inner_y,
         std::min(tile, plan.inner - column));
  };
  auto store = [&](const Acc* total, int64_t k, int64_t width) {
    for (int64_t j = 0; j < width; ++j) y[k + j * plan.inner_y] = finish(total[j]);
  };
  const int64_t grain = pieces > 1 ? 1 : reduction_grain / std::max<int64_t>(rows * tile, 1);
  parallel_for_each(units * pieces, grain, [&](int64_t part) {
    with_tile(part / pieces, [&](int64_t from, int64_t k, int64_t width) {
      Acc total[max_tile];
      std::fill(total, total + width, Acc{});
      const int64_t piece = part % pieces;
      add_rows(plan, x + from, {k, width, rows * piece / pieces, rows * (piece + 1) / pieces}, term,
               total);
      if (pieces > 1)
        std::copy(total, total + width, partial.data() + part * tile);
      else
        store(total, k, width);
    });
  });
  if (pieces == 1) return;
  parallel_for_each(units, 16, [&](int64_t unit) {
    with_tile(unit, [&](int64_t, int64_t k, int64_t width) {
      Acc* total = partial.data() + unit * pieces * tile;
      for (int64_t piece = 1; piece < pieces; ++piece)
        simd_for(width, [=](int64_t j) { total[j] += total[piece * tile + j]; });
      store(total, k, width);
    });
  });
}

/// Computes y[k] = finish(sum_i term(x_i, k)) for each output k, where the x_i are the elements of
/// x that belong to output k. The sum has type Acc. y is contiguous, and k is an offset in y.
template <class Acc, class X, class Y, class Term, class Finish>
void reduce(const SumPlan& plan, const X* x, Y* y, const Term& term, const Finish& finish) {
  if (plan.kept.numel() * plan.reduced.numel() * plan.inner == 0) {
    const int64_t outputs = plan.kept.numel() * (plan.columns ? plan.inner : 1);
    std::fill(y, y + outputs, finish(Acc{}));
  } else if (plan.columns)
    reduce_columns<Acc>(plan, x, y, term, finish);
  else
    reduce_rows<Acc>(plan, x, y, term, finish);
}

}  // namespace gradus::kernel
