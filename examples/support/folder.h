#pragma once
#include <string>

namespace gradus {

/// Creates a folder and its parents unless they exist. Throws Error on failure.
void make_folder(const std::string& path);

/// Creates the folder in which `file` lies, as make_folder does.
void make_folder_of(const std::string& file);

/// Appends `bytes` to the file at `path`, after `head` if the file is new or empty, and syncs it to
/// disk. What is written is removed from `bytes`. Throws Error on failure.
void append_to_file(const std::string& path, const std::string& head, std::string& bytes);

}  // namespace gradus
