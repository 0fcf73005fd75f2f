#include "examples/support/source_text.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "gradus/core/files/safetensors.h"

namespace gradus {

std::string source_text() {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const char* room : {"core", "models", "nn", "optim"}) {
    const fs::path folder = fs::path(GRADUS_SOURCE_DIR) / room;
    core::check(fs::is_directory(folder), "the library's source is no longer at ", folder.string(),
                "; give a text with --data");
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".h" || extension == ".cpp") files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const std::string& file : files) text += read_file(file);
  return text;
}

std::string read_text(const std::string& path) {
  return path.empty() ? source_text() : read_file(path);
}

std::string name_of_text(const std::string& path) {
  return path.empty() ? "gradus's own source" : path;
}

}  // namespace gradus
