#include "gradus/models/data/tokenizers/hugging_face_bpe.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/bpe.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/data/tokenizers/utf8.h"

namespace gradus::models {

using internal::TokenizerFile;
using nlohmann::json;

namespace internal {

/// What a tokenizer.json does with a text, apart from merging.
struct BPEForm {
  enum class Prefix { never, first, always, twice };  // twice: also before a text that has one
  bool is_bytes = true;                               // byte-level; else of characters
  WordRule rule = WordRule::gpt2;                     // of byte-level text
  bool composes = false;                              // NFC
  bool ignores_merges = false;
  Prefix prefix = Prefix::never;  // where "▁" comes before a text of characters
  bool strips = false;            // decode() drops a space that begins the text
};

}  // namespace internal

namespace {

using internal::BPEForm, internal::WordRule;
using Prefix = BPEForm::Prefix;

constexpr const char* space_mark = "\xe2\x96\x81";  // ▁

const json& entry(const json& object, const char* key) {
  static const auto& null = *new json;  // never destroyed: in use before main and after it
  const auto found = object.is_object() ? object.find(key) : object.end();
  return !object.is_object() || found == object.end() ? null : *found;
}

/// The parts of root[key], which may be null, one part, or a Sequence with an array `list` of them.
std::vector<json> parts_of(const json& root, const char* key, const char* list) {
  const json& all = entry(root, key);
  if (all.is_null()) return {};
  if (entry(all, "type") != "Sequence") return {all};
  const json& parts = entry(all, list);
  if (!parts.is_array()) fail(key, ".", list, ": expected an array, got ", shown(parts));
  return parts;
}

/// Whether the parts have these types in this order.
bool have_types(const std::vector<json>& parts, std::initializer_list<const char*> types) {
  return std::equal(parts.begin(), parts.end(), types.begin(), types.end(),
                    [](const json& part, const char* type) { return entry(part, "type") == type; });
}

/// Throws Error unless part[key] is `value`, or missing where `may_lack`.
void expect(const char* where, const json& part, const char* key, const json& value,
            bool may_lack = false) {
  const json& got = entry(part, key);
  if (got != value && !(may_lack && got.is_null()))
    fail(where, ".", key, ": expected ", shown(value), ", got ", shown(got));
}

[[noreturn]] void refuse(const char* key, const json& root) {
  fail(key, ": expected that of Llama 2 or 3, Mistral, Qwen 2 or SmolLM2, got ",
       shown(entry(root, key)));
}

void expect_replace(const char* where, const json& part, const char* from, const char* to) {
  expect(where, part, "pattern", json::object({{"String", from}}));
  expect(where, part, "content", to);
}

void read_normalizer(const json& root, BPEForm& form) {
  const char* const key = "normalizer";
  const std::vector<json> parts = parts_of(root, key, "normalizers");
  // If there is no pre_tokenizer, the normalizer must replace spaces by "▁".
  if (parts.empty() && !form.is_bytes && entry(root, "pre_tokenizer").is_null()) refuse(key, root);
  if (parts.empty()) return;
  if (have_types(parts, {"NFC"}) && form.is_bytes) {
    form.composes = true;
  } else if (have_types(parts, {"Prepend", "Replace"}) && !form.is_bytes &&
             form.prefix == Prefix::never) {
    expect(key, parts[0], "prepend", space_mark);
    expect_replace(key, parts[1], " ", space_mark);
    form.prefix = Prefix::twice;
  } else {
    refuse(key, root);
  }
}

Prefix prefix_of(const json& metaspace) {
  const json& scheme = entry(metaspace, "prepend_scheme");
  if (scheme == "always") return Prefix::always;
  if (scheme == "first") return Prefix::first;
  if (scheme != "never")
    fail("pre_tokenizer.prepend_scheme: expected \"always\", \"first\" or \"never\", got ",
         shown(scheme));
  return Prefix::never;
}

WordRule rule_of(const json& split) {
  const char* const key = "pre_tokenizer";
  expect(key, split, "behavior", "Isolated");
  expect(key, split, "invert", false, true);
  const json& pattern = entry(entry(split, "pattern"), "Regex");
  if (pattern == internal::llama3_pattern) return WordRule::llama3;
  if (pattern == internal::qwen2_pattern) return WordRule::qwen2;
  fail(key, ".pattern: expected Llama 3's or Qwen 2's, got ", shown(entry(split, "pattern")));
}

void read_pre_tokenizer(const json& root, BPEForm& form) {
  const char* const key = "pre_tokenizer";
  const std::vector<json> parts = parts_of(root, key, "pretokenizers");
  form.is_bytes = !parts.empty() && entry(parts.back(), "type") == "ByteLevel";
  if (parts.empty()) return;
  bool splits_here = true;
  if (have_types(parts, {"Metaspace"})) {
    expect(key, parts[0], "replacement", space_mark);
    expect(key, parts[0], "split", false);
    form.prefix = prefix_of(parts[0]);
    return;
  }
  if (have_types(parts, {"Split", "ByteLevel"})) {
    form.rule = rule_of(parts[0]);
    splits_here = false;
  } else if (have_types(parts, {"Digits", "ByteLevel"})) {
    expect(key, parts[0], "individual_digits", true);
    form.rule = WordRule::digits;
  } else if (!have_types(parts, {"ByteLevel"})) {
    refuse(key, root);
  }
  expect(key, parts.back(), "add_prefix_space", false);
  expect(key, parts.back(), "use_regex", splits_here, splits_here);
}

void read_decoder(const json& root, BPEForm& form) {
  const char* const key = "decoder";
  const std::vector<json> parts = parts_of(root, key, "decoders");
  if (form.is_bytes) {
    if (!have_types(parts, {"ByteLevel"})) refuse(key, root);
    return;
  }
  form.strips = have_types(parts, {"Replace", "ByteFallback", "Fuse", "Strip"});
  if (!form.strips && !have_types(parts, {"Replace", "ByteFallback", "Fuse"})) refuse(key, root);
  expect_replace(key, parts[0], space_mark, " ");
  if (!form.strips) return;
  expect(key, parts[3], "content", " ");
  expect(key, parts[3], "start", 1);
  expect(key, parts[3], "stop", 0);
}

BPEForm read_form(const json& root) {
  BPEForm form;
  read_pre_tokenizer(root, form);
  read_normalizer(root, form);
  read_decoder(root, form);
  const json& model = entry(root, "model");
  expect("model", model, "byte_fallback", !form.is_bytes, form.is_bytes);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    expect("model", model, key, "", true);
  expect("model", model, "dropout", 0, true);
  const json& ignores = entry(model, "ignore_merges");
  if (!ignores.is_null() && !ignores.is_boolean())
    fail("model.ignore_merges: expected true or false, got ", shown(ignores));
  form.ignores_merges = ignores == true;
  if (form.ignores_merges && !form.is_bytes)
    fail("model.ignore_merges: expected false in a vocabulary of characters");
  return form;
}

/// The names of the special tokens that the post-processor puts before a text.
std::vector<std::string> names_before(const json& root) {
  const char* const key = "post_processor";
  std::vector<std::string> names;
  for (const json& part : parts_of(root, key, "processors")) {
    if (entry(part, "type") == "ByteLevel") continue;
    const json& single = entry(part, "single");
    if (entry(part, "type") != "TemplateProcessing" || !single.is_array() || !names.empty())
      fail(key, ": expected tokens before a text at most, got ", shown(part));
    bool is_over = false;  // after the text
    for (const json& one : single) {
      const json& name = entry(entry(one, "SpecialToken"), "id");
      if (is_over || (!name.is_string() && entry(entry(one, "Sequence"), "id") != "A"))
        fail(key, ".single: expected tokens before a text A, got ", shown(single));
      if (name.is_string())
        names.push_back(name.get<std::string>());
      else
        is_over = true;
    }
    if (!is_over) fail(key, ".single: expected a text A, got ", shown(single));
  }
  return names;
}

std::string with_spaces_for_marks(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const bool is_mark = text.substr(at).starts_with(space_mark);
    out += is_mark ? ' ' : text[at];
    at += is_mark ? std::string_view(space_mark).size() : 1;
  }
  return out;
}

std::string with_marks_for_spaces(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c == ' ')
      out += space_mark;
    else
      out += c;
  return out;
}

