#pragma once
// Errors: every bad input is reported by one exception type with one clear sentence.

#include <sstream>
#include <stdexcept>
#include <string>

namespace gradus {

/// The one exception that gradus throws. The message opens with the operation that refused and
/// says what was expected and what came.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace core {

/// Throws Error with the parts streamed one after the other.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Error(message.str());
}

/// Throws Error with the parts streamed one after the other unless `ok`.
template <class... Parts>
void check(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail(parts...);
}

}  // namespace core

}  // namespace gradus
