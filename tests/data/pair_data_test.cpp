// Pairs of texts: reading, splitting, batching and synthetic pairs.

#include "gradus/models/data/text/pair_data.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <unordered_set>

#include "gradus/core/files/file.h"
#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/text/corrupt_spans.h"
#include "gradus/models/data/text/synthetic_pairs.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace pair_data_test {

using namespace gradus;
using Catch::Matchers::Contains;
using models::PairData;
using models::Split;
using models::TextPair;
using Ids = std::vector<int64_t>;
using Pairs = std::vector<TextPair>;

TEST_CASE("pairs: reading a file", "[pairs]") {
  TemporaryFolder folder;
  const std::string path = folder / "pairs.tsv";
  auto read = [&](const std::string& text, bool skip = false) {
    write_file_atomically(path, text);
    return models::read_pairs(path, {.skip_bad = skip});
  };
  CHECK(read("a\tb\n c d\te \n").pairs == Pairs{{"a", "b"}, {" c d", "e "}});
  CHECK(read("\xef\xbb\xbfGo.\tVa !\tCC-BY 2.0\tmore\r\nRun\tCours").pairs ==
        Pairs{{"Go.", "Va !"}, {"Run", "Cours"}});
  CHECK(read("").pairs.empty());
  const std::string none = std::string(1, '\0') + "\tx\n";  // a zero byte is an ordinary character
  CHECK(read(none).pairs == Pairs{{std::string(1, '\0'), "x"}});

  auto refused = [&](const std::string& line, const std::string& reason) {
    for (const char* end : {"", "\n", "\r\n", "\nx\ty\n"})
      CHECK_THROWS_WITH(read("a\tb\n" + line + (line.empty() && !*end ? "\n" : end)),
                        "read_pairs: " + path + ": line 2: " + reason);
  };
  refused("abc", "no tab between source and target");
  refused("", "an empty line");
  refused("\tb", "an empty source");
  refused("a\t", "an empty target");
  refused("a\t\tb", "an empty target");
  refused(" \xc2\xa0\tb", "an empty source");
  refused("a\t\xff", "invalid UTF-8");
  refused("a\tb\t\xff", "invalid UTF-8");
  refused("\xc3\tb", "invalid UTF-8");

  const auto file = read("a\tb\nx\n\n\tb\ny\r\nc\td\n\xff\t", true);
  CHECK(file.pairs == Pairs{{"a", "b"}, {"c", "d"}});
  CHECK(file.lines == 7);
  std::map<std::string, std::pair<int64_t, int64_t>> skipped;
  for (const auto& [reason, lines] : file.skipped) skipped[reason] = {lines.lines, lines.first};
  CHECK(skipped == std::map<std::string, std::pair<int64_t, int64_t>>{
                       {"no tab between source and target", {2, 2}},
                       {"an empty line", {1, 3}},
                       {"an empty source", {1, 4}},
                       {"invalid UTF-8", {1, 7}}});
  CHECK_THROWS_WITH(models::read_pairs(folder / "none"), Contains("No such file"));
}

namespace {
const std::vector<std::string> special{"[PAD]", "[UNK]", "[START]", "[END]"};
const models::CharTokenizer letters("abcdefghijklmnopqrstuvwxyz0123456789+- ", special);
int64_t id(char c) { return letters.encode(std::string(1, c))[0]; }
}  // namespace

