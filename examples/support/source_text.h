#pragma once
#include <string>

namespace gradus {

/// The library's own source text, folders and files in alphabetical order: training data without a
/// download. Throws Error if the source tree in which this program was built is gone.
std::string source_text();

/// The text of a file; of standard input for "-"; of all files in a folder, in alphabetical order,
/// without hidden ones; or of several of these, separated by commas. A line break separates texts.
/// source_text() for an empty path. Throws Error, naming the file or folder, if one cannot be read, if
/// one of several is not UTF-8, or if a folder holds no file.
std::string read_text(const std::string& path);
/// The first of these files or folders, separated by commas, that does not exist, or "". The path may
/// also be that of a single file with commas in its name.
std::string missing_file(const std::string& paths);
/// The text's name in logs and help texts: the path, or "gradus's own source".
std::string name_of_text(const std::string& path);

}  // namespace gradus
