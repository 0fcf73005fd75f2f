#pragma once
// Checks of an op's arguments. Each check_...() throws Error with a message that begins with the
// op's name.

#include <initializer_list>

#include "gradus/core/tensor/shape.h"

namespace gradus {

class Tensor;

namespace core {

/// One axis of an expected shape: an exact size, or a name such as "B" for any size. A name that
/// recurs stands for the same size each time. "...", allowed once, stands for any number of axes.
class Dim {
 public:
  Dim(const char* name) : name_(name) {}
  template <WholeNumber I>
  Dim(I size) : size_(static_cast<int64_t>(size)) {}
  const char* name() const { return name_; }  ///< null for an exact size
  int64_t size() const { return size_; }      ///< the exact size; 0 for a name

 private:
  const char* name_ = nullptr;
  int64_t size_ = 0;
};

/// Throws Error unless x is defined and its shape matches `dims`. In the message, `what` is the
/// name of x. For example, for an x of shape (3, 4), check_shape("gru", "x", x, {"B", "T", 64})
/// throws Error with the message
///   gru: expected x (B, T, 64), got (3, 4)
void check_shape(const char* op, const char* what, const Tensor& x,
                 std::initializer_list<Dim> dims);
/// Throws Error unless x, which must be defined, is float32 or float64.
void check_floating(const char* op, const Tensor& x);
/// Throws Error unless a and b, which must be defined, have the same dtype.
void check_same_dtype(const char* op, const Tensor& a, const Tensor& b);
/// Returns whether elements of x share memory along an expanded axis.
bool is_expanded(const Tensor& x);

}  // namespace core

}  // namespace gradus
