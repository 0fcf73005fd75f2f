#include "gradus/models/folder/fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"

namespace gradus::models {

template <class Number>
std::optional<Number> parse_number(const std::string& text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [read_to, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || read_to != end || !std::isfinite(static_cast<double>(number)))
    return {};
  return number;
}
template std::optional<int64_t> parse_number(const std::string&);
template std::optional<uint64_t> parse_number(const std::string&);
template std::optional<double> parse_number(const std::string&);

namespace {

using Json = nlohmann::ordered_json;

template <class... Parts>
std::string join(const Parts&... parts) {
  core::Text out;
  (out << ... << parts);
  return out.str();
}

/// " from 0 to 1", or " of at least 0" if the upper limit is only a safeguard.
std::string limits(double least, double most) {
  const auto whole = [](double x) { return join(static_cast<int64_t>(x)); };
  if (most >= 1e15) return " of at least " + whole(least);
  return " from " + join(least) + " to " + (most == std::floor(most) ? whole(most) : join(most));
}

/// Parses the text as a T; nothing if it is not one.
template <class T>
std::optional<T> read(const std::string& text) {
  if constexpr (std::is_same_v<T, std::string>)
    return text;
  else if constexpr (std::is_same_v<T, bool>)
    return text == "true" || text == "false" ? std::optional(text == "true") : std::nullopt;
  else
    return parse_number<T>(text);
}

template <class T>
bool in_limits(const Field& field, const T* value) {
  if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>)
    return field.least <= static_cast<double>(*value) && static_cast<double>(*value) <= field.most;
  return true;
}
bool in_limits(const Field&, const Choice& choice) { return choice.get() < choice.names.size(); }

template <class T>
bool has_type(const T*, const nlohmann::json& json) {
  if constexpr (std::is_same_v<T, std::string>)
    return json.is_string();
  else if constexpr (std::is_same_v<T, bool>)
    return json.is_boolean();
  else if constexpr (std::is_same_v<T, double>)
    return json.is_number();
  else
    return json.is_number_integer();
}
bool has_type(const Choice&, const nlohmann::json& json) { return json.is_string(); }

/// Whether the text is of the field's type and within its limits. If so and `writing`, sets the
/// value.
template <class T>
bool assign(const Field& field, T* value, const std::string& text, bool writing) {
  std::optional<T> given = read<T>(text);
  if (!given || !in_limits(field, &*given)) return false;
  if (writing) *value = std::move(*given);
  return true;
}
bool assign(const Field&, const Choice& choice, const std::string& text, bool writing) {
  const auto found = std::find(choice.names.begin(), choice.names.end(), text);
  if (found == choice.names.end()) return false;
  if (writing) choice.set(static_cast<size_t>(found - choice.names.begin()));
  return true;
}

Json to_json(const Field& field) {
  if (const auto* choice = std::get_if<Choice>(&field.value)) return Json(choice->name());
  return std::visit(
      [](const auto& p) {
        if constexpr (std::is_pointer_v<std::decay_t<decltype(p)>>) return Json(*p);
        return Json();
      },
      field.value);
}

}  // namespace

std::string Field::expected() const {
  if (std::holds_alternative<int64_t*>(value)) return "a whole number" + limits(least, most);
  if (std::holds_alternative<double*>(value)) return "a number" + limits(least, most);
  if (std::holds_alternative<uint64_t*>(value)) return "a whole number of at least 0";
  if (std::holds_alternative<bool*>(value)) return "true or false";
  if (std::holds_alternative<std::string*>(value)) return "a text";
  std::string names;
  for (const std::string& name : std::get<Choice>(value).names)
    names += (names.empty() ? "one of " : ", ") + name;
  return names;
}

std::string Field::to_text() const {
  if (const auto* text = std::get_if<std::string*>(&value)) return **text;
  if (const auto* choice = std::get_if<Choice>(&value)) return choice->name();
  if (const auto* number = std::get_if<double*>(&value); number && !std::isfinite(**number))
    return join(**number);  // JSON cannot express it
  return to_json(*this).dump();
}

void Field::set(const std::string& called, const std::string& text) const {
  const bool done = std::visit([&](const auto& v) { return assign(*this, v, text, true); }, value);
  if (!done) fail(called, ": expected ", expected(), ", got ", shown(text));
}

Field& Fields::add(Field field) {
  if (field.initial.empty()) field.initial = field.to_text();
  list_.push_back(std::move(field));
  return list_.back();
}

Field& Fields::add(std::string name, gradus::Activation& value, std::string meaning) {
  std::vector<std::string> names;
  for (const gradus::Activation a : activations) names.push_back(name_of(a));
  return add(std::move(name), value, std::move(names), std::move(meaning));
}

void Fields::append(const Fields& other) {
  list_.insert(list_.end(), other.list_.begin(), other.list_.end());
  earlier_.insert(earlier_.end(), other.earlier_.begin(), other.earlier_.end());
}

void Fields::renamed(const std::string& name, const std::string& earlier,
                     std::map<std::string, std::string> now) {
  earlier_.push_back({name, earlier, std::move(now)});
}

const Field* Fields::find(const std::string& name) const {
  for (const Field& field : list_)
    if (field.name == name) return &field;
  return nullptr;
}

void Fields::check(const char* op) const {
  for (const Field& field : list_)
    if (!std::visit([&](const auto& v) { return in_limits(field, v); }, field.value))
      fail(op, ": ", field.name, ": expected ", field.expected(), ", got ", field.to_text());
}

std::string Fields::to_json(bool lines) const {
  Json json = Json::object();
  for (const Field& field : list_) json[field.name] = models::to_json(field);
  return json.dump(lines ? 2 : -1, ' ', false, Json::error_handler_t::replace);
}

void Fields::read_json(const std::string& where, const std::string& text) const {
  nlohmann::json json = parse_json(where.c_str(), text);
  if (!json.is_object()) fail(where, ": expected a JSON object, got ", shown(json));
  for (const Earlier& e : earlier_)
    if (const auto found = json.find(e.earlier); found != json.end()) {
      const auto now = found->is_string() ? e.now.find(found->get<std::string>()) : e.now.end();
      if (now == e.now.end() || json.contains(e.name))
        fail(where, ": ", e.earlier, ": ", shown(*found), " is not a value of an earlier version");
      json[e.name] = now->second;
      json.erase(found);
    }
  for (const auto& [name, value] : json.items())
    if (!find(name)) fail(where, ": ", shown(nlohmann::json(name)), " is not a known entry");
  for (const bool writing : {false, true})  // first check everything, then write
    for (const Field& field : list_) {
      const auto found = json.find(field.name);
      if (found == json.end() && field.optional) {
        if (writing) field.set(field.name, field.initial);
        continue;
      }
      const std::string called = where + ": " + field.name;
      if (found == json.end()) fail(called, " is missing: expected ", field.expected());
      const bool fits = std::visit(
          [&, &json = *found](const auto& v) {
            return has_type(v, json) &&
                   assign(field, v, json.is_string() ? json.get<std::string>() : json.dump(),
                          writing);
          },
          field.value);
      if (!fits) fail(called, ": expected ", field.expected(), ", got ", shown(*found));
    }
}

}  // namespace gradus::models
