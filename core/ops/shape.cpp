#include "gradus/core/ops/shape.h"

#include "gradus/core/kernels/elementwise.h"
#include "gradus/core/ops/axis_rows.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/reduction.h"

namespace gradus {

// ---- views ----

namespace {

/// The requested shape with -1 replaced by the size that fits.
Shape resolve_shape(const char* op, const Tensor& x, Shape shape) {
  int unknown = -1;
  Shape others = shape;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1) continue;
    check(unknown < 0, op, ": more than one -1 in ", shape);
    unknown = i;
    others[i] = 1;
  }
  const int64_t known = checked_numel(op, others);
  const bool fits = unknown < 0 ? known == x.numel() : known != 0 && x.numel() % known == 0;
  check(fits, op, ": ", x.shape(), " has ", x.numel(), " elements, which do not fit ", shape);
  if (unknown >= 0) shape[unknown] = x.numel() / known;
  return shape;
}

/// Finds the strides with which x's storage can be viewed as `shape`; false if there are none. Each
/// new axis must lie within a run of old axes that are contiguous among themselves.
bool view_strides(const Tensor& x, const Shape& shape, Shape& strides) {
  strides = contiguous_strides(shape);
  if (x.numel() == 0 || x.is_contiguous()) return true;
  int axis = shape.size() - 1;
  int old = x.rank() - 1;
  while (old >= 0) {
    const int64_t unit = x.strides()[old];
    int64_t run = x.shape()[old];
    while (old > 0 && (x.shape()[old - 1] == 1 || x.strides()[old - 1] == unit * run))
      run *= x.shape()[--old];
    --old;
    int64_t filled = 1;
    while (axis >= 0 && (filled < run || shape[axis] == 1)) {
      strides[axis] = unit * filled;
      filled *= shape[axis--];
    }
    if (filled != run) return false;
  }
  return true;
}

Tensor record_reshape(const Tensor& x, Tensor y) {
  record("reshape", {y}, {x}, saves_nothing,
         [](Backward& b) { b.give(0, b.grad().reshape(b.input_shape(0))); });
  return y;
}

}  // namespace

Tensor Tensor::view(const Shape& requested) const {
  const Shape shape = resolve_shape("view", *this, requested);
  Shape strides;
  check(view_strides(*this, shape, strides), "view: ", this->shape(), " with strides ",
        this->strides(), " cannot be viewed as ", shape, " without a copy; use reshape");
  return record_reshape(*this, view_of(*this, shape, strides));
}

Tensor Tensor::reshape(const Shape& requested) const {
  const Shape shape = resolve_shape("reshape", *this, requested);
  if (shape == this->shape()) return *this;
  Shape strides;
  if (view_strides(*this, shape, strides))
    return record_reshape(*this, view_of(*this, shape, strides));
  return clone().view(shape);
}

Tensor Tensor::flatten(int64_t start, int64_t end) const {
  if (rank() == 0) return reshape({1});
  const int first = normalize_dim("flatten", start, rank());
  const int last = normalize_dim("flatten", end, rank());
  check(first <= last, "flatten: axis ", start, " comes after axis ", end);
  Shape merged;
  for (int i = 0; i < rank(); ++i)
    if (i > first && i <= last)
      merged.back() *= shape()[i];
    else
      merged.push_back(shape()[i]);
  return reshape(merged);
}

Tensor Tensor::permute(const Shape& order) const {
  check(order.size() == rank(), "permute: expected ", rank(), " axes, got ", order);
  Shape sizes, steps, inverse = Shape::filled(rank(), -1);
  for (int i = 0; i < rank(); ++i) {
    const int axis = normalize_dim("permute", order[i], rank());
    check(inverse[axis] == -1, "permute: axis ", axis, " appears twice in ", order);
    inverse[axis] = i;
    sizes.push_back(shape()[axis]);
    steps.push_back(strides()[axis]);
  }
  Tensor y = view_of(*this, sizes, steps);
  record("permute", {y}, {*this}, saves_nothing,
         [inverse](Backward& b) { b.give(0, b.grad().permute(inverse)); });
  return y;
}

