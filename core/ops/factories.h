#pragma once
// New tensors: constants, sequences, given values, random values. None of these records a graph.

#include <span>
#include <type_traits>

#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus {

// ---- constants and sequences ----

///@{
/// A tensor filled with 0, 1 or `value`; the _like forms take x's shape and dtype.
Tensor zeros(const Shape& shape, Dtype dtype = float32);
Tensor zeros_like(const Tensor& x);
Tensor ones(const Shape& shape, Dtype dtype = float32);
Tensor ones_like(const Tensor& x);
Tensor full(const Shape& shape, double value, Dtype dtype = float32);
Tensor full_like(const Tensor& x, double value);
///@}
/// A tensor of rank 0 that holds `value`.
Tensor scalar(double value, Dtype dtype = float32);
/// start, start + step, ... up to but excluding end. Throws Error if step is 0 or leads away from
/// end, or if the dtype is int64 and start, end or step is not an integer.
Tensor arange(double start, double end, double step = 1, Dtype dtype = int64);
/// 0, 1, ..., end - 1 as int64.
inline Tensor arange(int64_t end) { return arange(0, static_cast<double>(end)); }
/// n evenly spaced values from start to end inclusive; start alone if n is 1. Throws Error if n <
/// 0, if start or end is not finite, or if the dtype is int64 and one of the values is not an
/// integer.
Tensor linspace(double start, double end, int64_t n, Dtype dtype = float32);
/// The (n, n) identity matrix.
Tensor eye(int64_t n, Dtype dtype = float32);

// ---- given values ----

namespace core {

/// The C++ types that tensors can be made from: float, double, bool and the integer types other
/// than characters.
template <class T>
concept Number = std::same_as<T, float> || std::same_as<T, double> ||
    (std::integral<T> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
     !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>);

/// The value of nested braces: a number or a list of NestedLists.
class NestedList {
 public:
  template <Number T>
  NestedList(T value)
      : number_(static_cast<double>(value)),
        is_whole_(std::integral<T> && fits(value)),
        is_bool_(std::same_as<T, bool>) {
    if (is_whole_) whole_ = static_cast<int64_t>(value);
  }
  NestedList(std::initializer_list<NestedList> list)
      : is_list_(true),
        is_bool_(list.size() > 0 &&
                 std::all_of(list.begin(), list.end(), [](const auto& x) { return x.is_bool_; })),
        list_(list) {}
  /// From a variable of type std::initializer_list<double>, such as a parameter.
  template <class L>
  requires std::same_as<L, std::initializer_list<double>> NestedList(const L& list)
      : is_list_(true), list_(list.begin(), list.end()) {}

  bool is_list() const { return is_list_; }  ///< false: a number
  bool is_bool() const { return is_bool_; }  ///< true if every number in it is a bool
  const std::vector<NestedList>& list() const { return list_; }  ///< empty for a number
  /// The number as a tensor element. Throws Error if T is int64 and the number is not an integer.
  template <Element T>
  T as() const {
    if constexpr (std::same_as<T, int64_t>) {
      if (is_whole_) return whole_;
      check_number("tensor", int64, number_);
    }
    return number_as<T>("tensor", number_);
  }

 private:
  template <class T>
  static bool fits(T value) {
    if constexpr (std::same_as<T, bool> || !std::integral<T>)
      return true;
    else
      return std::in_range<int64_t>(value);
  }
  double number_ = 0;
  int64_t whole_ = 0;  // the number, if it fits int64 exactly
  bool is_whole_ = false, is_list_ = false, is_bool_ = false;
  std::vector<NestedList> list_;
};

/// A copy of `values` as float32, float64, bool or, for integers, int64. Throws Error unless there
/// are shape.numel() values and each fits the dtype.
template <Number T, class Values>
Tensor copied_from(const Values& values, const Shape& shape) {
  using To = std::conditional_t<WholeNumber<T>, int64_t, T>;
  check(std::ssize(values) == checked_numel("from_data", shape), "from_data: ", std::ssize(values),
        " values for shape ", shape);
  const Tensor x = empty(shape, dtype_of<To>);
  std::transform(values.begin(), values.end(), x.data<To>(),
                 [](T v) { return number_as<To>("from_data", v); });
  return x;
}

}  // namespace core

