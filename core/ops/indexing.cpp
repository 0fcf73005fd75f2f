#include "gradus/core/ops/indexing.h"

#include <numeric>

#include "gradus/core/ops/axis_rows.h"
#include "gradus/core/ops/compression.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/ordering.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/runtime/ceil_div.h"
#include "gradus/core/tensor/odometer.h"

namespace gradus {

namespace {

/// Elements per chunk of work.
constexpr int64_t grain = 16384;

/// The position of the i-th element in row-major order, as text: 3, or (1, 2).
std::string position(const Shape& shape, int64_t i) {
  core::Text out;
  const Shape at = index_of(shape, i);
  if (at.size() == 1)
    out << at[0];
  else
    out << at;
  return out.str();
}

/// A contiguous copy of index. Throws Error unless it is int64 with all values in [0, n).
Tensor checked_index(const char* op, const char* what, const Tensor& index, int64_t n) {
  check(index.dtype() == int64, op, ": expected ", what, " of int64, got ", index.dtype());
  const Tensor flat = index.contiguous();
  const int64_t* p = flat.data<int64_t>();
  const int64_t count = flat.numel();
  const int64_t bad = simd_sum<int64_t>(count, [=](int64_t i) { return p[i] < 0 || p[i] >= n; });
  if (bad > 0) {
    const int64_t* at = std::find_if(p, p + count, [n](int64_t v) { return v < 0 || v >= n; });
    fail(op, ": ", what, " ", *at, " at position ", position(index.shape(), at - p),
         " is outside [0, ", n, ")");
  }
  return flat;
}

// ---- elements along an axis: gather, scatter_add ----

void check_index_shape(const char* op, const Shape& shape, int dim, const Tensor& index) {
  check(index.rank() == shape.size(), op, ": index ", index.shape(), " and x ", shape,
        " differ in rank");
  for (int i = 0; i < shape.size(); ++i)
    check(i == dim || index.shape()[i] <= shape[i], op, ": index ", index.shape(),
          " is larger than x ", shape, " at axis ", i, ", which is not axis ", dim,
          " to index along");
}

/// For each position of `index`, calls body(a, b), where a is the element of x that the index
/// selects along dim and b is the element of y at that position. `index` is contiguous. One thread
/// handles a whole line along dim, so body may add to a.
template <class T, class Body>
void for_each_named(const Tensor& x, int dim, const Tensor& index, const Tensor& y,
                    const Body& body) {
  Shape sizes = index.shape(), xs = x.strides(), is = index.strides(), ys = y.strides();
  const int64_t n = sizes[dim], x_step = xs[dim], i_step = is[dim], y_step = ys[dim];
  for (Shape* s : {&sizes, &xs, &is, &ys}) s->erase(dim);
  T *px = x.data<T>(), *py = y.data<T>();
  const int64_t* pi = index.data<int64_t>();
  parallel_for(sizes.numel(), grain / std::max<int64_t>(n, 1), [&](int64_t begin, int64_t end) {
    Odometer<3> at(sizes, {&xs, &is, &ys}, begin);
    for (int64_t line = begin; line < end; ++line, at.next()) {
      T *to_x = px + at.offset[0], *to_y = py + at.offset[2];
      const int64_t* i = pi + at.offset[1];
      for (int64_t k = 0; k < n; ++k) body(to_x[i[k * i_step] * x_step], to_y[k * y_step]);
    }
  });
}

/// Adds src to y at the positions along dim given by index. Only the caller holds y, so this needs
/// no in-place checks.
void scatter_into(const char* op, const Tensor& y, int64_t dim, const Tensor& index,
                  const Tensor& src) {
  const int d = normalize_dim(op, dim, y.rank());
  check_index_shape(op, y.shape(), d, index);
  check_tensor(op, "src", src, y.dtype(), index.shape());
  const Tensor flat = checked_index(op, "index", index, y.shape()[d]);
  dispatch_number(op, y.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_named<T>(y, d, flat, src, [](T& into, T value) { into += value; });
  });
}

}  // namespace

// y_i = x[index_i]                                             dx[index_i] += dy_i
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index) {
  ProfileScope scope("gather");
  const int d = normalize_dim("gather", dim, x.rank());
  check_index_shape("gather", x.shape(), d, index);
  const Tensor flat = checked_index("gather", "index", index, x.shape()[d]);
  const Tensor y = empty(index.shape(), x.dtype());
  dispatch_any("gather", x.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_named<T>(x, d, flat, y, [](const T& from, T& to) { to = from; });
  });
  record("gather", {y}, {x, index}, saves_input(1),
         [d](Backward& b) { b.give(0, scatter_sum(b.input_shape(0), d, b.input(1), b.grad())); });
  return y;
}