Tensor Tensor::transpose(int64_t dim0, int64_t dim1) const {
  Shape order;
  for (int i = 0; i < rank(); ++i) order.push_back(i);
  std::swap(order[normalize_dim("transpose", dim0, rank())],
            order[normalize_dim("transpose", dim1, rank())]);
  return permute(order);
}

Tensor Tensor::slice(int64_t dim, int64_t start, int64_t end, int64_t step) const {
  const int axis = normalize_dim("slice", dim, rank());
  check(step > 0, "slice: step must be positive, got ", step);
  const int64_t n = shape()[axis];
  auto clamped = [n](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + n : i, 0, n); };
  start = clamped(start);
  end = std::max(clamped(end), start);
  step = std::min(step, std::max<int64_t>(n, 1));  // a larger step selects the same and overflows
  const int64_t count = (end - start) / step + ((end - start) % step != 0);
  const int64_t own = strides()[axis];
  Tensor y =
      view_of(*this, shape().with(axis, count), strides().with(axis, step * own), start * own);
  record("slice", {y}, {*this}, saves_nothing, [axis, start, end, step](Backward& b) {
    if (const Tensor sum = sum_in_place(b, 0); sum.defined())
      sum.slice(axis, start, end, step).add_(b.grad());
    else
      b.give(0, pad_slice(b.grad(), b.input_shape(0), axis, start, step));
  });
  return y;
}

Tensor Tensor::select(int64_t dim, int64_t index) const {
  const int axis = normalize_dim("select", dim, rank());
  const int64_t n = shape()[axis];
  check(index >= -n && index < n, "select: index ", index, " is outside axis ", dim, " of size ",
        n);
  if (index < 0) index += n;
  return slice(axis, index, index + 1).squeeze(axis);
}

Tensor Tensor::expand(const Shape& requested) const {
  Shape sizes = requested;
  check(sizes.size() >= rank(), "expand: ", shape(), " has more axes than ", requested);
  Shape steps = Shape::filled(sizes.size(), 0);
  for (int i = 0; i < sizes.size(); ++i) {
    const int own = i - (sizes.size() - rank());
    if (sizes[i] == -1 && own >= 0) sizes[i] = shape()[own];
    const bool fits = sizes[i] >= 0 && (own < 0 || shape()[own] == 1 || shape()[own] == sizes[i]);
    check(fits, "expand: ", shape(), " does not expand to ", requested);
    if (own >= 0 && shape()[own] == sizes[i]) steps[i] = strides()[own];
  }
  if (sizes == shape()) return *this;
  checked_numel("expand", sizes);
  Tensor y = view_of(*this, sizes, steps);
  record("expand", {y}, {*this}, saves_nothing,
         [](Backward& b) { b.give(0, sum_to(b.grad(), b.input_shape(0))); });
  return y;
}

Tensor Tensor::squeeze(int64_t dim) const {
  const int axis = normalize_dim("squeeze", dim, rank());
  check(shape()[axis] == 1, "squeeze: axis ", dim, " of ", shape(), " does not have size 1");
  return view(shape().without(axis));
}

Tensor Tensor::squeeze() const {
  Shape sizes;
  for (const int64_t size : shape())
    if (size != 1) sizes.push_back(size);
  return view(sizes);
}

Tensor Tensor::unsqueeze(int64_t dim) const {
  Shape sizes = shape();
  sizes.insert(normalize_dim("unsqueeze", dim, rank() + 1), 1);
  return view(sizes);
}

std::vector<Tensor> Tensor::split(const Shape& sizes, int64_t dim) const {
  return split_into(*this, {sizes.begin(), sizes.end()}, dim);
}

