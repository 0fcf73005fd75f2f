#pragma once
// Decodes and encodes UTF-8, classifies characters and normalises them. Internal: no public header
// includes this file.

#include <cstdint>
#include <string>
#include <string_view>

namespace gradus::models::internal {

/// The kinds of characters that tokenizers distinguish. letter, number and mark are the general
/// categories L, N and M of Unicode, and space is the property White_Space. All remaining
/// characters are other, for example punctuation, symbols and control characters.
enum class Kind : uint8_t { letter, number, space, mark, other };

/// A finer division of characters than Kind, by Unicode's general categories and White_Space.
enum class Category : uint8_t {
  letter,           ///< L
  number,           ///< N
  space,            ///< White_Space
  nonspacing_mark,  ///< Mn
  mark,             ///< Mc and Me
  punctuation,      ///< P
  control,          ///< Cc (except White_Space), Cf, Co and Cs
  symbol,           ///< S
  unassigned        ///< Cn
};

// The functions from here to composed() use libutf8proc. Its version determines the version of
// Unicode, which is 15 in Debian 12.

Kind kind_of(char32_t code_point);
Category category_of(char32_t code_point);

/// Returns the canonical decomposition of a character, without nonspacing marks. Examples: "e" for
/// U+00E9, an empty string for a combining accent such as U+0301, and two or three jamo for a
/// Hangul syllable.
std::u32string without_accents(char32_t code_point);

/// Returns the lower-case form of a character: one code point, except for U+0130, which has two.
std::u32string lower_case_text(char32_t code_point);
/// Returns the lower-case form of a character. Returns U+0130 unchanged, because its lower-case
/// form is two code points.
char32_t lower_case(char32_t code_point);

/// Returns the text in Unicode's normalisation form C (NFC). Bytes that are not UTF-8 remain, and
/// the text before and after them is normalised separately.
std::string composed(std::string_view text);

/// Reads the UTF-8 character at text[at] into `code_point`, moves `at` past it and returns true. If
/// the character is not well-formed (the Unicode standard, table 3-7), returns false and moves `at`
/// by at least one byte. Stray or missing bytes, overlong encodings, surrogates and code points
/// above U+10FFFF are not well-formed.
bool read_code_point(std::string_view text, size_t& at, char32_t& code_point);

/// Returns the character at text[at] and moves `at` past it. Throws Error if the character is not
/// well-formed. The message begins with `op` and names the character's offset.
char32_t next_code_point(const char* op, std::string_view text, size_t& at);

/// Throws Error unless the text is UTF-8. The message begins with `op` and names the offset of the
/// first invalid sequence.
void check_utf8(const char* op, std::string_view text);

/// Appends a code point to `text` in UTF-8.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace gradus::models::internal
