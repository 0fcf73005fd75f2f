#pragma once
// UTF-8 and properties of characters. For the library's own use: no public header includes this.

#include <cstdint>
#include <string>
#include <string_view>

namespace gradus::models::internal {

/// Kind of a character as tokenizers distinguish them: Unicode's general categories L (letter), N
/// (number) and M (mark), the property White_Space (space), and everything else: punctuation,
/// symbols, control characters, unassigned code points.
enum class Kind : uint8_t { letter, number, space, mark, other };

/// Finer kinds, in this order: L, N, White_Space, Mn, Mc and Me together, P, C without Cn, S, Cn.
enum class Category : uint8_t {
  letter,
  number,
  space,
  nonspacing_mark,
  mark,
  punctuation,
  control,
  symbol,
  unassigned
};

// From libutf8proc, whose version determines the version of Unicode: 15 in Debian 12.

Kind kind_of(char32_t code_point);
Category category_of(char32_t code_point);

/// The canonical decomposition without nonspacing marks: "e" for U+00E9, nothing for an accent, two
/// or three jamo for a Hangul syllable.
std::u32string without_accents(char32_t code_point);

/// The lower-case form: one code point, except for U+0130, which has two.
std::u32string lower_case_text(char32_t code_point);
/// The lower-case form if it is one code point; returns U+0130 unchanged.
char32_t lower_case(char32_t code_point);

/// The text in Unicode's normalisation form C; unchanged if it is not UTF-8.
std::string composed(std::string_view text);

/// Reads the UTF-8 character at text[at] and moves `at` past it. Returns false, with `at` moved by
/// at least one byte, if it is not well-formed (the Unicode standard, table 3-7): stray or missing
/// bytes, overlong encodings, surrogates, code points above U+10FFFF.
bool read_code_point(std::string_view text, size_t& at, char32_t& code_point);

/// Returns the character that read_code_point reads. Throws Error, opening with `op` and naming the
/// byte, if it is not well-formed.
char32_t next_code_point(const char* op, std::string_view text, size_t& at);

/// Throws Error, opening with `op` and naming the byte, unless the text is UTF-8.
void check_utf8(const char* op, std::string_view text);

/// Appends a code point in UTF-8.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace gradus::models::internal
