// Unicode for tokenizers: categories of ASCII, incomplete sequences, Chinese characters.

#include <catch2/catch.hpp>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "gradus/models/data/tokenizers/utf8.h"
#include "gradus/models/data/tokenizers/wordpiece_tokenizer.h"

namespace unicode_test {

using namespace gradus;
using models::internal::Category, models::internal::category_of;
using Ids = std::vector<int64_t>;

TEST_CASE("Unicode: the category of each ASCII character", "[tokenizer]") {
  const std::string symbols = "$+<=>^`|~", spaces = "\t\n\v\f\r ";
  for (char32_t c = 0; c < 0x80; ++c) {
    const char byte = static_cast<char>(c);
    Category expected = Category::punctuation;
    if (c < 0x20 || c == 0x7f) expected = Category::control;
    if (spaces.find(byte) != std::string::npos) expected = Category::space;
    if (symbols.find(byte) != std::string::npos) expected = Category::symbol;
    if (std::isdigit(byte)) expected = Category::number;
    if (std::isalpha(byte)) expected = Category::letter;
    CAPTURE(static_cast<int>(c));
    CHECK(category_of(c) == expected);
  }
  CHECK(category_of(0x80) == Category::control);
  CHECK(category_of(0x85) == Category::space);
  CHECK(category_of(0x86) == Category::control);
}

TEST_CASE("Unicode: a character does not continue after the end of its text", "[tokenizer]") {
  const std::string_view text = "a\u00e9";
  size_t at = 1;
  char32_t code_point;
  CHECK(models::internal::read_code_point(text, at, code_point));
  CHECK(code_point == 0xe9);
  CHECK(at == 3);
  at = 1;
  CHECK_FALSE(models::internal::read_code_point(text.substr(0, 2), at, code_point));
  CHECK(at == 2);
}

TEST_CASE("Unicode: NFC of a text keeps bytes that are not UTF-8", "[tokenizer]") {
  using models::internal::composed;
  const std::string apart = "e\xcc\x81", one = "\xc3\xa9";
  CHECK(composed("") == "");
  CHECK(composed(apart) == one);
  // A stray byte, characters that lack bytes, an overlong encoding, and a surrogate.
  for (const std::string bytes :
       {"\xff", "\x80\x80", "\xe4\xb8", "\xc3", "\xc0\x80", "\xed\xa0\x80"}) {
    CHECK(composed(bytes) == bytes);
    CHECK(composed(apart + bytes) == one + bytes);
    CHECK(composed(bytes + apart + bytes + bytes + apart) == bytes + one + bytes + bytes + one);
  }
}

TEST_CASE("WordPiece: first and last character of each Chinese block are words", "[wordpiece]") {
  const std::vector<std::string> pieces{"[UNK]", "a"};
  const models::WordPieceTokenizer split(pieces), whole(pieces, {.split_cjk = false});
  auto around = [](char32_t c) {
    std::string text = "a";
    models::internal::append_utf8(text, c);
    return text + "a";
  };
  for (const char32_t c : std::initializer_list<char32_t>{
           0x4e00, 0x9fff, 0x3400, 0x4dbf, 0x20000, 0x2a6df, 0x2a700, 0x2b73f, 0x2b740, 0x2b81f,
           0x2b820, 0x2ceaf, 0xf900, 0xfaff, 0x2f800, 0x2fa1f}) {
    CAPTURE(static_cast<int>(c));
    CHECK(split.encode(around(c)) == Ids{1, 0, 1});
    CHECK(whole.encode(around(c)) == Ids{0});
  }
  for (const char32_t c : std::initializer_list<char32_t>{0x4dc0, 0xa000, 0x3042, 0xac00})
    CHECK(split.encode(around(c)) == Ids{0});
}

}  // namespace unicode_test