TEST_CASE("pair data: a batch by hand", "[pairs]") {
  const Pairs pairs{{"ab", "x"}, {"c", "yz"}, {"abcd", "x"}, {"d", "xyzxyz"}, {"!", "x"}};
  const PairData data(pairs, letters, letters, {.max_source = 3, .max_target = 5, .validation = 0});
  CHECK(data.report().train == 3);
  CHECK(data.report().validation == 0);
  CHECK(data.report().too_long == 2);
  CHECK(data.report().source_tokens == 4);
  CHECK(data.report().target_tokens == 4);
  CHECK(data.report().unknown_sources == 1);
  CHECK(data.report().unknown_targets == 0);
  CHECK(data.report().longest_source == 2);
  CHECK(data.original(Split::train, 2) == 4);
  const auto batch = data.pairs(Split::train, 0, 2);
  CHECK(batch.source.shape() == Shape{2, 2});
  CHECK(batch.source.to_vector<int64_t>() == Ids{id('a'), id('b'), id('c'), 0});
  CHECK(batch.source_lengths.to_vector<int64_t>() == Ids{2, 1});
  CHECK(batch.inputs.shape() == Shape{2, 3});
  CHECK(batch.inputs.to_vector<int64_t>() == Ids{2, id('x'), 0, 2, id('y'), id('z')});
  CHECK(batch.targets.to_vector<int64_t>() == Ids{id('x'), 3, -100, id('y'), id('z'), 3});
  // The last batch has the remaining pairs, padded to their own longest.
  const auto last = data.pairs(Split::train, 2, 2);
  CHECK(last.source.to_vector<int64_t>() == Ids{1});
  CHECK(last.inputs.shape() == Shape{1, 2});
  // cross_entropy ignores the padding: 5 targets count.
  const Tensor logits = zeros({2, 3, letters.vocab_size()});
  const auto sum = cross_entropy(logits, batch.targets, {.reduction = Reduction::sum});
  CHECK(sum.item<float>() ==
        Approx(5 * std::log(static_cast<double>(letters.vocab_size()))).epsilon(1e-5));

  CHECK_THROWS_WITH(data.random_batch(Split::validation, 1, 1, 0),
                    Contains("no pairs are held out"));
  CHECK_THROWS_WITH(data.pairs(Split::train, 3, 1), Contains("outside [0, 3)"));
  CHECK_THROWS_WITH(data.pairs(Split::train, -1, 1), Contains("-1"));
  CHECK_THROWS_WITH(data.pairs(Split::train, 0, 0), Contains("at least 1 pair"));
  CHECK_THROWS_WITH(data.original(Split::validation, 0), Contains("outside [0, 0)"));
  CHECK_THROWS_WITH(data.random_batch(Split::train, (1 << 16) + 1, 1, 0), Contains("65537"));
  CHECK_THROWS_WITH(data.random_batch(Split::train, 1, 1, -1), Contains("step"));
}

TEST_CASE("pair data: bad input is refused", "[pairs]") {
  const Pairs pairs{{"a", "b"}, {"b", "c"}};
  const models::CharTokenizer plain("abc"), strict("abc", {"[PAD]", "[START]", "[END]"});
  CHECK_THROWS_WITH(PairData(pairs, plain, letters), Contains("no special token \"[PAD]\""));
  CHECK_THROWS_WITH(PairData(pairs, letters, plain), Contains("no special token \"[PAD]\""));
  CHECK_THROWS_WITH(
      PairData({{"a", "b"}, {"z", "c"}}, strict, strict),
      "PairData: the source of pair 1: encode: character \"z\" at byte 0 is not among "
      "the 6 of the vocabulary");
  const Pairs bad{{"a", "b"}, {"a", "z"}};
  CHECK_THROWS_WITH(PairData(pairs, bad, strict, strict),
                    Contains("PairData: the target of validation pair 1: encode: "));
  CHECK_THROWS_WITH(PairData(bad, pairs, strict, strict),
                    Contains("PairData: the target of training pair 1: encode: "));
  CHECK_THROWS_WITH(PairData(Pairs{}, letters, letters), Contains("no pairs are left to train"));
  CHECK_THROWS_WITH(PairData({{"abc", "b"}}, letters, letters, {.max_source = 2}),
                    Contains("1 too long"));
  CHECK_THROWS_WITH(PairData(pairs, letters, letters, {.max_target = 0}),
                    Contains("expected max_source and max_target of at least 1"));
  for (const double share : {-0.1, 1.0, std::nan("")})
    CHECK_THROWS_WITH(PairData(pairs, letters, letters, {.validation = share}), Contains("[0, 1)"));
  const models::WordTokenizer words("a b c");
  CHECK(PairData({{"a", "b"}, {" ", "b"}}, words, words, {.validation = 0}).report().empty == 1);
}