namespace {
/// The two functions of an indexed addition: `into` adds src to y, `from` selects dsrc from dy.
struct Adding {
  decltype(&scatter_into) into;
  decltype(&gather) from;
};

/// Adds src to y along dim and records y as the output of an op. `inputs` are x, index and src; x
/// is undefined if y was zeros.
Tensor added(const char* op, const Adding& how, const Tensor& y, int64_t dim,
             const std::vector<Tensor>& inputs) {
  how.into(op, y, dim, inputs[1], inputs[2]);
  record(op, {y}, inputs, saves_input(1), [dim, from = how.from](Backward& b) {
    if (b.needs(0)) b.give(0, b.grad());
    if (b.needs(2)) b.give(2, from(b.grad(), dim, b.input(1)));
  });
  return y;
}
}  // namespace

// y = x, y[index_i] += src_i                                   dx = dy, dsrc_i = dy[index_i]
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  ProfileScope scope("scatter_add");
  return added("scatter_add", {scatter_into, gather}, x.detach().clone(), dim, {x, index, src});
}

// y = 0, y[index_i] += src_i                                   dsrc_i = dy[index_i]
Tensor scatter_sum(const Shape& shape, int64_t dim, const Tensor& index, const Tensor& src) {
  ProfileScope scope("scatter_sum");
  return added("scatter_sum", {scatter_into, gather}, zeros(shape, src.dtype()), dim,
               {{}, index, src});
}

namespace {
/// Whether a later element of the same line has the same index.
Tensor is_overwritten(const Tensor& index, int dim, const Shape& shape) {
  const Shape line = Shape::filled(index.rank(), 1).with(dim, index.size(dim));
  const Tensor order = arange(index.size(dim)).reshape(line).expand(index.shape());
  return gather(scatter(zeros(shape, int64), dim, index, order), dim, index) != order;
}
}  // namespace

// y = x, y[index_i] = src_i       dx = dy, 0 where written; dsrc_i = dy[index_i], 0 if overwritten
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  ProfileScope scope("scatter");
  const int d = normalize_dim("scatter", dim, x.rank());
  check_index_shape("scatter", x.shape(), d, index);
  check_tensor("scatter", "src", src, x.dtype(), index.shape());
  const Tensor flat = checked_index("scatter", "index", index, x.shape()[d]),
               y = x.detach().clone();
  dispatch_any("scatter", x.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_named<T>(y, d, flat, src, [](T& into, T value) { into = value; });
  });
  record("scatter", {y}, {x, index, src}, saves_input(1), [d](Backward& b) {
    const Tensor index = b.input(1), dy = b.grad();
    if (b.needs(0)) b.give(0, scatter(dy, d, index, 0));
    if (b.needs(2))
      b.give(2, masked_fill(gather(dy, d, index), is_overwritten(index, d, dy.shape()), 0));
  });
  return y;
}

Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, double value) {
  return scatter(x, dim, index, full("scatter", index.shape(), value, x.dtype()));
}

// ---- entries along an axis: index_select, index_add, embedding ----

namespace {

/// Copies entries index[0 ... m) of `from` (outer, n, inner) to `to` (outer, m, inner).
template <class T>
void copy_entries(const T* from, const Blocks& blocks, const int64_t* index, int64_t m, T* to) {
  const int64_t inner = blocks.inner;
  parallel_for_each(blocks.outer * m, grain / std::max<int64_t>(inner, 1), [=](int64_t i) {
    std::copy_n(from + (i / m * blocks.n + index[i % m]) * inner, inner, to + i * inner);
  });
}

/// Adds `from` (outer, m, inner) to entries index[0 ... m) of `to` (outer, n, inner). Each chunk
/// owns some of the inner columns and adds the entries in order, so threads do not conflict and the
/// sums over a repeated index do not depend on the number of threads.
template <class T>
void add_entries(const T* from, const Blocks& blocks, const int64_t* index, int64_t m, T* to) {
  const int64_t inner = blocks.inner;
  const int64_t width = std::min(inner, std::max<int64_t>(64, grain / std::max<int64_t>(m, 1)));
  const int64_t chunks = width > 0 ? ceil_div(inner, width) : 0;
  const int64_t units_a_thread = grain / std::max<int64_t>(m * width, 1);
  parallel_for_each(blocks.outer * chunks, units_a_thread, [=](int64_t unit) {
    const int64_t outer = unit / chunks, column = unit % chunks * width;
    const int64_t columns = std::min(width, inner - column);
    for (int64_t i = 0; i < m; ++i) {
      T* y = to + (outer * blocks.n + index[i]) * inner + column;
      const T* x = from + (outer * m + i) * inner + column;
      simd_for(columns, [=](int64_t j) { y[j] += x[j]; });
    }
  });
}

/// Adds src to y at the positions along dim listed in the vector `index`. y is contiguous, and only
/// the caller holds it.
void add_into(const char* op, const Tensor& y, int64_t dim, const Tensor& index,
              const Tensor& src) {
  const int d = normalize_dim(op, dim, y.rank());
  check_shape(op, "index", index, {"n"});
  check_tensor(op, "src", src, y.dtype(), y.shape().with(d, index.numel()));
  const Tensor flat = checked_index(op, "index", index, y.shape()[d]),
               x = src.detach().contiguous();
  dispatch_number(op, y.dtype(), [&]<class T>(TypeTag<T>) {
    add_entries(x.data<T>(), Blocks(y.shape(), d), flat.data<int64_t>(), flat.numel(), y.data<T>());
  });
}

/// The gradient of index_select and embedding: adds dy's entries at the positions in the vector
/// `index`. If a sum exists already, only those entries are touched.
void give_entries(Backward& b, int dim, const Tensor& index, const Tensor& dy) {
  if (const Tensor sum = sum_in_place(b, 0); sum.defined())
    add_into("index_sum", sum, dim, index, dy);
  else
    b.give(0, index_sum(b.input_shape(0), dim, index, dy));
}

/// Copies the entries of x along dim given by `index`, of any shape, into y.
void select_into(const char* op, const char* what, const Tensor& x, int dim, const Tensor& index,
                 const Tensor& y) {
  const Tensor flat = checked_index(op, what, index, x.shape()[dim]),
               from = x.detach().contiguous();
  dispatch_any(op, x.dtype(), [&]<class T>(TypeTag<T>) {
    copy_entries(from.data<T>(), Blocks(x.shape(), dim), flat.data<int64_t>(), flat.numel(),
                 y.data<T>());
  });
}

}  // namespace

