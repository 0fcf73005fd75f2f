#include "gradus/models/data/tokenizers/word_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/data/tokenizers/utf8.h"

namespace gradus::models {

using internal::Kind;
using nlohmann::json;

namespace {

/// Calls use(word, offset in bytes) for each word of a text, optionally lower-cased.
template <class Use>
void for_each_word(const char* op, std::string_view text, bool lower_case, Use&& use) {
  std::string word;
  size_t begin = 0;
  auto end_word = [&] {
    if (!word.empty()) use(word, begin);
    word.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const char32_t code_point = internal::next_code_point(op, text, at);
    const Kind kind = internal::kind_of(code_point);
    if (kind == Kind::space || kind == Kind::other) end_word();
    if (kind == Kind::space) continue;
    if (word.empty()) begin = start;
    if (lower_case)
      internal::append_utf8(word, internal::lower_case(code_point));
    else
      word.append(text, start, at - start);
    if (kind == Kind::other) end_word();
  }
  end_word();
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}
bool joins_both(std::string_view word) {
  return is_one_of(word, {"'", "-", "/", "_", "\xe2\x80\x99"});
}
bool joins_left(std::string_view word) {
  return is_one_of(word, {".", ",", ";", ":", "!", "?", ")", "]", "}", "%", "\xe2\x80\x9d",
                          "\xc2\xbb", "\xe2\x80\xa6"});
}
bool joins_right(std::string_view word) {
  return is_one_of(word, {"(", "[", "{", "\xe2\x80\x9c", "\xe2\x80\x9e", "\xe2\x80\x98", "\xc2\xab",
                          "\xc2\xbf", "\xc2\xa1"});
}

}  // namespace

void WordTokenizer::add(std::string word) {
  if (!ids_.emplace(word, vocab_size()).second)
    fail("word ", shown(word), " is in the vocabulary twice");
  vocab_.push_back(std::move(word));
}

WordTokenizer::WordTokenizer(const std::string& text, const WordTokenizerOptions& options)
    : Tokenizer(options.special), lower_case_(options.lower_case), vocab_(options.special) {
  check(options.max_words >= 0, "WordTokenizer: expected max_words >= 0, got ", options.max_words);
  std::unordered_map<std::string, int64_t> counts;
  for_each_word("WordTokenizer", text, lower_case_,
                [&](const std::string& word, size_t) { ++counts[word]; });
  check(!counts.empty(), "WordTokenizer: expected a text with words in it, got ", text.size(),
        " bytes without");
  std::vector<std::pair<std::string, int64_t>> words(counts.begin(), counts.end());
  std::sort(words.begin(), words.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (options.max_words > 0 && std::ssize(words) > options.max_words)
    words.resize(static_cast<size_t>(options.max_words));
  for (auto& [word, count] : words) add(std::move(word));
}

WordTokenizer::WordTokenizer(const internal::TokenizerFile& file)
    : Tokenizer((file.check_type("word"), file.strings("special", "names", false))),
      vocab_(special_tokens()) {
  const auto lower = file.root.find("lower_case");
  check(lower != file.root.end() && lower->is_boolean(), "expected true or false for lower_case");
  lower_case_ = *lower;
  for (std::string& word : file.strings("vocab", "words", true)) {
    int64_t same = 0, pieces = 0;
    for_each_word("vocab", word, lower_case_, [&](const std::string& piece, size_t) {
      ++pieces;
      same += piece == word;
    });
    if (pieces != 1 || same != 1)
      fail("expected one word", lower_case_ ? " in lower case" : "", ", got ", shown(word));
    add(std::move(word));
  }
}

std::vector<int64_t> WordTokenizer::encode(const std::string& text) const {
  std::vector<int64_t> ids;
  for_each_word("encode", text, lower_case_, [&](const std::string& word, size_t at) {
    const auto found = ids_.find(word);
    if (found == ids_.end() && unknown() < 0)
      fail("encode: word ", shown(word), " at byte ", at, " is not among the ", vocab_size(),
           " of the vocabulary");
    ids.push_back(found == ids_.end() ? unknown() : found->second);
  });
  return ids;
}

std::string WordTokenizer::decode(const std::vector<int64_t>& ids) const {
  internal::check_ids(ids, vocab_size());
  std::string text;
  bool space = false;          // precedes the next word, unless that joins to the left
  bool quote_is_open = false;  // ASCII double quotes alternately open and close
  for (const int64_t id : ids) {
    const std::string& word = vocab_[static_cast<size_t>(id)];
    const bool is_text = !is_special(id), is_quote = is_text && word == "\"";
    const bool left =
        is_text && (joins_both(word) || joins_left(word) || (is_quote && quote_is_open));
    const bool right =
        is_text && (joins_both(word) || joins_right(word) || (is_quote && !quote_is_open));
    if (is_quote) quote_is_open = !quote_is_open;
    if (space && !left) text += ' ';
    text += word;
    space = !right;
  }
  return text;
}

std::string WordTokenizer::to_json() const {
  const json file{{"type", "word"},
                  {"lower_case", lower_case_},
                  {"special", special_tokens()},
                  {"vocab", std::vector(vocab_.begin() + num_special(), vocab_.end())}};
  return file.dump(1) + "\n";
}

WordTokenizer WordTokenizer::load(const std::string& path) {
  std::optional<WordTokenizer> tokenizer;
  internal::read_tokenizer("WordTokenizer", path,
                           [&](const auto& file) { tokenizer.emplace(file); });
  return *std::move(tokenizer);
}

}  // namespace gradus::models