std::vector<Tensor> Tensor::split_evenly(int64_t size, int64_t dim) const {
  const int64_t n = this->size(dim);
  check(size > 0, "split: size must be positive, got ", size);
  std::vector<int64_t> sizes;
  for (int64_t at = 0; at < n; at += size) sizes.push_back(std::min(size, n - at));
  if (sizes.empty()) sizes.push_back(0);
  return split_into(*this, sizes, dim);
}

std::vector<Tensor> Tensor::chunk(int64_t n, int64_t dim) const {
  check(n > 0, "chunk: expected at least one piece, got ", n);
  const int64_t length = size(dim);
  check(length > 0 || n <= 1 << 30, "chunk: expected at most 2^30 empty pieces, got ", n);
  if (length == 0) return split_into(*this, std::vector<int64_t>(static_cast<size_t>(n)), dim);
  return split(length / n + (length % n != 0), dim);
}

std::vector<Tensor> split_into(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim) {
  const int axis = normalize_dim("split", dim, x.rank());
  int64_t total = 0;
  for (int64_t size : sizes) {
    check(size >= 0 && size <= x.shape()[axis], "split: no piece of size ", size, " fits axis ",
          dim, " of ", x.shape());
    total += size;
  }
  check(total == x.shape()[axis], "split: the sizes sum to ", total, ", but axis ", dim, " of ",
        x.shape(), " has ", x.shape()[axis]);
  std::vector<Tensor> pieces;
  int64_t at = 0;
  for (int64_t size : sizes) {
    pieces.push_back(view_of(x, x.shape().with(axis, size), x.strides(), at * x.strides()[axis]));
    at += size;
  }
  record("split", pieces, {x}, saves_nothing, [axis, n = pieces.size()](Backward& b) {
    std::vector<Tensor> gradients;
    for (size_t i = 0; i < n; ++i) gradients.push_back(b.grad(static_cast<int>(i)));
    b.give(0, cat(gradients, axis));
  });
  return pieces;
}

// ---- joining and splitting ----

Tensor cat(const std::vector<Tensor>& tensors, int64_t dim) {
  const ProfileScope scope("cat");
  check(!tensors.empty(), "cat: expected at least one tensor");
  const Tensor& first = tensors[0];
  const int axis = normalize_dim("cat", dim, first.rank());
  Shape shape = first.shape().with(axis, 0);
  std::vector<int64_t> sizes;
  for (const Tensor& x : tensors) {
    check(x.dtype() == first.dtype(), "cat: dtypes differ: ", first.dtype(), " and ", x.dtype());
    Shape rest = x.shape();
    if (rest.size() == shape.size()) rest[axis] = shape[axis];
    check(rest == shape, "cat: shapes differ outside axis ", dim, ": ", first.shape(), " and ",
          x.shape());
    sizes.push_back(x.shape()[axis]);
    check(!__builtin_add_overflow(shape[axis], sizes.back(), &shape[axis]), "cat: axis ", dim,
          " would be too long");
  }
  Tensor y = empty(shape, first.dtype());
  int64_t at = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    shape[axis] = sizes[i];
    kernel::convert("cat", tensors[i], view_of(y, shape, y.strides(), at * y.strides()[axis]));
    at += sizes[i];
  }
  record("cat", {y}, tensors, saves_nothing, [axis, sizes](Backward& b) {
    const std::vector<Tensor> pieces = split_into(b.grad(), sizes, axis);
    for (size_t i = 0; i < pieces.size(); ++i) b.give(static_cast<int>(i), pieces[i]);
  });
  return y;
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t dim) {
  check(!tensors.empty(), "stack: expected at least one tensor");
  const int axis = normalize_dim("stack", dim, tensors[0].rank() + 1);
  std::vector<Tensor> rows;
  for (const Tensor& x : tensors) {
    check(x.shape() == tensors[0].shape(), "stack: shapes differ: ", tensors[0].shape(), " and ",
          x.shape());
    rows.push_back(x.unsqueeze(axis));
  }
  return cat(rows, axis);
}

