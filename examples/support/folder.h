#pragma once
#include <string>

namespace gradus {

/// Creates a folder and its parents unless they exist. Throws Error on failure.
void make_folder(const std::string& path);

/// Creates the folder in which `file` lies, as make_folder does.
void make_folder_of(const std::string& file);

}  // namespace gradus
