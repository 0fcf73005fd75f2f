#include "gradus/models/data/tokenizers/bpe.h"

#include "gradus/models/data/tokenizers/utf8.h"

namespace gradus::models::internal {

namespace {

/// Returns the kind of the character at text[at] and sets `end` to where it ends. GPT-2 does not
/// count marks as letters.
Kind kind_at(std::string_view text, size_t at, size_t& end) {
  char32_t code_point;
  end = at;
  if (!read_code_point(text, end, code_point)) {
    end = at + 1;
    return Kind::other;
  }
  const Kind kind = kind_of(code_point);
  return kind == Kind::mark ? Kind::other : kind;
}

/// Length of the contraction at text[at], or 0.
size_t contraction(std::string_view text, size_t at) {
  if (text[at] != '\'') return 0;
  for (const std::string_view one : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.substr(at, one.size()) == one) return one.size();
  return 0;
}

bool prints(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/// The code point that stands for each byte.
const std::array<char32_t, 256>& alphabet() {
  static const auto all = [] {
    std::array<char32_t, 256> points{};
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte)
      points[static_cast<size_t>(byte)] = prints(byte) ? static_cast<char32_t>(byte) : next++;
    return points;
  }();
  return all;
}

}  // namespace

size_t end_of_word(std::string_view text, size_t at) {
  if (const size_t bytes = contraction(text, at)) return at + bytes;
  // An optional space, then as many letters, digits or others as follow.
  size_t end;
  const size_t begin = at + (text[at] == ' ' && at + 1 < text.size() ? 1 : 0);
  const Kind kind = kind_at(text, begin, end);
  if (kind != Kind::space) {
    for (size_t next; end < text.size() && kind_at(text, end, next) == kind;) end = next;
    return end;
  }
  // Spaces, except for the last one if a word follows and it is not the only space.
  size_t last = at;
  kind_at(text, at, end);
  for (size_t next; end < text.size() && kind_at(text, end, next) == Kind::space; end = next)
    last = end;
  return end == text.size() || last == at ? end : last;
}

const std::array<uint8_t, 256>& bytes_in_order() {
  static const auto all = [] {
    std::array<uint8_t, 256> order{};
    size_t next = 0;
    for (const bool printing : {true, false})
      for (int byte = 0; byte < 256; ++byte)
        if (prints(byte) == printing) order[next++] = static_cast<uint8_t>(byte);
    return order;
  }();
  return all;
}

std::string bytes_to_unicode(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(text, alphabet()[static_cast<unsigned char>(byte)]);
  return text;
}

std::string unicode_to_bytes(std::string_view text) {
  static const auto bytes = [] {
    std::array<int16_t, 512> of_point;
    of_point.fill(-1);
    for (size_t byte = 0; byte < 256; ++byte)
      of_point[alphabet()[byte]] = static_cast<int16_t>(byte);
    return of_point;
  }();
  std::string out;
  for (size_t at = 0; at < text.size();) {
    char32_t point;
    if (!read_code_point(text, at, point) || point >= bytes.size() || bytes[point] < 0) return {};
    out += static_cast<char>(bytes[point]);
  }
  return out;
}

}  // namespace gradus::models::internal
