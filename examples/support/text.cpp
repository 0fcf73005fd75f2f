#include "examples/support/text.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string_view>
#include <vector>

namespace gradus {

std::string shown(const std::string& text) {
  size_t end = std::min<size_t>(text.size(), 40);
  while (end > 0 && end < text.size() && (text[end] & 0xc0) == 0x80) --end;  // inside a character
  std::string result = "\"";
  for (const char c : text.substr(0, end)) result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return result + (end < text.size() ? "...\"" : "\"");
}

std::string in_shell(const std::string& text) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("-_./+,=@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return text;
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

std::string with_commas(int64_t n) {
  std::string digits = std::to_string(n);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

std::string as_clock(double seconds) {
  const auto s = static_cast<long long>(seconds + 0.5);
  char text[64];
  if (s < 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld", s / 60, s % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
  return text;
}

// distance[i][j]: between the first i characters of a and the first j of b. Damerau 1964.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> distance(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      size_t& least = distance[i][j] = std::max(i, j);
      if (i == 0 || j == 0) continue;
      const size_t replaced = distance[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      least = std::min({replaced, distance[i - 1][j] + 1, distance[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        least = std::min(least, distance[i - 2][j - 2] + 1);
    }
  return distance[a.size()][b.size()];
}

std::string fingerprint(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return std::to_string(text.size()) + ' ' + std::to_string(hash);
}

}  // namespace gradus
