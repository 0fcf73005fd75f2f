#pragma once
// Reads and writes whole files.

#include <string>

namespace gradus {

/// Returns the content of a file. Throws Error naming the file if it cannot be read.
std::string read_file(const std::string& path);

/// Replaces the file at `path` atomically: after an Error or a crash, the file is either unchanged
/// or complete. The content is written to `path`.tmp, which is renamed to `path` once it is on
/// disk. Threads and processes that write the same path wait for each other. A leftover `path`.tmp
/// is reused.
void write_file_atomically(const std::string& path, const std::string& bytes);

}  // namespace gradus
