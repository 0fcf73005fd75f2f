#pragma once
#include <string>

namespace gradus {

/// The library's own source text, rooms and files in alphabetical order: something to train on
/// without a download. Throws Error if the source tree that this program was built in is gone.
std::string source_text();

/// The text of a file, or source_text() for an empty path.
std::string read_text(const std::string& path);
/// Its name in logs and help texts: the path, or "gradus's own source".
std::string name_of_text(const std::string& path);

}  // namespace gradus
