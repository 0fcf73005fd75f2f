#pragma once
// Errors: one exception type for every bad input, with a one-sentence message.

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>

namespace gradus {

/// The only exception type that gradus throws. The message opens with the operation and says what
/// was expected and what it got.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace core {

/// A text whose numbers are written the same whatever std::locale the program has set.
struct Text : std::ostringstream {
  Text() { imbue(std::locale::classic()); }
};

/// Throws Error. Its message is the parts, printed one after the other.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  Text message;
  (message << ... << parts);
  throw Error(message.str());
}

/// Throws Error as fail() does, unless `ok`.
template <class... Parts>
void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(parts...);
}

}  // namespace core

}  // namespace gradus
