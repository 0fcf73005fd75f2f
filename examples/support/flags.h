#pragma once
// The flags of a program: the only place that knows CLI11.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

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
  void add(const std::string& name, int64_t& value, double least, double most,
           const std::string& meaning);
  void add(const std::string& name, double& value, double least, double most,
           const std::string& meaning, const std::string& default_shown = "");
  /// A seed: any number of 64 bits.
  void add(const std::string& name, uint64_t& value, const std::string& meaning);
  /// A text, which --help names `kind`.
  void add(const std::string& name, std::string& value, const std::string& kind,
           const std::string& meaning, const std::string& default_shown = "");
  /// A switch: true where it is given.
  void add(const std::string& name, bool& value, const std::string& meaning);

  /// Reads the command line; false after --help, which it answers on stdout. Throws Error, naming
  /// the flag, on what is wrong.
  bool parse(int argc, char** argv);
  /// Whether the command line gave it.
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

 private:
  using Value = std::variant<int64_t*, uint64_t*, double*, bool*, std::string*>;
  struct Flag {
    std::string name, kind, meaning, default_shown;
    Value value;
    double least, most;
    bool stored, given;
    std::string key() const;  // its name in JSON
  };
  void add(const std::string& name, const std::string& kind, const std::string& meaning,
           std::string default_shown, Value value, double least, double most);
  static void set(const Flag& flag, const std::string& called, const std::string& text);

  std::string about_;
  std::vector<Flag> flags_;
  std::vector<std::pair<size_t, std::string>> groups_;  // first flag and title
  bool storing_ = false;
};

}  // namespace gradus