/// The name of the token that stands for a byte: <0x0A>.
std::string byte_name(int byte) {
  char name[8];
  std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte) & 0xffu);
  return name;
}

}  // namespace

// ---- reading ----

HuggingFaceBPE::~HuggingFaceBPE() = default;

HuggingFaceBPE::HuggingFaceBPE(const TokenizerFile& file)
    : source_(file.root.dump(-1, ' ', false, json::error_handler_t::replace) + '\n'),
      form_(std::make_unique<const BPEForm>(read_form(file.root))) {
  const json& vocab = entry(entry(file.root, "model"), "vocab");
  if (!vocab.is_object())
    fail("model.vocab: expected an object of tokens and ids, got ", shown(vocab));
  read_added(file);
  json all = vocab;
  for (const auto& [name, id] : added_) {
    const auto [at, is_new] = all.emplace(name, id);
    if (!is_new && *at != id)
      fail("added_tokens: ", shown(name), " has the id ", id, ", in model.vocab ", shown(*at));
  }
  check(all.size() < size_t{1} << 31, "model.vocab: more than 2^31 tokens");
  tokens_ = internal::tokens_by_id("model.vocab: ", all);
  for (size_t id = 0; id < tokens_.size(); ++id) {
    const std::string& token = tokens_[id];
    if (vocab.contains(token)) ids_.emplace(token, static_cast<int32_t>(id));
    if (!form_->is_bytes)
      pieces_.push_back(with_spaces_for_marks(token));
    else
      pieces_.push_back(added_.contains(token) ? token : internal::unicode_to_bytes(token));
    if (pieces_.back().empty())
      fail("model.vocab: token ", shown(token), " is empty or holds a character that stands for ",
           "no byte");
  }
  read_bytes();
  read_merges(file);
  for (const std::string& name : names_before(file.root)) {
    if (!has_special(name)) fail("post_processor: ", shown(name), " is not a special token");
    begin_ids_.push_back(special(name));
  }
}

