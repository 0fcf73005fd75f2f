#pragma once
// How a model folder is loaded without drawing weights that the file is about to overwrite. For the
// library's own use: no public header includes this.

#include "gradus/core/tensor/shape.h"

namespace gradus::internal {

/// While it lives, the parameters that this thread's modules create are zeros: no initialiser runs.
/// They may hold `elements` elements in all, so that a damaged configuration allocates no more
/// memory than its file of weights justifies.
class Loading {
 public:
  explicit Loading(int64_t elements);
  ~Loading();
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

  /// The innermost Loading on this thread, or null.
  static Loading* current();
  /// Counts a parameter of this shape. Throws Error, opening with `layer`, if it exceeds the limit.
  void count(const char* layer, const std::string& name, const Shape& shape);

 private:
  int64_t left_;
  Loading* outer_;
};

/// Returns `shape`. Throws Error, opening with `layer`, on a size below 1 and on too many elements.
const Shape& checked_sizes(const char* layer, const Shape& shape);

}  // namespace gradus::internal