std::vector<Tensor> unbind(const Tensor& x, int64_t dim) {
  const int axis = normalize_dim("unbind", dim, x.rank());
  const int64_t n = x.shape()[axis], step = x.strides()[axis];
  if (n == 0) return {};
  const Shape shape = x.shape().without(axis), strides = x.strides().without(axis);
  std::vector<Tensor> entries;
  for (int64_t i = 0; i < n; ++i) entries.push_back(view_of(x, shape, strides, i * step));
  record("unbind", entries, {x}, saves_nothing, [axis, n](Backward& b) {
    std::vector<Tensor> gradients;
    for (int64_t i = 0; i < n; ++i) gradients.push_back(b.grad(static_cast<int>(i)));
    b.give(0, stack(gradients, axis));
  });
  return entries;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  check(broadcast_shapes("sum_to", x.shape(), shape) == x.shape(), "sum_to: ", shape,
        " does not broadcast to ", x.shape());
  const int extra = x.rank() - shape.size();
  Shape axes;
  for (int i = 0; i < x.rank(); ++i)
    if (i < extra || (shape[i - extra] == 1 && x.shape()[i] != 1)) axes.push_back(i);
  return (axes.empty() ? x : sum(x, axes, keepdim)).reshape(shape);
}

Tensor pad_slice(const Tensor& x, const Shape& shape, int64_t dim, int64_t start, int64_t step) {
  const ProfileScope scope("pad_slice");
  const int axis = normalize_dim("pad_slice", dim, shape.size());
  Shape expected = shape;
  if (x.rank() == shape.size()) expected[axis] = x.shape()[axis];
  const int64_t n = expected[axis], room = shape[axis] - std::max<int64_t>(start, 0);
  // The last element, start + (n - 1) step, could overflow.
  const bool fits =
      start >= 0 && step > 0 && room >= 0 && n <= (room == 0 ? 0 : 1 + (room - 1) / step);
  check(x.shape() == expected && fits, "pad_slice: ", x.shape(), " is not a slice from ", start,
        " by ", step, " along axis ", dim, " of ", shape);
  const Tensor y = zeros(shape, x.dtype());
  const int64_t own = y.strides()[axis], apart = n > 1 ? step : 1;
  kernel::convert("pad_slice", x,
                  view_of(y, x.shape(), y.strides().with(axis, apart * own), start * own));
  record("pad_slice", {y}, {x}, saves_nothing, [axis, start, apart](Backward& b) {
    const int64_t end = start + b.input_shape(0)[axis] * apart;
    b.give(0, b.grad().slice(axis, start, end, apart));
  });
  return y;
}

// ---- flipping, rolling, repeating, padding ----

// Copies into a view of y with negative strides.
Tensor flip(const Tensor& x, const Axes& dims) {
  const ProfileScope scope("flip");
  const Tensor y = empty(x.shape(), x.dtype());
  Shape strides = y.strides(), flipped = Shape::filled(x.rank(), 0);
  int64_t last = 0;  // where y's view starts
  for (int64_t dim : dims) {
    const int axis = normalize_dim("flip", dim, x.rank());
    check(flipped[axis]++ == 0, "flip: axis ", dim, " is given twice in ", dims);
    last += std::max<int64_t>(x.shape()[axis] - 1, 0) * strides[axis];
    strides[axis] *= -1;
  }
  kernel::convert("flip", x, view_of(y, x.shape(), strides, last));
  record("flip", {y}, {x}, saves_nothing, [dims](Backward& b) { b.give(0, flip(b.grad(), dims)); });
  return y;
}

