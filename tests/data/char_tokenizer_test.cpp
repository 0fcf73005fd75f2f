#include "gradus/models/data/tokenizers/char_tokenizer.h"

#include <catch2/catch.hpp>

#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"
#include "tests/support/temporary_folder.h"

namespace char_tokenizer_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

TEST_CASE("CharTokenizer: the vocabulary holds the characters of the text in order",
          "[tokenizer]") {
  const models::CharTokenizer tokenizer("hello\nworld");
  CHECK(tokenizer.vocab_size() == 8);  // \n d e h l o r w
  CHECK(tokenizer.encode("low\n") == std::vector<int64_t>{4, 5, 7, 0});
  CHECK(tokenizer.decode({3, 2, 4, 4, 5}) == "hello");
  CHECK(tokenizer.encode("").empty());
  CHECK(tokenizer.decode({}).empty());
}

TEST_CASE("CharTokenizer: a character is a code point, not a byte", "[tokenizer]") {
  // One to four bytes: a, e acute, Euro sign, musical G clef; then the first and last code point of
  // each length.
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e";
  const models::CharTokenizer tokenizer(text);
  CHECK(tokenizer.encode(text) == std::vector<int64_t>{0, 1, 2, 3});
  CHECK(tokenizer.decode({3, 0, 2}) ==
        "\xf0\x9d\x84\x9e"
        "a\xe2\x82\xac");
  const std::string ends = std::string(1, '\0') +
                           "\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"
                           "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf";
  const models::CharTokenizer all(ends);
  CHECK(all.vocab_size() == 10);
  CHECK(all.decode(all.encode(ends)) == ends);
}

