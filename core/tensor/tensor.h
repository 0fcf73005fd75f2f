#pragma once
// Tensor: a shared handle to an n-dimensional strided array and its autograd state.

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

struct ValuesAndIndices;  // gradus/core/ops/ordering.h

/// A tensor. Copying a Tensor copies the handle, not the elements: both handles share the storage,
/// .grad and the graph. A default-constructed Tensor is undefined: defined() returns false, and
/// using its shape, elements or gradient throws Error.
///
/// Views, such as transpose, slice and, where possible, reshape, share the storage and are
/// differentiable. Axes count from 0, or from the end with -1, -2, and so on. On bad arguments
/// every method throws Error before it changes anything.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(std::shared_ptr<core::TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(std::nullptr_t) = delete;  // instead of Tensor(0) write scalar(0) or zeros({0})
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  /// Makes this handle refer to another tensor. Does not compile on a temporary, because `x[0] = y`
  /// would change nothing: write x[0].copy_(y).
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;

  // ---- properties ----
  bool defined() const { return impl_ != nullptr; }  ///< false if default-constructed
  ///@{
  /// Returns the sizes of the axes, for example (3, 4) for three rows of four elements. On a
  /// temporary tensor it returns a copy, not a reference.
  const Shape& shape() const&;
  Shape shape() const&& { return shape(); }
  ///@}
  ///@{
  /// Returns the strides in elements. The stride along an expanded axis is 0.
  const Shape& strides() const&;
  Shape strides() const&& { return strides(); }
  ///@}
  int rank() const { return shape().size(); }  ///< number of axes
  /// Returns the size of an axis.
  int64_t size(int64_t dim) const;
  int64_t numel() const { return shape().numel(); }  ///< number of elements; 1 for rank 0
  Dtype dtype() const;                               ///< type of the elements
  /// Returns whether the elements are in row-major order without gaps; true if there are none.
  bool is_contiguous() const;
  /// Returns a pointer to the first element. Throws Error if T is not the tensor's element type.
  template <class T>
  requires Element<std::remove_const_t<T>> T* data() const {
    return static_cast<T*>(raw_data(dtype_of<std::remove_const_t<T>>));
  }

  // ---- elements as C++ values ----
  /// Returns the element of a one-element tensor of any dtype except bfloat16 and int8, converted
  /// to T. Throws Error for other tensors, and if T is an integer type other than bool and the
  /// element is NaN or, without its fraction, out of T's range.
  template <class T = double>
  T item() const {
    core::check(numel() == 1, "item: expected one element, got shape ", shape());
    const auto get = [&]<class U>(TypeTag<U>) { return number_as<T>("item", *data<U>()); };
    return dispatch_any("item", dtype(), get);
  }
  /// Returns the elements in row-major order, each converted to T as by item(). T is float, double,
  /// bool or any integer type.
  template <class T>
  std::vector<T> to_vector() const {
    const Tensor x = detach().contiguous();
    std::vector<T> out(static_cast<size_t>(numel()));
    dispatch_any("to_vector", dtype(), [&]<class From>(TypeTag<From>) {
      const From* from = x.data<From>();
      for (size_t i = 0; i < out.size(); ++i) out[i] = number_as<T>("to_vector", from[i]);
    });
    return out;
  }
  /// Returns the tensor as text: nested brackets with aligned columns, shortened for large tensors,
  /// followed by dtype and shape. Returns "tensor(undefined)" for an undefined tensor. A view of an
  /// int8 matrix has no scales: "[...]" replaces its elements.
  std::string to_string() const;

  // ---- conversion and copies (differentiable) ----
  /// Returns this tensor if it has this dtype, else a converted copy. Conversion to int64
  /// truncates, and throws Error on NaN and on values out of range. A float32 tensor can be
  /// converted to bfloat16, and a float32 matrix of finite elements to int8. Tensors of these two
  /// dtypes have no gradient. They can be passed as weights to linear, updated_linear, feed_forward
  /// and embedding, and can be converted back, except for views that clone() cannot copy.
  Tensor to(Dtype dtype) const;
  /// Returns this tensor if it is contiguous, else a copy by clone().
  Tensor contiguous() const;
  /// Returns a contiguous copy in new storage. Throws Error for a view of a compressed tensor that
  /// is not contiguous or, in int8, not the whole tensor.
  Tensor clone() const;

  // ---- views (differentiable) ----
  /// Returns the same elements in another shape. One size may be -1: it is computed from the
  /// others. Returns this tensor if it has this shape already, else a view if the strides allow it,
  /// else a copy.
  Tensor reshape(const Shape& shape) const;
  /// Returns a new view of the elements in another shape. One size may be -1, as in reshape. Throws
  /// Error if the strides would require a copy.
  Tensor view(const Shape& shape) const;
  /// Returns the elements with the axes from start to end, both included, merged into one by
  /// reshape. A tensor of rank 0 becomes a tensor of shape (1).
  Tensor flatten(int64_t start = 0, int64_t end = -1) const;
  /// Swaps two axes.
  Tensor transpose(int64_t dim0, int64_t dim1) const;
  /// Swaps the last two axes.
  Tensor mT() const { return transpose(-2, -1); }
  /// Reorders the axes: axis i of the result is axis order[i] of this tensor.
  Tensor permute(const Shape& order) const;
  /// Returns the entries start, start + step, ... along `dim`, up to but excluding end; step > 0.
  /// As in Python, a negative start or end counts from the end of the axis, and both are clamped to
  /// [0, size(dim)].
  Tensor slice(int64_t dim, int64_t start, int64_t end = INT64_MAX, int64_t step = 1) const;
  /// Returns entry `index` along `dim`, without that axis. A negative `index` counts from the end.
  Tensor select(int64_t dim, int64_t index) const;
  /// Returns select(0, index).
  Tensor operator[](int64_t index) const { return select(0, index); }
  /// Returns copies of the entries along the first axis at the positions in `index`, an int64
  /// tensor of any shape. The result's shape is the shape of `index` followed by this shape without
  /// its first axis. For example, if C is an embedding table, C[ids] are the embeddings of `ids`.
  /// Throws Error if a position is negative or too large.
  Tensor operator[](const Tensor& index) const;
  /// Broadcasts to `shape` without a copy. -1 in `shape` keeps the size of that axis.
  Tensor expand(const Shape& shape) const;
  /// Removes axis `dim`, which must have size 1.
  Tensor squeeze(int64_t dim) const;
  Tensor squeeze() const;  ///< removes all axes of size 1
  /// Inserts an axis of size 1 at `dim`.
  Tensor unsqueeze(int64_t dim) const;
  /// Splits into views of the given sizes along `dim`. The sizes must add up to the size of the
  /// axis. A Shape holds at most max_rank sizes; split_into() accepts more. Backward concatenates
  /// the views' gradients.
  std::vector<Tensor> split(const Shape& sizes, int64_t dim) const;
  /// Splits into views of size `size` along `dim`; the last may be smaller.
  template <WholeNumber I>  // split({2}, 0) must call the overload above
  std::vector<Tensor> split(I size, int64_t dim) const {
    return split_evenly(number_as<int64_t>("split", size), dim);
  }
  /// Splits into at most `n` views of equal size along `dim`, like torch.chunk; the last may be
  /// smaller.
  std::vector<Tensor> chunk(int64_t n, int64_t dim) const;

  // ---- ops as methods, for chains such as x.exp().sum(-1).log() ----
  ///@{
  /// Calls the function of the same name (gradus/core/ops/): x.sum(1) is sum(x, 1).
  Tensor sum(const Axes& dims = {}, KeepDim keep = false) const;
  Tensor mean(const Axes& dims = {}, KeepDim keep = false) const;
  Tensor var(const Axes& dims = {}, int64_t correction = 1, KeepDim keep = false) const;
  template <std::same_as<bool> B>  // in var(dims, true), true could be keepdim or a correction of 1
  Tensor var(const Axes& dims, B, KeepDim keep = false) const = delete;
  Tensor norm(const Axes& dims = {}, KeepDim keep = false) const;
  Tensor max() const;
  Tensor min() const;
  ValuesAndIndices max(Axis dim, KeepDim keep = false) const;
  ValuesAndIndices min(Axis dim, KeepDim keep = false) const;
  /// Returns the row-major index of the largest element.
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

  // ---- in place, without recording a gradient ----
  // Each of these increments the storage's version and returns a handle to this tensor. Each
  // throws Error if an axis of this tensor is expanded, or if this tensor or the operand requires
  // grad while gradients are recorded (a NoGrad scope avoids this error). Backward throws Error if
  // it reads a tensor with this storage that the graph saved before the change. The operand may
  // overlap this tensor; the result is as if the operand were a copy.
  /// Sets every element to `value`. Throws Error if the dtype is bfloat16 or int8, or if it is
  /// int64 and `value` is not an integer in int64's range.
  Tensor fill_(double value) const;
  /// Sets every element to 0.
  Tensor zero_() const { return fill_(0); }
  /// Copies `source`, broadcast to this shape and converted to this dtype as by to(). bfloat16 and
  /// int8 are not converted: both tensors must then have the same dtype and shape.
  Tensor copy_(const Tensor& source) const;
  /// Computes this += alpha * other. `other` is broadcast to this shape and must have this dtype,
  /// which is float32, float64 or int64. For int64, alpha must be an integer.
  Tensor add_(const Tensor& other, double alpha = 1) const;
  /// Computes this *= factor. The dtype must be float32, float64 or int64. For int64, factor must
  /// be an integer.
  Tensor mul_(double factor) const;

  // ---- compound assignment: x += y, x -= y, x *= y, x /= y ----
  // y is broadcast to x's shape. If no gradient is recorded for x or y, x is overwritten in place,
  // and all its handles and views see the change, as with add_. Otherwise x += y means x = x + y:
  // this handle refers to a new tensor, and other handles keep the old one. Accumulating in a loop,
  // loss += term, therefore gives the right gradient. If x is a leaf that requires grad, x += y
  // throws Error while gradients are recorded. Open a NoGrad scope:
  //   { NoGrad no_grad; w -= lr * w.grad(); }
  // On temporary and const handles these operators do not compile: instead of x[0] += y write
  // x[0].add_(y).
  ///@{
  /// Computes x + y, x - y, x * y or x / y, where x is this tensor and y is broadcast to x's shape.
  /// If no gradient is recorded for x or y, overwrites x in place, else makes this handle refer to
  /// a new tensor. Throws Error if x is a leaf that requires grad while gradients are recorded.
  /// Division throws Error unless x is float32 or float64.
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
  /// Returns whether gradients flow to or through this tensor.
  bool requires_grad() const;
  /// Sets whether this leaf requires grad. Throws Error if a recorded op computed the tensor, which
  /// is then not a leaf, or if `on` is true and the dtype is not float32 or float64.
  Tensor requires_grad_(bool on = true) const;
  /// Returns true if no recorded op computed this tensor.
  bool is_leaf() const;
  /// Returns the gradient accumulated by backward(), or an undefined tensor if there is none. The
  /// gradient is never part of a graph.
  Tensor grad() const;
  /// Makes backward() also accumulate the gradient of this non-leaf in grad(), after the tensor's
  /// hooks have run. Does nothing on a leaf or when called again. Throws Error if the tensor does
  /// not require grad.
  Tensor retain_grad() const;
  /// Replaces the gradient; an undefined `grad` clears it. Throws Error if a defined `grad` differs
  /// from this tensor in shape or dtype.
  void set_grad(Tensor grad) const;
  /// Returns a view of the same storage, outside the graph.
  Tensor detach() const;
  /// Computes the gradient of each leaf that requires grad and that this tensor depends on, and
  /// adds it to the leaf's grad(). The pass starts from `gradient`, the gradient with respect to
  /// this tensor. An undefined `gradient` means 1; this tensor must then have one element. Frees
  /// the graph on the way unless `retain_graph` is set. Throws Error if this tensor does not
  /// require grad, if an earlier pass has freed the graph, or if a rule reads a tensor that was
  /// changed in place after the graph saved it. If a hook or rule throws, leaves keep the gradients
  /// accumulated so far. Do not run two passes that reach the same leaf on different threads at the
  /// same time.
  void backward(const Tensor& gradient = {}, bool retain_graph = false) const;
  /// Registers `hook`. Each backward pass that reaches this tensor calls the hook with the tensor's
  /// complete gradient, before the pass runs the rule of the op that computed this tensor or, for a
  /// leaf, accumulates the gradient in grad(). The hook can replace the gradient by returning a
  /// defined tensor of the same shape and dtype, or by writing to its argument in place. The hooks
  /// of a tensor run in the order of registration. Returns an id for remove_hook. Throws Error if
  /// this tensor does not require grad, if the hook is empty, or if it captures a copy of this
  /// tensor (the two would never be freed). A copy behind a pointer that the hook holds is not
  /// detected.
  int64_t register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// Removes a hook. Does nothing if the id is unknown.
  void remove_hook(int64_t id) const;

  // ---- for ops ----
  /// Returns the TensorImpl that all handles of this tensor share. Throws Error if this tensor is
  /// undefined.
  core::TensorImpl& impl() const;
  /// Returns the same pointer as impl(), or null if this tensor is undefined.
  const std::shared_ptr<core::TensorImpl>& impl_ptr() const { return impl_; }
  /// Returns whether this handle is the only owner of the storage: no other handle, view, graph or
  /// .grad refers to it, and it has no owner outside gradus (see from_blob).
  bool is_sole_owner() const;

 private:
  std::vector<Tensor> split_evenly(int64_t size, int64_t dim) const;
  void* raw_data(Dtype requested) const;
  std::shared_ptr<core::TensorImpl> impl_;
};

/// Prints to_string().
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

namespace core {
/// Returns an uninitialised tensor, for ops to fill. gradus/core/ops/factories.h declares the other
/// factories.
Tensor empty(const Shape& shape, Dtype dtype = float32);
Tensor empty_like(const Tensor& x);  ///< uninitialised, with x's shape and dtype
/// Throws Error unless x is defined and has this dtype and shape. The message begins with `op` and
/// calls x `what`, for example "cross_entropy: expected targets of int64 (3,), got float32 (2,)".
void check_tensor(const char* op, const char* what, const Tensor& x, Dtype dtype,
                  const Shape& shape);
}  // namespace core

}  // namespace gradus