// y[i] = x[index_i]                                            dx[index_i] += dy[i]
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index) {
  ProfileScope scope("index_select");
  const int d = normalize_dim("index_select", dim, x.rank());
  check_shape("index_select", "index", index, {"n"});
  const Tensor y = empty(x.shape().with(d, index.numel()), x.dtype());
  select_into("index_select", "index", x, d, index, y);
  record("index_select", {y}, {x, index}, saves_input(1),
         [d](Backward& b) { give_entries(b, d, b.input(1), b.grad()); });
  return y;
}

// y = x, y[index_i] += src[i]                                  dx = dy, dsrc[i] = dy[index_i]
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src) {
  ProfileScope scope("index_add");
  return added("index_add", {add_into, index_select}, x.detach().clone(), dim, {x, index, src});
}

// y = 0, y[index_i] += src[i]                                  dsrc[i] = dy[index_i]
Tensor index_sum(const Shape& shape, int64_t dim, const Tensor& index, const Tensor& src) {
  ProfileScope scope("index_sum");
  return added("index_sum", {add_into, index_select}, zeros(shape, src.dtype()), dim,
               {{}, index, src});
}

// y[...] = weight[ids[...]]                                    dweight[ids[...]] += dy[...]
Tensor embedding(const Tensor& weight, const Tensor& ids) {
  ProfileScope scope("embedding");
  check_shape("embedding", "weight", weight, {"n", "d"});
  Shape shape = ids.shape();
  shape.push_back(weight.shape()[1]);
  if (is_compressed(weight.dtype())) {
    const Tensor y = empty(shape);
    embed_compressed(weight, checked_index("embedding", "id", ids, weight.size(0)), y);
    return y;
  }
  const Tensor y = empty(shape, weight.dtype());
  select_into("embedding", "id", weight, 0, ids, y);
  record("embedding", {y}, {weight, ids}, saves_input(1), [](Backward& b) {
    const int64_t n = b.input(1).numel(), d = b.input_shape(0)[1];
    give_entries(b, 0, b.input(1).reshape({n}), b.grad().reshape({n, d}));
  });
  return y;
}

Tensor one_hot(const Tensor& ids, int64_t classes, Dtype dtype) {
  ProfileScope scope("one_hot");
  check(ids.dtype() == int64, "one_hot: expected ids of int64, got ", ids.dtype());
  check(classes >= 1 || classes == -1,
        "one_hot: expected a number of classes, or -1 for the largest id's, got ", classes);
  check(classes >= 1 || ids.numel() > 0, "one_hot: no ids to infer the number of classes from");
  if (classes == -1) {
    const auto largest = max(ids).item<int64_t>();
    check(largest >= 0 && largest < INT64_MAX,
          "one_hot: cannot infer the number of classes from id ", largest);
    classes = largest + 1;
  }
  const Tensor flat = checked_index("one_hot", "id", ids, classes);
  Shape shape = ids.shape();
  shape.push_back(classes);
  const Tensor y = full("one_hot", shape, 0, dtype);
  dispatch_any("one_hot", dtype, [&]<class T>(TypeTag<T>) {
    T* to = y.data<T>();
    const int64_t* id = flat.data<int64_t>();
    for (int64_t i = 0; i < flat.numel(); ++i) to[i * classes + id[i]] = T{1};
  });
  return y;
}

