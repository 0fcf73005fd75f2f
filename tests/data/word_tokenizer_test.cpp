#include "gradus/models/data/tokenizers/word_tokenizer.h"

#include <catch2/catch.hpp>

#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"
#include "tests/support/temporary_folder.h"

namespace word_tokenizer_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

namespace {
std::string again(const models::Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.decode(tokenizer.encode(text));
}
}  // namespace

TEST_CASE("WordTokenizer: words sorted by frequency, then by bytes", "[tokenizer]") {
  // the 3, to 2, "." 2, be 1, cat 1, dog 1, sat 1
  const std::string text = "the cat sat. the dog\tto the\n be to.";
  const models::WordTokenizer all(text);
  CHECK(all.special_tokens() == std::vector<std::string>{"[PAD]", "[UNK]", "[START]", "[END]"});
  CHECK(all.vocab_size() == 4 + 7);
  CHECK(all.encode("the . to be cat dog sat") == std::vector<int64_t>{4, 5, 6, 7, 8, 9, 10});
  CHECK(all.encode("The cat, the [UNK]!") ==
        std::vector<int64_t>{1, 8, 1, 4, 1, 1, 1, 1});  // The , [ UNK ] !
  CHECK(all.encode(" \t\n").empty());
  const models::WordTokenizer four(text, {.max_words = 4});
  CHECK(four.vocab_size() == 8);
  CHECK(four.encode("the . to be cat") == std::vector<int64_t>{4, 5, 6, 7, 1});
  CHECK(four.count_unknown(four.encode(text)) == 3);
  CHECK(models::WordTokenizer(text, {.max_words = 100}).vocab_size() == 11);
  CHECK(models::WordTokenizer("a b", {.special = {"[UNK]"}}).encode("c a") ==
        std::vector<int64_t>{0, 1});
  const models::WordTokenizer strict(text, {.special = {}});
  CHECK_THROWS_WITH(strict.encode("the lion"),
                    "encode: word \"lion\" at byte 4 is not among the 7 of the vocabulary");
  CHECK_THROWS_WITH(strict.encode("the\xc3"), Contains("at byte 3"));
  CHECK_THROWS_WITH(models::WordTokenizer(" \n"), Contains("expected a text with words in it"));
  CHECK_THROWS_WITH(models::WordTokenizer("a", {.max_words = -1}), Contains("max_words"));
}

TEST_CASE("WordTokenizer: the definition of a word", "[tokenizer]") {
  auto words = [](const std::string& text, bool lower_case = false) {
    const models::WordTokenizer tokenizer(text, {.lower_case = lower_case, .special = {}});
    std::vector<std::string> all;
    for (const int64_t id : tokenizer.encode(text)) all.push_back(tokenizer.decode({id}));
    return all;
  };
  using Words = std::vector<std::string>;
  CHECK(words("It's 3.14 km--so_far") ==
        Words{"It", "'", "s", "3", ".", "14", "km", "-", "-", "so", "_", "far"});
  // No-break and ideographic spaces separate; a dash, a Euro sign and an emoji are words of their
  // own; combining accents and the vowel signs of Hindi belong to their word.
  CHECK(words("a\u00a0b\u3000c\u2014d\u20ac5\U0001f600") ==
        Words{"a", "b", "c", "\u2014", "d", "\u20ac", "5", "\U0001f600"});
  CHECK(words("cafe\u0301 \u0939\u093f\u0928\u094d\u0926\u0940, \u65e5\u672c\u3002") ==
        Words{"cafe\u0301", "\u0939\u093f\u0928\u094d\u0926\u0940", ",", "\u65e5\u672c", "\u3002"});
  CHECK(words("THE \u00c9t\u00c9 \u0391\u03a9 \u042f\u0401 \u0141\u0178 \u00d7 \u00df \u1ec6",
              true) == Words{"the", "\u00e9t\u00e9", "\u03b1\u03c9", "\u044f\u0451", "\u0142\u00ff",
                             "\u00d7", "\u00df", "\u1ec7"});
}

TEST_CASE("WordTokenizer: decode joins words as in printed text", "[tokenizer]") {
  for (const std::string text :
       {"Hello, world! (It's [so] well-known; isn't it?)", "He said: \"Go home.\" And \"stay\".",
        "50% of {them}", "\u201cyes\u201d, \u00bfno?", "1/2 and a_b", "a b"}) {
    const models::WordTokenizer tokenizer(text);
    CHECK(again(tokenizer, text) == text);
  }
  const models::WordTokenizer tokenizer("to be , or not", {.lower_case = true});
  CHECK(again(tokenizer, "To  be,\nor what") == "to be, or [UNK]");
  CHECK(tokenizer.decode({2, tokenizer.encode("be")[0], 3, 0}) == "[START] be [END] [PAD]");
  CHECK_THROWS_WITH(tokenizer.decode({99}), Contains("expected ids from 0 to 8, got 99"));
}

TEST_CASE("WordTokenizer: a saved tokenizer loads unchanged", "[tokenizer]") {
  TemporaryFolder folder;
  const std::string path = folder / "words.json";
  const std::string text = "A \"word\", \u00e9t\u00e9 \U0001f600 and another";
  for (const bool lower_case : {false, true}) {
    const models::WordTokenizer tokenizer(text, {.lower_case = lower_case});
    tokenizer.save(path);
    const auto loaded = models::load_tokenizer(path);
    CHECK(loaded->vocab_size() == tokenizer.vocab_size());
    CHECK(loaded->encode(text + " new AND") == tokenizer.encode(text + " new AND"));
    CHECK(loaded->special("[END]") == 3);
    CHECK(models::WordTokenizer::load(path).encode(text) == tokenizer.encode(text));
  }
  auto refused = [&](const std::string& content, const std::string& reason) {
    write_file_atomically(path, content);
    CHECK_THROWS_WITH(models::WordTokenizer::load(path), Contains(path + ": ") && Contains(reason));
    CHECK_THROWS_WITH(models::load_tokenizer(path), Contains(path + ": "));
  };
  refused("[]", "expected a JSON object");
  refused(R"({"type": "word", "vocab": ["a"]})", "expected true or false for lower_case");
  refused(R"({"type": "word", "lower_case": 1, "vocab": ["a"]})", "lower_case");
  refused(R"({"type": "word", "lower_case": true})", "expected an array of words for vocab");
  refused(R"({"type": "word", "lower_case": true, "vocab": ["A"]})", "one word in lower case, got");
  refused(R"({"type": "word", "lower_case": false, "vocab": ["a b"]})", "expected one word, got");
  refused(R"({"type": "word", "lower_case": false, "vocab": [""]})", "expected one word, got");
  refused(R"({"type": "word", "lower_case": false, "vocab": [" a"]})", "expected one word, got");
  refused(R"({"type": "word", "lower_case": false, "vocab": ["a", "a"]})",
          "is in the vocabulary twice");
  write_file_atomically(path, R"({"type": "sentence"})");
  CHECK_THROWS_WITH(
      models::load_tokenizer(path),
      "load_tokenizer: " + path +
          ": expected \"char\", \"word\", \"bpe\" or \"wordpiece\" for type, got \"sentence\"");
}

}  // namespace word_tokenizer_test
