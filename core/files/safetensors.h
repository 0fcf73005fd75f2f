#pragma once
// The safetensors file format: header length (8 bytes, little endian), JSON header, raw elements.
// https://github.com/huggingface/safetensors

#include <map>

#include "gradus/core/files/file.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Tensors with names, in the order of a module's registration or of a file.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// The content of a safetensors file.
struct SafetensorsFile {
  NamedTensors tensors;                         ///< in file order
  std::map<std::string, std::string> metadata;  ///< the header's __metadata__
};

/// Replaces the file at `path` with the tensors, atomically, like write_file_atomically. Adds the
/// entries gradus.format and gradus.checksum to the header's __metadata__; `metadata` must not
/// contain them. The checksum covers the header and the data. An int8 matrix NAME becomes two
/// tensors: NAME, I8, and its scales NAME.scales, BF16 (rows, ceil(columns / 32)).
void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata = {});

/// Maps a file into memory and validates all of it, in time linear in its size. F32, F64 and I64
/// tensors whose data is aligned use the mapping, copying pages on write. The rest is copied, F16
/// and BF16 as float32, integers other than I64 as int64; but I8 with scales, as above, becomes an
/// int8 matrix that uses the mapping. While the tensors live, the file may be
/// removed or replaced, as save_safetensors does, but not truncated or overwritten.
///
/// Throws Error, naming the file and the problem, on a header longer than 100,000,000 bytes or than
/// the file, bad JSON, unknown dtypes, offsets that overlap, leave gaps, overflow or do not match
/// their shape, missing or extra bytes, and content that does not match its checksum. Files written
/// by other programs have no checksum and are accepted.
SafetensorsFile load_safetensors(const std::string& path);

}  // namespace gradus
