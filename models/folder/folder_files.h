#pragma once
// The files of a model folder. For the library's own use: no public header includes this.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gradus::models::internal {

/// The path of a file in a folder.
std::string in_folder(const std::string& dir, const std::string& file);
/// Whether a file or folder exists at that path.
bool file_exists(const std::string& path);
/// Creates the folder unless it exists. Throws Error, opening with `op`, if it cannot.
void create_folder(const char* op, const std::string& dir);

/// The content of a JSON file. Throws Error, naming the file, if it cannot be read or is not JSON.
nlohmann::json read_json(const std::string& path);
/// As read_json, but also throws Error unless the content is a JSON object.
nlohmann::json read_json_object(const std::string& path);
/// Writes a JSON file, indented, replacing it atomically.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace gradus::models::internal
