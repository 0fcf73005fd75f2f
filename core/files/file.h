#pragma once
// Reading and writing whole files.

#include <string>

namespace gradus {

/// Returns the content of a file. Throws Error naming the file if it cannot be read.
std::string read_file(const std::string& path);

/// Replaces the file at `path` atomically: after an Error or a crash it is either unchanged or
/// complete. The new file is written as `path`.tmp and renamed once it is on disk. Concurrent
/// writers of one path, threads or processes, take turns; a leftover `path`.tmp is reused.
void write_file_atomically(const std::string& path, const std::string& bytes);

}  // namespace gradus
