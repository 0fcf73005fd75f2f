#pragma once
// Pages that are one file: their data is JSON in a script element.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gradus {

/// JSON of ASCII characters only. Bytes that are not UTF-8 are replaced.
std::string ascii_json(const nlohmann::json& value);

/// As ascii_json(), for a script element: `<` is escaped, since `</script` would end the element.
std::string escaped_json(const nlohmann::json& value);

/// The page with its markers @title@ and @data@ replaced by the title, as text, and by `data`, from
/// escaped_json(). Markers inside these stay as they are.
std::string filled_page(std::string_view page, const std::string& title, const std::string& data);

}  // namespace gradus
