#pragma once
// Reads and writes whole files.

#include <string>

namespace gradus {

/// Returns the content of a file. Throws Error, naming the file, if the file cannot be read.
std::string read_file(const std::string& path);

/// Creates or replaces the file at `path`, with the content `bytes`, atomically: after an Error or
/// a crash, the file is either unchanged or complete. The bytes are first written to `path`.tmp.
/// Once they are on disk, this file is renamed to `path`. Threads and processes that write the same
/// path wait for each other if the file system has locks. A `path`.tmp left over from a crash is
/// overwritten. If `path` is a symbolic link, the new file replaces the link. Throws Error, naming
/// the file, if the file cannot be written.
void write_file_atomically(const std::string& path, const std::string& bytes);

}  // namespace gradus
