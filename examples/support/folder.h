#pragma once
#include <string>

namespace gradus {

/// Creates a folder and its parents unless they exist. Throws Error on failure.
void make_folder(const std::string& path);

/// Creates the folder of the file at `file` and the folder's parents, like make_folder.
void make_folder_of(const std::string& file);

/// Appends `bytes` to the file at `path`, after `head` if the file is new or empty, and syncs the
/// file to disk. Removes the bytes that were written from `bytes`. Throws Error on failure.
void append_to_file(const std::string& path, const std::string& head, std::string& bytes);

}  // namespace gradus
