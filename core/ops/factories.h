#pragma once
// Functions that create tensors from constants, sequences, given values, external memory and random
// numbers. They record no graph.

#include <span>
#include <type_traits>

#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus {

// ---- constants and sequences ----

///@{
/// Returns a tensor filled with 0, 1 or `value`. The _like forms use the shape and dtype of x.
/// Throws Error if the dtype is bfloat16 or int8, or if it is int64 and `value` is not an integer
/// in int64's range.
Tensor zeros(const Shape& shape, Dtype dtype = float32);
Tensor zeros_like(const Tensor& x);
Tensor ones(const Shape& shape, Dtype dtype = float32);
Tensor ones_like(const Tensor& x);
Tensor full(const Shape& shape, double value, Dtype dtype = float32);
Tensor full_like(const Tensor& x, double value);
///@}
/// Returns a tensor of rank 0 that holds `value`.
Tensor scalar(double value, Dtype dtype = float32);
/// Returns start, start + step, ... up to but excluding end. If the arguments are not integers, or
/// exceed 2^52 in magnitude, rounding may add or omit a value close to end. Throws Error if start,
/// end or step is not finite, if step is 0 or leads away from end, or if there are too many
/// elements. For int64, also throws if start, end or step is not an integer in int64's range.
Tensor arange(double start, double end, double step = 1, Dtype dtype = int64);
/// Returns 0, 1, ..., end - 1 as int64. Throws Error if end < 0.
inline Tensor arange(int64_t end) { return arange(0, static_cast<double>(end)); }
Tensor arange(std::floating_point auto end) = delete;  // int64_t would cut off a fraction
Tensor arange(std::same_as<bool> auto end) = delete;
/// Returns n evenly spaced values from start to end, both included, or only start if n is 1. Throws
/// Error if n < 0, if start or end is not finite, or if the dtype is int64 and start, end or a
/// value between them is not an integer in int64's range.
Tensor linspace(double start, double end, int64_t n, Dtype dtype = float32);
/// Returns the (n, n) identity matrix.
Tensor eye(int64_t n, Dtype dtype = float32);
Tensor eye(std::floating_point auto n, Dtype dtype = float32) = delete;
Tensor eye(std::same_as<bool> auto n, Dtype dtype = float32) = delete;

// ---- given values ----

namespace core {

/// Returns full(shape, value, dtype). Error messages begin with `op`.
Tensor full(const char* op, const Shape& shape, double value, Dtype dtype);

/// The C++ types of the values that a tensor can be created from: float, double, bool and all
/// integer types except char, wchar_t, char8_t, char16_t and char32_t.
template <class T>
concept Number = std::same_as<T, float> || std::same_as<T, double> ||
    (std::integral<T> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
     !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>);

/// The argument of tensor(), written as nested braces such as {{1, 2}, {3, 4}}: a number, or a list
/// of NestedList values.
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
  /// Constructs a list of numbers from a variable of type std::initializer_list<double>, such as a
  /// function parameter.
  template <class L>
  requires std::same_as<L, std::initializer_list<double>> NestedList(const L& list)
      : is_list_(true), list_(list.begin(), list.end()) {}

  bool is_list() const { return is_list_; }  ///< true for a list, false for a number
  bool is_bool() const { return is_bool_; }  ///< whether there are values and all of them are bools
  const std::vector<NestedList>& list() const { return list_; }  ///< entries; empty for a number
  /// Returns this number converted to T. Throws Error if T is int64 and the number is not an
  /// integer in int64's range.
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
  int64_t whole_ = 0;  // the number as int64, if is_whole_
  bool is_whole_ = false, is_list_ = false, is_bool_ = false;
  std::vector<NestedList> list_;
};

/// Returns a tensor of this shape with a copy of `values`, which are in row-major order. The dtype
/// is float32 for float, float64 for double, bool for bool, and int64 for integers. Throws Error if
/// the number of values is not shape.numel(), or if a value does not fit the dtype.
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

