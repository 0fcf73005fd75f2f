#pragma once
// Command-line flags, parsed with CLI11.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gradus/models/folder/fields.h"

namespace gradus {

/// Flags, each declared once with its meaning, default and limits: the declaration serves the
/// command line, --help, and the copy stored in checkpoints. A flag's default is its variable's
/// value at the declaration.
class Flags {
 public:
  /// `about`: the first lines of --help.
  explicit Flags(std::string about) : about_(std::move(about)) {}

  /// Starts a group of flags under a heading of --help. If `stored`, checkpoints store the flags of
  /// the group.
  void group(std::string title, bool stored = false);
  /// An integer or real number; the limits are inclusive. `default_shown` replaces the variable's
  /// value in --help.
  template <class Number>
  void add(const std::string& name, Number& value, double least, double most,
           const std::string& meaning, const std::string& default_shown = "") {
    add({key_of(name), meaning, &value, least, most}, kind_of(&value), default_shown);
  }
  /// A seed (any 64-bit number), or a switch (true if given).
  template <class T>
  void add(const std::string& name, T& value, const std::string& meaning) {
    add({key_of(name), meaning, &value}, kind_of(&value), "");
  }
  /// A number from 0 to `most` which may be left out on the command line: `when_left_out` then.
  /// Without the flag the value stays as it is. `kind` is shown in --help.
  void add_optional(const std::string& name, int64_t& value, int64_t when_left_out, double most,
                    const std::string& kind, const std::string& meaning);
  /// One of the `names` of an enum's values.
  template <class Enum>
  void add(const std::string& name, Enum& value, std::vector<std::string> names,
           const std::string& meaning) {
    models::Fields fields;
    add(fields.add(key_of(name), value, std::move(names), meaning), "NAME", "");
  }
  /// A text; --help calls its value `kind`.
  void add(const std::string& name, std::string& value, const std::string& kind,
           const std::string& meaning, const std::string& default_shown = "");
  /// All fields of a configuration except those in `except`: "layers" becomes --layers, and a
  /// switch that is on by default, such as "tie", becomes --no-tie.
  void add(const models::Fields& fields, const std::vector<std::string>& except = {});
  /// Positional arguments, any number.
  void rest(std::vector<std::string>& texts) { rest_ = &texts; }
  /// Flags that checkpoints of earlier versions lack; their defaults apply.
  void added_later(const std::vector<std::string>& names);

  /// Reads the command line. Returns false after --help, which prints the help to stdout. Throws
  /// Error, naming the flag, on a flag that is unknown or has a bad value.
  bool parse(int argc, char** argv);
  /// Reads the flags declared here and ignores all others, --help included: for a program whose
  /// flags depend on the values of others.
  void parse_known(int argc, char** argv);
  /// Whether the flag is on the command line.
  bool given(const std::string& name) const;
  std::string help() const;

  /// The stored flags and their values, such as {"--min-lr", "0.0001"}.
  std::vector<std::pair<std::string, std::string>> stored_values() const;
  /// The stored flags as a JSON object, "--min-lr" under "min_lr".
  std::string to_json() const;
  /// Sets the stored flags from `json`, which to_json() made and the file `where` holds. Throws
  /// Error, naming the file and the flag, if a flag is missing, unknown, of another type or outside
  /// its limits, or has another value on the command line. A flag in `may_change` keeps the command
  /// line's value. Returns these changes, such as "--lr from 0.001 to 0.0005".
  std::vector<std::string> restore(const std::string& json, const std::string& where,
                                   const std::vector<std::string>& may_change);
  /// Calls read(), which sets the flags' variables from the file `where`. As with restore(), a flag
  /// on the command line must have the file's value or be in `may_change`.
  std::vector<std::string> adopt(const std::function<void()>& read, const std::string& where,
                                 const std::vector<std::string>& may_change);

 private:
  struct Flag {
    models::Field field;
    std::string kind, default_shown;
    bool stored, turns_off;  // turns_off: a switch that is on by default
    std::string typed;       // the value on the command line
    bool given = false;
    std::string when_left_out = {};  // the value of a flag given without one; "": it needs one
    std::string name() const;        // "--min-lr"
  };
  static std::string key_of(const std::string& name);
  static std::string kind_of(const bool*) { return ""; }
  static std::string kind_of(const double*) { return "X"; }
  static std::string kind_of(const int64_t*) { return "N"; }
  static std::string kind_of(const uint64_t*) { return "N"; }
  static std::string kind_of(const std::string*) { return "TEXT"; }
  static std::string kind_of(const models::Choice&) { return "NAME"; }
  void add(models::Field field, const std::string& kind, const std::string& default_shown);
  bool read_command_line(int argc, char** argv, bool known_only);
  /// Throws Error if there are arguments that were not read, naming the flag nearest to the first one.
  void expect_none(const std::vector<std::string>& unread) const;
  models::Fields stored() const;
  /// Checks whether a file's value has replaced `typed_value`, the command line's. If so, restores
  /// `typed_value` if the flag is in `may_change`, else throws Error. Returns whether it has.
  static bool enforce(const Flag& flag, const std::string& typed_value, const std::string& where,
                      const std::vector<std::string>& may_change);

  std::string about_;
  std::vector<Flag> flags_;
  std::vector<std::pair<size_t, std::string>> groups_;  // index of the first flag, and title
  bool storing_ = false;
  std::vector<std::string>* rest_ = nullptr;
};

}  // namespace gradus
