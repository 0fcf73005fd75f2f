// Damaged and malicious tokenizer files are read correctly or refused with a short Error that names
// the file, in time linear in their size.

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace tokenizer_files_test {

using namespace gradus;
using Catch::Matchers::Contains;
using models::BPETokenizer;
using nlohmann::json;
using Ids = std::vector<int64_t>;

namespace {

/// Overwrites a file in place: truncating it first would make some file systems write to disk each
/// time.
void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::app).close();
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << bytes;
  std::filesystem::resize_file(path, bytes.size());
}

const std::string text =
    "It's \"quoted\" \\ text, caf\u00e9 \u65e5\u672c: the then there\n\tthe 12 12 thens'\n";

/// Checks a tokenizer whose file was accepted.
void check_sound(const models::Tokenizer& tokenizer) {
  REQUIRE(tokenizer.vocab_size() > 0);
  Ids all(static_cast<size_t>(tokenizer.vocab_size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  CHECK_NOTHROW(tokenizer.decode(all));
  try {
    for (const int64_t id : tokenizer.encode(text))
      REQUIRE((id >= 0 && id < tokenizer.vocab_size()));
  } catch (const Error& e) {  // the text has characters outside the vocabulary
    CHECK_THAT(e.what(), Contains("encode: "));
  }
}

/// A copy of a file with bits flipped, and pieces removed, repeated or replaced by those of other
/// files.
std::string damaged(const std::string& good, std::mt19937& random) {
  std::string bytes = good;
  const size_t at = random() % good.size(), n = random() % 30;
  switch (random() % 5) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      bytes.erase(at, n);
      break;
    case 3:
      bytes.insert(at, good.substr(random() % good.size(), n));
      break;
    default:
      bytes[at] = "\"[]{},:\\0 1n"[random() % 12];
  }
  return bytes;
}

template <class Load>
int count_taken(const std::string& path, const std::string& names, Load&& load) {
  std::mt19937 random(5);
  const std::string good = read_file(path);
  int taken = 0;
  for (int i = 0; i < 1500; ++i) {
    const std::string bytes = damaged(good, random);
    write(path, bytes);
    try {
      load();
      ++taken;
    } catch (const Error& e) {
      const std::string message = e.what();
      if (message.find(names) == std::string::npos || message.size() > path.size() + 1000)
        FAIL_CHECK("expected a short message about " << names << ", got "
                                                     << message.substr(0, 2000));
    }
  }
  write(path, good);
  load();
  return taken;
}

double seconds(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("tokenizer files: a damaged file is refused or gives a working tokenizer",
          "[tokenizer][hostile]") {
  TemporaryFolder folder;
  const std::string path = folder / "tokenizer.json";
  const std::vector<std::string> special{"[PAD]", "[UNK]"};
  auto load = [&] { check_sound(*models::load_tokenizer(path)); };
  models::CharTokenizer(text, special).save(path);
  CHECK(count_taken(path, path, load) < 1000);
  models::WordTokenizer(text, {.lower_case = true, .special = special}).save(path);
  CHECK(count_taken(path, path, load) < 1000);
  const auto bpe = BPETokenizer::train(text, {.vocab_size = 300, .special = special});
  bpe.save(path);
  CHECK(count_taken(path, path, load) < 100);
  const std::string vocab = folder / "vocab.json", merges = folder / "merges.txt";
  bpe.save_gpt2(vocab, merges);
  auto load_gpt2 = [&] { check_sound(BPETokenizer::load_gpt2(vocab, merges, special)); };
  CHECK(count_taken(vocab, folder.path.string(), load_gpt2) < 100);
  // Damage to redundant lines of merges.txt, or to its first line, is not detected.
  CHECK(count_taken(merges, folder.path.string(), load_gpt2) < 150);
}

TEST_CASE("tokenizer files: BPE's own file with missing or wrong content", "[tokenizer][hostile]") {
  TemporaryFolder folder;
  const std::string path = folder / "tokenizer.json";
  const auto bpe = BPETokenizer::train("ab ab abc abc", {.vocab_size = 259, .special = {"[UNK]"}});
  bpe.save(path);
  const json good = json::parse(read_file(path));
  CHECK(good["merges"] == json({"a b", "\u0120 ab"}));
  auto refused = [&](auto&& damage, const std::string& reason) {
    json file = good;
    damage(file);
    write(path, file.dump());
    CHECK_THROWS_WITH(BPETokenizer::load(path), "BPETokenizer: " + path + ": " + reason);
    CHECK_THROWS_WITH(models::load_tokenizer(path), Contains(path + ": "));
  };
  refused([](json& f) { f["type"] = "char"; }, "expected \"bpe\" for type, got \"char\"");
  refused([](json& f) { f.erase("vocab"); }, "expected an array of tokens for vocab");
  refused([](json& f) { f["vocab"] = json::array(); }, "expected an array of tokens for vocab");
  refused([](json& f) { f["vocab"][3] = 1; }, "expected tokens in vocab, got 1");
  refused([](json& f) { f.erase("merges"); }, "expected an array of merges for merges");
  refused([](json& f) { f["merges"] = "a b"; }, "expected an array of merges for merges");
  refused([](json& f) { f["merges"][1] = json::array(); }, "expected merges in merges, got []");
  refused([](json& f) { f["merges"][0] = "ab"; },
          "merge 0 expected two tokens with a space between, got \"ab\"");
  refused([](json& f) { f["merges"][1] = "\u0120 abc"; },
          "merge 1 merges \"abc\", which is not in the vocabulary");
  refused(
      [](json& f) {
        f["special"] = {"[UNK]", "[PAD]"};
      },
      "special token \"[PAD]\" is not in the vocabulary");
  refused(
      [](json& f) {
        f["special"] = {"[UNK]", "[UNK]"};
      },
      "special tokens: \"[UNK]\" is given twice");
  refused(
      [](json& f) {
        f["special"] = {"[UNK]", "a"};
      },
      "expected a token for each byte, but there is none for 97, \"a\"");
  refused([](json& f) { f["vocab"][1] = f["vocab"][2]; },
          "token \"\\\"\" is in the vocabulary twice");
}

TEST_CASE("tokenizer files: loading takes linear time", "[tokenizer][hostile]") {
  TemporaryFolder folder;
  const std::string path = folder / "tokenizer.json";
  constexpr int n = 300000;
  json names = json::array();
  for (int i = 0; i < n; ++i) names.push_back("n" + std::to_string(i));
  // Quadratic time would be 10^11 comparisons.
  write(path, json{{"type", "char"}, {"special", names}, {"vocab", {"a"}}}.dump());
  CHECK(seconds([&] { CHECK(models::load_tokenizer(path)->vocab_size() == n + 1); }) < 20);
  write(path, json{{"type", "word"}, {"lower_case", true}, {"vocab", names}}.dump());
  CHECK(seconds([&] { CHECK(models::load_tokenizer(path)->encode("n77 N5") == Ids{77, 5}); }) < 20);
  names[0] = "n1";
  write(path, json{{"type", "word"}, {"lower_case", true}, {"vocab", names}}.dump());
  CHECK_THROWS_WITH(models::load_tokenizer(path), Contains("\"n1\" is in the vocabulary twice"));
  BPETokenizer::train("a", {.vocab_size = 256}).save(path);
  json bpe = json::parse(read_file(path));
  // All strings of letters up to length four, each extending a shorter one by a letter.
  std::vector<std::string> chains, last;
  for (char c = 'a'; c <= 'z'; ++c) last.emplace_back(1, c);
  for (int length = 2; length <= 4 && chains.size() < n; ++length) {
    std::vector<std::string> longer;
    for (const std::string& one : last)
      for (char c = 'a'; c <= 'z'; ++c) {
        bpe["merges"].push_back(one + ' ' + c);
        bpe["vocab"].push_back(longer.emplace_back(one + c));
      }
    chains.insert(chains.end(), longer.begin(), longer.end());
    last = longer;
  }
  write(path, bpe.dump());
  CHECK(seconds([&] { CHECK(models::load_tokenizer(path)->encode("gradus").size() == 3); }) < 20);
}

}  // namespace tokenizer_files_test
