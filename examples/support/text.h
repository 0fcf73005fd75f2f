#pragma once
// Numbers and texts as people write and read them.

#include <cstdint>
#include <string>

namespace gradus {

/// `text` in quotes for a message: on one line, cut after 40 bytes.
std::string shown(const std::string& text);

/// 84120 as "84,120".
std::string with_commas(int64_t n);

/// Seconds as "1:05" or "2:01:05".
std::string as_clock(double seconds);

/// Tells texts apart: the size and the FNV-1a hash.
std::string fingerprint(const std::string& text);

}  // namespace gradus
