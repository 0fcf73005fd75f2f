#include "gradus/models/folder/folder_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "gradus/core/files/file.h"
#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"

namespace gradus::models {

std::string internal::in_folder(const std::string& dir, const std::string& file) {
  return (std::filesystem::path(dir) / file).string();
}

bool internal::file_exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

void internal::create_folder(const char* op, const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  check(std::filesystem::is_directory(dir, error), op, ": cannot create the folder ", dir);
}

nlohmann::json internal::read_json(const std::string& path) {
  return parse_json((path + ": the file").c_str(), read_file(path));
}

nlohmann::json internal::read_json_object(const std::string& path) {
  nlohmann::json json = read_json(path);
  if (!json.is_object()) fail(path, ": expected a JSON object, got ", shown(json));
  return json;
}

void internal::write_json(const std::string& path, const nlohmann::ordered_json& json) {
  write_file_atomically(path,
                        json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
}

}  // namespace gradus::models
