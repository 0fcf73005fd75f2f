#pragma once
// Tensor: a shared handle to an n-dimensional strided array, and to its place in the autograd
// graph.

#include <functional>

#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/modes.h"
#include "gradus/core/tensor/dtype.h"
#include "gradus/core/tensor/shape.h"

namespace gradus {

namespace core {
class Node;
struct TensorImpl;
}  // namespace core

struct ValuesAndIndices;  // of max and min along an axis: gradus/core/ops/ordering.h

/// A tensor. Copying a Tensor copies the handle, not the numbers: both see the same storage, the
/// same .grad and the same graph. A default-constructed Tensor is undefined and good for nothing
/// but assignment and defined().
///
/// Views (reshape where it can, transpose, slice, ...) share the storage and are differentiable.
/// Axes count from 0, or from the last with -1, -2, .... Every method throws Error on bad arguments
/// before it changes anything.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(std::shared_ptr<core::TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(std::nullptr_t) = delete;  // Tensor(0): write scalar(0) or zeros({0})
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  /// Another handle's tensor. Not of a passing one: `x[0] = y` would change nothing, and does not
  /// compile; write x[0].copy_(y).
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;

  // ---- what it is ----
  bool defined() const { return impl_ != nullptr; }  ///< false of a default-constructed one
  ///@{
  /// (3, 4) of three rows of four. Of a passing tensor, matmul(x, w).shape(), a copy.
  const Shape& shape() const&;
  Shape shape() const&& { return shape(); }
  ///@}
  ///@{
  /// Strides in elements; 0 along an expanded axis.
  const Shape& strides() const&;
  Shape strides() const&& { return strides(); }
  ///@}
  int rank() const { return shape().size(); }  ///< how many axes
  /// The size of an axis.
  int64_t size(int64_t dim) const;
  int64_t numel() const { return shape().numel(); }  ///< how many elements; 1 of rank 0
  Dtype dtype() const;                               ///< float32, float64, int64 or boolean
  /// True if the elements lie in row-major order without gaps.
  bool is_contiguous() const;
  /// The first element. Throws Error if T is not the tensor's element type.
  template <class T>
  requires Element<std::remove_const_t<T>> T* data() const {
    return static_cast<T*>(raw_data(dtype_of<std::remove_const_t<T>>));
  }

  // ---- numbers in and out ----
  /// The one element of a tensor of one element, of any dtype, as a C++ number. Throws Error where
  /// T is a whole number whose range does not hold it, or it is NaN.
  template <class T = double>
  T item() const {
    core::check(numel() == 1, "item: expected one element, got shape ", shape());
    return dispatch_any(dtype(), [&]<class From>(TypeTag<From>) {
      using Wide = std::conditional_t<WholeNumber<T>, int64_t, double>;
      return number_as<T>("item", number_as<Wide>("item", *data<From>()));
    });
  }
  /// The elements in row-major order, each converted to T as item() does: float, double, bool or a
  /// whole number of any width.
  template <class T>
  std::vector<T> to_vector() const {
    const Tensor x = detach().contiguous();
    std::vector<T> out(static_cast<size_t>(numel()));
    dispatch_any(dtype(), [&]<class From>(TypeTag<From>) {
      const From* from = x.data<From>();
      for (size_t i = 0; i < out.size(); ++i) out[i] = number_as<T>("to_vector", from[i]);
    });
    return out;
  }
  /// As a person reads it: nested brackets, aligned columns, large tensors abridged, then shape and
  /// dtype.
  std::string to_string() const;

  // ---- conversion and copies (differentiable) ----
  /// To int64 fractions are cut off; throws Error on NaN and on what is out of range.
  Tensor to(Dtype dtype) const;
  /// This tensor if it is contiguous, else a contiguous copy.
  Tensor contiguous() const;
  /// A copy with storage of its own.
  Tensor clone() const;

