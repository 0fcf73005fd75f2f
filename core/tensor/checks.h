#pragma once
// Checks of an op's arguments. Each throws Error with a message that opens with the op and says
// what was expected and what it got.

#include <initializer_list>

#include "gradus/core/tensor/shape.h"

namespace gradus {

class Tensor;

namespace core {

/// One axis of an expected shape: an exact size; a name, "B", for any size (a name that recurs
/// stands for one size); or "...", once, for any number of axes.
class Dim {
 public:
  Dim(const char* name) : name_(name) {}
  template <WholeNumber I>
  Dim(I size) : size_(static_cast<int64_t>(size)) {}
  const char* name() const { return name_; }  ///< null for an exact size
  int64_t size() const { return size_; }      ///< the exact size

 private:
  const char* name_ = nullptr;
  int64_t size_ = 0;
};

/// Throws Error unless x is defined and has these axes: check_shape("gru", "x", x, {"B", "T", 64})
/// says "gru: expected x (B, T, 64), got (3, 4)".
void check_shape(const char* op, const char* what, const Tensor& x,
                 std::initializer_list<Dim> dims);
/// Throws Error unless x is float32 or float64.
void check_floating(const char* op, const Tensor& x);
/// Throws Error unless a and b have one dtype.
void check_same_dtype(const char* op, const Tensor& a, const Tensor& b);

}  // namespace core

}  // namespace gradus