/// A tensor from literals: tensor(3.5) has rank 0, tensor({1, 2}) shape (2),
/// tensor({{1, 2}, {3, 4}}) shape (2, 2), tensor({{1}, {2}}) shape (2, 1). Throws Error if rows
/// differ in length, or if the dtype is int64 and a value is not an integer. For the values of a
/// std::vector, use from_data.
Tensor tensor(const core::NestedList& values, Dtype dtype);
/// A tensor from literals, bool if every value is a bool, else float32 (for integers too).
inline Tensor tensor(const core::NestedList& values) {
  return tensor(values, values.is_bool() ? boolean : float32);
}

/// A copy of `values`, in row-major order. The dtype is float32 for float, float64 for double, bool
/// for bool, and int64 for integers of any width. Throws Error unless there are shape.numel()
/// values and each fits the dtype.
template <core::Number T>
Tensor from_data(const std::vector<T>& values, const Shape& shape) {
  return core::copied_from<T>(values, shape);
}
/// A copy of `values` as a tensor of rank 1.
template <core::Number T>
Tensor from_data(const std::vector<T>& values) {
  return core::copied_from<T>(values, {std::ssize(values)});
}
///@{
/// The same for elements in contiguous memory, such as an array.
template <class T, size_t N>
requires core::Number<std::remove_const_t<T>> Tensor from_data(std::span<T, N> values,
                                                               const Shape& shape) {
  return core::copied_from<std::remove_const_t<T>>(values, shape);
}
template <class T, size_t N>
requires core::Number<std::remove_const_t<T>> Tensor from_data(std::span<T, N> values) {
  return from_data(values, {std::ssize(values)});
}
///@}
/// A copy of `rows`, which must have equal lengths, as a tensor (rows, columns).
template <core::Number T>
Tensor from_data(const std::vector<std::vector<T>>& rows) {
  const size_t columns = rows.empty() ? 0 : rows[0].size();
  std::vector<T> values;
  for (const std::vector<T>& row : rows) {
    core::check(row.size() == columns, "from_data: rows of ", columns, " and of ", row.size(),
                " numbers");
    values.insert(values.end(), row.begin(), row.end());
  }
  return from_data(values, {std::ssize(rows), static_cast<int64_t>(columns)});
}
/// Bytes, such as pixels, as numbers 0 to 255 in floating point: '7' becomes 55, its code, not 7. Throws
/// Error unless there are shape.numel() of them. (from_data makes them int64, as all integers.)
Tensor from_bytes(std::span<const uint8_t> bytes, const Shape& shape, Dtype dtype = float32);

// ---- memory of another owner ----

/// A tensor over existing elements, which are not copied: what is written through the tensor is
/// seen in the memory, and the reverse. Element (i, j) is at data + i * strides[0] + j * strides[1],
/// in elements. A stride of 0 repeats the elements along its axis, as expand() does; such a tensor
/// cannot be changed in place. Bools are bytes of 0 and 1.
///
/// When the last tensor, view and graph node has let go of the memory, `deleter` is called once with
/// `data`, on the thread that let go; it must not throw. Without a deleter the memory must outlive
/// them all. No op takes the memory for its own results. A change that does not go through a tensor
/// is unknown to backward, which reads what it finds.
///
/// Throws Error, without calling the deleter (so the memory is still the caller's), if data is null
/// (unless there are no elements) or not aligned to the elements' size, a stride is negative, two
/// elements could share memory other than along an axis of stride 0, or the dtype is bfloat16 or
/// int8.
Tensor from_blob(void* data, const Shape& shape, const Shape& strides, Dtype dtype,
                 std::function<void(void*)> deleter = {});
/// The same for elements in row-major order.
Tensor from_blob(void* data, const Shape& shape, Dtype dtype = float32,
                 std::function<void(void*)> deleter = {});

// ---- random values ----
// Element i depends only on the calling thread's generator and on i, so the values are the same at
// any thread count.

/// Normal(0, 1) values, computed by the Box-Muller transform.
Tensor randn(const Shape& shape, Dtype dtype = float32);
/// Normal(0, 1) values in x's shape and dtype.
Tensor randn_like(const Tensor& x);
/// Uniform values in [0, 1).
Tensor rand(const Shape& shape, Dtype dtype = float32);
/// Uniform values in [0, 1) in x's shape and dtype.
Tensor rand_like(const Tensor& x);
/// Uniform integers in [low, high), int64.
Tensor randint(int64_t low, int64_t high, const Shape& shape);
/// A random permutation of 0, ..., n - 1, int64.
Tensor randperm(int64_t n);
/// The permutation determined by `key`. It uses the generator's counters from
/// key.counter + 1 to key.counter + n - 1.
Tensor randperm(int64_t n, RandomKey key);

}  // namespace gradus