TEST_CASE("CharTokenizer: bad input is refused", "[tokenizer]") {
  const models::CharTokenizer tokenizer("abc");
  CHECK_THROWS_WITH(models::CharTokenizer(""), Contains("got an empty one"));
  CHECK_THROWS_WITH(
      tokenizer.encode("ab\xc3\xa9"),
      "encode: character \"\xc3\xa9\" at byte 2 is not among the 3 of the vocabulary");
  CHECK_THROWS_WITH(tokenizer.encode("a\n"), Contains("character \"\\n\" at byte 1"));
  CHECK_THROWS_WITH(tokenizer.decode({0, 3}),
                    "decode: expected ids from 0 to 2, got 3 at position 1");
  CHECK_THROWS_WITH(tokenizer.decode({-1}), Contains("got -1 at position 0"));

  // Stray, missing and overlong bytes, surrogates, beyond U+10FFFF.
  for (const char* bad :
       {"\x80", "\xbf", "\xc3", "\xc3z", "\xc0\x80", "\xc1\xbf", "\xe2\x82", "\xe2\x82z",
        "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x9d\x84", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xf8\x90\x80\x80", "\xbf\xbf", "\xff"})
    CHECK_THROWS_WITH(models::CharTokenizer("ab" + std::string(bad)),
                      "CharTokenizer: expected UTF-8, got an invalid sequence at byte 2");
}

TEST_CASE("CharTokenizer: a saved tokenizer loads unchanged", "[tokenizer]") {
  TemporaryFolder folder;
  const std::string path = folder / "tokenizer.json";
  const std::string text = "\"quoted\"\\\n\t \xc3\xa9\xf0\x9d\x84\x9e";
  const models::CharTokenizer tokenizer(text);
  tokenizer.save(path);
  const models::CharTokenizer loaded = models::CharTokenizer::load(path);
  CHECK(loaded.vocab_size() == tokenizer.vocab_size());
  CHECK(loaded.encode(text) == tokenizer.encode(text));

  auto refused = [&](const std::string& content, const std::string& reason) {
    write_file_atomically(path, content);
    CHECK_THROWS_WITH(models::CharTokenizer::load(path), Contains(path + ": ") && Contains(reason));
  };
  refused("", "the file is not JSON at its byte 1");
  refused("{", "the file is not JSON at its byte 2");
  refused("[]", "expected a JSON object, got []");
  refused(R"({"type": "bpe", "vocab": ["a"]})", "expected \"char\" for type, got \"bpe\"");
  refused(R"({"vocab": ["a"]})", "expected a string for type, which is missing");
  refused(R"({"type": "char"})", "expected an array of characters for vocab");
  refused(R"({"type": "char", "vocab": []})", "expected an array of characters for vocab");
  refused(R"({"type": "char", "vocab": [1]})", "got 1");
  refused(R"({"type": "char", "vocab": ["a", ""]})", "expected one character, got \"\"");
  refused(R"({"type": "char", "vocab": ["ab"]})", "expected one character, got \"ab\"");
  refused(R"({"type": "char", "vocab": ["a", "b", "a"]})", "\"a\" is in the vocabulary twice");
  refused(R"({"type": "char", "vocab": ["a"], "special": "[UNK]"})",
          "an array of names for special");
  refused(R"({"type": "char", "vocab": ["a"], "special": [1]})",
          "expected names in special, got 1");
  refused(R"({"type": "char", "vocab": ["a"], "special": [""]})", "got an empty one");
  refused(R"({"type": "char", "vocab": ["a"], "special": ["b", "b"]})", "\"b\" is given twice");
  std::filesystem::remove(path);
  CHECK_THROWS_WITH(models::CharTokenizer::load(path), Contains(path + ": No such file"));
}

TEST_CASE("special tokens: the first ids, never encoded from text, decoded by name",
          "[tokenizer]") {
  const std::vector<std::string> special{"[PAD]", "[UNK]", "[MASK]"};
  const models::CharTokenizer tokenizer("[MASK] abc", special);
  CHECK(tokenizer.vocab_size() == 3 + 10);
  CHECK(tokenizer.special("[PAD]") == 0);
  CHECK(tokenizer.special("[MASK]") == 2);
  CHECK(tokenizer.has_special("[UNK]"));
  CHECK_FALSE(tokenizer.has_special("[CLS]"));
  CHECK(tokenizer.is_special(2));
  CHECK_FALSE(tokenizer.is_special(3));
  CHECK(tokenizer.special_tokens() == special);
  CHECK_THROWS_WITH(tokenizer.special("[CLS]"),
                    "special: the tokenizer has no special token \"[CLS]\"; it has "
                    "[\"[PAD]\",\"[UNK]\",\"[MASK]\"]");
  CHECK_THROWS_WITH(models::CharTokenizer("a").special("[PAD]"), Contains("it has none"));

  const std::vector<int64_t> literal = tokenizer.encode("[MASK]");
  CHECK(literal.size() == 6);
  for (const int64_t id : literal) CHECK_FALSE(tokenizer.is_special(id));
  CHECK(tokenizer.decode(literal) == "[MASK]");
  CHECK(tokenizer.decode({2, 0}) == "[MASK][PAD]");

  // Characters outside the vocabulary become [UNK], if it exists, and are counted.
  const std::vector<int64_t> ids = tokenizer.encode("axb\xc3\xa9");
  CHECK(tokenizer.decode(ids) == "a[UNK]b[UNK]");
  CHECK(tokenizer.count_unknown(ids) == 2);
  CHECK(tokenizer.count_unknown({}) == 0);
  CHECK_THROWS_WITH(tokenizer.encode("a\xff"),
                    "encode: expected UTF-8, got an invalid sequence at "
                    "byte 1");
  CHECK(models::CharTokenizer("abc", {"[UNK]"}).encode("xa") == std::vector<int64_t>{0, 1});
  const models::CharTokenizer strict("abc", {"[PAD]"});
  CHECK_THROWS_WITH(strict.encode("x"),
                    "encode: character \"x\" at byte 0 is not among the 4 of "
                    "the vocabulary");
  CHECK(strict.count_unknown({0, 1}) == 0);

  for (const std::vector<std::string>& bad :
       std::vector<std::vector<std::string>>{{""}, {"a", "a"}, {"\xff"}})
    CHECK_THROWS_WITH(models::CharTokenizer("abc", bad), Contains("special tokens: "));

  TemporaryFolder folder;
  tokenizer.save(folder / "tokenizer.json");
  const auto loaded = models::load_tokenizer(folder / "tokenizer.json");
  CHECK(loaded->special_tokens() == special);
  CHECK(loaded->encode("[MASK] x") == tokenizer.encode("[MASK] x"));
}

}  // namespace char_tokenizer_test
