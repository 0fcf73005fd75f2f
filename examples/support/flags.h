#pragma once
// Command-line flags, parsed with CLI11.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gradus/models/folder/fields.h"

namespace gradus {

/// Command-line flags. Each is declared once with its meaning, default and limits. The declaration
/// is used to parse the command line, to print --help and, in groups with `stored`, to store the
/// flag's value in a checkpoint. A flag's default is the value of its variable at the declaration.
/// Names include the dashes, for example "--min-lr". The variables must outlive this object.
class Flags {
 public:
  /// Starts without flags. `about` is the first lines of --help.
  explicit Flags(std::string about) : about_(std::move(about)) {}

  /// Starts a group of flags under a heading of --help. If `stored` is true, checkpoints store the
  /// flags of the group.
  void group(std::string title, bool stored = false);
  /// Declares an int64_t or a double with inclusive limits. In --help, `default_shown`, if not
  /// empty, replaces the variable's value.
  template <class Number>
  void add(const std::string& name, Number& value, double least, double most,
           const std::string& meaning, const std::string& default_shown = "") {
    add({key_of(name), meaning, &value, least, most}, kind_of(&value), default_shown);
  }
  /// Declares a seed (a uint64_t of any value) or a switch (a bool). The flag sets the switch to
  /// true. A switch that is already true is declared as --no-NAME instead, which sets it to false.
  template <class T>
  void add(const std::string& name, T& value, const std::string& meaning) {
    add({key_of(name), meaning, &value}, kind_of(&value), "");
  }
  /// Declares a number from 0 to `most`. If the flag is given without a number, the value becomes
  /// `when_left_out`. Without the flag, the value is unchanged. --help shows `kind` in place of the
  /// number.
  void add_optional(const std::string& name, int64_t& value, int64_t when_left_out, double most,
                    const std::string& kind, const std::string& meaning);
  /// Declares a choice among the `names` of an enum's values.
  template <class Enum>
  void add(const std::string& name, Enum& value, std::vector<std::string> names,
           const std::string& meaning) {
    models::Fields fields;
    add(fields.add(key_of(name), value, std::move(names), meaning), "NAME", "");
  }
  /// Declares a text. --help calls its value `kind`. If `kind` is "FILE" or "DIR", an empty value
  /// on the command line is an error.
  void add(const std::string& name, std::string& value, const std::string& kind,
           const std::string& meaning, const std::string& default_shown = "");
  /// Declares all fields of a configuration except those in `except`. For example, "layers" becomes
  /// --layers, and "tie", a switch that is on by default, becomes --no-tie.
  void add(const models::Fields& fields, const std::vector<std::string>& except = {});
  /// Declares any number of positional arguments.
  void rest(std::vector<std::string>& texts) { rest_ = &texts; }
  /// Marks flags that checkpoints of earlier versions lack, by names such as "--min-lr". If a
  /// checkpoint lacks one of them, restore() sets it to its default.
  void added_later(const std::vector<std::string>& names);

  /// Reads the command line. If it contains --help, prints the help to stdout and returns false. If
  /// a flag is repeated, its last value counts. Throws Error, naming the flag or argument, on a
  /// flag that is unknown or lacks its value, on a value that is invalid or begins with "--", and
  /// on a positional argument unless rest() was called.
  bool parse(int argc, char** argv);
  /// Reads the flags declared so far and ignores all others, including --help. For programs that
  /// declare further flags depending on the values of these. Throws the errors of parse() about
  /// values.
  void parse_known(int argc, char** argv);
  /// Returns whether the flag is on the command line. If a switch was declared as --no-NAME,
  /// `name` is that name.
  bool given(const std::string& name) const;
  std::string help() const;

  /// Returns the stored flags and their values, for example {"--min-lr", "0.0001"}.
  std::vector<std::pair<std::string, std::string>> stored_values() const;
  /// Returns the stored flags as a JSON object. For example, "--min-lr" has the key "min_lr".
  std::string to_json() const;
  /// Sets the stored flags from `json`, a result of to_json() that was read from the file `where`.
  /// Throws Error, naming the file and the flag, if a flag is missing (except flags of
  /// added_later()), unknown, of another type, or outside its limits. Flags in `may_change` keep
  /// their values from the command line. Also throws Error if the command line gives any other flag
  /// another value than the file. Returns the changes, for example "--lr from 0.001 to 0.0005".
  std::vector<std::string> restore(const std::string& json, const std::string& where,
                                   const std::vector<std::string>& may_change);
  /// Calls read(), which sets the flags' variables from the file `where`. Treats flags on the
  /// command line as restore() does, and returns the changes.
  std::vector<std::string> adopt(const std::function<void()>& read, const std::string& where,
                                 const std::vector<std::string>& may_change);

 private:
  struct Flag {
    models::Field field;
    std::string kind, default_shown;
    bool stored, turns_off;  // turns_off: whether it is a switch that is on by default
    std::string typed;       // the value on the command line
    bool given = false;
    std::string when_left_out = {};  // value of a flag given without a value; "" if one is required
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
  /// Throws Error if there are arguments that were not read. The message suggests a known flag if
  /// its name is similar to that of the first unread flag.
  void expect_none(const std::vector<std::string>& unread) const;
  models::Fields stored() const;
  /// Checks whether a value from a file has replaced `typed_value`, the value on the command line.
  /// If so, restores `typed_value` if the flag is in `may_change`, and otherwise throws Error.
  /// Returns whether it restored the value.
  static bool enforce(const Flag& flag, const std::string& typed_value, const std::string& where,
                      const std::vector<std::string>& may_change);

  std::string about_;
  std::vector<Flag> flags_;
  std::vector<std::pair<size_t, std::string>> groups_;  // index of the first flag, and title
  bool storing_ = false;
  std::vector<std::string>* rest_ = nullptr;
};

}  // namespace gradus
