#pragma once
// Pages that are one file, with their data as JSON in a script element.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gradus {

/// Returns JSON that has ASCII characters only. Bytes that are not UTF-8 are replaced.
std::string ascii_json(const nlohmann::json& value);

/// Returns ascii_json(value) for a script element: `<` is escaped, because `</script` would end the
/// element.
std::string escaped_json(const nlohmann::json& value);

/// Returns `page` with its marker @title@ replaced by the title, as text, and @data@ by `data`,
/// which escaped_json() returned. Markers inside the title and the data are not replaced.
std::string filled_page(std::string_view page, const std::string& title, const std::string& data);

}  // namespace gradus
