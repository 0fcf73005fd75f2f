#pragma once
// The files of a model folder. Internal: no public header includes this file.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gradus::models::internal {

/// Returns the path of a file in a folder.
std::string in_folder(const std::string& dir, const std::string& file);
/// Returns whether a file or folder exists at that path.
bool file_exists(const std::string& path);
/// Creates the folder unless it exists. Throws Error if it cannot. The message opens with `op`.
void create_folder(const char* op, const std::string& dir);

/// Returns the content of a JSON file. Throws Error, naming the file, if it cannot be read or is
/// not JSON.
nlohmann::json read_json(const std::string& path);
/// Returns the content of a JSON file like read_json, but also throws Error unless it is a JSON
/// object.
nlohmann::json read_json_object(const std::string& path);
/// Writes an indented JSON file, replacing an existing file atomically.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace gradus::models::internal
