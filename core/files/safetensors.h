#pragma once
// Reads and writes files in the safetensors format: the header's length (8 bytes, little endian), a
// JSON header, and the elements of all tensors. https://github.com/huggingface/safetensors

#include <map>

#include "gradus/core/files/file.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// A list of tensors with their names, for example a module's parameters in order of registration.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// The content of a safetensors file.
struct SafetensorsFile {
  NamedTensors tensors;  ///< in the order in which the file stores their elements
  /// The header's __metadata__, without the entries that save_safetensors() adds itself.
  std::map<std::string, std::string> metadata;
};

/// Writes the tensors to the file at `path`. Like write_file_atomically(), leaves an existing file
/// unchanged if an error occurs. The header's __metadata__ contains `metadata` and two more
/// entries, gradus.format and gradus.checksum. The checksum covers the header and the data.
///
/// An int8 matrix NAME is written as two tensors: its elements as NAME, of type I8, and its scales
/// as NAME.scales, of type BF16 and shape (rows, ceil(columns / 32)). A bfloat16 tensor is written
/// as type BF16, which load_safetensors() converts to float32.
///
/// Throws Error if
/// - a tensor is undefined, is named __metadata__ or has the same name as another,
/// - a tensor is bfloat16 or int8 and not contiguous,
/// - a tensor is a sliced, reshaped or transposed view of an int8 matrix,
/// - `metadata` contains gradus.format or gradus.checksum,
/// - a name or the metadata is not UTF-8, or the header would be longer than 100,000,000 bytes, or
/// - the file cannot be written.
void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata = {});

/// Maps a file into memory, validates it and returns its content. F32, F64 and I64 tensors whose
/// data is aligned use the mapped memory. Writing to such a tensor does not change the file. An I8
/// tensor with scales, as written by save_safetensors(), becomes an int8 matrix that also uses the
/// mapped memory. All other tensors are copied: F16 and BF16 are converted to float32, and the
/// other integer types to int64. While the tensors exist, the file may be removed or replaced by
/// another, as save_safetensors() does, but must not be truncated or overwritten.
///
/// Throws Error, naming the file and the problem, if the file cannot be read or is not valid, for
/// example if
/// - the header is longer than 100,000,000 bytes or than the file, or is not valid JSON,
/// - a dtype is unknown, a tensor has more than max_rank axes, or a U64 element exceeds 2^63 - 1,
/// - the offsets of tensors overlap, leave gaps, overflow or do not match the tensors' shapes,
/// - bytes are missing or left over, or the content does not match the file's checksum.
///
/// A file of another program, with neither gradus.format nor gradus.checksum, is accepted and its
/// content is not checked against a checksum.
SafetensorsFile load_safetensors(const std::string& path);

}  // namespace gradus
