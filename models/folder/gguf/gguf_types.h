#pragma once
// The element types of GGUF files. For the library's own use: no public header includes this.

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "gradus/models/folder/gguf/gguf.h"

namespace gradus::models::internal {

/// An element type: so many bytes for so many elements.
struct StoredType {
  uint32_t number;  ///< GGML's
  const char* name;
  int64_t elements;  ///< of a block
  int64_t bytes;     ///< of a block
  /// Converts n elements, a multiple of `elements`; null: they are float32.
  void (*decode)(const std::byte* from, int64_t n, float* to);
  /// The inverse. Throws Error on an element that the type cannot hold.
  void (*encode)(const float* x, int64_t n, std::byte* to);
};

/// The types in the order of GgufType.
extern const StoredType stored_types[4];
inline const StoredType& stored(GgufType type) { return stored_types[static_cast<size_t>(type)]; }

}  // namespace gradus::models::internal
