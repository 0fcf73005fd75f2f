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
  /// Values by key: integers, floating-point numbers, strings, booleans, and arrays of one of these
  /// types. Integers are written as uint32 (int32 in arrays), without a check that they fit,
  /// floating-point numbers as float32, and an empty array as an array of strings.
  nlohmann::ordered_json metadata = nlohmann::ordered_json::object();
  NamedTensors tensors;  ///< floating or compressed; tensors that were read are float32
};

/// Reads a file of version 2 or 3 with tensors of type f32, f16, bf16 or q8_0. f32 tensors use a
/// memory mapping of the file if their offsets in the file are multiples of 4. Throws Error, naming
/// the file and the problem, if the file is of another kind or is not valid: for example, if an
/// entry, a shape or an offset does not fit the file, if names are repeated, or if the checksum
/// does not match. (save_gguf adds a checksum; files of other programs have none.)
GgufFile read_gguf(const std::string& path);

/// Writes `file` to `path`, atomically replacing an existing file. Tensors of rank 2 or more for
/// which is_wide(name) is false are written as `type`, except that q8_0 becomes f16 if the row
/// length is not a multiple of 32. All other tensors are written as f32. Throws Error, naming the
/// tensor, on an element beyond the range of the type, see StoredType (gguf_types.h).
void write_gguf(const std::string& path, const GgufFile& file, GgufType type,
                bool (*is_wide)(const std::string& name));

}  // namespace gradus::models::internal
