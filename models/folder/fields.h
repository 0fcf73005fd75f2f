#pragma once
// The entries of a struct of options, described once: name, place, limits, meaning. By that one
// description a configuration is checked, written as JSON and read again, and offered as a
// program's flags.

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

/// The number that the whole of `text` is; nothing if it is none, does not fit, or is not finite.
/// Number is int64_t, uint64_t or double.
template <class Number>
std::optional<Number> parse_number(const std::string& text);

/// A value that is one of several by name: an enum's, whose values count from 0.
struct Choice {
  std::vector<std::string> names;   ///< of the values, from 0
  std::function<size_t()> get;      ///< the value's place among them
  std::function<void(size_t)> set;  ///< sets it to the value at that place
  /// "number 7" of a value outside the enum.
  std::string name() const {
    return get() < names.size() ? names[get()] : "number " + std::to_string(get());
  }
};

/// One entry: where its value stands, and what it may be.
struct Field {
  /// Where a value stands, by its type.
  using Value = std::variant<int64_t*, uint64_t*, double*, bool*, std::string*, Choice>;
  std::string name, meaning;   ///< as files and flags call it; a line for --help
  Value value;                 ///< what is checked, written and read
  double least = 0, most = 0;  ///< of an int64_t or a double, both included
  bool optional = false;       ///< may be missing in a file: an earlier version had none, which
  std::string initial = {};    ///< means this, as text: the value when the field was added

  /// The value as a person types it: 4, 0.5, true, gelu.
  std::string to_text() const;
  /// Sets the value to what a person typed. Throws Error, opening with `called`, unless it is of
  /// the value's type and within its limits; then the value is as it was.
  void set(const std::string& called, const std::string& text) const;
  /// What it may be: "a whole number from 1 to 100", "one of none, relu, ...".
  std::string expected() const;
};

/// The entries of a struct, which must outlive them.
class Fields {
 public:
  /// An int64_t or a double, and its limits.
  template <class Number>
  Field& add(std::string name, Number& value, double least, double most, std::string meaning) {
    return add(Field{std::move(name), std::move(meaning), &value, least, most});
  }
  /// A seed (a uint64_t, any at all), a switch, a text.
  template <class T>
  Field& add(std::string name, T& value, std::string meaning) {
    return add(Field{std::move(name), std::move(meaning), &value});
  }
  /// One of an enum's values, which have these names.
  template <class Enum>
  Field& add(std::string name, Enum& value, std::vector<std::string> names, std::string meaning) {
    return add(Field{std::move(name), std::move(meaning),
                     Choice{std::move(names), [&value] { return static_cast<size_t>(value); },
                            [&value](size_t i) { value = static_cast<Enum>(i); }}});
  }
  /// An activation, by its ops' names.
  Field& add(std::string name, gradus::Activation& value, std::string meaning);
  /// Any field. All of these return it, for `optional` and `initial` to be set.
  Field& add(Field field);
  /// The entries of another struct too.
  void append(const Fields& other);
  /// An earlier version's files have `name` under `earlier`, with values that `now` translates.
  void renamed(const std::string& name, const std::string& earlier,
               std::map<std::string, std::string> now);

  /// In the order in which they were added.
  const std::vector<Field>& list() const { return list_; }
  /// The field of that name, or null.
  const Field* find(const std::string& name) const;
  /// Throws Error, opening with `op`, on the first value outside its limits.
  void check(const char* op) const;

  /// An object on one line, or a line an entry.
  std::string to_json(bool lines = false) const;
  /// Sets the values to what the JSON object says. Throws Error, opening with `where` and naming
  /// the entry, on one that is missing, of another type or outside its limits, and on a name that
  /// is no field's; then nothing has been changed.
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
