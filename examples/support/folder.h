#pragma once
#include <string>

namespace gradus {

/// Creates a folder and its parents if they do not exist yet. Throws Error on failure.
void make_folder(const std::string& path);

/// Creates the parent folders of `file` that do not exist yet. Throws Error on failure.
void make_folder_of(const std::string& file);

/// Appends `bytes` to the file at `path` and syncs the file to disk. If the file is new or empty,
/// writes `head` first. Removes the written bytes from `bytes`, so that after a failure another
/// call can write the rest. Throws Error on failure.
void append_to_file(const std::string& path, const std::string& head, std::string& bytes);

}  // namespace gradus