TEST_CASE("pair data: how many sources are held out", "[pairs]") {
  const Pairs pairs{{"a", "x"}, {"b", "x"}, {"c", "x"}, {"d", "x"}};
  auto held_out = [&](int64_t sources, const models::PairDataOptions& options) {
    return PairData(Pairs(pairs.begin(), pairs.begin() + sources), letters, letters, options)
        .num_pairs(Split::validation);
  };
  CHECK(held_out(1, {}) == 0);
  CHECK(held_out(2, {}) == 1);
  CHECK(held_out(4, {.validation = 0.1}) == 1);
  CHECK(held_out(4, {.validation = 0.6}) == 2);
  CHECK(held_out(4, {.validation = 0}) == 0);
  const Pairs many = models::addition_pairs(300, 1);
  auto first = [&](const models::PairDataOptions& options) {
    return PairData(many, letters, letters, options).original(Split::validation, 0);
  };
  CHECK(first({}) == first({.validation = 0.1, .seed = 0}));
  CHECK(first({}) != first({.seed = 1}));
}

TEST_CASE("pair data: a vocabulary of 2^31 tokens is too large", "[pairs]") {
  struct Sized : models::CharTokenizer {
    int64_t size;
    explicit Sized(int64_t n) : CharTokenizer("ab", pair_data_test::special), size(n) {}
    int64_t vocab_size() const override { return size; }
  };
  const Sized large((int64_t{1} << 31) - 1), too_large(int64_t{1} << 31);
  const Pairs pairs{{"a", "b"}};
  CHECK(PairData(pairs, large, large).num_pairs(Split::train) == 1);
  CHECK_THROWS_WITH(PairData(pairs, too_large, large), Contains("got 2147483648"));
  CHECK_THROWS_WITH(PairData(pairs, large, too_large), Contains("got 2147483648"));
}

TEST_CASE("pair data: no source is in both splits", "[pairs]") {
  // Each source occurs three times, some differing only in capitals, which the tokenizer drops.
  Pairs pairs;
  for (int copy = 0; copy < 3; ++copy)
    for (int i = 0; i < 500; ++i) {
      const std::string n = "word" + std::to_string(i);
      pairs.push_back({(copy == 1 ? "The " : "the ") + n, n + " copy" + std::to_string(copy)});
    }
  std::string text;
  for (const auto& [x, y] : pairs) text += x + " " + y + "\n";
  const models::WordTokenizer words(text, {.lower_case = true});
  const PairData data(pairs, words, words, {.validation = 0.1, .seed = 3});
  CHECK(data.num_pairs(Split::validation) == 150);
  CHECK(data.num_pairs(Split::train) == 1350);
  auto sources = [&](const PairData& of, Split split) {
    std::set<Ids> all;
    for (int64_t i = 0; i < of.num_pairs(split); ++i) {
      const auto batch = of.pairs(split, i, 1);
      REQUIRE(batch.source.to_vector<int64_t>() ==
              words.encode(pairs[static_cast<size_t>(of.original(split, i))].source));
      all.insert(batch.source.to_vector<int64_t>());
    }
    return all;
  };
  const auto train = sources(data, Split::train), held_out = sources(data, Split::validation);
  CHECK(train.size() == 450);
  CHECK(held_out.size() == 50);
  for (const Ids& source : held_out) CHECK_FALSE(train.contains(source));
  // The split depends on the seed, not on the order.
  Pairs reversed(pairs.rbegin(), pairs.rend());
  std::swap(pairs, reversed);
  CHECK(sources(PairData(pairs, words, words, {.validation = 0.1, .seed = 3}), Split::validation) ==
        held_out);
  CHECK(sources(PairData(pairs, words, words, {.validation = 0.1, .seed = 4}), Split::validation) !=
        held_out);
  // Separate files: sources of the validation file are removed from training.
  const PairData given({{"a b", "x"}, {"A B", "y"}, {"b", "z"}}, {{"a B", "x"}}, words, words);
  CHECK(given.report().held_out == 2);
  CHECK(given.num_pairs(Split::train) == 1);
  CHECK(given.original(Split::train, 0) == 2);
  CHECK(given.num_pairs(Split::validation) == 1);
}