void HuggingFaceBPE::read_added(const TokenizerFile& file) {
  const json& all = entry(file.root, "added_tokens");
  if (!all.is_null() && !all.is_array()) fail("added_tokens: expected an array, got ", shown(all));
  for (const json& token : all) {
    const json &id = entry(token, "id"), &name = entry(token, "content");
    if (!id.is_number_integer() || !name.is_string())
      fail("added_tokens: expected tokens with id and content, got ", shown(token));
    for (const char* key : {"single_word", "lstrip", "rstrip"})
      expect("added_tokens", token, key, false, true);
    const auto text = name.get<std::string>();
    const bool is_special = entry(token, "special") != false;
    if (!is_special && entry(token, "normalized") == true &&
        !entry(file.root, "normalizer").is_null())
      fail("added_tokens: ", shown(text), ": normalized: expected false, got true");
    if (!added_.emplace(text, id.get<int64_t>()).second)
      fail("added_tokens: ", shown(text), " is given twice");
    if (text.empty()) fail("added_tokens: expected names, got an empty one");
    if (is_special)
      add_special(text, id.get<int64_t>());
    else
      visible_.emplace(text, id.get<int64_t>());
  }
}

/// Finds the token of each byte.
void HuggingFaceBPE::read_bytes() {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte)),
        name = form_->is_bytes ? internal::bytes_to_unicode(bytes) : byte_name(byte);
    const auto found = ids_.find(name);
    if (found == ids_.end())
      fail("model.vocab: expected a token for each byte, but there is none for ", byte, ", ",
           shown(name));
    byte_ids_[static_cast<size_t>(byte)] = found->second;
    if (!form_->is_bytes) pieces_[static_cast<size_t>(found->second)] = bytes;
  }
}

void HuggingFaceBPE::read_merges(const TokenizerFile& file) {
  const json& all = entry(entry(file.root, "model"), "merges");
  if (!all.is_array()) fail("model.merges: expected an array, got ", shown(all));
  const auto id_of = [&](const std::string& token, const json& merge) {
    const auto found = ids_.find(token);
    if (found == ids_.end())
      fail("model.merges: ", shown(merge), ": ", shown(token), " is not in the vocabulary");
    return found->second;
  };
  for (const json& merge : all) {  // "a b", or ["a", "b"] in newer files
    std::string left, right;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0], right = merge[1];
    } else if (merge.is_string()) {
      const auto text = merge.get<std::string>();
      const size_t space = text.find(' ');
      left = text.substr(0, space);
      if (space != std::string::npos) right = text.substr(space + 1);
    }
    if (left.empty() || right.empty())
      fail("model.merges: expected two tokens, got ", shown(merge));
    const Merge rule{id_of(left, merge), id_of(right, merge), id_of(left + right, merge)};
    const auto rank = static_cast<int32_t>(merges_.size());
    if (!ranks_.emplace(internal::pair_key(rule.left, rule.right), rank).second)
      fail("model.merges: ", shown(merge), " is given twice");
    merges_.push_back(rule);
  }
}

int64_t HuggingFaceBPE::added(const std::string& name) const {
  const auto found = added_.find(name);
  return found == added_.end() ? -1 : found->second;
}

