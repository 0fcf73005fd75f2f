#include "gradus/core/ops/ordering.h"

#include <optional>

#include "gradus/core/ops/axis_rows.h"
#include "gradus/core/ops/cumulative.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/ops/shape.h"
#include "gradus/core/runtime/ceil_div.h"

namespace gradus {

// ---- maxima and minima ----

namespace {

/// max and min share one search for the element with the largest key.
struct Largest {
  template <class T>
  static auto key(T x) {
    if constexpr (std::is_same_v<T, bool>)
      return static_cast<int>(x);
    else
      return x;
  }
};
struct Smallest {
  template <class T>
  static auto key(T x) {
    if constexpr (std::is_floating_point_v<T>)
      return -x;
    else
      return ~Largest::key(x);  // not -x, which overflows for the smallest int64
  }
};

/// The index in [begin, end), not empty, of the first NaN or, if there is none, of the first x with
/// the largest key.
template <class Which, class T>
int64_t best_of(const T* x, int64_t begin, int64_t end) {
  constexpr int block = 1024;
  int64_t best = begin;
  for (int64_t from = begin; from < end; from += block) {
    const T* p = x + from;
    const int n = static_cast<int>(std::min<int64_t>(block, end - from));
    if (simd_sum<int>(n, [=](int64_t i) { return p[i] != p[i] ? 1 : 0; }) > 0)
      return std::find_if(p, p + n, [](T v) { return v != v; }) - x;
    const auto top = simd_max(n, Which::key(*p), [=](int64_t i) { return Which::key(p[i]); });
    if (from > begin && !(top > Which::key(x[best]))) continue;
    best = from + n - simd_max(n, 0, [=](int64_t i) {
             return Which::key(p[i]) == top ? n - static_cast<int>(i) : 0;
           });
  }
  return best;
}

template <class Which>
ValuesAndIndices extreme(const char* op, const Tensor& x, Axis dim, KeepDim keep,
                         bool want_values) {
  ProfileScope scope(op);
  const AxisRows rows(op, x, dim);
  check(rows.n > 0 || rows.rows == 0, op, ": axis ", dim, " of shape ", x.shape(), " is empty");
  const Shape out = rows.output(keep);
  const Tensor indices = empty(out, int64), values = want_values ? empty(out, x.dtype()) : Tensor();
  dispatch_any(op, x.dtype(), [&]<class T>(TypeTag<T>) {
    int64_t* at = indices.data<int64_t>();
    T* value = want_values ? values.data<T>() : nullptr;
    rows.for_each<T>([&](const T* row, int64_t i) {
      at[i] = best_of<Which>(row, 0, rows.n);
      if (value) value[i] = row[at[i]];
    });
  });
  if (want_values)
    record(op, {values}, {x, indices}, saves_input(1),
           [dim = rows.dim, kept = rows.kept](Backward& b) {
             const Tensor dy = b.grad().reshape(kept), at = b.input(1).reshape(kept);
             b.give(0, scatter_sum(b.input_shape(0), dim, at, dy));
           });
  return {values, indices};
}

/// The index of the maximum (minimum) of all elements of x, which is contiguous.
template <class Which>
int64_t place_of_extreme(const char* op, const Tensor& x) {
  check(x.numel() > 0, op, ": a tensor of shape ", x.shape(), " has no elements");
  const int64_t n = x.numel(), grain = kernel::reduction_grain;
  return dispatch_any(op, x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* p = x.data<T>();
    const int64_t chunks = ceil_div(n, grain);
    const Scratch<int64_t> places(chunks);
    const Scratch<T> bests(chunks);
    parallel_for(n, grain, [&](int64_t begin, int64_t end) {
      const int64_t place = best_of<Which>(p, begin, end);
      places[begin / grain] = place;
      bests[begin / grain] = p[place];
    });
    return places[best_of<Which>(bests.data(), 0, chunks)];
  });
}

template <class Which>
Tensor extreme_of_all(const char* op, const Tensor& x) {
  ProfileScope scope(op);
  const Tensor flat = x.detach().contiguous();
  const int64_t at = place_of_extreme<Which>(op, flat);
  const Tensor y = flat.reshape({-1})[at].clone();
  record(op, {y}, {x}, saves_nothing, [at](Backward& b) {
    const Shape& shape = b.input_shape(0);
    const Tensor index = full({1}, static_cast<double>(at), int64);
    b.give(0, scatter_sum({shape.numel()}, 0, index, b.grad().reshape({1})).reshape(shape));
  });
  return y;
}

template <class Which>
Tensor place_of_all(const char* op, const Tensor& x) {
  ProfileScope scope(op);
  const int64_t at = place_of_extreme<Which>(op, x.detach().contiguous());
  return full({}, static_cast<double>(at), int64);
}

}  // namespace

