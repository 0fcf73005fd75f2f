#pragma once
#include <string>

namespace gradus {

/// Returns the library's own source text, with folders and files in alphabetical order. It serves
/// as training data without a download. Throws Error if the source tree from which this program was
/// built does not exist any more.
std::string source_text();

/// Returns the text at `path`: a file, "-" for standard input, a folder (all files in it and its
/// subfolders in alphabetical order, without hidden ones), or a list of these, separated by commas.
/// If `path` as a whole is the name of a file or folder, it is not split at commas. Several texts
/// are joined, each beginning on a new line. If `path` is empty, returns source_text(). Throws
/// Error, naming the file or folder, if one cannot be read, if a file of a folder or list is not
/// UTF-8, or if a folder contains no file. Also throws Error if a path in a list is empty.
std::string read_text(const std::string& path);
/// Returns the first path in a comma-separated list that does not exist, or "" if all exist.
/// "-" (standard input) counts as existing. `paths` may also be one existing file with commas in
/// its name. Throws Error if a path in the list is empty.
std::string missing_file(const std::string& paths);
/// Returns the name of the text in logs and help texts: the path, or "gradus's own source" if the
/// path is empty.
std::string name_of_text(const std::string& path);

}  // namespace gradus
