#pragma once
// The flags of a program: the only place that knows CLI11.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gradus/models/folder/fields.h"

namespace gradus {

/// Flags, each declared once with its meaning, default and limits: by that declaration the command
/// line is read, --help written, and what a checkpoint stores of them written and checked. A flag's
/// default is the variable's value when it is declared.
class Flags {
 public:
  /// `about`: what --help says first.
  explicit Flags(std::string about) : about_(std::move(about)) {}

  /// A heading of --help. The flags that follow belong to a checkpoint if they are `stored`.
  void group(std::string title, bool stored = false);
  /// Whole numbers and numbers, limits included. `default_shown` is what --help says in place of
  /// the variable's value.
  template <class Number>
  void add(const std::string& name, Number& value, double least, double most,
           const std::string& meaning, const std::string& default_shown = "") {
    add({key_of(name), meaning, &value, least, most}, kind_of(&value), default_shown);
  }
  /// A seed, any number of 64 bits; a switch, true where it is given.
  template <class T>
  void add(const std::string& name, T& value, const std::string& meaning) {
    add({key_of(name), meaning, &value}, kind_of(&value), "");
  }
  /// A text, which --help names `kind`.
  void add(const std::string& name, std::string& value, const std::string& kind,
           const std::string& meaning, const std::string& default_shown = "");
  /// All entries of a configuration but those in `except`: "layers" as --layers, a switch that is
  /// on as --no-tie.
  void add(const models::Fields& fields, const std::vector<std::string>& except = {});
  /// What stands on the command line without a flag's name: any number of texts.
  void rest(std::vector<std::string>& texts) { rest_ = &texts; }
  /// A checkpoint of an earlier version may lack these, and means their defaults.
  void added_later(const std::vector<std::string>& names);

  /// Reads the command line. Returns false after --help, which prints the help to stdout. Throws
  /// Error, naming the flag, on a flag that is unknown or has a bad value.
  bool parse(int argc, char** argv);
  /// Reads the flags declared here and ignores all others, --help included: for a program whose
  /// flags depend on what some of them say.
  void parse_known(int argc, char** argv);
  /// True if the command line gave the flag.
  bool given(const std::string& name) const;
  std::string help() const;

  /// The stored flags as a JSON object, "--min-lr" under "min_lr".
  std::string to_json() const;
  /// Sets the stored flags to what to_json wrote into the file `where`. Throws Error, naming the
  /// file and the flag, on one that is missing, unknown, of another type or outside its limits, and
  /// where the command line gave another value, unless the flag is among those that `may_change`:
  /// then that value stays.
  void restore(const std::string& json, const std::string& where,
               const std::vector<std::string>& may_change);
  /// Calls read(), which sets flags' variables from the file `where`, with the same regard for the
  /// command line.
  void adopt(const std::function<void()>& read, const std::string& where,
             const std::vector<std::string>& may_change);

 private:
  struct Flag {
    models::Field field;
    std::string kind, default_shown;
    bool stored, turns_off;  // turns_off: a switch that is on unless it is given
    std::string typed;       // what the command line gave
    bool given = false;
    std::string name() const;  // "--min-lr"
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
  models::Fields stored() const;
  /// Where a file's value has replaced one that the command line gave: puts that back if it may
  /// change, else throws Error.
  static void insist(const Flag& flag, const std::string& asked, const std::string& where,
                     const std::vector<std::string>& may_change);

  std::string about_;
  std::vector<Flag> flags_;
  std::vector<std::pair<size_t, std::string>> groups_;  // first flag and title
  bool storing_ = false;
  std::vector<std::string>* rest_ = nullptr;
};

}  // namespace gradus