ValuesAndIndices max(const Tensor& x, Axis dim, KeepDim keep) {
  return extreme<Largest>("max", x, dim, keep, true);
}
ValuesAndIndices min(const Tensor& x, Axis dim, KeepDim keep) {
  return extreme<Smallest>("min", x, dim, keep, true);
}
Tensor max(const Tensor& x) { return extreme_of_all<Largest>("max", x); }
Tensor min(const Tensor& x) { return extreme_of_all<Smallest>("min", x); }
Tensor argmax(const Tensor& x, Axis dim, KeepDim keep) {
  return extreme<Largest>("argmax", x, dim, keep, false).indices;
}
Tensor argmin(const Tensor& x, Axis dim, KeepDim keep) {
  return extreme<Smallest>("argmin", x, dim, keep, false).indices;
}
Tensor argmax(const Tensor& x) { return place_of_all<Largest>("argmax", x); }
Tensor argmin(const Tensor& x) { return place_of_all<Smallest>("argmin", x); }

// ---- orderings ----

namespace {

/// Writes the first k elements of each row in sorted order, and their indices. Equal elements keep
/// their order; NaN counts as largest. `values` may be null.
template <class T>
void first_in_order(const AxisRows& rows, int64_t k, bool descending, T* values, int64_t* indices) {
  struct Entry {
    T value;
    int64_t index;
  };
  auto larger = [](T a, T b) { return a > b || (a != a && b == b); };
  auto comes_first = [descending, larger](const Entry& a, const Entry& b) {
    if (larger(a.value, b.value)) return descending;
    if (larger(b.value, a.value)) return !descending;
    return a.index < b.index;
  };
  rows.for_each<T>([&](const T* row, int64_t i) {
    std::vector<Entry> entries(static_cast<size_t>(rows.n));
    for (int64_t j = 0; j < rows.n; ++j) entries[static_cast<size_t>(j)] = {row[j], j};
    const auto end = entries.begin() + k;
    if (end != entries.end()) std::nth_element(entries.begin(), end, entries.end(), comes_first);
    std::sort(entries.begin(), end, comes_first);
    for (int64_t j = 0; j < k; ++j) {
      if (values) values[i * k + j] = entries[static_cast<size_t>(j)].value;
      indices[i * k + j] = entries[static_cast<size_t>(j)].index;
    }
  });
}

/// Returns the first `first` elements along an axis in sorted order, by default all.
ValuesAndIndices in_order(const char* op, const Tensor& x, Axis dim, std::optional<int64_t> first,
                          bool descending, bool want_values = true) {
  const ProfileScope scope(op);
  const AxisRows rows(op, x, dim);
  const int64_t k = first.value_or(rows.n);
  check(k >= 0 && k <= rows.n, op, ": expected 0 <= k <= ", rows.n, " for axis ", dim, " of shape ",
        x.shape(), ", got ", k);
  const Tensor index_rows = empty(rows.rows_of(k), int64),
               value_rows = want_values ? empty(rows.rows_of(k), x.dtype()) : Tensor();
  dispatch_any(op, x.dtype(), [&]<class T>(TypeTag<T>) {
    first_in_order<T>(rows, k, descending, want_values ? value_rows.data<T>() : nullptr,
                      index_rows.data<int64_t>());
  });
  const Tensor indices = rows.move_back(index_rows);
  if (!want_values) return {{}, indices};
  const Tensor values = rows.move_back(value_rows);
  record(op, {values}, {x, indices}, saves_input(1), [dim = rows.dim](Backward& b) {
    b.give(0, scatter_sum(b.input_shape(0), dim, b.input(1), b.grad()));
  });
  return {values, indices};
}

}  // namespace

