#pragma once
// Helpers for model folders and the JSON files in them. Internal: no public header includes this
// file.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "gradus/core/runtime/error.h"

namespace gradus::models::internal {

/// Returns the path of a file in a folder.
std::string in_folder(const std::string& dir, const std::string& file);
/// Returns whether a file or folder exists at that path.
bool file_exists(const std::string& path);
/// Creates the folder and its parents if they do not exist. Throws Error on failure; the message
/// begins with `op`.
void create_folder(const char* op, const std::string& dir);

/// Returns the content of a JSON file. Throws Error, naming the file, if it cannot be read or if
/// parse_json() (core/files/json.h) rejects its content.
nlohmann::json read_json(const std::string& path);
/// Returns the content of a JSON file, which must be an object. Throws Error, naming the file, if
/// the content is not an object. Also throws the errors of read_json().
nlohmann::json read_json_object(const std::string& path);
/// Writes an indented JSON file, replacing an existing file atomically. Throws Error on failure.
void write_json(const std::string& path, const nlohmann::ordered_json& json);

}  // namespace gradus::models::internal
