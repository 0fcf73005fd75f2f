#pragma once
// New tensors: of one number, of a sequence, of numbers that are there already, of random ones.
// None of them records anything.

#include <span>
#include <type_traits>

#include "gradus/core/runtime/random.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus {

// ---- of one number, or a sequence ----

///@{
/// All elements 0, 1 or `value`; the forms of x have its shape and dtype.
Tensor zeros(const Shape& shape, Dtype dtype = float32);
Tensor zeros_like(const Tensor& x);
Tensor ones(const Shape& shape, Dtype dtype = float32);
Tensor ones_like(const Tensor& x);
Tensor full(const Shape& shape, double value, Dtype dtype = float32);
Tensor full_like(const Tensor& x, double value);
///@}
/// A tensor of rank 0.
Tensor scalar(double value, Dtype dtype = float32);
/// start, start+step, ... before end. Throws Error if step is 0 or leads away from end, and where
/// the dtype is int64 and one of the three is no whole number.
Tensor arange(double start, double end, double step = 1, Dtype dtype = int64);
/// 0, 1, ... end - 1, int64.
inline Tensor arange(int64_t end) { return arange(0, static_cast<double>(end)); }
/// n numbers at equal distances from start to end, both of them included; one is start. Throws
/// Error if n < 0, if start or end is not finite, and where the dtype is int64 and one of the
/// numbers is not whole.
Tensor linspace(double start, double end, int64_t n, Dtype dtype = float32);
/// The (n, n) identity matrix.
Tensor eye(int64_t n, Dtype dtype = float32);

// ---- of numbers that are there already ----

namespace core {

/// The C++ types of numbers that make tensors: float, double, bool and whole numbers that are no
/// characters.
template <class T>
concept Number = std::same_as<T, float> || std::same_as<T, double> ||
    (std::integral<T> && !std::same_as<T, char> && !std::same_as<T, wchar_t> &&
     !std::same_as<T, char8_t> && !std::same_as<T, char16_t> && !std::same_as<T, char32_t>);

/// A number, or a list of such: what braces within braces make.
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
  /// A list that a caller was given.
  template <class L>
  requires std::same_as<L, std::initializer_list<double>> NestedList(const L& list)
      : is_list_(true), list_(list.begin(), list.end()) {}

  bool is_list() const { return is_list_; }  ///< else a number
  bool is_bool() const { return is_bool_; }  ///< whether all that it is made of is true or false
  const std::vector<NestedList>& list() const { return list_; }  ///< its entries; of a number: none
  /// The number as a tensor's element. Throws Error where T is int64 and it is not whole.
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
  int64_t whole_ = 0;  // the number, if it is one of int64
  bool is_whole_ = false, is_list_ = false, is_bool_ = false;
  std::vector<NestedList> list_;
};

/// `values` as float32, float64, bool, or, of whole numbers, int64. Throws Error unless there are
/// shape.numel() of them, each within int64.
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

/// Numbers typed in: tensor(3.5) has rank 0, tensor({1, 2}) the shape (2), tensor({{1, 2}, {3, 4}})
/// (2, 2), a column tensor({{1}, {2}}) (2, 1), and so on. Throws Error where rows are of different
/// lengths, and where the dtype is int64 and a value is no whole number. For a vector's values:
/// from_data.
Tensor tensor(const core::NestedList& values, Dtype dtype);
/// Likewise, boolean where all are true or false, else float32, of whole numbers too.
inline Tensor tensor(const core::NestedList& values) {
  return tensor(values, values.is_bool() ? boolean : float32);
}

/// A copy of the values, in row-major order; without a shape, a vector of them. Of float it is
/// float32, of double float64, of bool bool, and of whole numbers, whatever their width, int64.
/// Throws Error unless there are shape.numel() values, and where one is beyond int64.
template <core::Number T>
Tensor from_data(const std::vector<T>& values, const Shape& shape) {
  return core::copied_from<T>(values, shape);
}
/// A vector of the values.
template <core::Number T>
Tensor from_data(const std::vector<T>& values) {
  return core::copied_from<T>(values, {std::ssize(values)});
}
/// Rows, all of one length: (rows, columns).
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
/// Bytes, such as an image's, as the floating numbers 0 to 255: divide by 255 for those from 0 to 1.
/// Throws Error unless there are shape.numel() of them. (from_data makes int64 of bytes, as of all
/// whole numbers.)
Tensor from_bytes(std::span<const uint8_t> bytes, const Shape& shape, Dtype dtype = float32);

// ---- of random numbers ----
// Element i is a function of the thread's generator and of i alone, so the numbers are the same at
// any thread count.

/// Normal(0, 1) numbers (Box-Muller).
Tensor randn(const Shape& shape, Dtype dtype = float32);
/// Of x's shape and dtype.
Tensor randn_like(const Tensor& x);
/// Uniform in [0, 1).
Tensor rand(const Shape& shape, Dtype dtype = float32);
/// Of x's shape and dtype.
Tensor rand_like(const Tensor& x);
/// Uniform integers in [low, high), int64.
Tensor randint(int64_t low, int64_t high, const Shape& shape);
/// A random permutation of 0 ... n-1, int64.
Tensor randperm(int64_t n);
/// The permutation that `key` determines; it uses the counters key.counter + 1 ... + n-1.
Tensor randperm(int64_t n, RandomKey key);

}  // namespace gradus
