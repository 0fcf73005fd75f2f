#pragma once
// Parses JSON from untrusted text.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gradus::internal {

/// Parses JSON text and returns its value. Throws Error on invalid JSON, numbers out of double's
/// range, duplicate keys in an object, NUL bytes and nesting deeper than 16 levels. The message
/// begins with `what`, for example "the header", and states the position of the faulty byte if
/// known.
nlohmann::json parse_json(const char* what, const std::string& text);

/// Returns the string object[key]. Throws Error if `object` is not a JSON object, if the key is
/// missing or if its value is not a string.
std::string json_text(const nlohmann::json& object, const char* key);

/// Returns a JSON value as text for messages: one line of ASCII, shortened if long.
std::string shown(const nlohmann::json& value);

}  // namespace gradus::internal
