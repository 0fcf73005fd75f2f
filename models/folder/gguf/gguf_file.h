#pragma once
// Reads and writes GGUF, the file format of llama.cpp: a header, metadata, an index of tensors, and
// their elements. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Internal: no public
// header includes this file.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gradus/core/files/safetensors.h"
#include "gradus/models/folder/gguf/gguf.h"

namespace gradus::models::internal {

/// The content of a GGUF file.
struct GgufFile {
  /// The metadata, by key. A value is an integer, a floating-point number, a string, a boolean, or
  /// an array of values of one of these types. write_gguf() writes floating-point numbers as
  /// float32, and an empty array as an array of strings. It writes integers as uint32, or as int32
  /// in arrays, and does not check that they fit. It adds the entries gradus.format and
  /// gradus.checksum, which read_gguf() leaves out.
  nlohmann::ordered_json metadata = nlohmann::ordered_json::object();
  NamedTensors tensors;  ///< in float32, float64, bfloat16 or int8; read_gguf() returns float32
};

/// Reads a file of version 2 or 3 with tensors of type f32, f16, bf16 or q8_0. f32 tensors use a
/// memory mapping of the file if their offsets in the file are multiples of 4.
///
/// Throws Error, naming the file and the problem, if the file is of another kind or is not valid:
/// for example, if an offset does not fit the file, if a name is repeated, or if the checksum does
/// not match. Files of other programs have no checksum; damage to their elements is not detected.
GgufFile read_gguf(const std::string& path);

/// Writes `file` to `path`, atomically replacing an existing file. Tensors of rank 0 or 1, and
/// tensors for which is_wide(name) is true, are written as f32, all others as `type`. However, q8_0
/// becomes f16 for a tensor whose row length is not a multiple of 32. Throws Error, naming the
/// tensor, if an element is beyond the range of the type (see StoredType in gguf_types.h).
void write_gguf(const std::string& path, const GgufFile& file, GgufType type,
                bool (*is_wide)(const std::string& name));

}  // namespace gradus::models::internal
