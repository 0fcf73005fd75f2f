// JSON from untrusted text, and JSON values in messages.

#include "gradus/core/files/json.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "gradus/core/runtime/error.h"

namespace json_test {

using gradus::internal::json_text;
using gradus::internal::parse_json;
using gradus::internal::shown;
using nlohmann::json;

TEST_CASE("json: values in messages are one line of ASCII", "[json]") {
  CHECK(shown("two\nlines") == R"("two\nlines")");
  CHECK(shown("\xc3\xa9") == R"("\u00e9")");
  CHECK(shown("\xff") == R"("\ufffd")");  // no UTF-8
  CHECK(shown(json{{"a", {1, 2.5, nullptr}}}) == R"({"a":[1,2.5,null]})");
}

TEST_CASE("json: values longer than 200 characters are shortened in messages", "[json]") {
  const std::string x(198, 'x');
  CHECK(shown(x) == '"' + x + '"');
  CHECK(shown(x + "y") == '"' + x + "y...\"");
  std::string list = "[1";
  for (int i = 1; i < 100; ++i) list += ",1";
  CHECK(shown(std::vector<int>(100, 1)) == list + "...");  // without the bracket at its end
}

TEST_CASE("json: errors give the byte, or the key and what it holds", "[json]") {
  const auto parsed = [](const std::string& text) { return parse_json("the text", text); };
  CHECK(parsed(R"({"a": [true, null, -1]})") == json{{"a", {true, nullptr, -1}}});
  CHECK_THROWS_WITH(parsed(std::string("{}\0x", 4)), "the text holds a zero byte at its byte 3");
  CHECK_THROWS_WITH(parsed("[1,"), "the text is not JSON at its byte 4");
  CHECK_THROWS_WITH(parsed("[1e999]"), "the text holds a number out of range at its byte 6");
  const json object{{"dtype", "F32"}, {"size", 3}};
  CHECK(json_text(object, "dtype") == "F32");
  CHECK_THROWS_WITH(json_text(object, "shape"), "expected a string for shape, which is missing");
  CHECK_THROWS_WITH(json_text(object, "size"), "expected a string for size, got 3");
  CHECK_THROWS_WITH(json_text(json{1, 2}, "size"), "expected a JSON object, got [1,2]");
}

}  // namespace json_test
