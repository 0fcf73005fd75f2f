#include "examples/pictures/html.h"

#include <nlohmann/json.hpp>

#include "examples/pictures/heat_map.h"

namespace gradus {

using nlohmann::json;

namespace {
std::string escaped_html(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else
      result += c;
  }
  return result;
}
}  // namespace

std::string ascii_json(const json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace);
}

std::string escaped_json(const json& value) {
  std::string result;
  for (const char c : ascii_json(value)) result += c == '<' ? "\\u003c" : std::string(1, c);
  return result;
}

std::string filled_page(std::string_view page, const std::string& title, const std::string& data) {
  std::string result;
  for (size_t at = 0; at < page.size();) {
    const size_t marker = page.find('@', at);
    result += page.substr(at, marker - at);
    if (marker == std::string_view::npos) break;
    const std::string_view rest = page.substr(marker);
    if (rest.starts_with("@title@")) {
      result += escaped_html(visible(title, false));
      at = marker + 7;
    } else if (rest.starts_with("@data@")) {
      result += data;
      at = marker + 6;
    } else {
      result += '@';
      at = marker + 1;
    }
  }
  return result;
}

}  // namespace gradus