TEST_CASE("pair data: random batches depend only on seed, step and index", "[pairs]") {
  const PairData data(models::addition_pairs(1000, 1), letters, letters);
  auto batch = [&](uint64_t seed, int64_t step, int64_t index, Split split = Split::train) {
    return data.random_batch(split, 16, seed, step, index).source.to_vector<int64_t>();
  };
  CHECK(batch(1, 2, 3) == batch(1, 2, 3));
  CHECK(batch(1, 2, 3) != batch(2, 2, 3));
  CHECK(batch(1, 2, 3) != batch(1, 3, 3));
  CHECK(batch(1, 2, 3) != batch(1, 2, 4));
  CHECK(batch(1, 2, 3) != batch(1, 2, 3, Split::validation));
  // All pairs are equally likely.
  std::map<Ids, int> seen;
  const auto big = data.random_batch(Split::validation, 1 << 16, 1, 0);
  CHECK(big.source.size(0) == 1 << 16);
  const Ids ids = big.source.to_vector<int64_t>();
  const auto S = static_cast<size_t>(big.source.size(1));
  for (size_t i = 0; i < ids.size(); i += S) ++seen[Ids(ids.begin() + i, ids.begin() + i + S)];
  CHECK(seen.size() == 100);
  for (const auto& [source, times] : seen) CHECK(std::abs(times - 655.36) < 6 * std::sqrt(655.36));
}

TEST_CASE("date pairs: correct, distinct, in every form", "[pairs]") {
  const Pairs pairs = models::date_pairs(2000, 1);
  CHECK(models::date_pairs(2000, 1) == pairs);
  CHECK(models::date_pairs(2000, 2) != pairs);
  CHECK(models::date_pairs(10, 1) == Pairs(pairs.begin(), pairs.begin() + 10));
  // The C library parses each form.
  std::unordered_set<std::string> sources;
  std::map<std::string, int> forms;
  const std::regex ordinals("([0-9])(st|nd|rd|th)");
  for (const auto& [source, target] : pairs) {
    CAPTURE(source);
    sources.insert(source);
    bool read = false;
    for (const char* format : {"%d %B %Y", "%B %d, %Y", "the %d of %B %Y", "%A, %d %B %Y",
                               "%A %B %d %Y", "%a, %d-%b-%Y", "%d-%b-%Y", "%d. %B %Y", "%Y %B %d",
                               "%a %d %b %Y", "%A, %B %d, %Y", "%d.%m.%Y", "%Y/%m/%d", "%Y%m%d"}) {
      std::tm date{};
      const std::string plain = std::regex_replace(source, ordinals, "$1");
      const char* end = strptime(plain.c_str(), format, &date);
      if (!end || *end) continue;
      const int weekday = date.tm_wday;
      REQUIRE(timegm(&date) != -1);  // computes the weekday
      if (std::string(format).find("%a") != std::string::npos ||
          std::string(format).find("%A") != std::string::npos)
        CHECK(weekday == date.tm_wday);
      char iso[32];
      REQUIRE(std::strftime(iso, sizeof iso, "%Y-%m-%d", &date) == 10);
      CHECK(iso == target);
      ++forms[format];
      read = true;
      break;
    }
    CHECK(read);
  }
  const std::map<int, std::string> endings{{1, "st"},  {2, "nd"},  {3, "rd"}, {21, "st"},
                                           {22, "nd"}, {23, "rd"}, {31, "st"}};
  std::set<int> days;
  const std::regex ordinal("([0-9]+)(st|nd|rd|th)");
  for (const std::string& source : sources) {
    std::smatch found;
    if (!std::regex_search(source, found, ordinal)) continue;
    const int day = std::stoi(found[1]);
    days.insert(day);
    CHECK(found[2] == (endings.contains(day) ? endings.at(day) : "th"));
  }
  CHECK(days.size() == 31);
  CHECK(models::date_pairs(0, 1).empty());
  CHECK(sources.size() == pairs.size());
  CHECK(forms.size() == 14);  // of 17 forms, three differ from others only in capitals and endings
  for (const auto& [form, count] : forms) CHECK(count > 60);
  const Pairs all = models::date_pairs(17 * 73049, 5);
  sources.clear();
  for (const auto& pair : all) sources.insert(pair.source);
  CHECK(sources.size() == all.size());
  CHECK(sources.contains("Sunday, 3 May 1987"));
  CHECK(sources.contains("the 22nd of February 2000"));
  CHECK(sources.contains("THU 29 FEB 1996"));
  CHECK(sources.contains("11th november 1911"));
  CHECK_THROWS_WITH(models::date_pairs(17 * 73049 + 1, 1), Contains("1241833"));
  CHECK_THROWS_WITH(models::date_pairs(-1, 1), Contains("-1"));
}