bool HuggingFaceBPE::adds_no_space() const {
  return !form_->is_bytes && form_->prefix == Prefix::never;
}

// ---- text to tokens and back ----

std::vector<int64_t> HuggingFaceBPE::encode(const std::string& text) const {
  return encode_around(text, visible_);
}

std::vector<int64_t> HuggingFaceBPE::encode_with_special(const std::string& text) const {
  return encode_around(text, added_);
}

std::vector<int64_t> HuggingFaceBPE::encode_around(
    const std::string& text, const std::unordered_map<std::string, int64_t>& names) const {
  check(text.size() < size_t{1} << 29, "encode: expected a text of less than 2^29 bytes, got ",
        text.size());
  std::vector<int64_t> ids;
  internal::split_at_names(
      text, names,
      [&](std::string_view part, bool is_first) {
        if (form_->is_bytes)
          append_words(part, ids);
        else
          append_pieces(part, is_first, ids);
      },
      [&](int64_t id) { ids.push_back(id); });
  return ids;
}

/// Appends the tokens of byte-level text.
void HuggingFaceBPE::append_words(std::string_view part, std::vector<int64_t>& ids) const {
  const std::string composed = form_->composes ? internal::composed(part) : std::string();
  const std::string_view text = form_->composes ? composed : part;
  internal::BPEMerger merger(merges_, ranks_, true);
  std::vector<int32_t> seen;  // tokens of all distinct words, concatenated
  std::unordered_map<std::string_view, std::pair<size_t, size_t>> words;  // ranges in `seen`
  for (size_t at = 0; at < text.size();) {
    const size_t end = internal::end_of_word(text, at, form_->rule);
    const std::string_view word = text.substr(at, end - at);
    const auto [found, is_new] = words.try_emplace(word);
    if (is_new) {
      found->second.first = seen.size();
      const auto whole =
          form_->ignores_merges ? ids_.find(internal::bytes_to_unicode(word)) : ids_.end();
      if (whole != ids_.end())
        seen.push_back(whole->second);
      else
        merger.append(
            word.size(), [&](size_t i) { return byte_ids_[static_cast<unsigned char>(word[i])]; },
            seen);
      found->second.second = seen.size();
    }
    for (size_t i = found->second.first; i < found->second.second; ++i) ids.push_back(seen[i]);
    at = end;
  }
}

bool HuggingFaceBPE::may_cut(std::string_view text, size_t at) const {
  const auto has_space = [](const auto& added) {
    return added.first.find_first_of(" \t\n\r") != added.first.npos;
  };
  if (!form_->is_bytes || at == 0 || std::ranges::any_of(visible_, has_space)) return false;
  const auto is_letter = [&](size_t begin) {
    char32_t code_point;
    return internal::read_code_point(text, begin, code_point) &&
           internal::category_of(code_point) == internal::Category::letter;
  };
  size_t before = at - 1;
  while (before > 0 && (text[before] & 0xc0) == 0x80) --before;  // to the character's first byte
  return is_letter(before) && is_letter(at + 1);
}

/// Appends the tokens of text whose units are characters.
void HuggingFaceBPE::append_pieces(std::string_view part, bool is_first,
                                   std::vector<int64_t>& ids) const {
  std::string text = with_marks_for_spaces(part);
  const Prefix prefix = form_->prefix;
  const bool has_place = prefix == Prefix::always || (prefix == Prefix::first && is_first);
  if (prefix == Prefix::twice || (has_place && !text.starts_with(space_mark)))
    text.insert(0, space_mark);
  std::vector<int32_t> units;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    char32_t code_point;
    const bool is_valid = internal::read_code_point(text, at, code_point);
    const std::string_view character = std::string_view(text).substr(begin, at - begin);
    const auto found = is_valid ? ids_.find(character) : ids_.end();
    if (found != ids_.end())
      units.push_back(found->second);
    else
      for (const char byte : character)
        units.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  }
  std::vector<int32_t> merged;
  internal::BPEMerger(merges_, ranks_, true)
      .append(
          units.size(), [&](size_t i) { return units[i]; }, merged);
  ids.insert(ids.end(), merged.begin(), merged.end());
}

std::string HuggingFaceBPE::decode(const std::vector<int64_t>& ids) const {
  internal::check_ids(ids, vocab_size());
  std::string text;
  for (const int64_t id : ids) text += pieces_[static_cast<size_t>(id)];
  if (form_->strips && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

}  // namespace gradus::models
