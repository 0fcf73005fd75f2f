#include "gradus/models/data/tokenizers/char_tokenizer.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/data/tokenizers/utf8.h"

namespace gradus::models {

using internal::next_code_point;
using nlohmann::json;

void CharTokenizer::add(char32_t code_point, std::string character) {
  check(ids_.emplace(code_point, vocab_size()).second, "character ", json(character),
        " is in the vocabulary twice");
  vocab_.push_back(std::move(character));
}

CharTokenizer::CharTokenizer(const std::string& text, const std::vector<std::string>& special)
    : Tokenizer(special), vocab_(special) {
  check(!text.empty(), "CharTokenizer: expected a text, got an empty one");
  std::map<char32_t, std::string> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const char32_t code_point = next_code_point("CharTokenizer", text, at);
    if (!characters.contains(code_point)) characters[code_point] = text.substr(start, at - start);
  }
  for (auto& [code_point, character] : characters) add(code_point, std::move(character));
}

CharTokenizer::CharTokenizer(const internal::TokenizerFile& file)
    : Tokenizer((file.check_type("char"), file.strings("special", "names", false))),
      vocab_(special_tokens()) {
  for (std::string& character : file.strings("vocab", "characters", true)) {
    size_t at = 0;
    const char32_t code_point = character.empty() ? 0 : next_code_point("vocab", character, at);
    if (at == 0 || at < character.size()) fail("expected one character, got ", shown(character));
    add(code_point, std::move(character));
  }
}

std::vector<int64_t> CharTokenizer::encode(const std::string& text) const {
  std::vector<int64_t> ids;
  ids.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const auto found = ids_.find(next_code_point("encode", text, at));
    if (found == ids_.end() && unknown() < 0)
      fail("encode: character ", json(text.substr(start, at - start)), " at byte ", start,
           " is not among the ", vocab_size(), " of the vocabulary");
    ids.push_back(found == ids_.end() ? unknown() : found->second);
  }
  return ids;
}

std::string CharTokenizer::decode(const std::vector<int64_t>& ids) const {
  internal::check_ids(ids, vocab_size());
  std::string text;
  text.reserve(ids.size());
  for (const int64_t id : ids) text += vocab_[static_cast<size_t>(id)];
  return text;
}

std::string CharTokenizer::to_json() const {
  json file{{"type", "char"}, {"vocab", std::vector(vocab_.begin() + num_special(), vocab_.end())}};
  if (num_special() > 0) file["special"] = special_tokens();
  return file.dump(1) + "\n";
}

CharTokenizer CharTokenizer::load(const std::string& path) {
  std::optional<CharTokenizer> tokenizer;
  internal::read_tokenizer("CharTokenizer", path,
                           [&](const auto& file) { tokenizer.emplace(file); });
  return *std::move(tokenizer);
}

}  // namespace gradus::models
