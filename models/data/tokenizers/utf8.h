#pragma once
// UTF-8 and the kinds of its characters. For the library's own use: no public header includes this.

#include <cstdint>
#include <string>
#include <string_view>

namespace gradus::models::internal {

/// What a character is to a tokenizer: Unicode's general categories L, N, M, the property
/// White_Space, and all else (punctuation, symbols, control characters, private use).
enum class Kind : uint8_t { letter, number, space, mark, other };

/// The same in more detail: L, N, White_Space, Mn, the other M, P, C, S.
enum class Category : uint8_t {
  letter,
  number,
  space,
  nonspacing_mark,
  mark,
  punctuation,
  control,
  symbol
};

/// As Unicode 14 has it; a code point that it leaves unassigned is what the assigned one before it
/// is.
Kind kind_of(char32_t code_point);
Category category_of(char32_t code_point);

/// What a character's canonical decomposition is without nonspacing marks: "e" of U+00E9, nothing of
/// an accent, two or three jamo of a Hangul syllable.
std::u32string without_accents(char32_t code_point);

/// Its lower-case form as Unicode 14 has it, U+0130 being alone in having two code points.
std::u32string lower_case_text(char32_t code_point);
/// The same if that is one code point; else the code point itself.
char32_t lower_case(char32_t code_point);

/// Reads the UTF-8 character at text[at], moves `at` behind it and gives its code point; false, and
/// `at` is anywhere behind, unless it is one that the Unicode standard (table 3-7) allows: no stray
/// or missing bytes, none encoded longer than need be, no surrogates, nothing above U+10FFFF.
bool read_code_point(std::string_view text, size_t& at, char32_t& code_point);

/// The same; throws Error, opening with `op` and naming the byte, where it is false.
char32_t next_code_point(const char* op, std::string_view text, size_t& at);

/// Throws Error, opening with `op` and naming the byte, unless the whole text is UTF-8.
void check_utf8(const char* op, std::string_view text);

/// Appends a code point in UTF-8.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace gradus::models::internal
