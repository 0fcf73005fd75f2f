#pragma once
// The fields of a struct of options, described once: name, address, limits, meaning. The
// description serves to check a configuration, to write it to and read it from JSON, and to declare
// a program's flags.

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

/// Parses the whole of `text` as a number. Returns nullopt if it is not one, does not fit, or is
/// not finite. Number is int64_t, uint64_t or double.
template <class Number>
std::optional<Number> parse_number(const std::string& text);

/// A choice among named values: an enum whose values count from 0.
struct Choice {
  std::vector<std::string> names;   ///< names[i] is the name of value i
  std::function<size_t()> get;      ///< returns the value's index in `names`
  std::function<void(size_t)> set;  ///< sets the value by its index
  /// The value's name, or "number 7" if it is outside the enum.
  std::string name() const {
    return get() < names.size() ? names[get()] : "number " + std::to_string(get());
  }
};

/// One field: a pointer to its value, and which values are valid.
struct Field {
  /// A pointer to the value, by type.
  using Value = std::variant<int64_t*, uint64_t*, double*, bool*, std::string*, Choice>;
  std::string name, meaning;   ///< its name in files and flags; its description in --help
  Value value;                 ///< points to the struct's member
  double least = 0, most = 0;  ///< the limits of an int64_t or a double, both inclusive
  bool optional = false;       ///< files may lack the field; it then gets the value `initial`
  std::string initial = {};    ///< as text; if empty, add() sets it to the value at that time

  /// The value as text: 4, 0.5, true, gelu.
  std::string to_text() const;
  /// Parses `text` and sets the value. Throws Error, opening with `called`, with the value
  /// unchanged, if the text is not of the value's type or outside its limits.
  void set(const std::string& called, const std::string& text) const;
  /// Which values are valid: "a whole number from 1 to 100", "one of none, relu, ...".
  std::string expected() const;
};

/// The fields of a struct, which must outlive this object.
class Fields {
 public:
  /// Adds an int64_t or a double with its limits.
  template <class Number>
  Field& add(std::string name, Number& value, double least, double most, std::string meaning) {
    return add(Field{std::move(name), std::move(meaning), &value, least, most});
  }
  /// Adds a uint64_t (a seed, without limits), a bool or a string.
  template <class T>
  Field& add(std::string name, T& value, std::string meaning) {
    return add(Field{std::move(name), std::move(meaning), &value});
  }
  /// Adds an enum whose values have these names.
  template <class Enum>
  Field& add(std::string name, Enum& value, std::vector<std::string> names, std::string meaning) {
    return add(Field{std::move(name), std::move(meaning),
                     Choice{std::move(names), [&value] { return static_cast<size_t>(value); },
                            [&value](size_t i) { value = static_cast<Enum>(i); }}});
  }
  /// Adds an activation; its values are named after the ops.
  Field& add(std::string name, gradus::Activation& value, std::string meaning);
  /// Adds any field. Every add() returns its field, so that `optional` and `initial` can be set.
  Field& add(Field field);
  /// Adds the fields of another struct.
  void append(const Fields& other);
  /// Lets read_json() accept files of earlier versions, in which the field `name` was called
  /// `earlier`. `now` maps the values of that time to today's.
  void renamed(const std::string& name, const std::string& earlier,
               std::map<std::string, std::string> now);

  /// The fields in the order of add().
  const std::vector<Field>& list() const { return list_; }
  /// The field of that name, or null.
  const Field* find(const std::string& name) const;
  /// Throws Error, opening with `op`, on the first value outside its limits.
  void check(const char* op) const;

  /// The fields as a JSON object on one line, or with one line per field.
  std::string to_json(bool lines = false) const;
  /// Sets the values from a JSON object. Throws Error, opening with `where` and naming the entry,
  /// with nothing changed, if one is missing, of another type, outside its limits or unknown.
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
