#pragma once
// Fills templates of self-contained web pages, whose data is JSON in a script element.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gradus {

/// Returns `value` as JSON with ASCII characters only. Invalid UTF-8 is replaced by U+FFFD.
std::string ascii_json(const nlohmann::json& value);

/// Returns ascii_json(value) for a script element of a web page. `<` is escaped, because `</script`
/// would end the element.
std::string escaped_json(const nlohmann::json& value);

/// Returns `page` with each marker `@title@` replaced by `title`, escaped for HTML, and each marker
/// `@data@` replaced by `data`, which must come from escaped_json(). Markers inside the title and
/// the data are not replaced.
std::string filled_page(std::string_view page, const std::string& title, const std::string& data);

}  // namespace gradus