ValuesAndIndices sort(const Tensor& x, Axis dim, bool descending) {
  return in_order("sort", x, dim, {}, descending);
}

Tensor argsort(const Tensor& x, Axis dim, bool descending) {
  return in_order("argsort", x, dim, {}, descending, false).indices;
}

ValuesAndIndices topk(const Tensor& x, int64_t k, Axis dim) {
  return in_order("topk", x, dim, k, true);
}

// ---- medians and quantiles ----

namespace {

/// The elements of x along an axis in ascending order.
struct Ascending {
  const char* op;
  Tensor x, order, nans;  // argsort along dim; the number of NaN along it, which come last
  int dim;
  int64_t n;

  Ascending(const char* name, const Tensor& tensor, Axis axis)
      : op(name), x(tensor), dim(normalize_dim(name, axis, tensor.rank())), n(tensor.size(dim)) {
    check(n > 0, op, ": axis ", axis, " of shape ", x.shape(), " is empty");
    order = argsort(x, dim);
    nans = sum(isnan(x), dim, keepdim);
  }
  /// The i-th elements and their indices, but the first NaN where there is one, with size 1 along
  /// dim.
  ValuesAndIndices at(int64_t i) const {
    const Tensor position =
        where(nans > 0, -nans + static_cast<double>(n), full({}, static_cast<double>(i), int64));
    const Tensor index = gather(order, dim, position);
    return {gather(x, dim, index), index};
  }
};

/// All elements of x as a vector.
Tensor all_of(const char* op, const Tensor& x) {
  check(x.numel() > 0, op, ": a tensor of shape ", x.shape(), " has no elements");
  return x.reshape({-1});
}

}  // namespace

ValuesAndIndices median(const Tensor& x, Axis dim, KeepDim keep) {
  const Ascending ascending("median", x, dim);
  const ValuesAndIndices middle = ascending.at((ascending.n - 1) / 2);
  if (keep.on) return middle;
  return {middle.values.squeeze(ascending.dim), middle.indices.squeeze(ascending.dim)};
}
Tensor median(const Tensor& x) { return median(all_of("median", x), 0).values; }

Tensor quantile(const Tensor& x, double q, Axis dim, KeepDim keep) {
  check_floating("quantile", x);
  check(q >= 0 && q <= 1, "quantile: expected 0 <= q <= 1, got ", q);
  const Ascending ascending("quantile", x, dim);
  const double position = q * static_cast<double>(ascending.n - 1), below = std::floor(position);
  const auto i = static_cast<int64_t>(below);
  const Tensor low = ascending.at(i).values;
  const Tensor y = position > below ? lerp(low, ascending.at(i + 1).values, position - below) : low;
  return keep.on ? y : y.squeeze(ascending.dim);
}
Tensor quantile(const Tensor& x, double q) { return quantile(all_of("quantile", x), q, 0); }

// ---- distinct elements ----

UniqueOutput unique(const Tensor& x) {
  const ProfileScope scope("unique");
  const auto [sorted, order] = sort(x.detach().reshape({-1}), 0);
  const int64_t n = x.numel();
  const Tensor is_new = cat(
      {ones({std::min<int64_t>(n, 1)}, boolean), sorted.slice(0, 1) != sorted.slice(0, 0, n - 1)});
  const Tensor run = cumsum(is_new, 0) - 1.0;  // the value's index, for each sorted element
  return {index_select(sorted, 0, nonzero(is_new).squeeze(1)),
          scatter(empty({n}, int64), 0, order, run).reshape(x.shape()), bincount(run)};
}

}  // namespace gradus