  // ---- views (differentiable) ----
  /// The same elements in another shape; one size may be -1. A view where strides allow, else a
  /// copy.
  Tensor reshape(const Shape& shape) const;
  /// As reshape, but throws Error where a copy would be needed.
  Tensor view(const Shape& shape) const;
  /// Axes [start, end] (both included) merged into one.
  Tensor flatten(int64_t start = 0, int64_t end = -1) const;
  /// Two axes exchanged.
  Tensor transpose(int64_t dim0, int64_t dim1) const;
  /// The last two axes exchanged.
  Tensor mT() const { return transpose(-2, -1); }
  /// Axes in the order given.
  Tensor permute(const Shape& order) const;
  /// Elements start, start+step, ... before end along `dim`. Negative start and end count from the
  /// end, both are clamped as in Python; step > 0.
  Tensor slice(int64_t dim, int64_t start, int64_t end = INT64_MAX, int64_t step = 1) const;
  /// Entry `index` along `dim`; the axis is dropped.
  Tensor select(int64_t dim, int64_t index) const;
  /// select(0, index).
  Tensor operator[](int64_t index) const { return select(0, index); }
  /// The entries along the first axis that `index`, int64 of any shape, lists: index's shape, then
  /// this one's without its first axis. C[x] are the vectors of the characters x.
  Tensor operator[](const Tensor& index) const;
  /// Stretched to `shape` as broadcasting does, without a copy; -1 keeps a size.
  Tensor expand(const Shape& shape) const;
  /// Without the axis, which must have size 1; without an argument: without all axes of size 1.
  Tensor squeeze(int64_t dim) const;
  Tensor squeeze() const;  ///< all axes of size 1
  /// With a new axis of size 1 at `dim`.
  Tensor unsqueeze(int64_t dim) const;
  /// Pieces of the sizes given along `dim`, as views; their gradients come back as one tensor.
  std::vector<Tensor> split(const Shape& sizes, int64_t dim) const;
  /// Pieces of `size` (the last may be smaller) along `dim`.
  template <WholeNumber I>  // so that split({2}, 0) is that of sizes
  std::vector<Tensor> split(I size, int64_t dim) const {
    return split_evenly(number_as<int64_t>("split", size), dim);
  }
  /// `n` pieces of nearly equal size, as torch.chunk.
  std::vector<Tensor> chunk(int64_t n, int64_t dim) const;

  // ---- ops as methods, for chains: x.exp().sum(-1).log() ----
  ///@{
  /// The function of that name, which says more: x.sum(1) is sum(x, 1).
  // Each is the function of that name, which says more (gradus/core/ops/): x.sum(1) is sum(x, 1).
  Tensor sum(const Axes& dims = {}, KeepDim keep = false) const;
  Tensor mean(const Axes& dims = {}, KeepDim keep = false) const;
  Tensor var(const Axes& dims = {}, int64_t correction = 1, KeepDim keep = false) const;
  template <std::same_as<bool> B>  // var(dims, true): keepdim or a correction of 1?
  Tensor var(const Axes& dims, B, KeepDim keep = false) const = delete;
  Tensor norm(const Axes& dims = {}, KeepDim keep = false) const;
  Tensor max() const;
  Tensor min() const;
  ValuesAndIndices max(Axis dim, KeepDim keep = false) const;
  ValuesAndIndices min(Axis dim, KeepDim keep = false) const;
  /// Where the largest of all elements stands, counted in row-major order.
  Tensor argmax() const;
  Tensor argmax(Axis dim, KeepDim keep = false) const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor abs() const;
  Tensor pow(double exponent) const;
  Tensor pow(const Tensor& exponent) const;
  Tensor tanh() const;
  Tensor sigmoid() const;
  Tensor relu() const;
  Tensor softmax(int64_t dim = -1) const;
  Tensor log_softmax(int64_t dim = -1) const;
  Tensor matmul(const Tensor& other) const;
  Tensor clamp(double low, double high) const;
  Tensor masked_fill(const Tensor& mask, double value) const;
  ///@}

  // ---- in place: only where no gradient is recorded; each raises the version ----
  // Each returns another handle to this tensor.
  // What is read may overlap what is written: the result is as if it had been copied first.
  /// Sets every element.
  Tensor fill_(double value) const;
  /// Sets every element to 0.
  Tensor zero_() const { return fill_(0); }
  /// Copies `source`, broadcast to this shape and converted to this dtype as to() does.
  Tensor copy_(const Tensor& source) const;
  /// this += alpha * other (broadcast to this shape).
  Tensor add_(const Tensor& other, double alpha = 1) const;
  /// this *= factor.
  Tensor mul_(double factor) const;

