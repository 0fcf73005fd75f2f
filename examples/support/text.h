#pragma once
// Formats numbers and texts.

#include <cstddef>
#include <cstdint>
#include <string>

namespace gradus {

/// Returns `text` quoted for a message: on one line, truncated to 40 bytes.
std::string shown(const std::string& text);

/// Returns `text` as one word of a shell command, quoted if necessary.
std::string in_shell(const std::string& text);

/// Returns a number >= 0 with commas, for example 84120 as "84,120".
std::string with_commas(int64_t n);

/// Returns a time in seconds as, for example, "1:05" or "2:01:05".
std::string as_clock(double seconds);

/// Returns the smallest number of changes that turn `a` into `b`. A change inserts, deletes or
/// replaces a byte, or swaps two bytes that are adjacent in both texts.
size_t edit_distance(const std::string& a, const std::string& b);

/// Returns the size and the FNV-1a hash of a text as a string that identifies the text.
std::string fingerprint(const std::string& text);

}  // namespace gradus
