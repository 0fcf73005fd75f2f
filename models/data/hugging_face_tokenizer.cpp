#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "gradus/core/error.h"
#include "gradus/core/file.h"
#include "gradus/core/internal.h"
#include "gradus/core/json.h"
#include "gradus/models/data/bpe_tokenizer.h"
#include "gradus/models/data/tokenizer_file.h"

namespace gradus::models::detail {

using nlohmann::json;

namespace {

/// object[key]; null where it is missing.
const json& part(const json& object, const char* key) {
  static const auto& null = *new json;  // of use before main and after its end
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

/// Throws Error unless object[key] is this, or missing.
void expect(const json& object, const char* where, const char* key, const json& wanted) {
  const json& got = part(object, key);
  if (!got.is_null() && got != wanted)
    fail(where, '.', key, ": expected ", shown(wanted), ", got ", shown(got));
}

/// Throws Error unless object has this "type".
void expect_type(const json& root, const char* key, const char* type) {
  const json& got = part(part(root, key), "type");
  if (got != type) fail(key, ".type: expected ", shown(type), ", got ", shown(got));
}

/// f(id, name) for each added token.
template <class F>
void for_each_added(const json& root, F&& f) {
  const json& all = part(root, "added_tokens");
  if (!all.is_null() && !all.is_array()) fail("added_tokens: expected an array, got ", shown(all));
  for (const json& token : all) {
    const json &id = part(token, "id"), &content = part(token, "content");
    if (!id.is_number_integer() || !content.is_string())
      fail("added_tokens: expected tokens with id and content, got ", shown(token));
    f(id, content.get<std::string>());
  }
}

}  // namespace

bool TokenizerFile::is_theirs() const {
  return root.is_object() && !root.contains("type") && root.contains("model");
}

std::vector<std::string> tokens_by_id(const std::string& in_vocab, const json& ids) {
  if (!ids.is_object() || ids.empty())
    fail(in_vocab, "expected a JSON object of tokens and their ids, got ", shown(ids));
  std::vector<std::string> tokens(ids.size());
  std::vector<bool> taken(ids.size());
  for (const auto& [token, value] : ids.items()) {
    if (!value.is_number_integer() || value < 0 || value >= ids.size())
      fail(in_vocab, "expected ids from 0 to ", ids.size() - 1, " for the ", ids.size(),
           " tokens, got ", shown(value), " for ", shown(json(token)));
    const auto id = value.get<size_t>();
    if (taken[id])
      fail(in_vocab, "id ", id, " stands for ", shown(json(tokens[id])), " and ",
           shown(json(token)));
    taken[id] = true;
    tokens[id] = token;
  }
  return tokens;
}

std::string their_type(const json& root) {
  const json &model = part(root, "model"), &type = part(model, "type");
  // The oldest files do not say.
  const bool untyped = type.is_null() && model.is_object();
  if (type == "BPE" || (untyped && model.contains("merges"))) return "bpe";
  if (type == "WordPiece" || (untyped && model.contains("max_input_chars_per_word")))
    return "wordpiece";
  fail("model.type: expected \"BPE\" or \"WordPiece\", got ", shown(type));
}

std::vector<std::string> their_tokens(const json& root) {
  json ids = part(part(root, "model"), "vocab");
  if (!ids.is_object()) fail("model.vocab: expected an object of tokens and ids, got ", shown(ids));
  for_each_added(root, [&](const json& id, const std::string& name) {
    const auto [at, is_new] = ids.emplace(name, id);
    if (!is_new && *at != id)
      fail("added_tokens: ", shown(json(name)), " has the id ", shown(id), ", in model.vocab ",
           shown(*at));
  });
  return tokens_by_id("model.vocab: ", ids);
}

std::vector<std::string> their_special(const json& root) {
  std::vector<std::string> names;
  for_each_added(root, [&](const json&, const std::string& name) { names.push_back(name); });
  return names;
}

std::vector<std::string> their_merges(const json& root) {
  const json& model = part(root, "model");
  if (const json& normalizer = part(root, "normalizer"); !normalizer.is_null())
    fail("normalizer: expected none, got ", shown(normalizer));
  expect_type(root, "pre_tokenizer", "ByteLevel");
  expect(part(root, "pre_tokenizer"), "pre_tokenizer", "add_prefix_space", false);
  expect(part(root, "pre_tokenizer"), "pre_tokenizer", "use_regex", true);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    expect(model, "model", key, "");
  for (const char* key : {"byte_fallback", "ignore_merges"}) expect(model, "model", key, false);
  const json& merges = part(model, "merges");
  if (!merges.is_array()) fail("model.merges: expected an array, got ", shown(merges));
  std::vector<std::string> all;
  all.reserve(merges.size());
  for (const json& merge : merges) {  // "a b", or ["a", "b"] as newer files have them
    const bool is_pair =
        merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (!is_pair && !merge.is_string())
      fail("model.merges: expected two tokens, got ", shown(merge));
    all.push_back(is_pair ? merge[0].get<std::string>() + ' ' + merge[1].get<std::string>()
                          : merge.get<std::string>());
  }
  return all;
}

namespace {

/// object[key], which may be missing or null.
bool flag_in(const std::string& where, const json& object, const char* key, bool otherwise) {
  const json& value = part(object, key);
  if (!value.is_null() && !value.is_boolean())
    fail(where, key, ": expected true or false, got ", shown(value));
  return value.is_null() ? otherwise : value.get<bool>();
}

}  // namespace

WordPieceOptions their_wordpiece_options(const json& root) {
  const json &model = part(root, "model"), &normalizer = part(root, "normalizer");
  expect_type(root, "normalizer", "BertNormalizer");
  expect_type(root, "pre_tokenizer", "BertPreTokenizer");
  expect(normalizer, "normalizer", "clean_text", true);
  expect(model, "model", "unk_token", "[UNK]");
  expect(model, "model", "continuing_subword_prefix", "##");
  expect(model, "model", "max_input_chars_per_word", 100);
  WordPieceOptions o;
  o.lower_case = flag_in("normalizer.", normalizer, "lowercase", true);
  o.strip_accents = flag_in("normalizer.", normalizer, "strip_accents", o.lower_case);
  o.split_cjk = flag_in("normalizer.", normalizer, "handle_chinese_chars", true);
  o.special = their_special(root);
  return o;
}

// ---- folders ----

namespace {

/// An object in a file; an empty one if there is no such file.
json object_in(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return json::object();
  json file = parse_json(path.c_str(), read_file(path));
  if (!file.is_object()) fail(path, ": expected a JSON object, got ", shown(file));
  return file;
}

/// What tokenizer_config.json names as special tokens, and GPT-2's own, where vocab.json has them.
std::vector<std::string> special_in(const json& config, const json& vocab) {
  std::vector<std::string> names;
  auto add = [&](const json& token) {  // a name, or an object that has it
    const json& name = token.is_object() ? part(token, "content") : token;
    if (name.is_string() && vocab.contains(name.get<std::string>()) &&
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  };
  add("<|endoftext|>");
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"})
    add(part(config, key));
  if (const json& more = part(config, "additional_special_tokens"); more.is_array())
    for (const json& token : more) add(token);
  return names;
}

}  // namespace

std::unique_ptr<Tokenizer> load_folder_tokenizer(const std::string& dir) {
  auto in_folder = [&](const char* file) { return (std::filesystem::path(dir) / file).string(); };
  auto has = [&](const char* file) {
    std::error_code error;
    return std::filesystem::exists(in_folder(file), error);
  };
  if (has("tokenizer.json")) return load_tokenizer(in_folder("tokenizer.json"));
  const std::string config_file = in_folder("tokenizer_config.json");
  if (has("vocab.json") && has("merges.txt")) {
    const std::string vocab = in_folder("vocab.json");
    const json config = object_in(config_file);
    if (flag_in(config_file + ": ", config, "add_prefix_space", false))
      fail(config_file, ": add_prefix_space: expected false, got true");
    return std::make_unique<BPETokenizer>(BPETokenizer::load_gpt2(
        vocab, in_folder("merges.txt"), special_in(config, object_in(vocab))));
  }
  if (!has("vocab.txt"))
    fail(dir, ": expected a tokenizer: tokenizer.json, vocab.json and merges.txt, or vocab.txt");
  const json config = object_in(config_file);
  const std::string where = config_file + ": ";
  WordPieceOptions o;
  o.lower_case = flag_in(where, config, "do_lower_case", true);
  o.strip_accents = flag_in(where, config, "strip_accents", o.lower_case);
  o.split_cjk = flag_in(where, config, "tokenize_chinese_chars", true);
  return std::make_unique<WordPieceTokenizer>(
      WordPieceTokenizer::load_vocab(in_folder("vocab.txt"), o));
}

}  // namespace gradus::models::detail
