#include "gradus/models/data/tokenizers/utf8.h"

#include <algorithm>
#include <iterator>

#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/unicode_tables.h"

namespace gradus::models::internal {

Category category_of(char32_t c) {
  if (c < 0x80) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return Category::letter;
    if (c >= '0' && c <= '9') return Category::number;
    if (c == ' ' || (c >= '\t' && c <= '\r')) return Category::space;
    if (c < ' ' || c == 0x7f) return Category::control;
    const bool symbol = c == '$' || c == '+' || (c >= '<' && c <= '>') || c == '^' || c == '`' ||
                        c == '|' || c == '~';
    return symbol ? Category::symbol : Category::punctuation;
  }
  const auto after =
      std::upper_bound(std::begin(category_changes), std::end(category_changes), c * 8 + 7);
  return static_cast<Category>(after[-1] % 8);
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
  if (c < 0xc0) return {c};          // before the first that is decomposed
  if (c >= 0xac00 && c <= 0xd7a3) {  // the Unicode standard, section 3.12
    const char32_t index = c - 0xac00, tail = index % 28;
    std::u32string jamo{0x1100 + index / (21 * 28), 0x1161 + index % (21 * 28) / 28};
    if (tail > 0) jamo += 0x11a7 + tail;
    return jamo;
  }
  if (category_of(c) == Category::nonspacing_mark) return {};
  const auto pair = std::ranges::lower_bound(other_decompositions, uint64_t{c} << 42);
  if (pair != std::end(other_decompositions) && *pair >> 42 == c) {
    std::u32string parts = without_accents(static_cast<char32_t>(*pair >> 21 & 0x1fffff));
    if (const auto second = static_cast<char32_t>(*pair & 0x1fffff)) parts += second;
    return parts;
  }
  if (c > 0xffff) return {c};
  const auto found = std::lower_bound(std::begin(base_letters), std::end(base_letters), c << 16);
  const bool is_there = found != std::end(base_letters) && *found >> 16 == c;
  return {is_there ? *found & 0xffff : c};
}

std::u32string lower_case_text(char32_t c) {
  if (c == 0x130) return U"i\x307";
  return {lower_case(c)};
}

char32_t lower_case(char32_t c) {
  const auto after =
      std::upper_bound(std::begin(capitals), std::end(capitals), c,
                       [](char32_t value, const Capitals& range) { return value < range.first; });
  if (after == std::begin(capitals)) return c;
  const Capitals& range = after[-1];
  if (c > range.last || (c - range.first) % range.step != 0) return c;
  return static_cast<char32_t>(static_cast<int32_t>(c) + range.to_lower);
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

}  // namespace gradus::models::internal
