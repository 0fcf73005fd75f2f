#include "gradus/core/files/json.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"

namespace gradus::internal {

namespace {

using nlohmann::json;

/// Builds a value from the parser's events. nlohmann's builder limits no depth and detects no
/// duplicate names, and takes quadratic time with a callback.
class Builder : public nlohmann::json_sax<json> {
 public:
  explicit Builder(const char* what) : what_(what) {}
  json root;

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON text has no binary values
  bool start_object(size_t) override { return open(json::object()); }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    const auto [at, is_new] = open_.back()->get_ref<json::object_t&>().emplace(name, nullptr);
    if (!is_new) fail(what_, " names ", shown(name), " twice");
    named_ = &at->second;
    return true;
  }
  bool parse_error(size_t byte, const std::string&, const json::exception& e) override {
    constexpr int out_of_range = 406;
    fail(what_, e.id == out_of_range ? " holds a number out of range" : " is not JSON",
         " at its byte ", byte);
  }

 private:
  json& insert(json value) {
    if (open_.empty()) return root = std::move(value);
    if (open_.back()->is_object()) return *named_ = std::move(value);
    return open_.back()->get_ref<json::array_t&>().emplace_back(std::move(value));
  }
  bool add(json value) {
    insert(std::move(value));
    return true;
  }
  bool open(json empty) {
    check(open_.size() < 16, what_, " is nested too deep");
    open_.push_back(&insert(std::move(empty)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const char* what_;
  std::vector<json*> open_;  // the arrays and objects enclosing the next value
  json* named_ = nullptr;    // where the innermost open object stores the next value
};

}  // namespace

json parse_json(const char* what, const std::string& text) {
  const size_t zero = text.find('\0');  // the parser would stop there
  check(zero == std::string::npos, what, " holds a zero byte at its byte ", zero + 1);
  Builder builder(what);
  json::sax_parse(text, &builder);
  return std::move(builder.root);
}

std::string json_text(const json& object, const char* key) {
  if (!object.is_object()) fail("expected a JSON object, got ", shown(object));
  const auto found = object.find(key);
  check(found != object.end(), "expected a string for ", key, ", which is missing");
  if (!found->is_string()) fail("expected a string for ", key, ", got ", shown(*found));
  return *found;
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  constexpr size_t most = 200;
  if (text.size() > most)
    text.replace(most, std::string::npos, value.is_string() ? "...\"" : "...");
  return text;
}

}  // namespace gradus::internal
