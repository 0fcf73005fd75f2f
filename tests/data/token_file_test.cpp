// Token files, and training data from them.

#include "gradus/models/data/text/token_file.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <numeric>
#include <random>

#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/text/text_data.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"
#include "gradus/models/data/tokenizers/wordpiece_tokenizer.h"
#include "tests/support/child.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace token_file_test {

using namespace gradus;
using Catch::Matchers::Contains;
using models::Split;
using models::TextData;
using models::TokenFile;
using Ids = std::vector<int64_t>;

namespace {

Ids all_of(const TokenFile& file) {
  Ids ids(static_cast<size_t>(file.size()));
  file.read(0, file.size(), ids.data());
  return ids;
}

/// A text of words, lines, runs of every kind of white space, and multi-byte characters.
std::string random_text(std::mt19937& random, size_t n) {
  const std::vector<std::string> pieces{
      "the",    "we're",  "caf\u00e9",  "\u65e5\u672c", "12",   "...",  "'",  " ",
      " ",      " ",      "  ",         "\n",           "\n\n", " \n ", "\t", "\r\n",
      "\u00a0", "\u3000", "\U0001f600", "!\n",          "\v",   "\f"};
  std::string text;
  while (text.size() < n) text += pieces[random() % pieces.size()];
  return text;
}

std::string file_of(const TemporaryFolder& folder, const std::string& bytes) {
  const std::string path = folder / "bytes";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace

TEST_CASE("token file: tokens of a range of a text, and their checksum", "[token_file]") {
  TemporaryFolder folder;
  std::mt19937 random(5);
  const std::string text = random_text(random, 5000), path = file_of(folder, text);
  const auto bpe = models::BPETokenizer::train(text, {.vocab_size = 300});
  const auto size = std::ssize(text);
  std::vector<std::string> checksums;
  for (const auto& [first, most] : std::vector<std::pair<int64_t, int64_t>>{
           {0, size}, {0, 0}, {0, 64}, {1000, 64}, {1001, 3999}, {4000, size}, {size, 1}})
    for (const int64_t piece : {1, 64, 100000}) {
      const auto at = static_cast<size_t>(first), n = static_cast<size_t>(most);
      const auto written = TokenFile::write(folder / "tokens", path, bpe, {piece, first, most});
      const TokenFile file(folder / "tokens");
      CHECK(all_of(file) == bpe.encode(text.substr(at, n)));
      CHECK(written.bytes == std::ssize(text.substr(at, n)));
      if (piece > 1) continue;
      for (const std::string& other : checksums)
        CHECK((file.checksum() != other || file.size() == 0));
      checksums.push_back(file.checksum());
    }
  CHECK_THROWS_WITH(TokenFile::write(folder / "tokens", path, bpe, {.first = -1}),
                    Contains("from byte -1"));
  constexpr int64_t largest = int64_t{1} << 32;
  CHECK(TokenFile::write(folder / "tokens", path, bpe, {.piece = largest, .most = 9}).bytes == 9);
  CHECK_THROWS_WITH(TokenFile::write(folder / "tokens", path, bpe, {.piece = largest + 1}),
                    Contains("pieces of 1 to 2^32 bytes"));
  CHECK_THROWS_WITH(TokenFile::write(folder / "tokens", path, bpe, {.most = -1}),
                    Contains("-1 from"));
}

#if defined(__linux__)
TEST_CASE("token file: one that does not fit into the address space is refused",
          "[token_file][fork]") {
  if (!caches()) return;
  TemporaryFolder folder;
  const std::string path = file_of(folder, "");
  std::filesystem::resize_file(path, 256 << 20);
  CHECK(in_child([&] {
          limit_memory(32 << 20);
          try {
            const TokenFile file(path);
          } catch (const Error& e) {
            return e.what() == "TokenFile: " + path + ": Cannot allocate memory" ? 0 : 1;
          }
          return 2;
        }) == 0);
}
#endif

TEST_CASE("token file: tokens read back as written", "[token_file]") {
  TemporaryFolder folder;
  const std::string path = folder / "tokens";
  for (const int64_t vocab :
       {int64_t{1}, int64_t{1} << 16, (int64_t{1} << 16) + 1, int64_t{1} << 32})
    for (const int64_t n : {0, 1, 16, 100003}) {
      Ids tokens(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = (vocab - 1 - i * 7) % vocab;
      for (int64_t& token : tokens) token += token < 0 ? vocab : 0;
      TokenFile::write(path, tokens, vocab);
      const TokenFile file(path);
      CHECK(file.size() == n);
      CHECK(file.vocab_size() == vocab);
      CHECK(file.path() == path);
      CHECK(all_of(file) == tokens);
      CHECK_NOTHROW(file.verify());
      CHECK(std::filesystem::file_size(path) ==
            64 + static_cast<uint64_t>(n) * (vocab <= 1 << 16 ? 2 : 4));
    }
  CHECK_THROWS_WITH(TokenFile::write(path, {0, 5}, 5),
                    Contains("expected tokens from 0 to 4, got 5"));
  CHECK_THROWS_WITH(TokenFile::write(path, {-1}, 5), Contains("got -1"));
  CHECK_THROWS_WITH(TokenFile::write(path, {}, 0), Contains("vocabulary"));
  CHECK(TokenFile(path).size() == 100003);  // as it was

  const TokenFile file(path);
  Ids two(2);
  file.read(100001, 2, two.data());
  CHECK_NOTHROW(file.read(100003, 0, nullptr));
  CHECK_THROWS_WITH(file.read(100002, 2, two.data()), Contains("only 100003 exist"));
  CHECK_THROWS_WITH(file.read(-1, 1, two.data()), Contains("-1"));
  CHECK_THROWS_WITH(file.read(0, -1, two.data()), Contains("-1 tokens"));
  CHECK_THROWS_WITH(file.read(std::numeric_limits<int64_t>::max(), 2, two.data()),
                    Contains("only 100003 exist"));
}

TEST_CASE("token file: a file stores the source of its tokens", "[token_file]") {
  TemporaryFolder folder;
  const std::string path = folder / "tokens", source = "0123456789abcdef";
  TokenFile::write(path, {1, 2}, 5);
  CHECK(TokenFile(path).source().empty());
  TokenFile::write(path, {1, 2}, 5, source);
  CHECK(TokenFile(path).source() == source);
  CHECK_NOTHROW(TokenFile(path).verify());
  const std::string text = file_of(folder, "ab ab");
  TokenFile::write(path, text, models::CharTokenizer("ab "), {.most = 5, .source = source});
  CHECK(TokenFile(path).source() == source);
  for (const char* bad : {"0", "0123456789ABCDEF", "0123456789abcdeg", "0123456789abcdef0"})
    CHECK_THROWS_WITH(TokenFile::write(path, {}, 5, bad), Contains("16 hexadecimal digits"));
  CHECK(TokenFile(path).source() == source);  // as it was
  for (const char bad : {'\0', 'g', '/'}) {
    std::string bytes = read_file(path);
    bytes[60] = bad;
    write_file_atomically(folder / "bad", bytes);
    CHECK_THROWS_WITH(TokenFile(folder / "bad"), Contains("byte 48: expected 16 hexadecimal"));
  }
}

TEST_CASE("token file: a temporary file has no name and is freed with its last copy",
          "[token_file]") {
  TemporaryFolder folder;
  std::mt19937 random(3);
  const std::string text = random_text(random, 5000), path = file_of(folder, text);
  const auto bpe = models::BPETokenizer::train(text, {.vocab_size = 300});
  const auto count = [] {  // the number of open files
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = count();
  {
    const TokenFile file = TokenFile::temporary(path, bpe, {64, 1000, 3000}), copy = file;
    CHECK(all_of(copy) == bpe.encode(text.substr(1000, 3000)));
    CHECK_NOTHROW(copy.verify());
    CHECK(!std::filesystem::exists(file.path()));
    CHECK(count() == before + 1);
  }
  CHECK(count() == before);
  CHECK_THROWS_WITH(TokenFile::temporary(folder / "none", bpe), Contains("No such file"));
  CHECK_THROWS_WITH(TokenFile::temporary(path, bpe, {.piece = 0}), Contains("pieces"));
  CHECK(count() == before);
}

TEST_CASE("token file: a text encoded in pieces gives the same tokens", "[token_file]") {
  TemporaryFolder folder;
  std::mt19937 random(11);
  for (int round = 0; round < 6; ++round) {
    const std::string text = random_text(random, 3000), path = file_of(folder, text);
    const models::CharTokenizer chars(text);
    const models::WordTokenizer words(text, {.max_words = 6});
    const auto bpe = models::BPETokenizer::train(text, {.vocab_size = 350});
    const models::WordPieceTokenizer cut({"[UNK]", "the", "we", "12", "##12", "##the", "'", "re"});
    for (const models::Tokenizer* tokenizer :
         std::vector<const models::Tokenizer*>{&chars, &words, &bpe, &cut})
      for (const int64_t piece : {1, 2, 3, 7, 64, 1000, 3000, 1 << 20}) {
        const auto written =
            TokenFile::write(folder / "tokens", path, *tokenizer, {.piece = piece});
        const Ids whole = tokenizer->encode(text);
        CHECK(all_of(TokenFile(folder / "tokens")) == whole);
        CHECK(written.bytes == std::ssize(text));
        CHECK(written.tokens == std::ssize(whole));
        CHECK(written.unknown == tokenizer->count_unknown(whole));
      }
  }
  // Rules for words that keep several line breaks together, and texts that begin with a "\u2581".
  for (const char* form : {"llama2", "llama3", "mistral", "qwen2", "smollm2"}) {
    CAPTURE(form);
    const auto tokenizer = models::load_tokenizer(
        testing::source_path("tests/golden/hugging_face/") + form + "/tokenizer.json");
    const std::string text = random_text(random, 3000) + " caf\u00e9 th\u00e9 a b c  d\ne";
    const std::string path = file_of(folder, text);
    for (const int64_t piece : {1, 2, 7, 64, 1000}) {
      TokenFile::write(folder / "tokens", path, *tokenizer, {.piece = piece});
      CHECK(all_of(TokenFile(folder / "tokens")) == tokenizer->encode(text));
    }
  }
  // A text may have no place to cut.
  const std::string one(10000, 'a');
  const auto bpe = models::BPETokenizer::train(one, {.vocab_size = 260});
  TokenFile::write(folder / "tokens", file_of(folder, one), bpe, {.piece = 16});
  CHECK(all_of(TokenFile(folder / "tokens")) == bpe.encode(one));
  TokenFile::write(folder / "tokens", file_of(folder, ""), bpe, {.piece = 16});
  CHECK(TokenFile(folder / "tokens").size() == 0);

  const std::string bad = file_of(folder, "ab ab ab\xff ab");
  CHECK_THROWS_WITH(TokenFile::write(folder / "t", bad, models::CharTokenizer("ab "), {.piece = 4}),
                    Contains(bad) && Contains("in the 4 bytes from byte 5 on: encode: expected "
                                              "UTF-8, got an invalid sequence at byte 3"));
  CHECK_FALSE(folder.has("t"));
  CHECK_THROWS_WITH(TokenFile::write(folder / "t", folder / "none", bpe), Contains("No such file"));
  CHECK_THROWS_WITH(TokenFile::write(folder / "t", bad, bpe, {.piece = 0}), Contains("pieces"));
}

TEST_CASE("token file: damaged files are refused", "[token_file]") {
  TemporaryFolder folder;
  const std::string path = folder / "tokens";
  Ids tokens(40);
  std::iota(tokens.begin(), tokens.end(), 0);
  TokenFile::write(path, tokens, 41);
  const std::string good = read_file(path);
  int taken = 0;
  auto with = [&](const std::string& bytes) {
    std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << bytes;
    std::filesystem::resize_file(path, bytes.size());
    try {
      const TokenFile file(path);
      file.verify();
      ++taken;
      CHECK(all_of(file) == tokens);
    } catch (const Error& e) {
      CHECK_THAT(e.what(), Contains(path + ": byte"));
    }
  };
  for (size_t at = 0; at < good.size(); ++at) {
    with(good.substr(0, at));
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << bit);
      with(bytes);
    }
  }
  with(good + "x");
  with(good + "xy");
  CHECK(taken <= 8 * 4);  // those with a larger vocabulary, up to 2^16

  write_file_atomically(path, "gradtok2" + good.substr(8));
  CHECK_THROWS_WITH(TokenFile(path), "TokenFile: " + path +
                                         ": byte 0: not a token file: it does "
                                         "not begin with \"gradtok1\"");
  write_file_atomically(path, good.substr(0, 100));
  CHECK_THROWS_WITH(TokenFile(path),
                    Contains("byte 16: expected 40 tokens of 2 bytes, got 36 bytes"));
  std::string outside = good;
  outside[64 + 2 * 7] = 41;
  write_file_atomically(path, outside);
  const TokenFile opened(path);
  Ids out(8);
  CHECK_NOTHROW(opened.read(0, 7, out.data()));
  CHECK_THROWS_WITH(opened.read(0, 8, out.data()),
                    Contains("byte 78: expected a token below 41, got 41"));
  // Files whose vocabulary would be empty or have 2^32 + 1 tokens.
  for (const int64_t vocab : {int64_t{1}, int64_t{1} << 32}) {
    TokenFile::write(path, Ids{}, vocab);
    std::string bytes = read_file(path);
    bytes[24] = static_cast<char>(1 - bytes[24]);
    write_file_atomically(path, bytes);
    CHECK_THROWS_WITH(TokenFile(path), Contains("byte 24: expected a vocabulary of 1 to 2^32"));
  }
  CHECK_THROWS_WITH(TokenFile(folder / "none"), Contains("No such file"));
  CHECK_THROWS_WITH(TokenFile(folder.path.string()), Contains(folder.path.string()));
}

TEST_CASE("token file: reading a file that was truncated while open throws", "[token_file]") {
  TemporaryFolder folder;
  const std::string path = folder / "tokens";
  TokenFile::write(path, Ids(100000, 3), 10);
  const TokenFile file(path);
  const TextData data(file, 16);
  CHECK_NOTHROW(data.random_batch(Split::train, 4, 1, 0));
  // Replacing the file changes nothing; after truncation the next read throws.
  const TokenFile before(path);
  TokenFile::write(path, Ids(10, 4), 10);
  CHECK(all_of(before) == Ids(100000, 3));
  const TokenFile now(path);
  std::filesystem::resize_file(path, 70);
  Ids out(10);
  CHECK_THROWS_WITH(
      now.read(0, 10, out.data()),
      Contains(path) && Contains("truncated after it was opened: from 84 bytes to 70"));
  CHECK_NOTHROW(data.random_batch(Split::train, 4, 1, 0));
}

TEST_CASE("text data: files give the same batches as memory", "[token_file][text_data]") {
  TemporaryFolder folder;
  Ids tokens(1003), more(211);
  std::iota(tokens.begin(), tokens.end(), 0);
  std::iota(more.begin(), more.end(), 5000);
  TokenFile::write(folder / "a", tokens, 70000);
  TokenFile::write(folder / "b", more, 6000);
  const TokenFile a(folder / "a"), b(folder / "b");
  const auto same = [](const TextData& x, const TextData& y) {
    for (const Split split : {Split::train, Split::validation}) {
      REQUIRE(x.length(split) == y.length(split));
      REQUIRE(x.num_windows(split) == y.num_windows(split));
      for (int64_t step = 0; step < 5; ++step) {
        const auto p = x.random_batch(split, 7, 3, step, 1),
                   q = y.random_batch(split, 7, 3, step, 1);
        CHECK(p.inputs.to_vector<int64_t>() == q.inputs.to_vector<int64_t>());
        CHECK(p.targets.to_vector<int64_t>() == q.targets.to_vector<int64_t>());
      }
      const auto p = x.windows(split, 1, 1000), q = y.windows(split, 1, 1000);
      CHECK(p.inputs.to_vector<int64_t>() == q.inputs.to_vector<int64_t>());
      CHECK(p.targets.to_vector<int64_t>() == q.targets.to_vector<int64_t>());
    }
  };
  for (const int64_t context : {1, 8, 50}) {
    same(TextData(tokens, context), TextData(a, context));
    same(TextData(tokens, more, context), TextData(a, b, context));
  }
  CHECK_THROWS_WITH(TextData(a, 200), Contains("too few to validate"));
  CHECK_THROWS_WITH(TextData(a, 0), Contains("context"));
}

}  // namespace token_file_test
