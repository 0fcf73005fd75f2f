#include "examples/support/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "examples/support/text.h"
#include "gradus/core/error.h"

namespace gradus {
namespace {

using Json = nlohmann::json;

template <class... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// "from 0 to 1", or "of at least 0" where the upper limit is only there to be safe.
std::string limits(double least, double most) {
  const auto whole = [](double x) { return join(static_cast<int64_t>(x)); };
  if (most >= 1e15) return "of at least " + whole(least);
  return "from " + join(least) + " to " + (most == std::floor(most) ? whole(most) : join(most));
}

template <class Number>
void set_number(Number& value, double least, double most, const std::string& called,
                const std::string& text) {
  const auto number = parse_number<Number>(text);
  const double x = number ? static_cast<double>(*number) : 0;
  core::check(number && least <= x && x <= most, called, ": expected a ",
              std::is_integral_v<Number> ? "whole number " : "number ", limits(least, most),
              ", got ", shown(text));
  value = *number;
}

Json parse_flat(const std::string& text, const std::string& where) {
  const auto flat = [&](int depth, Json::parse_event_t event, Json&) {
    core::check(depth == 0 || (event != Json::parse_event_t::object_start &&
                               event != Json::parse_event_t::array_start),
                where, ": expected options one level deep");
    return true;
  };
  try {
    Json json = Json::parse(text, flat);
    core::check(json.is_object(), where, ": expected options as a JSON object");
    return json;
  } catch (const Json::exception&) {
    core::fail(where, ": the options are not JSON");
  }
}

bool has_type(const Json& json, const int64_t*) { return json.is_number_integer(); }
bool has_type(const Json& json, const uint64_t*) { return json.is_number_unsigned(); }
bool has_type(const Json& json, const double*) { return json.is_number(); }
bool has_type(const Json& json, const bool*) { return json.is_boolean(); }
bool has_type(const Json& json, const std::string*) { return json.is_string(); }

}  // namespace

// ---- declarations ----

std::string Flags::Flag::key() const {
  std::string key = name.substr(2);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

void Flags::group(std::string title, bool stored) {
  groups_.emplace_back(flags_.size(), std::move(title));
  storing_ = stored;
}

void Flags::add(const std::string& name, const std::string& kind, const std::string& meaning,
                std::string default_shown, Value value, double least, double most) {
  flags_.push_back(
      {name, kind, meaning, std::move(default_shown), value, least, most, storing_, false});
}

void Flags::add(const std::string& name, int64_t& value, double least, double most,
                const std::string& meaning) {
  add(name, "N", meaning, join(value), &value, least, most);
}
void Flags::add(const std::string& name, double& value, double least, double most,
                const std::string& meaning, const std::string& default_shown) {
  add(name, "X", meaning, default_shown.empty() ? join(value) : default_shown, &value, least, most);
}
void Flags::add(const std::string& name, uint64_t& value, const std::string& meaning) {
  add(name, "N", meaning, join(value), &value, 0, 0x1p64);
}
void Flags::add(const std::string& name, std::string& value, const std::string& kind,
                const std::string& meaning, const std::string& default_shown) {
  add(name, kind, meaning, default_shown.empty() ? value : default_shown, &value, 0, 0);
}
void Flags::add(const std::string& name, bool& value, const std::string& meaning) {
  add(name, "", meaning, "", &value, 0, 0);
}

// ---- the command line ----

void Flags::set(const Flag& flag, const std::string& called, const std::string& text) {
  std::visit(
      [&](auto* value) {
        using T = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::string>)
          *value = text;
        else if constexpr (std::is_same_v<T, bool>)
          *value = text == "true";
        else
          set_number(*value, flag.least, flag.most, called, text);
      },
      flag.value);
}

bool Flags::parse(int argc, char** argv) {
  CLI::App app;
  std::vector<std::string> texts(flags_.size(), "true");
  std::vector<CLI::Option*> options;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  for (size_t i = 0; i < flags_.size(); ++i)
    options.push_back(flags_[i].kind.empty()
                          ? app.add_flag(flags_[i].name)
                          : app.add_option(flags_[i].name, texts[i])->type_name(flags_[i].kind));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& e) {
    const std::string message = e.what();
    core::fail(message.substr(0, 100), message.size() > 100 ? "..." : "",
               " (--help lists the flags)");
  }
  for (size_t i = 0; i < flags_.size(); ++i) {
    flags_[i].given = options[i]->count() > 0;
    if (flags_[i].given) set(flags_[i], flags_[i].name, texts[i]);
  }
  return true;
}

bool Flags::given(const std::string& name) const {
  return std::any_of(flags_.begin(), flags_.end(),
                     [&](const Flag& flag) { return flag.name == name && flag.given; });
}

std::string Flags::help() const {
  std::ostringstream out;
  out << about_ << '\n';
  auto group = groups_.begin();
  for (size_t i = 0; i < flags_.size(); ++i) {
    if (group != groups_.end() && group->first == i) out << '\n' << group++->second << '\n';
    std::string name = "  " + flags_[i].name + ' ' + flags_[i].kind;
    name.resize(std::max<size_t>(name.size() + 1, 22), ' ');
    out << name << flags_[i].meaning;
    if (!flags_[i].default_shown.empty()) out << "; default " << flags_[i].default_shown;
    out << '\n';
  }
  return out.str();
}

// ---- checkpoints ----

std::string Flags::to_json() const {
  Json json = Json::object();
  for (const Flag& flag : flags_)
    if (flag.stored) std::visit([&](const auto* value) { json[flag.key()] = *value; }, flag.value);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Flags::restore(const std::string& json, const std::string& where,
                    const std::vector<std::string>& may_change) {
  const Json stored = parse_flat(json, where);
  const Json asked = Json::parse(to_json());
  for (const auto& [key, value] : stored.items())
    core::check(asked.contains(key), where, ": unknown option ", shown(key));
  for (const Flag& flag : flags_) {
    if (!flag.stored) continue;
    const std::string key = flag.key(), called = where + ": option " + key;
    core::check(stored.contains(key), called, " is missing");
    const Json &value = stored[key], &given = asked[key];
    auto set_to = [&](const Json& to) {
      set(flag, called, to.is_string() ? to.get<std::string>() : to.dump());
    };
    core::check(std::visit([&](const auto* p) { return has_type(value, p); }, flag.value), called,
                ": expected a ", given.type_name(), ", got ", shown(value.dump()));
    set_to(value);
    if (!flag.given || given == value) continue;
    const bool may = std::find(may_change.begin(), may_change.end(), flag.name) != may_change.end();
    core::check(may, flag.name, " contradicts the run in ", where, ": it has ", shown(value.dump()),
                ", the command line ", shown(given.dump()));
    set_to(given);
  }
}

}  // namespace gradus
