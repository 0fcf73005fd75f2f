#include "gradus/models/data/tokenizer.h"

#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "gradus/core/error.h"
#include "gradus/core/file.h"
#include "gradus/core/internal.h"
#include "gradus/core/json.h"

namespace gradus::models {
namespace {

using nlohmann::json;

/// Reads the UTF-8 character at text[at], moves `at` behind it and returns its code point. Throws
/// Error unless it is one that the Unicode standard (table 3-7) allows: no stray or missing bytes,
/// none encoded longer than need be, no surrogates, nothing above U+10FFFF.
char32_t next_code_point(const char* op, const std::string& text, size_t& at) {
  const size_t start = at;
  const auto first = static_cast<unsigned char>(text[at++]);
  if (first < 0x80) return first;
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;  // bytes that follow
  constexpr char32_t smallest[] = {0, 0x80, 0x800, 0x10000};
  char32_t code_point = first & (0x3fu >> more);
  bool ok = first >= 0xc0 && first < 0xf8;
  for (int i = 0; i < more && ok; ++i) {
    ok = at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
    if (ok) code_point = code_point << 6 | (static_cast<unsigned char>(text[at++]) & 0x3fu);
  }
  ok = ok && code_point >= smallest[more] && code_point <= 0x10ffff &&
       (code_point < 0xd800 || code_point > 0xdfff);
  check(ok, op, ": expected UTF-8, got an invalid sequence at byte ", start);
  return code_point;
}

}  // namespace

void CharTokenizer::add(char32_t code_point, std::string character) {
  check(ids_.emplace(code_point, vocab_size()).second, "character ", json(character),
        " stands twice in the vocabulary");
  vocab_.push_back(std::move(character));
}

CharTokenizer::CharTokenizer(const std::string& text) {
  check(!text.empty(), "CharTokenizer: expected a text, got an empty one");
  std::map<char32_t, std::string> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const char32_t code_point = next_code_point("CharTokenizer", text, at);
    if (!characters.contains(code_point)) characters[code_point] = text.substr(start, at - start);
  }
  for (auto& [code_point, character] : characters) add(code_point, std::move(character));
}

std::vector<int64_t> CharTokenizer::encode(const std::string& text) const {
  std::vector<int64_t> ids;
  ids.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const auto found = ids_.find(next_code_point("encode", text, at));
    if (found == ids_.end())
      fail("encode: character ", json(text.substr(start, at - start)), " at byte ", start,
           " is not among the ", vocab_size(), " of the vocabulary");
    ids.push_back(found->second);
  }
  return ids;
}

std::string CharTokenizer::decode(const std::vector<int64_t>& ids) const {
  std::string text;
  text.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    check(0 <= ids[i] && ids[i] < vocab_size(), "decode: expected ids from 0 to ", vocab_size() - 1,
          ", got ", ids[i], " at place ", i);
    text += vocab_[static_cast<size_t>(ids[i])];
  }
  return text;
}

void CharTokenizer::save(const std::string& path) const {
  write_file_atomically(path, json{{"type", "char"}, {"vocab", vocab_}}.dump(1) + "\n");
}

CharTokenizer CharTokenizer::load(const std::string& path) {
  const std::string text = read_file(path);
  CharTokenizer tokenizer;
  try {
    const json file = parse_json("the file", text);
    const auto type = json_text(file, "type");
    check(type == "char", "expected \"char\" for type, got ", shown(type));
    const auto vocab = file.find("vocab");
    check(vocab != file.end() && vocab->is_array() && !vocab->empty(),
          "expected an array of characters for vocab");
    for (const json& entry : *vocab) {
      if (!entry.is_string()) fail("expected characters in vocab, got ", shown(entry));
      const std::string character = entry.get<std::string>();
      size_t at = 0;
      const char32_t code_point = character.empty() ? 0 : next_code_point("vocab", character, at);
      if (at == 0 || at < character.size()) fail("expected one character, got ", shown(entry));
      tokenizer.add(code_point, character);
    }
  } catch (const Error& e) {
    fail("CharTokenizer: ", path, ": ", e.what());
  }
  return tokenizer;
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  return std::make_unique<CharTokenizer>(CharTokenizer::load(path));
}

}  // namespace gradus::models
