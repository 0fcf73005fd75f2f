#pragma once
// Reads and writes whole files.

#include <string>

namespace gradus {

/// Returns the content of a file. Throws Error, naming the file, if the file cannot be read.
std::string read_file(const std::string& path);

/// Writes `bytes` to the file at `path`, which is created or replaced. The write is atomic: after
/// an Error or a crash, the file is either unchanged or complete. The bytes are first written to a
/// file named `path`.tmp, which is renamed to `path` once it is on disk. A `path`.tmp left over
/// from a crash is overwritten. Threads and processes that write the same path wait for each other
/// if the file system supports locks. If `path` is a symbolic link, the new file replaces the link.
/// Throws Error, naming the file, if the file cannot be written.
void write_file_atomically(const std::string& path, const std::string& bytes);

}  // namespace gradus