TEST_CASE("reversal and addition pairs are correct and distinct", "[pairs]") {
  std::set<std::string> sources;
  std::map<size_t, int> lengths;
  for (const auto& [source, target] :
       models::reversal_pairs(1000, 4, {.min_length = 3, .max_length = 6, .alphabet = "abc12"})) {
    CHECK(std::string(source.rbegin(), source.rend()) == target);
    CHECK(source.find_first_not_of("abc12") == std::string::npos);
    ++lengths[source.size()];
    sources.insert(source);
  }
  CHECK(sources.size() == 1000);
  CHECK(lengths.size() == 4);
  CHECK(models::reversal_pairs(7, 1, {.min_length = 1, .max_length = 3, .alphabet = "ab"}).size() ==
        7);
  CHECK_THROWS_WITH(
      models::reversal_pairs(8, 1, {.min_length = 1, .max_length = 3, .alphabet = "ab"}),
      "reversal_pairs: expected 0 to 7 pairs, half of all distinct ones, got 8");
  CHECK(models::reversal_pairs(0, 1).empty());
  for (const int64_t length : {2, 1 << 16})
    for (const auto& [source, target] :
         models::reversal_pairs(2, 1, {.min_length = length, .max_length = length}))
      CHECK(std::ssize(source) == length);
  CHECK_THROWS_WITH(models::reversal_pairs(1, 1, {.max_length = (1 << 16) + 1}),
                    Contains("lengths of 1 to 65,536"));
  CHECK_THROWS_WITH(models::reversal_pairs(1, 1, {.alphabet = "\xc3\xa9"}), Contains("ASCII"));
  CHECK_THROWS_WITH(models::reversal_pairs(1, 1, {.alphabet = "aa"}), Contains("different"));
  CHECK_THROWS_WITH(models::reversal_pairs(1, 1, {.alphabet = ""}), Contains("alphabet"));
  CHECK_THROWS_WITH(models::reversal_pairs(1, 1, {.min_length = 0}), Contains("lengths"));
  CHECK_THROWS_WITH(models::reversal_pairs(1, 1, {.min_length = 5, .max_length = 4}),
                    Contains("lengths"));

  sources.clear();
  for (const auto& [source, target] : models::addition_pairs(100, 1, 1)) {
    CHECK(source.size() == 3);
    CHECK(std::to_string(source[0] - '0' + source[2] - '0') == target);
    sources.insert(source);
  }
  CHECK(sources.size() == 100);
  for (const auto& [source, target] : models::addition_pairs(100, 1, 9)) {
    const size_t plus = source.find('+');
    CHECK(std::to_string(std::stoll(source.substr(0, plus)) +
                         std::stoll(source.substr(plus + 1))) == target);
  }
  CHECK(models::addition_pairs(0, 1).empty());
  CHECK_THROWS_WITH(models::addition_pairs(101, 1, 1), Contains("100"));
  CHECK_THROWS_WITH(models::addition_pairs(1, 1, 10), Contains("digits"));
}

TEST_CASE("corrupt_spans: source and target together restore the text", "[pairs]") {
  constexpr int64_t first = 1000;
  std::map<int64_t, int> removed;  // how often each position is removed
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const int64_t n = seed < 1000 ? 100 : static_cast<int64_t>(2 + seed % 60);
    Ids tokens(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) tokens[static_cast<size_t>(i)] = i;
    const auto [source, target] =
        models::corrupt_spans(tokens, {.first_sentinel = first}, {seed, 0});
    // Restore the spans.
    std::map<int64_t, Ids> spans;
    int64_t sentinel = -1;
    for (const int64_t token : target)
      if (token >= first) {
        REQUIRE(token == first + static_cast<int64_t>(spans.size()));
        sentinel = token;
        spans[sentinel];
      } else {
        spans[sentinel].push_back(token);
      }
    Ids whole;
    int64_t taken = 0, marks = 0;
    for (const int64_t token : source) {
      if (token < first) {
        whole.push_back(token);
        continue;
      }
      REQUIRE(token == first + marks++);
      REQUIRE_FALSE(spans[token].empty());
      for (const int64_t one : spans[token]) {
        whole.push_back(one);
        if (n == 100) ++removed[one];
        ++taken;
      }
    }
    REQUIRE(whole == tokens);
    REQUIRE(spans[first + marks].empty());
    REQUIRE(target.back() == first + marks);
    REQUIRE(taken == std::clamp<int64_t>(std::llround(0.15 * static_cast<double>(n)), 1, n - 1));
    if (n == 100) REQUIRE(marks == 5);
  }
  // 15 of 100 tokens are removed. Away from the ends all positions are equally likely, within six
  // standard deviations; the first and the last token are removed only by a span that begins or
  // ends there.
  for (const int64_t end : {0, 99}) CHECK(std::abs(removed[end] - 1000 * 5 / 87) < 6 * 8);
  for (int64_t place = 20; place < 80; ++place) CHECK(std::abs(removed[place] - 150) < 6 * 12);
}

