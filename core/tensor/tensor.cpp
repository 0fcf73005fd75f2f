#include "gradus/core/tensor/tensor.h"

#include "gradus/core/internal.h"
#include "gradus/core/kernels/elementwise.h"
#include "gradus/core/ops/compression.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus {

// ---- shapes ----

Shape contiguous_strides(const Shape& shape) {
  Shape strides = Shape::filled(shape.size(), 1);
  for (int i = shape.size() - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * std::max<int64_t>(shape[i + 1], 1);
  return strides;
}

int64_t checked_numel(const char* op, const Shape& shape) {
  int64_t product = 1;  // of the nonzero sizes, which strides multiply too
  for (int64_t s : shape) {
    check(s >= 0, op, ": negative size in shape ", shape);
    check(!__builtin_mul_overflow(product, std::max<int64_t>(s, 1), &product) &&
              product <= INT64_MAX / 16,
          op, ": too many elements in shape ", shape);
  }
  return shape.numel();
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  Shape out = longer;
  for (int i = 1; i <= longer.size(); ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1;
    const int64_t y = i <= b.size() ? b[b.size() - i] : 1;
    check(x == y || x == 1 || y == 1, op, ": shapes do not broadcast: ", a, " and ", b);
    out[out.size() - i] = x == 1 ? y : x;
  }
  return out;
}

Shape index_of(const Shape& shape, int64_t i) {
  Shape index = shape;
  for (int axis = shape.size() - 1; axis >= 0; --axis) {
    index[axis] = i % shape[axis];
    i /= shape[axis];
  }
  return index;
}

int normalize_dim(const char* op, int64_t dim, int rank) {
  check(dim >= -rank && dim < rank, op, ": axis ", dim, " is out of range for rank ", rank);
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}

// ---- properties ----

TensorImpl& Tensor::impl() const {
  check(defined(), "tensor: used before it was given a value; a grad() has one after backward()");
  return *impl_;
}
const Shape& Tensor::shape() const& { return impl().shape; }
const Shape& Tensor::strides() const& { return impl().strides; }
Dtype Tensor::dtype() const { return impl().dtype; }
int64_t Tensor::size(int64_t dim) const { return shape()[normalize_dim("size", dim, rank())]; }

bool Tensor::is_contiguous() const {
  if (numel() == 0) return true;
  int64_t expected = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape()[i] != 1 && strides()[i] != expected) return false;
    expected *= shape()[i];
  }
  return true;
}

bool Tensor::is_sole_owner() const {
  return defined() && impl_.use_count() == 1 && impl_->storage.use_count() == 1 &&
         !impl_->storage->has_owner();
}

void* Tensor::raw_data(Dtype requested) const {
  const TensorImpl& t = impl();
  check(t.dtype == requested, "data: tensor holds ", t.dtype, ", requested ", requested);
  return t.storage->data() + t.offset * size_of(t.dtype);
}

// ---- new tensors ----

Tensor core::empty(const Shape& shape, Dtype dtype) {
  const int64_t numel = checked_numel("empty", shape);
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = std::make_shared<Storage>(numel * size_of(dtype));
  impl->shape = shape;
  impl->strides = contiguous_strides(shape);
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}
Tensor core::empty_like(const Tensor& x) { return empty(x.shape(), x.dtype()); }

void core::check_tensor(const char* op, const char* what, const Tensor& x, Dtype dtype,
                        const Shape& shape) {
  check(x.defined(), op, ": expected ", what, " of ", dtype, " ", shape, ", got nothing");
  check(x.dtype() == dtype && x.shape() == shape, op, ": expected ", what, " of ", dtype, " ",
        shape, ", got ", x.dtype(), " ", x.shape());
}

// ---- copies and conversion ----

namespace {
/// Copies x to a new contiguous tensor of `dtype`.
Tensor copy_as(const Tensor& x, Dtype dtype) {
  if (is_compressed(dtype) || is_compressed(x.dtype())) return recoded(x, dtype);
  Tensor y = empty(x.shape(), dtype);
  kernel::convert("to", x, y);
  return y;
}

/// Throws Error if `dtype` cannot hold some element of x.
void check_convertible(const char* op, const Tensor& x, Dtype dtype) {
  if (dtype != int64 || !is_floating(x.dtype())) return;
  const Tensor flat = x.detach().contiguous();
  dispatch_floating(op, x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* values = flat.data<T>();
    for (int64_t i = 0; i < flat.numel(); ++i) number_as<int64_t>(op, values[i]);
  });
}

/// The offset in x's storage just past its last element.
int64_t end_of(const TensorImpl& x) {
  int64_t end = x.offset + 1;
  for (int i = 0; i < x.shape.size(); ++i) end += (x.shape[i] - 1) * x.strides[i];
  return end;
}

/// Returns `source` for an op that overwrites `x` element by element: a copy if they overlap,
/// unless each element coincides with its counterpart.
Tensor apart_from(const Tensor& x, const Tensor& source) {
  const TensorImpl &to = x.impl(), &from = source.impl();
  if (to.storage != from.storage || x.numel() == 0 || source.numel() == 0) return source;
  const bool same =
      to.offset == from.offset && to.shape == from.shape && to.strides == from.strides;
  const bool meet = to.offset < end_of(from) && from.offset < end_of(to);
  return same || !meet ? source : source.detach().clone();
}

