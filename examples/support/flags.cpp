#include "examples/support/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "examples/support/text.h"
#include "gradus/core/runtime/error.h"

namespace gradus {

// ---- declarations ----

std::string Flags::key_of(const std::string& name) {
  std::string key = name.substr(2);
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

std::string Flags::Flag::name() const {
  std::string name = field.name;
  std::replace(name.begin(), name.end(), '_', '-');
  return (turns_off ? "--no-" : "--") + name;
}

void Flags::group(std::string title, bool stored) {
  groups_.emplace_back(flags_.size(), std::move(title));
  storing_ = stored;
}

void Flags::add(models::Field field, const std::string& kind, const std::string& default_shown) {
  const auto* is_on = std::get_if<bool*>(&field.value);
  if (field.initial.empty()) field.initial = field.to_text();
  const std::string shown = kind.empty()            ? ""
                            : default_shown.empty() ? field.to_text()
                                                    : default_shown;
  flags_.push_back({std::move(field), kind, shown, storing_, is_on && **is_on, "", false});
}

void Flags::add(const std::string& name, std::string& value, const std::string& kind,
                const std::string& meaning, const std::string& default_shown) {
  add({key_of(name), meaning, &value}, kind, default_shown);
}

void Flags::add_optional(const std::string& name, int64_t& value, int64_t when_left_out,
                         double most, const std::string& kind, const std::string& meaning) {
  const std::string otherwise = std::to_string(when_left_out);
  add({key_of(name), meaning, &value, 0, most}, '[' + kind + ']', kind + ' ' + otherwise);
  flags_.back().when_left_out = otherwise;
}

void Flags::add(const models::Fields& fields, const std::vector<std::string>& except) {
  for (const models::Field& field : fields.list())
    if (std::find(except.begin(), except.end(), field.name) == except.end())
      add(field, std::visit([](const auto& value) { return kind_of(value); }, field.value), "");
}

void Flags::added_later(const std::vector<std::string>& names) {
  for (Flag& flag : flags_)
    if (std::find(names.begin(), names.end(), flag.name()) != names.end())
      flag.field.optional = true;
}

// ---- the command line ----

bool Flags::parse(int argc, char** argv) { return read_command_line(argc, argv, false); }

void Flags::parse_known(int argc, char** argv) { read_command_line(argc, argv, true); }

bool Flags::read_command_line(int argc, char** argv, bool known_only) {
  CLI::App app;
  app.allow_extras();
  if (known_only) app.set_help_flag();
  std::vector<CLI::Option*> options;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  for (Flag& flag : flags_) {
    flag.typed = flag.turns_off ? "false" : "true";
    options.push_back(flag.kind.empty()
                          ? app.add_flag(flag.name())->disable_flag_override()
                          : app.add_option(flag.name(), flag.typed)->type_name(flag.kind));
    if (!flag.when_left_out.empty()) options.back()->expected(0, 1);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::fputs(help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& e) {
    const std::string message = e.what();
    core::fail(message.substr(0, 100), message.size() > 100 ? "..." : "", " (see --help)");
  }
  if (!known_only) take_rest(app.remaining());
  for (size_t i = 0; i < flags_.size(); ++i) {
    flags_[i].given = options[i]->count() > 0;
    if (!flags_[i].given) continue;
    if (flags_[i].typed.empty()) flags_[i].typed = flags_[i].when_left_out;
    core::check(!flags_[i].typed.starts_with("--"), flags_[i].name(), ": expected a value, got ",
                shown(flags_[i].typed));
    const bool is_path = flags_[i].kind == "FILE" || flags_[i].kind == "DIR";
    core::check(!is_path || !flags_[i].typed.empty(), flags_[i].name(),
                ": expected a path, got \"\"");
    flags_[i].field.set(flags_[i].name(), flags_[i].typed);
  }
  return true;
}

void Flags::take_rest(const std::vector<std::string>& unread) const {
  const auto is_flag = [](const std::string& argument) { return argument.starts_with('-'); };
  const auto first = std::ranges::find_if(unread, is_flag);
  if (rest_) *rest_ = unread;
  if (unread.empty() || (rest_ && first == unread.end())) return;
  core::check(first != unread.end(), shown(unread.front()), ": expected a flag (see --help)");
  const std::string name = first->substr(0, first->find('='));
  std::vector<std::string> known{"--help"};
  for (const Flag& flag : flags_) known.push_back(flag.name());
  const auto distance = [&](const std::string& other) { return edit_distance(name, other); };
  const std::string nearest = *std::ranges::min_element(known, {}, distance);
  const bool near = distance(nearest) <= std::max<size_t>(1, name.size() / 4);
  core::fail(name.substr(0, 100), ": unknown flag", near ? "; did you mean " + nearest + '?' : "",
             " (see --help)");
}

bool Flags::given(const std::string& name) const {
  return std::ranges::any_of(flags_, [&](const Flag& f) { return f.name() == name && f.given; });
}

void Flags::refuse(const std::vector<std::string>& beginnings, const std::string& why) const {
  for (const Flag& flag : flags_)
    for (const std::string& beginning : beginnings)
      core::check(!flag.given || !flag.name().starts_with(beginning), flag.name(), why);
}

std::string Flags::help() const {
  constexpr size_t indent = 22, width = 98;
  std::ostringstream out;
  out << about_ << '\n';
  auto group = groups_.begin();
  for (size_t i = 0; i < flags_.size(); ++i) {
    if (group != groups_.end() && group->first == i) out << '\n' << group++->second << '\n';
    std::string line = "  " + flags_[i].name() + ' ' + flags_[i].kind;
    line.resize(std::max<size_t>(line.size() + 1, indent), ' ');
    line += (flags_[i].turns_off ? "disable: " : "") + flags_[i].field.meaning;
    if (std::holds_alternative<models::Choice>(flags_[i].field.value))
      line += ", " + flags_[i].field.expected();
    if (!flags_[i].default_shown.empty()) line += "; default " + flags_[i].default_shown;
    for (size_t at; line.size() > width && (at = line.rfind(' ', width)) > indent;) {
      out << line.substr(0, at) << '\n';
      line.replace(0, at + 1, std::string(indent, ' '));
    }
    out << line << '\n';
  }
  return out.str();
}

// ---- files ----

models::Fields Flags::stored() const {
  models::Fields fields;
  for (const Flag& flag : flags_)
    if (flag.stored) fields.add(flag.field);
  return fields;
}

std::vector<std::pair<std::string, std::string>> Flags::stored_values() const {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Flag& flag : flags_)
    if (flag.stored) values.emplace_back(flag.name(), flag.field.to_text());
  return values;
}

std::string Flags::to_json() const { return stored().to_json(); }

bool Flags::enforce(const Flag& flag, const std::string& typed_value, const std::string& where,
                    const std::vector<std::string>& may_change) {
  if (!flag.given || flag.field.to_text() == typed_value) return false;
  const bool may = std::find(may_change.begin(), may_change.end(), flag.name()) != may_change.end();
  core::check(may, flag.name(), " contradicts ", where, ": it has ", shown(flag.field.to_text()),
              ", the command line ", shown(typed_value));
  flag.field.set(flag.name(), flag.typed);
  return true;
}

std::vector<std::string> Flags::adopt(const std::function<void()>& read, const std::string& where,
                                      const std::vector<std::string>& may_change) {
  std::vector<std::string> typed_values;
  for (const Flag& flag : flags_) typed_values.push_back(flag.field.to_text());
  read();
  std::vector<std::string> changes;
  for (size_t i = 0; i < flags_.size(); ++i) {
    const std::string stored = flags_[i].field.to_text();
    if (enforce(flags_[i], typed_values[i], where, may_change))
      changes.push_back(flags_[i].name() + " from " + stored + " to " + typed_values[i]);
  }
  return changes;
}

std::vector<std::string> Flags::restore(const std::string& json, const std::string& where,
                                        const std::vector<std::string>& may_change) {
  return adopt([&] { stored().read_json(where + ": options", json); }, "the run in " + where,
               may_change);
}

}  // namespace gradus
