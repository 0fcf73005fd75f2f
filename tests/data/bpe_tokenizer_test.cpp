// Byte pair encoding: examples by hand, the plain Python of
// tests/golden/scripts/make_bpe_golden.py, random bytes, and GPT-2's files, intact and damaged.

#include "gradus/models/data/tokenizers/bpe_tokenizer.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>

#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/bpe.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace bpe_tokenizer_test {

using namespace gradus;
using Catch::Matchers::Contains;
using models::BPETokenizer;
using nlohmann::json;
using Ids = std::vector<int64_t>;
using Texts = std::vector<std::string>;

namespace {

Texts words_of(const std::string& text) {
  Texts words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = models::internal::end_of_word(text, at);
    REQUIRE(end > at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

/// Output of tests/golden/scripts/make_bpe_golden.py.
const json& golden() {
  static const json all =
      json::parse(read_file(gradus::testing::source_path("tests/golden/bpe.json")));
  return all;
}

BPETokenizer trained(const Texts& special = {}) {
  const auto merges = static_cast<int64_t>(golden()["merges"].size());
  return BPETokenizer::train(
      golden()["text"], {.vocab_size = std::ssize(special) + 256 + merges, .special = special});
}

/// n random bytes: any, ASCII, or mostly UTF-8.
std::string random_bytes(std::mt19937& random, size_t n) {
  const Texts pieces{"a",        "b",
                     "th",       "e",
                     " ",        "  ",
                     "\n",       "'s",
                     "'",        "1",
                     "\xc3\xa9", "\xe4\xb8\xad",
                     "\xc2\xa0", "\xf0\x9f\x98\x80",
                     "!",        "\xff",
                     "\x80",     std::string(1, '\0'),
                     "\xe2\x82"};
  std::string text;
  const auto kind = random() % 3;
  while (text.size() < n) {
    if (kind == 0) text += static_cast<char>(random() % 256);
    if (kind == 1) text += static_cast<char>(random() % 128);
    if (kind == 2) text += pieces[random() % pieces.size()];
  }
  return text;
}

}  // namespace

TEST_CASE("BPE: splitting a text into words by GPT-2's rule", "[tokenizer][bpe]") {
  CHECK(words_of("Hello world") == Texts{"Hello", " world"});
  CHECK(words_of("it's they'll 've 'S") ==
        Texts{"it", "'s", " they", "'ll", " '", "ve", " '", "S"});
  CHECK(words_of("a1b22  c") == Texts{"a", "1", "b", "22", " ", " c"});
  CHECK(words_of("a   b") == Texts{"a", "  ", " b"});
  CHECK(words_of("a \n\n b") == Texts{"a", " \n\n", " b"});
  CHECK(words_of("a\n\nb\n") == Texts{"a", "\n", "\n", "b", "\n"});
  CHECK(words_of("a \n") == Texts{"a", " \n"});
  CHECK(words_of(" ") == Texts{" "});
  CHECK(words_of("!? 'tis") == Texts{"!?", " '", "tis"});
  CHECK(words_of("x!'s") == Texts{"x", "!'", "s"});
  CHECK(words_of("a\xff\xff b") == Texts{"a", "\xff\xff", " b"});
  // e acute is a letter, superscript two a number, a no-break space a space, the Euro sign
  // none of these.
  CHECK(words_of("\u00e9t\u00e9\u00b2\u00a0\u20ac 5") ==
        Texts{"\u00e9t\u00e9", "\u00b2", "\u00a0", "\u20ac", " 5"});
  for (const json& sample : golden()["samples"])
    CHECK(words_of(sample["text"]) == sample["words"].get<Texts>());
}

TEST_CASE("BPE: merges learned by hand", "[tokenizer][bpe]") {
  // Words: "low" 1, " low" 1, " lower" 2, " lowest" 1, " newer" 1. Pairs: l-o and o-w 5 each,
  // " "-l 4, w-e 4 (lower 2, lowest 1, newer 1), e-r 3. l-o comes first: l has the smaller id. Then
  // lo-w 5; then " "-low, 4 of its 5 follow a space. Then w-e remains only in newer; e-r
  // occurs in lower (2) and newer (1): 3; low-e is " low"-e, 3. e has a smaller id than " low".
  const std::string text = "low low lower lower lowest newer";
  const auto bpe = BPETokenizer::train(text, {.vocab_size = 256 + 5});
  CHECK(bpe.num_merges() == 5);
  const int64_t first = 256;
  CHECK(bpe.decode({first}) == "lo");
  CHECK(bpe.decode({first + 1}) == "low");
  CHECK(bpe.decode({first + 2}) == " low");
  CHECK(bpe.decode({first + 3}) == "er");
  CHECK(bpe.decode({first + 4}) == " lower");
  CHECK(bpe.encode("low") == Ids{first + 1});
  CHECK(bpe.encode(" lowest") == Ids{first + 2, 'e' - '!', 's' - '!', 't' - '!'});
  CHECK(bpe.encode("lo lower") == Ids{first, first + 4});
  CHECK(bpe.encode("").empty());
  // No pair occurs twice: no merges, although the vocabulary has room.
  CHECK(BPETokenizer::train("abc", {.vocab_size = 1000}).vocab_size() == 256);
  CHECK(BPETokenizer::train("abc", {.vocab_size = 1000, .min_count = 1}).num_merges() == 2);
  CHECK(BPETokenizer::train("", {.vocab_size = 256}).encode("a!") == Ids{'a' - '!', 0});
  // "aaaa" is merged from left to right into aa aa; "aaa" keeps its last a.
  const auto as = BPETokenizer::train("aaaa aaaa", {.vocab_size = 257});
  CHECK(as.encode("aaa") == Ids{256, 'a' - '!'});
}

TEST_CASE("BPE: training and encoding match plain Python", "[tokenizer][bpe]") {
  TemporaryFolder folder;
  const auto bpe = trained();
  bpe.save(folder / "bpe.json");
  CHECK(json::parse(read_file(folder / "bpe.json"))["merges"] == golden()["merges"]);
  for (const json& sample : golden()["samples"])
    CHECK(bpe.encode(sample["text"]) == sample["ids"].get<Ids>());
}

TEST_CASE("BPE: special tokens have the first ids and are never encoded from text",
          "[tokenizer][bpe]") {
  const auto plain = trained(), bpe = trained({"<|endoftext|>", "[PAD]"});
  CHECK(bpe.vocab_size() == plain.vocab_size() + 2);
  CHECK(bpe.special("<|endoftext|>") == 0);
  const std::string text = "the end<|endoftext|>[PAD]";
  Ids expected = plain.encode(text);
  for (int64_t& id : expected) id += 2;
  CHECK(bpe.encode(text) == expected);
  CHECK(bpe.decode({0, 1}) == "<|endoftext|>[PAD]");
  CHECK(bpe.count_unknown(expected) == 0);
  CHECK_THROWS_WITH(bpe.decode({bpe.vocab_size()}), Contains("expected ids from 0 to"));
  CHECK_THROWS_WITH(BPETokenizer::train("aa", {.vocab_size = 257, .special = {"a", "b"}}),
                    Contains("expected a vocab_size from 258"));
  CHECK_THROWS_WITH(BPETokenizer::train("aa", {.vocab_size = 300, .special = {"a"}}),
                    "BPETokenizer: token \"a\" is in the vocabulary twice");
  constexpr int64_t too_many = int64_t{1} << 31;
  CHECK_THROWS_WITH(BPETokenizer::train("aa", {.vocab_size = too_many}), Contains("to 2^31 - 1"));
  CHECK(BPETokenizer::train("aa", {.vocab_size = too_many - 1}).vocab_size() == 256);
  CHECK_THROWS_WITH(BPETokenizer::train("aa", {.vocab_size = 300, .min_count = 0}),
                    Contains("min_count"));
}

TEST_CASE("BPE: decoding restores any bytes", "[tokenizer][bpe]") {
  std::mt19937 random(7);
  std::string text;
  for (int i = 0; i < 40; ++i) text += random_bytes(random, 400);
  TemporaryFolder folder;
  const auto bpe = BPETokenizer::train(text, {.vocab_size = 700, .special = {"[UNK]"}});
  CHECK(bpe.vocab_size() == 700);
  bpe.save(folder / "bpe.json");
  bpe.save_gpt2(folder / "vocab.json", folder / "merges.txt");
  const auto loaded = models::load_tokenizer(folder / "bpe.json");
  const auto gpt2 =
      BPETokenizer::load_gpt2(folder / "vocab.json", folder / "merges.txt", {"[UNK]"});
  CHECK(gpt2.special("[UNK]") == 0);
  for (int i = 0; i < 300; ++i) {
    const std::string sample = random_bytes(random, random() % 60);
    const Ids ids = bpe.encode(sample);
    CHECK(bpe.decode(ids) == sample);
    CHECK(loaded->encode(sample) == ids);
    CHECK(gpt2.encode(sample) == ids);
    for (const int64_t id : ids) REQUIRE_FALSE(bpe.is_special(id));
  }
  CHECK(loaded->decode(loaded->encode(text)) == text);
}

TEST_CASE("BPE: training and encoding are fast on long words", "[tokenizer][bpe]") {
  // A quadratic encoder or trainer would take hours.
  const std::string as(1 << 20, 'a');
  const auto bpe = BPETokenizer::train(as, {.vocab_size = 1000});
  CHECK(bpe.encode(as).size() == 2);  // min_count 2: the longest token is half of the text
  std::mt19937 random(3);
  std::string word;
  while (word.size() < 1 << 18) word += "abcd"[random() % 4];
  const auto other = BPETokenizer::train(word, {.vocab_size = 2000});
  CHECK(other.decode(other.encode(word)) == word);
}

namespace {

/// vocab.json and merges.txt of the 256 bytes with these merges; edit(vocab, merges) changes them.
struct GPT2Files {
  TemporaryFolder folder;
  std::string vocab_path = folder / "vocab.json", merges_path = folder / "merges.txt";
  json vocab;
  std::string merges = "#version: 0.2\na b\nab c\n\u0120 ab\n";

  GPT2Files() {
    int64_t id = 0;
    for (const uint8_t byte : models::internal::bytes_in_order())
      vocab[models::internal::bytes_to_unicode(std::string(1, static_cast<char>(byte)))] = id++;
    for (const char* token : {"ab", "abc", "\u0120ab", "<|endoftext|>"}) vocab[token] = id++;
  }
  BPETokenizer load(const Texts& special = {"<|endoftext|>"}) const {
    write_file_atomically(vocab_path, vocab.dump());
    write_file_atomically(merges_path, merges);
    return BPETokenizer::load_gpt2(vocab_path, merges_path, special);
  }
};

}  // namespace

TEST_CASE("BPE: GPT-2's files", "[tokenizer][bpe]") {
  GPT2Files files;
  const auto bpe = files.load();
  CHECK(bpe.vocab_size() == 260);
  CHECK(bpe.special("<|endoftext|>") == 259);
  CHECK(bpe.encode("ab abc ab") == Ids{256, 220, 257, 258});  // ab c merges before _ ab
  CHECK(bpe.encode("\n") == Ids{198});                        // as in GPT-2's vocabulary
  CHECK(bpe.encode(" ") == Ids{220});
  bpe.save_gpt2(files.vocab_path, files.merges_path);
  CHECK(read_file(files.merges_path) == files.merges);
  CHECK(json::parse(read_file(files.vocab_path)) == files.vocab);

  // The same without the line "#version", without a final line break, and with carriage returns.
  for (const char* merges :
       {"a b\nab c\n\u0120 ab", "#version: 0.2\r\na b\r\nab c\r\n\u0120 ab\r\n"}) {
    files.merges = merges;
    CHECK(files.load().encode(" ab abc") == bpe.encode(" ab abc"));
  }
  files.merges = "#version: 0.2";
  for (const char* token : {"ab", "abc", "\u0120ab", "<|endoftext|>"}) files.vocab.erase(token);
  CHECK(files.load({}).num_merges() == 0);
  // Also accepted are ids in any order, a merge that begins with "#", and two merges with the same
  // result.
  files.vocab["!"] = 1;
  files.vocab["\""] = 0;
  files.vocab["##"] = 256;
  files.vocab["###"] = 257;
  files.merges = "# #\n# ##\n## #\n";
  const auto reordered = files.load({});
  CHECK(reordered.encode("!\"###") == Ids{1, 0, 257});
  CHECK(reordered.encode("\"") == Ids{0});
}

TEST_CASE("BPE: a rule merges all its places before the pairs that it makes", "[tokenizer][bpe]") {
  // ab c, the last rule, makes two abc. If its first merge were followed by abc ab, an earlier
  // rule, the result would be abcab c ab.
  GPT2Files files;
  files.merges = "a b\nb c\na bc\nabc ab\nab c\n";
  for (const char* token : {"ab", "abc", "\u0120ab", "<|endoftext|>"}) files.vocab.erase(token);
  files.vocab["ab"] = 256, files.vocab["bc"] = 257, files.vocab["abc"] = 258;
  files.vocab["abcab"] = 259;
  CHECK(files.load({}).encode("abcabcab") == Ids{258, 259});
}

/// Checks that GPT-2's files with this damage are refused.
template <class Damage>
void refused(Damage&& damage, const std::string& message) {
  GPT2Files files;
  damage(files);
  const bool in_merges = message.rfind("line ", 0) == 0;
  CHECK_THROWS_WITH(
      files.load(),
      "BPETokenizer: " + (in_merges ? files.merges_path : files.vocab_path) + ": " + message);
}

TEST_CASE("BPE: merges that contradict their vocabulary are refused", "[tokenizer][bpe]") {
  refused([](auto& f) { f.vocab.erase("abc"), f.vocab["<|endoftext|>"] = 257; },
          "line 3 makes \"abc\", which is not in the vocabulary");
  refused([](auto& f) { f.merges = "a b\nab zz\n"; },
          "line 2 merges \"zz\", which is not in the vocabulary");
  refused([](auto& f) { f.merges = "ab c\na b\n\u0120 ab\n"; },
          "line 1 merges \"ab\", which no earlier merge produces");
  refused([](auto& f) { f.merges += "a b\n"; }, "line 5 merges \"a b\", as an earlier merge does");
  refused([](auto& f) { f.merges += "\na b\n"; },
          "line 5 expected two tokens with a space between, got \"\"");
  refused([](auto& f) { f.merges += "a  b\n"; },
          "line 5 expected two tokens with a space between, got \"a  b\"");
  for (const std::string line : {"a ", " b"})
    refused([&](auto& f) { f.merges += line + '\n'; },
            "line 5 expected two tokens with a space between, got \"" + line + '"');
  refused([](auto& f) { f.merges += "a b c\n"; },
          "line 5 expected two tokens with a space between, got \"a b c\"");
  refused([](auto& f) { f.merges += "ab\n"; },
          "line 5 expected two tokens with a space between, got \"ab\"");
  refused([](auto& f) { f.merges += "<|endoftext|> a\n"; },
          "line 5 merges \"<|endoftext|>\", which is not in the vocabulary");
  refused([](auto& f) { f.merges = "a b\nab c\n"; },
          "token \"\\u0120ab\" is neither a byte, nor the result of a merge, nor a special token");
}

TEST_CASE("BPE: a vocabulary that contradicts its merges is refused", "[tokenizer][bpe]") {
  refused([](auto& f) { f.vocab["ab"] = 300; },
          "expected ids from 0 to 259 for the 260 tokens, got 300 for \"ab\"");
  refused([](auto& f) { f.vocab["ab"] = -1; },
          "expected ids from 0 to 259 for the 260 tokens, got -1 for \"ab\"");
  refused([](auto& f) { f.vocab["ab"] = "x"; },
          "expected ids from 0 to 259 for the 260 tokens, got \"x\" for \"ab\"");
  refused([](auto& f) { f.vocab["ab"] = 1.0; },
          "expected ids from 0 to 259 for the 260 tokens, got 1.0 for \"ab\"");
  refused([](auto& f) { f.vocab["ab"] = 257; }, "id 257 stands for \"ab\" and \"abc\"");
  for (const json& vocab : {json::array(), json::array({7}), json::object()})
    refused([&](auto& f) { f.vocab = vocab; },
            "expected a JSON object of tokens and their ids, got " + vocab.dump());
  refused([](auto& f) { f.vocab.erase("a"), f.vocab["<|endoftext|>"] = 64; },
          "expected a token for each byte, but there is none for 97, \"a\"");
  refused([](auto& f) { f.vocab["a b"] = 260; },
          "token \"a b\" is empty or holds a character that stands for no byte");
  refused([](auto& f) { f.vocab[""] = 260; },
          "token \"\" is empty or holds a character that stands for no byte");
  refused([](auto& f) { f.vocab["\u4e2d"] = 260; },
          "token \"\\u4e2d\" is empty or holds a character that stands for no byte");
  GPT2Files files;
  CHECK_THROWS_WITH(files.load({"<|pad|>", "<|endoftext|>"}),
                    Contains("special token \"<|pad|>\" is not in the vocabulary"));
  CHECK_THROWS_WITH(files.load({}), Contains("\"<|endoftext|>\" is empty or holds") ||
                                        Contains("\"<|endoftext|>\" is neither a byte"));
  CHECK_THROWS_WITH(BPETokenizer::load_gpt2(files.folder / "none", files.merges_path),
                    Contains("No such file"));
  write_file_atomically(files.vocab_path, R"({"a": 0, "a": 1})");
  CHECK_THROWS_WITH(BPETokenizer::load_gpt2(files.vocab_path, files.merges_path),
                    Contains(files.vocab_path) && Contains("names \"a\" twice"));
}

}  // namespace bpe_tokenizer_test
