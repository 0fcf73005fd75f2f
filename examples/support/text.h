#pragma once
// Formatting of numbers and texts.

#include <cstddef>
#include <cstdint>
#include <string>

namespace gradus {

/// Quotes `text` for a message: on one line, truncated to 40 bytes.
std::string shown(const std::string& text);

/// `text` as one word of a shell's command: quoted, unless its characters need no quotes.
std::string in_shell(const std::string& text);

/// 84120 as "84,120".
std::string with_commas(int64_t n);

/// Seconds as "1:05" or "2:01:05".
std::string as_clock(double seconds);

/// The least number of changes that turn one text into the other: a character inserted, deleted or
/// replaced, or two neighbours swapped.
size_t edit_distance(const std::string& a, const std::string& b);

/// Identifies a text: its size and FNV-1a hash.
std::string fingerprint(const std::string& text);

}  // namespace gradus
