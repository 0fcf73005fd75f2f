#pragma once
// Errors: the exception type of gradus, and functions that throw it with a one-sentence message.

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>

namespace gradus {

/// The type, or the base class, of every exception that gradus itself throws. The message says what
/// went wrong. Most messages about an op's arguments begin with the op's name.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown if there is not enough memory, for example for a tensor's elements.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

namespace core {

/// A text stream that formats numbers in the same way under every std::locale.
struct Text : std::ostringstream {
  Text() { imbue(std::locale::classic()); }
};

/// Throws Error, or another class E. The message is the concatenation of all parts.
template <class E = Error, class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  Text message;
  (message << ... << parts);
  throw E(message.str());
}

/// Throws Error, or another class E, if `ok` is false. The message is the concatenation of all
/// parts.
template <class E = Error, class... Parts>
void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail<E>(parts...);
}

/// Returns f(). If f() throws Error or OutOfMemory, throws the same with `where` and ": " before
/// the message.
template <class F>
decltype(auto) naming(const std::string& where, F&& f) {
  try {
    return f();
  } catch (const OutOfMemory& e) {
    fail<OutOfMemory>(where, ": ", e.what());
  } catch (const Error& e) {
    fail(where, ": ", e.what());
  }
}

}  // namespace core

}  // namespace gradus
