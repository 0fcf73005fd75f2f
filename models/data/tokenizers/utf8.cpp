#include "gradus/models/data/tokenizers/utf8.h"

#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"

namespace gradus::models::internal {

Category category_of(char32_t c) {
  if (c < 0x80) {  // the common case, faster than a table look-up
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return Category::letter;
    if (c >= '0' && c <= '9') return Category::number;
    if (c == ' ' || (c >= '\t' && c <= '\r')) return Category::space;
    if (c < ' ' || c == 0x7f) return Category::control;
    const bool symbol = c == '$' || c == '+' || (c >= '<' && c <= '>') || c == '^' || c == '`' ||
                        c == '|' || c == '~';
    return symbol ? Category::symbol : Category::punctuation;
  }
  if (c == 0x85) return Category::space;  // of general category Cc
  const char* general = utf8proc_category_string(static_cast<utf8proc_int32_t>(c));  // "Lu"
  switch (general[0]) {
    case 'L':
      return Category::letter;
    case 'N':
      return Category::number;
    case 'Z':
      return Category::space;
    case 'M':
      return general[1] == 'n' ? Category::nonspacing_mark : Category::mark;
    case 'P':
      return Category::punctuation;
    case 'S':
      return Category::symbol;
    default:
      return general[1] == 'n' ? Category::unassigned : Category::control;
  }
}

Kind kind_of(char32_t c) {
  switch (category_of(c)) {
    case Category::letter:
      return Kind::letter;
    case Category::number:
      return Kind::number;
    case Category::space:
      return Kind::space;
    case Category::nonspacing_mark:
    case Category::mark:
      return Kind::mark;
    default:
      return Kind::other;
  }
}

std::u32string without_accents(char32_t c) {
  if (c < 0xc0) return {c};               // U+00C0 is the first that decomposes
  std::array<utf8proc_int32_t, 4> parts;  // the longest canonical decomposition
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                             std::ssize(parts), UTF8PROC_DECOMPOSE, nullptr);
  std::u32string kept;
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    const auto part = static_cast<char32_t>(parts[i]);
    if (category_of(part) != Category::nonspacing_mark) kept += part;
  }
  return kept;
}

std::u32string lower_case_text(char32_t c) {
  if (c == 0x130) return U"i\x307";
  return {lower_case(c)};
}

char32_t lower_case(char32_t c) {
  if (c == 0x130) return c;  // its lower case is two code points
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

bool read_code_point(std::string_view text, size_t& at, char32_t& code_point) {
  const auto first = static_cast<unsigned char>(text[at++]);
  code_point = first;
  if (first < 0x80) return true;
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;  // bytes that follow
  constexpr char32_t smallest[] = {0, 0x80, 0x800, 0x10000};
  code_point = first & (0x3fu >> more);
  bool ok = first >= 0xc0 && first < 0xf8;
  for (int i = 0; i < more && ok; ++i) {
    ok = at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
    if (ok) code_point = code_point << 6 | (static_cast<unsigned char>(text[at++]) & 0x3fu);
  }
  return ok && code_point >= smallest[more] && code_point <= 0x10ffff &&
         (code_point < 0xd800 || code_point > 0xdfff);
}

char32_t next_code_point(const char* op, std::string_view text, size_t& at) {
  const size_t start = at;
  char32_t code_point;
  check(read_code_point(text, at, code_point), op,
        ": expected UTF-8, got an invalid sequence at byte ", start);
  return code_point;
}

void check_utf8(const char* op, std::string_view text) {
  for (size_t at = 0; at < text.size();) next_code_point(op, text, at);
}

void append_utf8(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr char32_t lead[] = {0, 0xc0, 0xe0, 0xf0};
  text += static_cast<char>(lead[more] | c >> (6 * more));
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (c >> (6 * i) & 0x3f));
}

namespace {

/// The NFC of a text that is UTF-8.
std::string composed_utf8(std::string_view text) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), std::ssize(text),
                   &mapped, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (size < 0) return std::string(text);
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
}

}  // namespace

std::string composed(std::string_view text) {
  std::string all;
  for (size_t begin = 0, at = 0; begin < text.size(); begin = at) {
    size_t end = begin;  // of the well-formed characters; text[end, at) is not well-formed
    for (char32_t c; at < text.size() && read_code_point(text, at, c);) end = at;
    all += composed_utf8(text.substr(begin, end - begin));
    all += text.substr(end, at - end);
  }
  return all;
}

}  // namespace gradus::models::internal