Tensor roll(const Tensor& x, int64_t shift, Axis dim) {
  const ProfileScope scope("roll");
  const int axis = normalize_dim("roll", dim, x.rank());
  const int64_t n = x.shape()[axis];
  shift = n > 0 ? shift % n : 0;
  if (shift < 0) shift += n;
  const Tensor y = empty(x.shape(), x.dtype()), from = x.detach();
  kernel::convert("roll", from.slice(axis, 0, n - shift), y.slice(axis, shift));
  kernel::convert("roll", from.slice(axis, n - shift), y.slice(axis, 0, shift));
  record("roll", {y}, {x}, saves_nothing,
         [shift, axis](Backward& b) { b.give(0, roll(b.grad(), -shift, axis)); });
  return y;
}

Tensor roll(const Tensor& x, const Shape& shifts, const Axes& dims) {
  check(shifts.size() == dims.size(), "roll: ", shifts.size(), " shifts ", shifts, " for ",
        dims.size(), " axes ", dims);
  Tensor y = x;
  for (int i = 0; i < dims.size(); ++i) y = roll(y, shifts[i], dims[i]);
  return dims.empty() ? x.clone() : y;
}

Tensor roll(const Tensor& x, int64_t shift) {
  return roll(x.reshape({-1}), shift, 0).reshape(x.shape());
}

// Repeats one axis at a time, the last first, by expanding (outer, 1, n) to (outer, times, n).
Tensor repeat(const Tensor& x, const Shape& sizes) {
  const int added = sizes.size() - x.rank();
  check(added >= 0, "repeat: expected a size for each axis of ", x.shape(), ", got ", sizes);
  Shape shape = x.shape();
  for (int i = 0; i < added; ++i) shape.insert(0, 1);
  for (int64_t times : sizes) check(times >= 0, "repeat: negative size in ", sizes);
  Tensor y = x;
  bool copied = false;
  for (int axis = sizes.size() - 1; axis >= 0; --axis) {
    const int64_t times = sizes[axis];
    if (times == 1) continue;
    const Blocks b(shape, axis);
    const int64_t n = b.n * b.inner;
    y = y.reshape({b.outer, 1, n}).expand({b.outer, times, n}).contiguous();
    copied = true;
    check(!__builtin_mul_overflow(shape[axis], times, &shape[axis]), "repeat: too many elements");
  }
  return (copied ? y : y.clone()).reshape(shape);
}

Tensor pad(const Tensor& x, const std::vector<int64_t>& padding, double value) {
  const ProfileScope scope("pad");
  const auto count = static_cast<int64_t>(padding.size());
  check(count % 2 == 0 && count <= 2 * x.rank(), "pad: expected pairs for at most the ", x.rank(),
        " axes of ", x.shape(), ", got ", count, " numbers");
  Shape shape = x.shape(), start = Shape::filled(x.rank(), 0);
  for (int i = 0; i < count / 2; ++i) {
    const int axis = x.rank() - 1 - i;
    const int64_t before = padding[static_cast<size_t>(2 * i)];
    const int64_t after = padding[static_cast<size_t>(2 * i + 1)];
    check(before >= 0 && after >= 0, "pad: negative padding (", before, ", ", after, ") of axis ",
          axis, "; use slice to crop");
    start[axis] = before;
    const bool overflow = __builtin_add_overflow(shape[axis], before, &shape[axis]) ||
                          __builtin_add_overflow(shape[axis], after, &shape[axis]);
    check(!overflow, "pad: axis ", axis, " would be too long");
  }
  checked_numel("pad", shape);
  const Tensor y = full("pad", shape, value, x.dtype());
  int64_t first = 0;
  for (int i = 0; i < x.rank(); ++i) first += start[i] * y.strides()[i];
  kernel::convert("pad", x, view_of(y, x.shape(), y.strides(), first));
  record("pad", {y}, {x}, saves_nothing, [start](Backward& b) {
    Tensor inner = b.grad();
    const Shape& shape = b.input_shape(0);
    for (int i = 0; i < shape.size(); ++i)
      if (shape[i] != inner.shape()[i]) inner = inner.slice(i, start[i], start[i] + shape[i]);
    b.give(0, inner);
  });
  return y;
}

}  // namespace gradus
