#pragma once
// Loading: lets a model be created without initialising the weights that a file is about to
// overwrite. For the library's own use: no public header includes this.

#include "gradus/core/tensor/shape.h"

namespace gradus::internal {

/// While a Loading exists, modules that this thread creates run no initialiser and make zeros
/// instead. Their parameters may have at most `elements` elements in total, so that a damaged
/// configuration allocates no more memory than its file of weights justifies.
class Loading {
 public:
  explicit Loading(int64_t elements);
  ~Loading();
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

  /// The innermost Loading on this thread, or null.
  static Loading* current();
  /// Counts a parameter of this shape. Throws Error, opening with `layer`, if the total exceeds the
  /// constructor's `elements`.
  void count(const char* layer, const std::string& name, const Shape& shape);

 private:
  int64_t left_;
  Loading* outer_;
};

/// Returns `shape`. Throws Error, opening with `layer`, if a size is below 1 or the number of
/// elements is too large.
const Shape& checked_sizes(const char* layer, const Shape& shape);

}  // namespace gradus::internal
