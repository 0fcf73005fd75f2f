#include "gradus/models/data/tokenizers/wordpiece_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "gradus/core/files/file.h"
#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/text/reading.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/data/tokenizers/utf8.h"

namespace gradus::models {

using internal::Category;
using nlohmann::json;

namespace {

bool is_chinese(char32_t c) {
  constexpr std::pair<char32_t, char32_t> ranges[] = {
      {0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
      {0x2b740, 0x2b81f}, {0x2b820, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [c](const auto& range) { return range.first <= c && c <= range.second; });
}

bool is_punctuation(char32_t c, Category category) {
  return category == Category::punctuation || (c < 0x80 && category == Category::symbol);
}

/// Normalises a character: strips its accents and lower-cases it, if the options say so.
std::u32string normal_form(char32_t c, const WordPieceOptions& o) {
  if (!o.strip_accents) return o.lower_case ? internal::lower_case_text(c) : std::u32string{c};
  std::u32string parts = internal::without_accents(c);
  if (o.lower_case) std::ranges::transform(parts, parts.begin(), internal::lower_case);
  return parts;
}

/// Calls use(word) for each word of a text.
template <class Use>
void for_each_word(const std::string& text, const WordPieceOptions& o, Use&& use) {
  std::u32string word;
  auto end_word = [&] {
    if (!word.empty()) use(std::as_const(word));
    word.clear();
  };
  auto add_alone = [&](char32_t c) {
    end_word();
    word += c;
    end_word();
  };
  for (size_t at = 0; at < text.size();) {
    const char32_t c = internal::next_code_point("encode", text, at);
    const Category category = internal::category_of(c);
    const bool is_space = c == '\t' || c == '\n' || c == '\r' || c == ' ';
    // U+000B, U+000C and U+0085, which are white space in Unicode, count as control. Unassigned
    // code points stay, as in Hugging Face's tokenizers.
    const bool is_control = category == Category::control || c < ' ' || c == 0x85 || c == 0xfffd;
    if (!is_space && is_control) continue;
    if (is_space || category == Category::space) {
      end_word();
      continue;
    }
    const bool alone = o.split_cjk && is_chinese(c);
    for (const char32_t part : normal_form(c, o)) {
      if (alone || is_punctuation(part, internal::category_of(part)))
        add_alone(part);
      else
        word += part;
    }
  }
  end_word();
}

std::string to_utf8(std::u32string_view text) {
  std::string bytes;
  for (const char32_t c : text) internal::append_utf8(bytes, c);
  return bytes;
}

}  // namespace

WordPieceTokenizer::WordPieceTokenizer(std::vector<std::string> pieces,
                                       const WordPieceOptions& options)
    : pieces_(std::move(pieces)), options_(options) {
  std::unordered_map<std::string, int64_t> special;
  for (const std::string& name : options.special) special.emplace(name, -1);
  check(!pieces_.empty(), "WordPieceTokenizer: expected a vocabulary, got none");
  for (int64_t id = 0; id < vocab_size(); ++id) {
    const std::string& piece = pieces_[static_cast<size_t>(id)];
    check(!piece.empty(), "WordPieceTokenizer: piece ", id, " is empty");
    internal::check_utf8("WordPieceTokenizer: a piece", piece);
    const auto found = special.find(piece);
    const bool is_new = found == special.end() ? ids_.emplace(piece, id).second
                                               : std::exchange(found->second, id) < 0;
    if (!is_new) fail("WordPieceTokenizer: piece ", shown(piece), " is in the vocabulary twice");
  }
  for (const std::string& name : options.special)
    if (const int64_t id = special.at(name); id >= 0) add_special(name, id);
}

void WordPieceTokenizer::cut(const std::u32string& word, std::vector<int64_t>& ids) const {
  const size_t before = ids.size();
  size_t at = word.size() > 100 ? word.size() + 1 : 0;
  while (at < word.size()) {
    size_t end = word.size();
    auto found = ids_.end();
    for (; end > at; --end) {
      std::string piece = to_utf8(std::u32string_view(word).substr(at, end - at));
      found = ids_.find(at > 0 ? "##" + piece : piece);
      if (found != ids_.end()) break;
    }
    if (end == at) break;
    ids.push_back(found->second);
    at = end;
  }
  if (at == word.size()) return;
  if (unknown() < 0)
    fail("encode: word ", shown(to_utf8(word)), " cannot be split into the ", vocab_size(),
         " pieces of the vocabulary");
  ids.resize(before);
  ids.push_back(unknown());
}

std::vector<int64_t> WordPieceTokenizer::encode(const std::string& text) const {
  std::vector<int64_t> ids;
  for_each_word(text, options_, [&](const std::u32string& word) { cut(word, ids); });
  return ids;
}

std::string WordPieceTokenizer::decode(const std::vector<int64_t>& ids) const {
  internal::check_ids(ids, vocab_size());
  std::string text;
  for (const int64_t id : ids) {
    const std::string& piece = pieces_[static_cast<size_t>(id)];
    if (piece.size() > 2 && piece.starts_with("##") && !text.empty() && !is_special(id)) {
      text.append(piece, 2);
    } else {
      if (!text.empty()) text += ' ';
      text += piece;
    }
  }
  return text;
}

// ---- files ----

std::string WordPieceTokenizer::to_json() const {
  const json file{{"type", "wordpiece"},
                  {"lower_case", options_.lower_case},
                  {"strip_accents", options_.strip_accents},
                  {"split_cjk", options_.split_cjk},
                  {"special", special_tokens()},
                  {"vocab", pieces_}};
  return file.dump(1) + "\n";
}

namespace {

bool flag_in(const json& root, const char* key) {
  const auto found = root.find(key);
  check(found != root.end() && found->is_boolean(), "expected true or false for ", key);
  return *found;
}

/// Options of a file in our format or Hugging Face's.
WordPieceOptions options_of(const internal::TokenizerFile& file) {
  if (file.is_hugging_face()) return internal::hf_wordpiece_options(file.root);
  file.check_type("wordpiece");
  return {flag_in(file.root, "lower_case"), flag_in(file.root, "strip_accents"),
          flag_in(file.root, "split_cjk"), file.strings("special", "names", false)};
}

}  // namespace

WordPieceTokenizer::WordPieceTokenizer(const internal::TokenizerFile& file)
    : WordPieceTokenizer(file.is_hugging_face() ? internal::hf_tokens(file.root)
                                                : file.strings("vocab", "pieces", true),
                         options_of(file)) {
  for (const std::string& name : options_.special)
    if (!has_special(name)) fail("special token ", shown(name), " is not in the vocabulary");
}

WordPieceTokenizer WordPieceTokenizer::load(const std::string& path) {
  std::optional<WordPieceTokenizer> tokenizer;
  internal::read_tokenizer("WordPieceTokenizer", path,
                           [&](const auto& file) { tokenizer.emplace(file); });
  return *std::move(tokenizer);
}

WordPieceTokenizer WordPieceTokenizer::load_vocab(const std::string& path,
                                                  const WordPieceOptions& options) {
  const std::string text = read_file(path);
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) pieces.emplace_back(internal::next_line(text, at));
  return naming(path, [&] { return WordPieceTokenizer(std::move(pieces), options); });
}

void WordPieceTokenizer::save_vocab(const std::string& path) const {
  std::string text;
  for (const std::string& piece : pieces_) {
    if (piece.find('\n') != std::string::npos || piece.ends_with('\r'))
      fail("save_vocab: ", path, ": a piece with a line break, ", shown(piece));
    text += piece + '\n';
  }
  write_file_atomically(path, text);
}

}  // namespace gradus::models
