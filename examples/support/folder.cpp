#include "examples/support/folder.h"

#include <filesystem>

#include "gradus/core/runtime/error.h"

namespace gradus {

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  core::check(!error, "cannot create the folder ", path, ": ", error.message());
}

void make_folder_of(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  if (!folder.empty()) make_folder(folder.string());
}

}  // namespace gradus