/// Returns a tensor from literals: tensor(3.5) has rank 0, tensor({1, 2}) has shape (2),
/// tensor({{1, 2}, {3, 4}}) has shape (2, 2), and tensor({{1}, {2}}) has shape (2, 1). Throws Error
/// if rows differ in length or depth, if the dtype is bfloat16 or int8, or if it is int64 and a
/// value is not an integer in int64's range. For the values of a std::vector, use from_data.
Tensor tensor(const core::NestedList& values, Dtype dtype);
/// Returns a tensor from literals such as {{1, 2}, {3, 4}}. The dtype is bool if there are values
/// and all are bools. Otherwise it is float32, even if all values are integers.
inline Tensor tensor(const core::NestedList& values) {
  return tensor(values, values.is_bool() ? boolean : float32);
}

/// Returns a copy of `values`, which are in row-major order. The dtype is float32 for float,
/// float64 for double, bool for bool, and int64 for integers of any width. Throws Error if the
/// number of values is not shape.numel(), or if a value does not fit the dtype.
template <core::Number T>
Tensor from_data(const std::vector<T>& values, const Shape& shape) {
  return core::copied_from<T>(values, shape);
}
/// Returns a copy of `values` as a tensor of rank 1.
template <core::Number T>
Tensor from_data(const std::vector<T>& values) {
  return core::copied_from<T>(values, {std::ssize(values)});
}
///@{
/// Returns a copy of the elements of a span, for example of an array. Without `shape`, the tensor
/// has rank 1.
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
/// Returns a copy of `rows` as a tensor (rows, columns). Throws Error if the rows differ in length.
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
/// Returns bytes, for example pixels, as floating-point values from 0 to 255. The byte of the
/// character '7' becomes its code 55, not 7. Throws Error if the number of bytes is not
/// shape.numel(). (from_data converts bytes to int64, as it does all integers.)
Tensor from_bytes(std::span<const uint8_t> bytes, const Shape& shape, Dtype dtype = float32);

// ---- memory of another owner ----

/// Returns a tensor whose elements are those at `data`, without copying them. Writes to the tensor
/// change the memory, and writes to the memory change the tensor. Strides count elements: element
/// (i, j) is i * strides[0] + j * strides[1] elements after `data`. A stride of 0 repeats the
/// elements along its axis, as expand() does; a tensor with repeated elements cannot be changed in
/// place. A bool is a byte of value 0 or 1.
///
/// The memory must stay valid as long as a tensor, view or graph node uses it. `deleter` is called
/// once with `data` after the last use, on the thread that ended this use. The deleter must not
/// throw. No op reuses the memory for its own results. Backward does not detect changes to the
/// memory that bypass the tensor: it reads the changed values.
///
/// Throws Error in these cases, in which the caller keeps the memory and the deleter is not called:
/// - data is null although there are elements, or is not aligned to the size of an element.
/// - The number of strides is not the rank, or a size or stride is negative or too large.
/// - Two axes overlap or interleave in memory (except axes of stride 0).
/// - The dtype is bfloat16 or int8.
Tensor from_blob(void* data, const Shape& shape, const Shape& strides, Dtype dtype,
                 std::function<void(void*)> deleter = {});
/// Returns a tensor whose elements are those at `data` in row-major order, without copying them.
/// Ownership, `deleter` and errors are as for from_blob with strides.
Tensor from_blob(void* data, const Shape& shape, Dtype dtype = float32,
                 std::function<void(void*)> deleter = {});

// ---- random values ----
// The values depend only on the arguments and, unless a key is given, on the calling thread's
// generator. They are therefore the same at any thread count.

/// Returns Normal(0, 1) values, computed by the Box-Muller transform.
Tensor randn(const Shape& shape, Dtype dtype = float32);
/// Returns Normal(0, 1) values in x's shape and dtype.
Tensor randn_like(const Tensor& x);
/// Returns uniform values in [0, 1).
Tensor rand(const Shape& shape, Dtype dtype = float32);
/// Returns uniform values in [0, 1) in x's shape and dtype.
Tensor rand_like(const Tensor& x);
/// Returns uniform integers in [low, high), int64. Throws Error unless low < high.
Tensor randint(int64_t low, int64_t high, const Shape& shape);
/// Returns a random permutation of 0, ..., n - 1, int64. Throws Error unless 0 <= n < 2^59.
Tensor randperm(int64_t n);
/// Returns the permutation of 0, ..., n - 1, int64, that `key` determines. To take the key from a
/// Generator g, call g.reserve(4 * n). Throws Error if n < 0.
Tensor randperm(int64_t n, RandomKey key);

}  // namespace gradus