TEST_CASE("corrupt_spans: all arrangements are equally likely, bad input is refused", "[pairs]") {
  const Ids tokens{1, 2, 3, 4, 5, 6};
  auto run = [&](const models::CorruptSpansOptions& o) {
    return models::corrupt_spans(tokens, o, {1, 0});
  };
  // All ways to remove 3 single tokens of 6, and a span of 5 tokens.
  std::map<Ids, int> ways, few;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    ++ways[models::corrupt_spans(tokens, {.rate = 0.5, .mean_span = 1, .first_sentinel = 9},
                                 {seed, 0})
               .source];
    ++few[models::corrupt_spans(tokens, {.rate = 0.99, .mean_span = 100, .first_sentinel = 9},
                                {seed, 0})
              .source];
  }
  CHECK(ways.size() == 4);
  for (const Ids& way :
       {Ids{1, 9, 3, 10, 5, 11}, {9, 2, 10, 4, 11, 6}, {9, 2, 3, 10, 5, 11}, {9, 2, 10, 4, 5, 11}})
    CHECK(std::abs(ways[way] - 100) < 6 * 9);
  CHECK(few.size() == 2);
  CHECK(std::abs(few[{9, 6}] - 200) < 6 * 10);
  CHECK(few[{9, 6}] + few[{1, 9}] == 400);
  // There are no more spans than kept tokens.
  auto counts = [](int64_t n, double rate) {
    const auto [spans, taken] = models::span_counts(n, {.rate = rate, .mean_span = 1});
    return std::pair(spans, taken);
  };
  CHECK(counts(10, 0.8) == std::pair<int64_t, int64_t>(2, 8));
  CHECK(counts(10, 0.3) == std::pair<int64_t, int64_t>(3, 3));
  CHECK(counts(4, 0.99) == std::pair<int64_t, int64_t>(1, 3));
  // By default the sentinels are 0 to 99.
  CHECK(models::corrupt_spans({100, 101}, {}, {1, 0}).target.back() == 1);
  CHECK_THROWS_WITH(models::corrupt_spans({100, 99}, {}, {1, 0}), Contains("token 99"));
  CHECK_THROWS_WITH(run({.rate = 0, .first_sentinel = 9}), Contains("rate"));
  CHECK_THROWS_WITH(run({.rate = std::nan(""), .first_sentinel = 9}), Contains("rate"));
  CHECK_THROWS_WITH(run({.mean_span = 0.5, .first_sentinel = 9}), Contains("spans of 1 token"));
  CHECK_THROWS_WITH(run({.rate = 0.5, .mean_span = 1, .first_sentinel = 9, .sentinels = 3}),
                    Contains("3 spans need 4 sentinels, got 3"));
  CHECK_THROWS_WITH(run({.first_sentinel = 6}), Contains("token 6 at position 5 is a sentinel"));
  CHECK_THROWS_WITH(models::corrupt_spans({1}, {.first_sentinel = 9}, {1, 0}), Contains("got 1"));
  constexpr int64_t largest = std::numeric_limits<int64_t>::max();
  CHECK_THROWS_WITH(run({.first_sentinel = -200}),
                    "corrupt_spans: expected ids in [0, 2^63 - 1) for 100 sentinels, got -200 as "
                    "the first");
  CHECK_THROWS_WITH(run({.first_sentinel = largest - 99}), Contains("5708 as the first"));
  CHECK(run({.first_sentinel = largest - 100}).target.back() == largest - 99);
}

}  // namespace pair_data_test