/// x = f(x, y) in place, per element.
template <class F>
void write_over(const char* op, const Tensor& x, const Tensor& y, const F& f) {
  check(y.dtype() == x.dtype(), op, ": dtypes differ: ", x.dtype(), " and ", y.dtype());
  const Tensor from = apart_from(x, y);
  dispatch_number(op, x.dtype(), [&]<class T>(TypeTag<T>) {
    begin_in_place(op, x);
    kernel::map<T, T, T>(x, x, from, [f](T u, T v) {
      using W = kernel::Wrapping<T>;
      return static_cast<T>(f(static_cast<W>(u), static_cast<W>(v)));
    });
  });
}
}  // namespace

Tensor Tensor::to(Dtype to) const {
  if (to == dtype()) return *this;
  check_convertible("to", *this, to);
  Tensor y = copy_as(*this, to);
  if (is_floating(to))
    record("to", {y}, {*this}, saves_nothing,
           [from = dtype()](Backward& b) { b.give(0, b.grad().to(from)); });
  return y;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  Tensor y = copy_as(*this, dtype());
  record("clone", {y}, {*this}, saves_nothing, [](Backward& b) { b.give(0, b.grad()); });
  return y;
}

// ---- in place ----

Tensor Tensor::fill_(double value) const {
  check_number("fill_", dtype(), value);
  dispatch_any("fill_", dtype(), [&]<class T>(TypeTag<T>) {
    begin_in_place("fill_", *this);
    const T v = static_cast<T>(value);
    kernel::map<T>(*this, [v] { return v; });
  });
  return *this;
}

Tensor Tensor::copy_(const Tensor& source) const {
  check(!(grad_enabled() && source.requires_grad()),
        "copy_: the source requires grad; in-place ops record no gradient");
  check(broadcast_shapes("copy_", shape(), source.shape()) == shape(), "copy_: source of shape ",
        source.shape(), " does not broadcast to ", shape());
  check_convertible("copy_", source, dtype());
  if (is_compressed(dtype())) return copy_compressed(source, *this);
  check(!is_compressed(source.dtype()), "copy_: expected a source that is not compressed, got ",
        source.dtype(), "; convert it with to()");
  begin_in_place("copy_", *this);
  kernel::convert("copy_", apart_from(*this, source), *this);
  return *this;
}

Tensor Tensor::add_(const Tensor& other, double alpha) const {
  check(!(grad_enabled() && other.requires_grad()),
        "add_: the addend requires grad; in-place ops record no gradient");
  check(broadcast_shapes("add_", shape(), other.shape()) == shape(), "add_: addend of shape ",
        other.shape(), " does not broadcast to ", shape());
  check_number("add_", dtype(), alpha);
  write_over("add_", *this, other, [alpha]<class W>(W x, W y) {
    using T = std::conditional_t<std::is_floating_point_v<W>, W, int64_t>;
    return x + static_cast<W>(static_cast<T>(alpha)) * y;
  });
  return *this;
}

Tensor Tensor::mul_(double factor) const {
  check_number("mul_", dtype(), factor);
  dispatch_number("mul_", dtype(), [&]<class T>(TypeTag<T>) {
    begin_in_place("mul_", *this);
    using W = kernel::Wrapping<T>;
    const W f = static_cast<W>(static_cast<T>(factor));
    kernel::map<T, T>(*this, *this, [f](T x) { return static_cast<T>(static_cast<W>(x) * f); });
  });
  return *this;
}

// ---- with assignment ----

namespace {

/// Returns whether `x op= y` records a gradient; `y` is y's shape. Throws Error if y does not
/// broadcast to x, or if x is a leaf that requires grad while gradients are recorded.
bool records(const char* op, const Tensor& x, const Shape& y, bool y_requires_grad) {
  check(broadcast_shapes(op, x.shape(), y) == x.shape(), op, ": shape ", y,
        " does not broadcast to ", x.shape());
  if (!grad_enabled() || !(x.requires_grad() || y_requires_grad)) return false;
  check(
      !(x.is_leaf() && x.requires_grad()), op,
      ": on a leaf that requires grad while gradients are recorded; open a NoGrad scope to change "
      "it in place, or use the op without =");
  return true;
}

/// Performs x op= y and returns x.
template <class Op>
Tensor& assign(const char* name, Tensor& x, const Tensor& y, const Op& op) {
  if (records(name, x, y.shape(), y.requires_grad())) return x = op(x, y);
  write_over(name, x, y, op);
  return x;
}

template <class Op>
Tensor& assign(const char* name, Tensor& x, double y, const Op& op) {
  check_number(name, x.dtype(), y);
  if (records(name, x, {}, false)) return x = op(x, y);
  write_over(name, x, scalar(y, x.dtype()), op);
  return x;
}

}  // namespace

Tensor& Tensor::operator+=(const Tensor& y) & {
  return assign("operator+=", *this, y, std::plus<>());
}
Tensor& Tensor::operator-=(const Tensor& y) & {
  return assign("operator-=", *this, y, std::minus<>());
}
Tensor& Tensor::operator*=(const Tensor& y) & {
  return assign("operator*=", *this, y, std::multiplies<>());
}
Tensor& Tensor::operator/=(const Tensor& y) & {
  check(is_floating(dtype()), "operator/=: expected float32 or float64, got ", dtype());
  return assign("operator/=", *this, y, std::divides<>());
}
Tensor& Tensor::operator+=(double y) & { return assign("operator+=", *this, y, std::plus<>()); }
Tensor& Tensor::operator-=(double y) & { return assign("operator-=", *this, y, std::minus<>()); }
Tensor& Tensor::operator*=(double y) & {
  return assign("operator*=", *this, y, std::multiplies<>());
}
Tensor& Tensor::operator/=(double y) & {
  check(is_floating(dtype()), "operator/=: expected float32 or float64, got ", dtype());
  return assign("operator/=", *this, y, std::divides<>());
}

}  // namespace gradus
