#pragma once
// Parses JSON from untrusted text.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gradus::internal {

/// Returns the value of JSON text. Throws Error on invalid JSON, numbers out of range, duplicate
/// names in an object, zero bytes and nesting deeper than 16 levels. The message begins with
/// `what`, for example "the header", and gives the position of the faulty byte if it is known.
nlohmann::json parse_json(const char* what, const std::string& text);

/// Returns the string object[key]. Throws Error naming the key if it is missing or not a string.
std::string json_text(const nlohmann::json& object, const char* key);

/// Returns a value as text for messages: one line of ASCII, shortened if it is long.
std::string shown(const nlohmann::json& value);

}  // namespace gradus::internal
