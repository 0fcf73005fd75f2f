#pragma once
// The element types of GGUF files. Internal: no public header includes this file.

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "gradus/models/folder/gguf/gguf.h"

namespace gradus::models::internal {

/// How an element type is stored: in blocks of `bytes` bytes, each with `elements` elements.
struct StoredType {
  uint32_t number;  ///< the number by which GGUF files identify the type
  const char* name;
  int64_t elements;  ///< elements per block
  int64_t bytes;     ///< bytes per block
  /// Converts n elements to float32; n is a multiple of `elements`. Null if the type is float32.
  void (*decode)(const std::byte* from, int64_t n, float* to);
  /// Converts n elements from float32; n is a multiple of `elements`. Throws Error on a finite
  /// element beyond the type's range and, for q8_0, on an element that is not finite.
  void (*encode)(const float* x, int64_t n, std::byte* to);
};

/// How each GgufType is stored, in the order of the enum.
extern const StoredType stored_types[4];
inline const StoredType& stored(GgufType type) { return stored_types[static_cast<size_t>(type)]; }

}  // namespace gradus::models::internal
