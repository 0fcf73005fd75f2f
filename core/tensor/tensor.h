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
/// Methods such as transpose(), slice() and, where possible, reshape() return views. Views share
/// the storage and are differentiable. Axes count from 0, or from the end with -1, -2, and so on.
/// On bad arguments every method throws Error before it changes anything.
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
  /// Returns whether the elements are stored in row-major order without gaps. Returns true for a
  /// tensor without elements.
  bool is_contiguous() const;
  /// Returns a pointer to the first element. Throws Error if T is not the C++ type of dtype().
  /// Always throws Error for bfloat16 and int8, which have no C++ type.
  template <class T>
  requires Element<std::remove_const_t<T>> T* data() const {
    return static_cast<T*>(raw_data(dtype_of<std::remove_const_t<T>>));
  }

  // ---- elements as C++ values ----
  /// Returns the only element, converted to T. Throws Error if the tensor does not have exactly one
  /// element or if its dtype is bfloat16 or int8. If T is an integer type other than bool,
  /// truncates the element, and throws Error if the element is NaN or does not fit into T.
  template <class T = double>
  T item() const {
    core::check(numel() == 1, "item: expected one element, got shape ", shape());
    const auto get = [&]<class U>(TypeTag<U>) { return number_as<T>("item", *data<U>()); };
    return dispatch_any("item", dtype(), get);
  }
  /// Returns the elements in row-major order, each converted to T as by item(). T is float, double,
  /// bool or an integer type such as int32_t. Throws Error if the dtype is bfloat16 or int8.
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
  /// followed by dtype and shape. Returns "tensor(undefined)" for an undefined tensor. For a
  /// sliced, reshaped or transposed view of an int8 matrix, "[...]" replaces the elements.
  std::string to_string() const;

  // ---- conversion and copies (differentiable) ----
  /// Returns this tensor if it has this dtype, else a converted copy. Conversion to int64
  /// truncates, and throws Error on NaN and on values out of range.
  ///
  /// bfloat16 and int8 store weights in less memory. A float32 tensor can be converted to bfloat16,
  /// and a float32 matrix of finite elements to int8. The result has no gradient. It can be passed
  /// as a weight to linear, updated_linear, feed_forward and embedding, and can be converted back.
  /// Throws Error for a bfloat16 tensor that is not contiguous, and for a sliced, reshaped,
  /// transposed or expanded view of an int8 matrix.
  Tensor to(Dtype dtype) const;
  /// Returns this tensor if it is contiguous, else clone().
  Tensor contiguous() const;
  /// Returns a contiguous copy in new storage. Throws Error for a bfloat16 tensor that is not
  /// contiguous, and for a sliced, reshaped, transposed or expanded view of an int8 matrix.
  Tensor clone() const;

  // ---- views (differentiable) ----
  /// Returns the same elements in another shape. One size may be -1: it is computed from the
  /// others. Returns this tensor if it has this shape already, else a view if the strides allow it,
  /// else a copy.
  Tensor reshape(const Shape& shape) const;
  /// Returns a new view of the elements in another shape. One size may be -1: it is computed from
  /// the others. Throws Error if the strides would require a copy.
  Tensor view(const Shape& shape) const;
  /// Returns this tensor with the axes from start to end, both included, merged into one axis. Like
  /// reshape(), makes a copy only if no view is possible. A tensor of rank 0 becomes a tensor of
  /// shape (1).
  Tensor flatten(int64_t start = 0, int64_t end = -1) const;
  /// Returns a view with the axes dim0 and dim1 swapped.
  Tensor transpose(int64_t dim0, int64_t dim1) const;
  /// Returns a view with the last two axes swapped.
  Tensor mT() const { return transpose(-2, -1); }
  /// Returns a view with the axes reordered: axis i of the view is axis order[i] of this tensor.
  Tensor permute(const Shape& order) const;
  /// Returns a view of the entries start, start + step, start + 2 step, ... along `dim`, up to but
  /// excluding `end`. As in Python, a negative start or end counts from the end of the axis, and
  /// both are clamped to [0, size(dim)]. Throws Error unless step > 0.
  Tensor slice(int64_t dim, int64_t start, int64_t end = INT64_MAX, int64_t step = 1) const;
  /// Returns a view of entry `index` along `dim`. The view does not have this axis. A negative
  /// `index` counts from the end.
  Tensor select(int64_t dim, int64_t index) const;
  /// Returns a view of entry `index` along the first axis: select(0, index).
  Tensor operator[](int64_t index) const { return select(0, index); }
  /// Returns a copy of the entries along the first axis at the positions in `index`, an int64
  /// tensor of any shape. The result's shape is the shape of `index` followed by this tensor's
  /// shape without its first axis. For example, if C is an embedding table, C[ids] are the
  /// embeddings of `ids`. Throws Error if a position is negative or too large.
  Tensor operator[](const Tensor& index) const;
  /// Returns a view that is broadcast to `shape`, without a copy. A size of -1 in `shape` keeps the
  /// size of that axis. Throws Error if this tensor's shape does not broadcast to `shape`.
  Tensor expand(const Shape& shape) const;
  /// Returns a view without axis `dim`. Throws Error unless this axis has size 1.
  Tensor squeeze(int64_t dim) const;
  Tensor squeeze() const;  ///< returns a view without the axes of size 1
  /// Returns a view with an additional axis of size 1. `dim` is the index of this axis in the view.
  Tensor unsqueeze(int64_t dim) const;
  /// Returns views of consecutive parts of axis `dim`: part i has size sizes[i]. Throws Error
  /// unless the sizes add up to the size of the axis. For more than max_rank parts, use
  /// split_into(). Backward concatenates the views' gradients.
  std::vector<Tensor> split(const Shape& sizes, int64_t dim) const;
  /// Returns views of consecutive parts of axis `dim`, each of size `size`; the last may be
  /// smaller. Throws Error unless size > 0.
  template <WholeNumber I>  // a template, so that split({2}, 0) calls the overload for a Shape
  std::vector<Tensor> split(I size, int64_t dim) const {
    return split_evenly(number_as<int64_t>("split", size), dim);
  }
  /// Returns views of at most `n` consecutive parts of axis `dim`, like torch.chunk. The parts have
  /// equal sizes, except that the last may be smaller. Throws Error unless n > 0.
  std::vector<Tensor> chunk(int64_t n, int64_t dim) const;

  // ---- ops as methods, for chains such as x.exp().sum(-1).log() ----
  ///@{
  /// Calls the function of the same name, declared in gradus/core/ops/. For example, x.sum(1) calls
  /// sum(x, 1).
  Tensor sum(const Axes& dims = {}, KeepDim keep = false) const;
  Tensor mean(const Axes& dims = {}, KeepDim keep = false) const;
  Tensor var(const Axes& dims = {}, int64_t correction = 1, KeepDim keep = false) const;
  template <std::same_as<bool> B>  // deleted: true could mean keepdim or a correction of 1
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
  // The methods with a trailing underscore overwrite the elements, increment the storage's version
  // and return a handle to this tensor. They throw Error if an axis is expanded. They also throw
  // Error if this tensor or the operand requires grad while gradients are recorded: open a NoGrad
  // scope first. If the graph saved a tensor with this storage before the change, backward throws
  // Error when it reads that tensor. The operand may overlap this tensor: the result is as if the
  // operand had been copied first.
  /// Sets every element to `value`. Throws Error if the dtype is bfloat16 or int8, or if it is
  /// int64 and `value` is not an integer in int64's range.
  Tensor fill_(double value) const;
  /// Sets every element to 0.
  Tensor zero_() const { return fill_(0); }
  /// Overwrites this tensor with `source`, broadcast to this tensor's shape and converted to its
  /// dtype as by to(). If one of the two tensors is bfloat16 or int8, throws Error unless both are
  /// contiguous and have the same dtype and shape. For int8, also throws Error if one of the two is
  /// a sliced, reshaped or transposed view.
  Tensor copy_(const Tensor& source) const;
  /// Adds alpha * other to this tensor in place. `other` is broadcast to this tensor's shape.
  /// Throws Error unless both tensors have the same dtype: float32, float64 or int64. For int64,
  /// also throws Error unless alpha is an integer.
  Tensor add_(const Tensor& other, double alpha = 1) const;
  /// Multiplies this tensor by `factor` in place. Throws Error unless the dtype is float32, float64
  /// or int64. For int64, also throws Error unless factor is an integer.
  Tensor mul_(double factor) const;

  // ---- compound assignment: x += y, x -= y, x *= y, x /= y ----
  // If a gradient is recorded for x or y, x += y means x = x + y: the handle x then refers to a new
  // tensor, and other handles keep the old one. A sum that is accumulated in a loop by loss += term
  // therefore has the right gradient. If no gradient is recorded, x += y overwrites the elements of
  // x in place, and all handles and views of x see the change.
  //
  // To change a leaf that requires grad, open a NoGrad scope:
  //   { NoGrad no_grad; w -= lr * w.grad(); }
  // These operators do not compile on temporary and const handles: instead of x[0] += y write
  // x[0].add_(y).
  ///@{
  /// Assigns x + y, x - y, x * y or x / y to x, where x is this tensor. y is broadcast to x's
  /// shape. If a gradient is recorded for x or y, makes this handle refer to a new tensor.
  /// Otherwise overwrites the elements of x in place. Throws Error if x is a leaf that requires
  /// grad while gradients are recorded. Division throws Error unless x is float32 or float64.
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
  /// Returns whether backward computes a gradient for this tensor: it is a leaf for which
  /// requires_grad_() was called, or a recorded op computed it.
  bool requires_grad() const;
  /// Sets whether this leaf requires grad, and returns this tensor. Throws Error if the tensor is
  /// not a leaf, or if `on` is true and the dtype is not float32 or float64.
  Tensor requires_grad_(bool on = true) const;
  /// Returns whether this tensor is a leaf of the graph: no recorded op computed it.
  bool is_leaf() const;
  /// Returns the gradient accumulated by backward(), or an undefined tensor if there is none. The
  /// gradient is never part of a graph.
  Tensor grad() const;
  /// Makes backward() also add the gradient of this non-leaf to the tensor's grad(), after the
  /// tensor's hooks have run. Returns this tensor. Throws Error if the tensor does not require
  /// grad. A call on a leaf, or a second call, changes nothing.
  Tensor retain_grad() const;
  /// Replaces the gradient that grad() returns; an undefined `grad` clears it. Throws Error if a
  /// defined `grad` differs from this tensor in shape or dtype.
  void set_grad(Tensor grad) const;
  /// Returns a view of this tensor that is not part of a graph, so that no gradient flows through
  /// it.
  Tensor detach() const;
  /// Computes the gradients of all leaves that require grad and on which this tensor depends, and
  /// adds them to the grad() of the leaves. `gradient` is the gradient of the loss with respect to
  /// this tensor. An undefined `gradient` stands for 1; this tensor must then have one element.
  /// Frees the graph unless `retain_graph` is true.
  ///
  /// Throws Error if this tensor does not require grad, if an earlier pass has freed the graph, or
  /// if `gradient` differs from this tensor in shape or dtype. Also throws Error if backward needs
  /// a tensor that was changed in place after the graph saved it. If a hook or a backward rule
  /// throws, leaves keep the gradients accumulated so far. Two passes that reach the same leaf must
  /// not run on different threads at the same time.
  void backward(const Tensor& gradient = {}, bool retain_graph = false) const;
  /// Registers a function that each backward pass calls with this tensor's complete gradient, if
  /// the pass reaches the tensor. Returns an id for remove_hook(). The hook can replace the
  /// gradient: it returns a tensor of the same shape and dtype, or writes to its argument in place.
  /// To keep the gradient, it returns an undefined tensor. Hooks run in the order of registration.
  /// They run before the gradient flows on to the inputs of the op that computed this tensor or, if
  /// the tensor is a leaf, before the gradient is added to grad(). With create_graph, writing to a
  /// gradient that is part of a graph throws Error: return a replacement instead.
  ///
  /// Throws Error if this tensor does not require grad, if the hook is empty, or if the hook
  /// captures a handle of this tensor. In the last case, tensor and hook would own each other and
  /// would never be freed. Two other such cycles are not detected: the hook owns a handle of this
  /// tensor through a shared pointer, or it captures a tensor that was computed from this one. In
  /// all cases, capture the detach() of the tensor instead.
  int64_t register_hook(std::function<Tensor(const Tensor&)> hook) const;
  /// Removes the hook with this id, which register_hook() returned. Does nothing if the id is
  /// unknown.
  void remove_hook(int64_t id) const;

  // ---- for ops ----
  /// Returns the TensorImpl that all handles of this tensor share. Throws Error if this tensor is
  /// undefined.
  core::TensorImpl& impl() const;
  /// Returns a shared pointer to the TensorImpl, or null if this tensor is undefined.
  const std::shared_ptr<core::TensorImpl>& impl_ptr() const { return impl_; }
  /// Returns whether this handle is the only owner of its storage. Returns false if another handle,
  /// a view, a graph or a .grad refers to the storage, if gradus did not allocate the memory (see
  /// from_blob() and load_safetensors()), or if this tensor is undefined.
  bool is_sole_owner() const;

 private:
  std::vector<Tensor> split_evenly(int64_t size, int64_t dim) const;
  void* raw_data(Dtype requested) const;
  std::shared_ptr<core::TensorImpl> impl_;
};

/// Prints to_string().
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

namespace core {
/// Returns an uninitialised tensor, for ops to fill. Functions such as zeros() and full() are
/// declared in gradus/core/ops/factories.h.
Tensor empty(const Shape& shape, Dtype dtype = float32);
Tensor empty_like(const Tensor& x);  ///< returns an uninitialised tensor of x's shape and dtype
/// Throws Error unless x is defined and has this dtype and shape. If `op` is "cross_entropy" and
/// `what` is "targets", the message is, for example,
///   cross_entropy: expected targets of int64 (3,), got float32 (2,)
void check_tensor(const char* op, const char* what, const Tensor& x, Dtype dtype,
                  const Shape& shape);
}  // namespace core

}  // namespace gradus