  // ---- with assignment: x += y, and so on ----
  // y is broadcast to x's shape. Where no gradient is recorded for x or y, x is written in place:
  // every handle to it and every view of it sees that, as with add_. Where one is recorded, x += y
  // is x = x + y: this handle gets a new tensor, other handles keep the old one, so that a sum in a
  // loop, loss += term, has the right gradient. A leaf that wants a gradient is not written while
  // gradients are recorded: that throws Error, open a NoGrad scope:
  //   { NoGrad no_grad; w -= lr * w.grad(); }
  // Not for a passing handle, x[0] += y does not compile, and not for a const one: there
  // x[0].add_(y).
  ///@{
  /// As above: in place where no gradient is recorded, else x = x + y.
  Tensor& operator+=(const Tensor& y) &;
  Tensor& operator-=(const Tensor& y) &;
  Tensor& operator*=(const Tensor& y) &;
  Tensor& operator/=(const Tensor& y) &;
  Tensor& operator+=(double y) &;
  Tensor& operator-=(double y) &;
  Tensor& operator*=(double y) &;
  Tensor& operator/=(double y) &;
  ///@}

  // ---- autograd ----
  /// True if gradients flow to or through this tensor.
  bool requires_grad() const;
  /// Marks a leaf (a tensor that no recorded op made) as wanting a gradient; floating dtypes only.
  Tensor requires_grad_(bool on = true) const;
  /// True if no recorded op made it.
  bool is_leaf() const;
  /// The gradient that backward() has summed here: undefined before the first. Never carries a
  /// graph.
  Tensor grad() const;
  /// Asks for the gradient of a tensor that an op made: from the next backward() on it is summed
  /// into this handle's grad(), as a leaf's is, without a graph and after the hooks. Does nothing
  /// on a leaf, and the second time. Throws Error on a tensor that wants no gradient.
  Tensor retain_grad() const;
  /// Replaces the gradient (undefined clears it). Throws Error unless shape and dtype are this
  /// tensor's.
  void set_grad(Tensor grad) const;
  /// The same numbers, out of the graph.
  Tensor detach() const;
  /// d(this)/d(leaves), summed into the leaves' grad(). `gradient`: the gradient of this tensor, 1
  /// if left out (then it must have one element). Unless `retain_graph`, the graph is freed on the
  /// way. Passes of several threads that reach one leaf must not run at the same time.
  void backward(const Tensor& gradient = {}, bool retain_graph = false) const;
  /// Calls `hook` with this tensor's whole gradient in each backward pass, before it is passed on
  /// or stored; a defined result replaces it, and so does what the hook writes in place. Returns an
  /// id for remove_hook. Throws Error if the hook holds this tensor: neither would ever be freed.
  int64_t register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// Takes a hook away again; of an unknown id it does nothing.
  void remove_hook(int64_t id) const;

  // ---- for ops ----
  /// What the tensor is made of. Throws Error where it is undefined.
  core::TensorImpl& impl() const;
  /// Null where it is undefined.
  const std::shared_ptr<core::TensorImpl>& impl_ptr() const { return impl_; }
  /// True if nothing else holds this tensor's storage: not another handle, view, saved tensor or
  /// .grad.
  bool is_sole_owner() const;

 private:
  std::vector<Tensor> split_evenly(int64_t size, int64_t dim) const;
  void* raw_data(Dtype wanted) const;
  std::shared_ptr<core::TensorImpl> impl_;
};

/// As to_string() writes it.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

namespace core {
/// Uninitialised, for ops to fill. All other factories: gradus/core/ops/factories.h.
Tensor empty(const Shape& shape, Dtype dtype = float32);
Tensor empty_like(const Tensor& x);  ///< of x's shape and dtype
/// Throws Error unless x is defined and of this dtype and shape:
/// "cross_entropy: expected targets of int64 (3,), got float32 (2,)".
void check_tensor(const char* op, const char* what, const Tensor& x, Dtype dtype,
                  const Shape& shape);
}  // namespace core

}  // namespace gradus