// ---- positions and counts ----

Tensor nonzero(const Tensor& x) {
  ProfileScope scope("nonzero");
  const Tensor found = x != 0;
  const bool* p = found.data<bool>();
  const Tensor y = empty({sum(found).item<int64_t>(), x.rank()}, int64);
  int64_t* to = y.data<int64_t>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (!p[i]) continue;
    const Shape at = index_of(x.shape(), i);
    to = std::copy(at.begin(), at.end(), to);
  }
  return y;
}

Tensor bincount(const Tensor& x, const Tensor& weights, int64_t minlength) {
  check_shape("bincount", "x", x, {"n"});
  check(minlength >= 0, "bincount: expected minlength >= 0, got ", minlength);
  checked_index("bincount", "x", x, INT64_MAX);
  if (weights.defined()) {
    check_floating("bincount", weights);
    check_tensor("bincount", "weights", weights, weights.dtype(), x.shape());
  }
  const int64_t bins = x.numel() == 0 ? 0 : max(x).item<int64_t>() + 1;
  return index_sum({std::max(bins, minlength)}, 0, x, weights.defined() ? weights : ones_like(x));
}

// ---- sampling ----

namespace {

/// n draws from a row of k weights.
struct Draws {
  int64_t k, n;
  bool replacement;
};

/// Throws Error unless each row of p (rows, k) allows these draws.
template <class T>
void check_weights(const T* p, int64_t rows, const Draws& draws) {
  const FlushDenormals flush;  // as in draw: a denormal weight counts as 0
  for (int64_t row = 0; row < rows; ++row) {
    double total = 0;
    int64_t non_zero = 0;
    for (int64_t i = 0; i < draws.k; ++i) {
      const double weight = static_cast<double>(p[row * draws.k + i]);
      check(weight >= 0 && std::isfinite(weight), "multinomial: weight ", weight, " at position ",
            i, " of row ", row, ": expected finite weights >= 0");
      total += weight;
      non_zero += weight > 0;
    }
    check(total > 0 && std::isfinite(total), "multinomial: the weights of row ", row, " sum to ",
          total);
    check(draws.replacement || draws.n <= non_zero, "multinomial: ", draws.n,
          " draws without replacement from row ", row, ", which has ", non_zero,
          " non-zero weights");
  }
}

/// Draws from one row of weights by the inverse of the cumulative sum; the first draw uses the
/// `first`-th uniform number of key.
template <class T>
void draw(const T* p, const Draws& draws, RandomKey key, int64_t first, int64_t* out) {
  std::vector<double> weights(p, p + draws.k), cumulative(weights.size());
  for (int64_t j = 0; j < draws.n; ++j) {
    if (j == 0 || !draws.replacement)
      std::partial_sum(weights.begin(), weights.end(), cumulative.begin());
    const auto number = static_cast<uint64_t>(first + j);
    const auto words = philox(key, number / 2);
    const size_t word = number % 2 * 2;
    const double target = uniform_double(words[word], words[word + 1]) * cumulative.back();
    auto at = std::upper_bound(cumulative.begin(), cumulative.end(), target);
    // The target was rounded up to the sum: take the last non-zero weight.
    if (at == cumulative.end())
      at = std::lower_bound(cumulative.begin(), cumulative.end(), cumulative.back());
    out[j] = at - cumulative.begin();
    if (!draws.replacement) weights[static_cast<size_t>(out[j])] = 0;
  }
}

}  // namespace

Tensor multinomial(const Tensor& probs, int64_t n, bool replacement) {
  ProfileScope scope("multinomial");
  check_shape("multinomial", "probs", probs, {"...", "k"});
  check(n >= 1, "multinomial: expected at least one draw, got ", n);
  const Tensor p = probs.detach().contiguous(), out = empty(probs.shape().with(-1, n), int64);
  const int64_t k = probs.size(-1), rows = out.numel() / n;
  dispatch_floating("multinomial", probs.dtype(), [&]<class T>(TypeTag<T>) {
    const T* weights = p.data<T>();
    int64_t* indices = out.data<int64_t>();
    const Draws draws{k, n, replacement};
    check_weights(weights, rows, draws);
    const RandomKey key = default_generator().reserve(2 * rows * n);
    parallel_for_each(rows, grain / std::max<int64_t>(k * n, 1), [&](int64_t row) {
      draw(weights + row * k, draws, key, row * n, indices + row * n);
    });
  });
  return out;
}

}  // namespace gradus
