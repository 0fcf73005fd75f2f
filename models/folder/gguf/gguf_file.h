#pragma once
// GGUF, the file format of llama.cpp: a header, metadata, an index of tensors, and their elements.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. For the library's own use: no public
// header includes this.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gradus/core/files/safetensors.h"
#include "gradus/models/folder/gguf/gguf.h"

namespace gradus::models::internal {

/// The content of a GGUF file.
struct GgufFile {
  /// Values by key. Written are: whole numbers as uint32, or in arrays as int32, other numbers as
  /// float32, strings, booleans and arrays of one of these; an empty array is one of strings.
  nlohmann::ordered_json metadata = nlohmann::ordered_json::object();
  NamedTensors tensors;  ///< floating or compressed; those read are float32
};

/// Reads a file of version 2 or 3 whose tensors are f32, f16, bf16 or q8_0. f32 tensors use a
/// mapping of the file. Throws Error, naming the file and the entry, on what is damaged: an entry,
/// shape or offset that does not fit the file, repeated names, or a checksum that does not match
/// (save_gguf adds one; files of other programs have none).
GgufFile read_gguf(const std::string& path);

/// Replaces the file atomically. Matrices of which `is_wide(name)` is false are written as `type`,
/// q8_0 as f16 where rows are no multiple of 32 elements; all other tensors as f32. Throws Error,
/// naming the tensor, on elements that the type cannot hold.
void write_gguf(const std::string& path, const GgufFile& file, GgufType type,
                bool (*is_wide)(const std::string& name));

}  // namespace gradus::models::internal
