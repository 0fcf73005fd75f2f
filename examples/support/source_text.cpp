#include "examples/support/source_text.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "gradus/core/files/safetensors.h"
#include "gradus/models/data/tokenizers/utf8.h"

namespace gradus {

namespace fs = std::filesystem;

namespace {

std::string joined(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) {
    if (!text.empty() && !text.ends_with('\n')) text += '\n';
    const std::string next = read_text(path);
    models::internal::check_utf8(path.c_str(), next);
    text += next;
  }
  return text;
}

/// The files in a folder and in its folders, without hidden ones, in alphabetical order.
std::vector<std::string> files_in(const std::string& folder) try {
  std::vector<std::string> files;
  for (fs::recursive_directory_iterator at(folder), end; at != end; ++at) {
    if (at->path().filename().string().starts_with('.'))
      at.disable_recursion_pending();
    else if (at->is_regular_file())
      files.push_back(at->path().string());
  }
  core::check(!files.empty(), folder, ": expected a folder of texts, it holds no file");
  std::sort(files.begin(), files.end());
  return files;
} catch (const fs::filesystem_error& error) {
  core::fail("cannot read ", folder, ": ", error.code().message());
}

/// Returns whether a file or folder of this name exists; false, too, if the name is too long.
bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::vector<std::string> split_at_commas(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = list.find(',', begin);
    parts.push_back(list.substr(begin, end - begin));
    core::check(!parts.back().empty(), list, ": expected files separated by commas, one is empty");
  }
  return parts;
}

}  // namespace

std::string source_text() {
  std::vector<std::string> files;
  for (const char* room : {"core", "models", "nn", "optim"}) {
    const fs::path folder = fs::path(GRADUS_SOURCE_DIR) / room;
    core::check(fs::is_directory(folder), "the library's source is no longer at ", folder.string(),
                "; give a text with --data");
    for (const std::string& file : files_in(folder.string()))
      if (file.ends_with(".h") || file.ends_with(".cpp")) files.push_back(file);
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const std::string& file : files) text += read_file(file);
  return text;
}

std::string read_text(const std::string& path) {
  if (path.empty()) return source_text();
  if (path == "-") return read_file("/dev/stdin");
  if (exists(path) && fs::is_directory(path)) return joined(files_in(path));
  if (path.find(',') != std::string::npos && !exists(path)) return joined(split_at_commas(path));
  return read_file(path);
}

std::string missing_file(const std::string& paths) {
  if (exists(paths)) return "";
  const std::vector<std::string> parts = split_at_commas(paths);
  const auto first =
      std::ranges::find_if_not(parts, [](const auto& p) { return p == "-" || exists(p); });
  return first == parts.end() ? "" : *first;
}

std::string name_of_text(const std::string& path) {
  return path.empty() ? "gradus's own source" : path;
}

}  // namespace gradus
