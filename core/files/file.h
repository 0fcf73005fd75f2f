#pragma once
// Whole files.

#include <string>

namespace gradus {

/// The whole content of a file. Throws Error naming it if it cannot be read.
std::string read_file(const std::string& path);

/// Puts a file with these bytes in the place of `path`, which after an Error or a crash is as
/// before or complete. The new file is called `path`.tmp until it is whole and on the disk. Writers
/// of one path, threads or processes, take turns; what a killed one left, the next uses up.
void write_file_atomically(const std::string& path, const std::string& bytes);

}  // namespace gradus
