#pragma once
// Descriptions of the fields in a struct of options: name, address, limits and meaning. The same
// description is used to check a configuration, to write it to JSON and read it back, and to
// declare a program's flags.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gradus/core/ops/activation.h"

namespace gradus::models {

/// Parses the whole of `text` as a number. Returns nullopt if the text is not a number, or if the
/// number is out of range or not finite. Number is int64_t, uint64_t or double.
template <class Number>
std::optional<Number> parse_number(const std::string& text);

/// Access to a field that is an enum with the values 0, 1, 2, ..., each of which has a name.
struct Choice {
  std::vector<std::string> names;   ///< names[i] is the name of value i
  std::function<size_t()> get;      ///< returns the field's value as an index in `names`
  std::function<void(size_t)> set;  ///< sets the field's value to names[index]
  /// Returns the name of the field's value. If the value is outside the enum, returns for example
  /// "number 7".
  std::string name() const {
    return get() < names.size() ? names[get()] : "number " + std::to_string(get());
  }
};

/// A field of a struct: its name and meaning, access to its value, and limits.
struct Field {
  /// Access to the field's value: a pointer to it or, for an enum, a Choice.
  using Value = std::variant<int64_t*, uint64_t*, double*, bool*, std::string*, Choice>;
  std::string name, meaning;   ///< the name in files and flags, and the explanation in --help
  Value value;                 ///< pointer to the field's value or, for an enum, a Choice
  double least = 0, most = 0;  ///< limits of an int64_t or a double, both inclusive
  bool optional = false;       ///< true: files may lack the field; it is then set to `initial`
  std::string initial = {};    ///< default value as text; if empty, Fields::add() sets it to the
                               ///< current value

  /// Returns the value as text, for example 4, 0.5, true or gelu.
  std::string to_text() const;
  /// Parses `text` and sets the value. If the text does not have the value's type or is outside the
  /// limits, leaves the value unchanged and throws Error. The message begins with `called`.
  void set(const std::string& called, const std::string& text) const;
  /// Describes the valid values, for example "a whole number from 1 to 100" or "one of none, relu,
  /// ...".
  std::string expected() const;
};

/// The fields of a struct of options. The struct must outlive this object.
class Fields {
 public:
  /// Adds an int64_t or a double. `least` and `most` are its limits, both inclusive.
  template <class Number>
  Field& add(std::string name, Number& value, double least, double most, std::string meaning) {
    return add(Field{std::move(name), std::move(meaning), &value, least, most});
  }
  /// Adds a uint64_t (for example a seed), a bool or a string. These have no limits.
  template <class T>
  Field& add(std::string name, T& value, std::string meaning) {
    return add(Field{std::move(name), std::move(meaning), &value});
  }
  Field& add(std::string name, int64_t& value, std::string meaning) = delete;  // needs limits
  Field& add(std::string name, double& value, std::string meaning) = delete;
  /// Adds an enum with the values 0, 1, 2, ... names[i] is the name of value i.
  template <class Enum>
  Field& add(std::string name, Enum& value, std::vector<std::string> names, std::string meaning) {
    return add(Field{std::move(name), std::move(meaning),
                     Choice{std::move(names), [&value] { return static_cast<size_t>(value); },
                            [&value](size_t i) { value = static_cast<Enum>(i); }}});
  }
  /// Adds an Activation. Its value is written as the name of an op, for example "gelu_tanh", or as
  /// "none".
  Field& add(std::string name, gradus::Activation& value, std::string meaning);
  /// Adds a field of any type. Like every add(), returns the added field, so that the caller can
  /// set `optional` and `initial`. The reference is valid until the next add() or append().
  Field& add(Field field);
  /// Adds the fields of another struct.
  void append(const Fields& other);
  /// Makes read_json() also accept files of earlier versions, which have a string field `earlier`
  /// instead of `name`. `now` maps each value of `earlier` to the value that `name` gets.
  /// read_json() throws Error if the value of `earlier` is not in `now` or if both names are given.
  void renamed(const std::string& name, const std::string& earlier,
               std::map<std::string, std::string> now);

  /// Returns the fields in the order of add().
  const std::vector<Field>& list() const { return list_; }
  /// Returns the field with that name, or null.
  const Field* find(const std::string& name) const;
  /// Throws Error on the first value outside its limits. The message begins with `op`.
  void check(const char* op) const;

  /// Returns the fields as a JSON object: with one line per field if `lines` is true, otherwise on
  /// a single line.
  std::string to_json(bool lines = false) const;
  /// Sets the values from a JSON object. Throws Error, with nothing changed, if `json` is not a
  /// JSON object, if an entry is unknown, of the wrong type or outside its limits, or if a field
  /// that is not optional is missing. The message begins with `where` and names the entry.
  void read_json(const std::string& where, const std::string& json) const;

 private:
  struct Earlier {
    std::string name, earlier;
    std::map<std::string, std::string> now;
  };
  std::vector<Field> list_;
  std::vector<Earlier> earlier_;
};

}  // namespace gradus::models
