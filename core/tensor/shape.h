#pragma once
// Shape: the sizes (or strides) of a tensor's axes, stored inline, so a shape allocates no memory.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <vector>

#include "gradus/core/runtime/error.h"

namespace gradus {

/// Maximum number of axes.
inline constexpr int max_rank = 8;

/// A short list of int64 with at most max_rank entries: sizes, strides or axes. Prints as `(3, 4)`.
/// Indices count from 0, or from the end with -1, -2, and so on. Throws Error for an index out of
/// range and for more than max_rank entries.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> values) { assign(values.begin(), values.end()); }
  Shape(const std::vector<int64_t>& values) { assign(values.begin(), values.end()); }
  /// Returns a shape of `rank` entries, all equal to `value`.
  static Shape filled(int rank, int64_t value) {
    Shape s;
    for (int i = 0; i < rank; ++i) s.push_back(value);
    return s;
  }

  int size() const { return rank_; }         ///< number of entries
  bool empty() const { return rank_ == 0; }  ///< whether there are no entries
  ///@{
  /// Returns entry i.
  int64_t& operator[](int i) { return values_[index(i)]; }
  int64_t operator[](int i) const { return values_[index(i)]; }
  ///@}
  ///@{
  /// Returns the last entry.
  int64_t& back() { return (*this)[-1]; }
  int64_t back() const { return (*this)[-1]; }
  ///@}
  ///@{
  /// Return pointers to the first entry and past the last one, for range-based loops.
  int64_t* begin() { return values_.data(); }
  int64_t* end() { return values_.data() + rank_; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + rank_; }
  ///@}

  /// Appends an entry. Throws Error if there are already max_rank entries.
  void push_back(int64_t value) {
    core::check(rank_ < max_rank, "shape: more than ", max_rank, " axes");
    values_[static_cast<size_t>(rank_++)] = value;
  }
  /// Removes the last entry.
  void pop_back() { erase(-1); }
  /// Inserts `value` before entry `at`, or at the end if `at` is size(). Throws Error if `at` is
  /// negative or larger than size(), or if there are already max_rank entries.
  void insert(int at, int64_t value) {
    core::check(at >= 0 && at <= rank_, "shape: cannot insert at ", at, " in ", *this);
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
  }
  /// Removes entry `at`.
  void erase(int at) {
    int64_t* entry = values_.data() + index(at);
    std::copy(entry + 1, end(), entry);
    --rank_;
  }
  /// Returns a copy with entry `at` set to `value`.
  Shape with(int at, int64_t value) const {
    Shape s = *this;
    s[at] = value;
    return s;
  }
  /// Returns a copy without entry `at`.
  Shape without(int at) const {
    Shape s = *this;
    s.erase(at);
    return s;
  }
  /// Returns whether the two shapes have the same entries.
  bool operator==(const Shape& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

  /// Returns the product of the entries, which is the number of elements of a tensor of this shape.
  /// Throws Error if the product overflows int64.
  int64_t numel() const {
    int64_t n = 1;
    bool overflow = false;
    for (int64_t v : *this) {
      if (v == 0) return 0;
      overflow = __builtin_mul_overflow(n, v, &n) || overflow;
    }
    core::check(!overflow, "shape: too many elements in ", *this);
    return n;
  }

  /// Prints (3, 4), or (3,) for one entry.
  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    out << '(';
    for (int i = 0; i < shape.rank_; ++i) out << (i ? ", " : "") << shape[i];
    return out << (shape.rank_ == 1 ? ",)" : ")");
  }

 private:
  size_t index(int i) const {
    core::check(i >= -rank_ && i < rank_, "shape: no entry ", i, " in ", *this);
    return static_cast<size_t>(i < 0 ? i + rank_ : i);
  }
  template <class It>
  void assign(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }
  std::array<int64_t, max_rank> values_{};
  int rank_ = 0;
};

/// An integer type other than bool. Axis and Axes convert from any of these types.
template <class T>
concept WholeNumber = std::integral<T> && !std::same_as<T, bool>;

/// The index of an axis, as a function parameter; negative indices count from the end. A bool does
/// not convert to Axis, so that sort(x, true) does not compile.
class Axis {
 public:
  template <WholeNumber I>
  constexpr Axis(I axis) : axis_(static_cast<int64_t>(axis)) {}
  constexpr operator int64_t() const { return axis_; }  ///< the axis as given; may be negative

 private:
  int64_t axis_;
};

/// A list of axes as a function parameter: the caller passes one axis, as in sum(x, 1), or several,
/// as in sum(x, {0, 1}). An empty list, the default of reductions, stands for all axes.
struct Axes : Shape {
  Axes() = default;
  template <WholeNumber I>
  Axes(I axis) : Shape{static_cast<int64_t>(axis)} {}
  Axes(std::initializer_list<int64_t> axes) : Shape(axes) {}
  Axes(const Shape& axes) : Shape(axes) {}
};

/// Whether a reduction keeps the reduced axes with size 1, as in sum(x, 0, keepdim).
struct KeepDim {
  bool on;  ///< if false, the axes are removed
  template <std::same_as<bool> B>
  constexpr KeepDim(B value) : on(value) {}
};
/// Makes a reduction keep the reduced axes with size 1.
inline constexpr KeepDim keepdim{true};

/// Returns the strides, in elements, of a row-major tensor of this shape.
Shape contiguous_strides(const Shape& shape);

/// Returns shape.numel(). Throws Error if a size is negative, or if the product of the nonzero
/// sizes exceeds INT64_MAX / 16. The message begins with `op`.
int64_t checked_numel(const char* op, const Shape& shape);

/// Returns the shape to which a and b broadcast by NumPy's rule: the last axes are aligned, and an
/// axis of size 1 is stretched to the size in the other shape. Throws Error if a and b do not
/// broadcast; the message begins with `op`.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

/// Returns the indices of the i-th element in row-major order, one index per axis of `shape`. No
/// size in `shape` may be 0.
Shape index_of(const Shape& shape, int64_t i);

/// Returns the axis `dim` as a number in [0, rank); a negative `dim` counts from the end (-1 is the
/// last). Throws Error if the axis is out of range; the message begins with `op`.
int normalize_dim(const char* op, int64_t dim, int rank);

/// A height and a width. A single number sets both.
struct Size2d {
  int64_t height, width;  ///< in pixels
  Size2d(int64_t both) : height(both), width(both) {}
  Size2d(int64_t height_, int64_t width_) : height(height_), width(width_) {}
};

}  // namespace gradus
