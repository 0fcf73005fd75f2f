#include "gradus/models/data/tokenizers/tokenizer.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "gradus/core/files/file.h"
#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/hugging_face_bpe.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/data/tokenizers/utf8.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"

namespace gradus::models {

using nlohmann::json;

Tokenizer::Tokenizer(const std::vector<std::string>& special, int64_t first) {
  for (const std::string& name : special) add_special(name, first++);
}

void Tokenizer::add_special(const std::string& name, int64_t id) {
  check(!name.empty(), "special tokens: expected names, got an empty one");
  internal::check_utf8("special tokens", name);
  if (!special_ids_.emplace(name, id).second)
    fail("special tokens: ", shown(name), " is given twice");
  special_places_.emplace(id, special_names_.size());
  special_names_.push_back(name);
  if (name == "[UNK]") unknown_ = id;
}

bool Tokenizer::has_special(const std::string& name) const { return special_ids_.contains(name); }

int64_t Tokenizer::special(const std::string& name) const {
  const auto found = special_ids_.find(name);
  if (found == special_ids_.end())
    fail("special: the tokenizer has no special token ", shown(name), "; it has ",
         special_names_.empty() ? "none" : shown(special_names_));
  return found->second;
}

std::vector<int64_t> Tokenizer::encode_with_special(const std::string& text) const {
  std::vector<int64_t> ids;
  internal::split_at_names(
      text, special_ids_,
      [&](std::string_view part, bool) {
        const std::vector<int64_t> some = encode(std::string(part));
        ids.insert(ids.end(), some.begin(), some.end());
      },
      [&](int64_t id) { ids.push_back(id); });
  return ids;
}

bool Tokenizer::is_special(int64_t id) const { return special_places_.contains(id); }

const std::string* Tokenizer::special_name(int64_t id) const {
  const auto found = special_places_.find(id);
  return found == special_places_.end() ? nullptr : &special_names_[found->second];
}

int64_t Tokenizer::count_unknown(const std::vector<int64_t>& ids) const {
  return unknown_ < 0 ? 0 : std::count(ids.begin(), ids.end(), unknown_);
}

void Tokenizer::save(const std::string& path) const { write_file_atomically(path, to_json()); }

namespace internal {

void check_ids(const std::vector<int64_t>& ids, int64_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i)
    check(0 <= ids[i] && ids[i] < vocab_size, "decode: expected ids from 0 to ", vocab_size - 1,
          ", got ", ids[i], " at position ", i);
}

void split_at_names(const std::string& text, const std::unordered_map<std::string, int64_t>& names,
                    const std::function<void(std::string_view, bool)>& on_text,
                    const std::function<void(int64_t)>& on_name) {
  std::array<std::vector<std::pair<std::string_view, int64_t>>, 256> by_byte;  // the longest first
  for (const auto& [name, id] : names)
    by_byte[static_cast<unsigned char>(name[0])].emplace_back(name, id);
  for (auto& some : by_byte)
    std::sort(some.begin(), some.end(),
              [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  size_t begin = 0;
  auto end_part = [&](size_t end) {
    if (end > begin) on_text(std::string_view(text).substr(begin, end - begin), begin == 0);
  };
  for (size_t at = 0; at < text.size();) {
    const auto& some = by_byte[static_cast<unsigned char>(text[at])];
    const auto found = std::find_if(some.begin(), some.end(), [&](const auto& one) {
      return text.compare(at, one.first.size(), one.first) == 0;
    });
    if (found == some.end()) {
      ++at;
      continue;
    }
    end_part(at);
    on_name(found->second);
    begin = at += found->first.size();
  }
  end_part(text.size());
}

void TokenizerFile::check_type(const char* type) const {
  const std::string got = json_text(root, "type");
  check(got == type, "expected \"", type, "\" for type, got ", shown(got));
}

std::vector<std::string> TokenizerFile::strings(const char* key, const char* what,
                                                bool required) const {
  const auto found = root.find(key);
  if (found == root.end() && !required) return {};
  check(found != root.end() && found->is_array() && (!required || !found->empty()),
        "expected an array of ", what, " for ", key);
  std::vector<std::string> all;
  all.reserve(found->size());
  for (const json& entry : *found) {
    if (!entry.is_string()) fail("expected ", what, " in ", key, ", got ", shown(entry));
    all.push_back(entry.get<std::string>());
  }
  return all;
}

void read_tokenizer(const char* op, const std::string& path,
                    const std::function<void(const TokenizerFile&)>& use) {
  const std::string text = read_file(path);
  naming(std::string(op) + ": " + path, [&] {
    const json root = parse_json("the file", text);
    use({root});
  });
}

}  // namespace internal

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return internal::load_folder_tokenizer(path);
  std::unique_ptr<Tokenizer> tokenizer;
  internal::read_tokenizer("load_tokenizer", path, [&](const internal::TokenizerFile& file) {
    const std::string type =
        file.is_hugging_face() ? internal::hf_type(file.root) : json_text(file.root, "type");
    if (type == "char")
      tokenizer = std::make_unique<CharTokenizer>(file);
    else if (type == "word")
      tokenizer = std::make_unique<WordTokenizer>(file);
    else if (type == "bpe" && file.is_hugging_face() && !internal::hf_is_gpt2(file.root))
      tokenizer = std::make_unique<HuggingFaceBPE>(file);
    else if (type == "bpe")
      tokenizer = std::make_unique<BPETokenizer>(file);
    else if (type == "wordpiece")
      tokenizer = std::make_unique<WordPieceTokenizer>(file);
    else
      fail("expected \"char\", \"word\", \"bpe\" or \"wordpiece\" for type, got ", shown(type));
  });
  return tokenizer;
}

}  // namespace gradus::models
