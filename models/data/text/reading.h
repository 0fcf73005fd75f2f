#pragma once
// Helpers that divide a text into lines and pieces, encode it, and compare token sequences.
// Internal: no public header includes this file.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gradus/core/runtime/ceil_div.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/tokenizer.h"

namespace gradus::models::internal {

/// Returns the line that begins at text[at], without its line break (LF, CR LF, or CR at the end of
/// the text). Sets `at` to the beginning of the next line. After the last line, `at` is text.size()
/// or more.
inline std::string_view next_line(std::string_view text, size_t& at) {
  const size_t end = std::min(text.find('\n', at), text.size());
  std::string_view line = text.substr(at, end - at);
  if (line.ends_with('\r')) line.remove_suffix(1);
  at = end + 1;
  return line;
}

/// Divides the range [begin, begin + n) into the fewest pieces of at most `most` elements, with
/// lengths that differ by at most 1. Calls use(first, last) for each piece [first, last).
template <class Use>
void for_equal_pieces(int64_t begin, int64_t n, int64_t most, Use&& use) {
  const int64_t pieces = gradus::internal::ceil_div(n, most);
  for (int64_t i = 0; i < pieces; ++i) use(begin + n * i / pieces, begin + n * (i + 1) / pieces);
}

/// Returns tokenizer.encode(text). If the tokenizer throws Error, puts the values `where`, for
/// example a file and a line, before the message.
template <class... Where>
std::vector<int64_t> encode(const Tokenizer& tokenizer, const std::string& text,
                            const Where&... where) {
  try {
    return tokenizer.encode(text);
  } catch (const Error& e) {
    core::fail(where..., e.what());
  }
}

/// Compares token sequences in lexicographic order.
struct TokensLess {
  bool operator()(std::span<const int32_t> a, std::span<const int32_t> b) const {
    return std::ranges::lexicographical_compare(a, b);
  }
};

}  // namespace gradus::models::internal
