#pragma once
// JSON as our files hold it: read from text that anyone may have written.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gradus::internal {

/// Text as JSON. Throws Error, opening with `what` the text is ("the header") and naming the byte
/// where it can, on what is not JSON, on numbers out of range, a name given twice in one object, a
/// zero byte, and values nested more than 16 deep.
nlohmann::json parse_json(const char* what, const std::string& text);

/// object[key], a string. Throws Error, naming the key, if it is missing or anything else.
std::string json_text(const nlohmann::json& object, const char* key);

/// A value as messages show it: in ASCII, on one line, not endless.
std::string shown(const nlohmann::json& value);

}  // namespace gradus::internal
