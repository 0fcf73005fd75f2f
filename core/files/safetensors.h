#pragma once
// The safetensors file format: 8 bytes header length (little endian), a JSON header, raw numbers.
// https://github.com/huggingface/safetensors

#include <map>

#include "gradus/core/files/file.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus {

/// Tensors by name, in the order of registration or of the file.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// What load_safetensors reads.
struct SafetensorsFile {
  NamedTensors tensors;                         ///< in the order of the file
  std::map<std::string, std::string> metadata;  ///< the header's __metadata__
};

/// Writes the tensors in the place of `path`, as write_file_atomically does. The header's __metadata__ also
/// gets the entries gradus.format and gradus.checksum, which may not be given; the checksum covers
/// all that the file says.
void save_safetensors(const std::string& path, const NamedTensors& tensors,
                      const std::map<std::string, std::string>& metadata = {});

/// Maps a file into memory and checks all of it, in time linear in its size. F32, F64 and I64 are the
/// file's own bytes, copied where they are written to; BOOL, F16 and BF16 (as float32), other integers
/// (as int64) and what is not aligned have memory of their own. So while the tensors live the file may
/// be replaced and removed, as save_safetensors does, but not shortened or written over. Throws Error, naming the file and what is wrong, on a header
/// longer than 100,000,000 bytes or than the file, on bad JSON, unknown dtypes, offsets that
/// overlap, leave gaps, overflow or do not fit their shape, on bytes missing or left over, and on
/// content that does not match its checksum. Files of others have none, and pass.
SafetensorsFile load_safetensors(const std::string& path);

}  // namespace gradus
