#pragma once
// Shape: the sizes (or strides) of a tensor's axes, kept inline so that a tensor's metadata needs
// no allocation of its own.

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <vector>

#include "gradus/core/error.h"

namespace gradus {

/// The largest number of axes a tensor can have.
inline constexpr int max_rank = 8;

/// A short list of int64: sizes, strides or axes. Prints as `(3, 4)`. At most max_rank entries.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> values) { assign(values.begin(), values.end()); }
  Shape(const std::vector<int64_t>& values) { assign(values.begin(), values.end()); }
  /// `rank` entries, all equal to `value`.
  static Shape filled(int rank, int64_t value) {
    Shape s;
    for (int i = 0; i < rank; ++i) s.push_back(value);
    return s;
  }

  int size() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  int64_t& back() { return (*this)[rank_ - 1]; }
  int64_t back() const { return (*this)[rank_ - 1]; }
  int64_t* begin() { return values_.data(); }
  int64_t* end() { return values_.data() + rank_; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + rank_; }

  void push_back(int64_t value) {
    check(rank_ < max_rank, "shape: more than ", max_rank, " axes");
    values_[static_cast<size_t>(rank_++)] = value;
  }
  void pop_back() { --rank_; }
  void insert(int at, int64_t value) {
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(int at) {
    std::copy(begin() + at + 1, end(), begin() + at);
    --rank_;
  }
  bool operator==(const Shape& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

  /// The product of the entries: a tensor's number of elements.
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t v : *this) n *= v;
    return n;
  }

 private:
  template <class It>
  void assign(It first, It last) {
    for (; first != last; ++first) push_back(*first);
  }
  std::array<int64_t, max_rank> values_{};
  int rank_ = 0;
};

inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '(';
  for (int i = 0; i < shape.size(); ++i) out << (i ? ", " : "") << shape[i];
  return out << (shape.size() == 1 ? ",)" : ")");
}

/// The strides, in elements, of a row-major tensor of this shape.
Shape contiguous_strides(const Shape& shape);

/// shape.numel(). Throws Error, opening with `op`, if a size is negative or there are more elements
/// than can be counted.
int64_t checked_numel(const char* op, const Shape& shape);

/// NumPy's broadcast of two shapes: aligned at the last axis, size 1 stretches.
/// Throws Error, opening with `op`, if they do not fit.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b);

/// An axis given as in Python (-1 is the last) as an index in [0, rank). Throws Error, opening with
/// `op`, if it is out of range.
int normalize_dim(const char* op, int64_t dim, int rank);

}  // namespace gradus
