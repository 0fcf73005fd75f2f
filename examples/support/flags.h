#pragma once
// Command-line flags, parsed with CLI11.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gradus/models/folder/fields.h"

namespace gradus {

/// Command-line flags. Each flag is declared once, with its variable, meaning and limits. parse()
/// uses the declarations to read the command line and to print --help. The default of a flag is
/// the value that its variable has at the declaration. Checkpoints store the flags of each group
/// that is declared as `stored`. Names include the dashes, for example "--min-lr". The variables
/// must outlive this object.
class Flags {
 public:
  /// Makes an object without flags. `about` is the first lines of --help.
  explicit Flags(std::string about) : about_(std::move(about)) {}

  /// Starts a group, to which the flags declared next belong. `title` is its heading in --help. If
  /// `stored` is true, checkpoints store the flags of the group.
  void group(std::string title, bool stored = false);
  /// Declares a flag for a number (int64_t or double) from `least` to `most`, inclusive. --help
  /// shows the default as `default_shown` or, if that is empty, as the value of the variable.
  template <class Number>
  void add(const std::string& name, Number& value, double least, double most,
           const std::string& meaning, const std::string& default_shown = "") {
    add({key_of(name), meaning, &value, least, most}, kind_of(&value), default_shown);
  }
  /// Declares a flag for a seed (a uint64_t of any value) or a switch (a bool). The flag of a
  /// switch sets the variable to true. If the variable is already true, the flag is called
  /// --no-NAME instead and sets the variable to false.
  template <class T>
  void add(const std::string& name, T& value, const std::string& meaning) {
    add({key_of(name), meaning, &value}, kind_of(&value), "");
  }
  /// Declares a flag with an optional value, a number from 0 to `most`. If the flag is given
  /// without a number, the variable is set to `when_left_out`. `kind` stands for the number in
  /// --help: if `kind` is "PORT" and when_left_out is 8080, --help shows "[PORT]" and "default PORT
  /// 8080".
  void add_optional(const std::string& name, int64_t& value, int64_t when_left_out, double most,
                    const std::string& kind, const std::string& meaning);
  /// Declares a flag for an enum. `names` are the names of its values, in order.
  template <class Enum>
  void add(const std::string& name, Enum& value, std::vector<std::string> names,
           const std::string& meaning) {
    models::Fields fields;
    add(fields.add(key_of(name), value, std::move(names), meaning), "NAME", "");
  }
  /// Declares a flag for a text. --help shows `kind` in place of the text. If `kind` is "FILE" or
  /// "DIR", an empty text on the command line is an error.
  void add(const std::string& name, std::string& value, const std::string& kind,
           const std::string& meaning, const std::string& default_shown = "");
  /// Declares a flag for each field of a configuration, except those in `except`. For example, the
  /// field "layers" becomes --layers. The field "tie", a switch that is on by default, becomes
  /// --no-tie.
  void add(const models::Fields& fields, const std::vector<std::string>& except = {});
  /// Allows any number of positional arguments, which parse() stores in `texts`.
  void rest(std::vector<std::string>& texts) { rest_ = &texts; }
  /// Marks flags that checkpoints of earlier versions do not contain, for example "--min-lr". If
  /// such a flag is missing from a checkpoint, restore() sets it to its default.
  void added_later(const std::vector<std::string>& names);

  /// Reads the command line. If it contains --help, prints the help to stdout and returns false. If
  /// a flag is repeated, its last value counts. Throws Error, naming the flag or argument, if a
  /// flag is unknown or lacks its value, or if a value is invalid or begins with "--". Also throws
  /// Error if there is a positional argument but rest() was not called.
  bool parse(int argc, char** argv);
  /// Reads the flags declared so far and ignores all other arguments, including --help. Use it if
  /// the values of these flags decide which further flags to declare. Throws the errors of parse()
  /// about values.
  void parse_known(int argc, char** argv);
  /// Returns whether the flag `name` is on the command line. The name of a switch that is on by
  /// default is --no-NAME.
  bool given(const std::string& name) const;
  /// Throws Error if the command line gives a flag whose name begins with one of `beginnings`. The
  /// message is the flag's name followed by `why`.
  void refuse(const std::vector<std::string>& beginnings, const std::string& why) const;
  std::string help() const;

  /// Returns the flags that checkpoints store, as pairs (name, value), for example ("--min-lr",
  /// "0.0001").
  std::vector<std::pair<std::string, std::string>> stored_values() const;
  /// Returns the flags that checkpoints store, with their values, as a JSON object. For example,
  /// "--min-lr" has the key "min_lr".
  std::string to_json() const;
  /// Sets the flags that checkpoints store to the values in `json`, a result of to_json() that was
  /// read from the checkpoint `where`. If the command line gives a flag another value, keeps the
  /// value of the command line if `may_change` contains the flag, and throws Error otherwise.
  /// Returns a text for each value that was kept, for example "--lr from 0.001 to 0.0005". Also
  /// throws Error, naming the checkpoint and the flag, if `json` lacks a flag (unless added_later()
  /// names it), or contains a flag that is unknown, of another type, or outside its limits.
  std::vector<std::string> restore(const std::string& json, const std::string& where,
                                   const std::vector<std::string>& may_change);
  /// Calls read(), which must set the variables of flags from the file `where`. If the command line
  /// gives a flag another value than the file, keeps the value of the command line if `may_change`
  /// contains the flag, and throws Error otherwise. Returns a text for each value that was kept,
  /// for example "--lr from 0.001 to 0.0005".
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
  /// Stores `unread`, the arguments that match no declaration, as the positional arguments. Throws
  /// Error if one of them begins with "-", or if there are any but rest() was not called. If the
  /// first unknown flag resembles a known flag, the message suggests the known flag.
  void take_rest(const std::vector<std::string>& unread) const;
  models::Fields stored() const;
  /// Called after the file `where` was read into the flags. If the command line gave `flag` and the
  /// file has changed its value, sets `flag` back to the value on the command line, `typed_value`,
  /// and returns true. However, throws Error if `may_change` does not contain the flag. Returns
  /// false if nothing had to be set back.
  static bool enforce(const Flag& flag, const std::string& typed_value, const std::string& where,
                      const std::vector<std::string>& may_change);

  std::string about_;
  std::vector<Flag> flags_;
  std::vector<std::pair<size_t, std::string>> groups_;  // index of the first flag, and title
  bool storing_ = false;
  std::vector<std::string>* rest_ = nullptr;
};

}  // namespace gradus
