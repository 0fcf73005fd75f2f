#pragma once
// Loading: a scope in which models are created without initialising the weights that a file will
// overwrite. Internal: no public header includes this file.

#include "gradus/core/tensor/shape.h"

namespace gradus::internal {

/// While a Loading exists, modules created on its thread run no initialisers: parameters with an
/// initialiser are zeros, and parameters with a constant initial value have that value. Both kinds
/// of parameters may have at most `elements` elements in total, so that a damaged configuration
/// cannot make a model much larger than its weights file. Parameters made from an existing tensor
/// are not counted, nor are buffers.
class Loading {
 public:
  explicit Loading(int64_t elements);
  ~Loading();
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

  /// Returns the innermost Loading on this thread, or null.
  static Loading* current();
  /// Adds the elements of a parameter of this shape to the total. Throws Error if the total would
  /// exceed the constructor's `elements`. The message begins with `layer` and names the parameter.
  void count(const char* layer, const std::string& name, const Shape& shape);

 private:
  int64_t left_;
  Loading* outer_;
};

/// Returns `shape`. Throws Error if a size is below 1, or if there are more than INT64_MAX / 16
/// elements. The message begins with `layer`.
const Shape& checked_sizes(const char* layer, const Shape& shape);

}  // namespace gradus::internal
