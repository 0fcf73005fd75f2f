#pragma once
// The safetensors file format: header length (8 bytes, little endian), JSON header, raw elements.
// https://github.com/huggingface/safetensors

#include <map>

#include "gradus/core/files/file.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// A list of tensors with their names, for example a module's parameters in order of registration.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// The content of a safetensors file.
struct SafetensorsFile {
  NamedTensors tensors;  ///< in the order of their data in the file
  /// The header's __metadata__ without the entries that save_safetensors adds.
  std::map<std::string, std::string> metadata;
};

/// Writes the tensors to the file at `path`, atomically as write_file_atomically does. Adds the
/// entries gradus.format and gradus.checksum to the header's __metadata__. The checksum covers the
/// header and the data. An int8 matrix NAME is written as two tensors: its elements as NAME, of
/// type I8, and its scales as NAME.scales, of type BF16 and shape (rows, ceil(columns / 32)). A
/// bfloat16 tensor is written as type BF16, which load_safetensors() converts to float32. Throws
/// Error if a tensor is undefined, named __metadata__ or a compressed view that cannot be copied,
/// if two tensors have the same name, if `metadata` contains one of the two added keys, if a name
/// or the metadata is not UTF-8, if the header would be longer than 100,000,000 bytes, or if the
/// file cannot be written.
void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata = {});

/// Maps a file into memory, validates it and returns its content. Aligned F32, F64 and I64 tensors
/// use the mapping. Writing to such a tensor copies the pages concerned and does not change the
/// file. An I8 tensor with scales, as written by save_safetensors, becomes an int8 matrix that also
/// uses the mapping. All other tensors are copied: F16 and BF16 are converted to float32, and the
/// other integer types to int64. While the tensors exist, the file may be removed or replaced
/// (save_safetensors replaces it), but not truncated or overwritten.
///
/// Throws Error, naming the file and the problem, if the file cannot be read or is not valid, for
/// example if
/// - the header is longer than 100,000,000 bytes or than the file, or is not valid JSON,
/// - a dtype is unknown, a tensor has more than max_rank axes, or a U64 element exceeds 2^63 - 1,
/// - the offsets of tensors overlap, leave gaps, overflow or do not match the tensors' shapes,
/// - bytes are missing or left over, or the content does not match the file's checksum.
/// A file with neither gradus.format nor gradus.checksum, from another program, is accepted.
SafetensorsFile load_safetensors(const std::string& path);

}  // namespace gradus
