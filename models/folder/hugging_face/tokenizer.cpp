#include <algorithm>
#include <nlohmann/json.hpp>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/data/tokenizers/hugging_face_bpe.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/folder/folder_files.h"

namespace gradus::models::internal {

using nlohmann::json;

namespace {

/// object[key]; null if it is missing.
const json& part(const json& object, const char* key) {
  static const auto& null = *new json;  // never destroyed: in use before main and after it
  const auto found = object.find(key);  // the end if it is not an object
  return found == object.end() ? null : *found;
}

/// Throws Error, opening with `where` and the key, if object[key] exists and is none of `allowed`.
void expect(const json& object, const std::string& where, const char* key,
            std::initializer_list<json> allowed) {
  const json& got = part(object, key);
  if (got.is_null() || std::find(allowed.begin(), allowed.end(), got) != allowed.end()) return;
  std::string all;
  for (const json& one : allowed) all += (all.empty() ? "" : " or ") + shown(one);
  fail(where, key, ": expected ", all, ", got ", shown(got));
}

/// Throws Error unless root[key] has this "type".
void expect_type(const json& root, const char* key, const char* type) {
  const json& got = part(part(root, key), "type");
  if (got != type) fail(key, ".type: expected ", shown(type), ", got ", shown(got));
}

/// Calls f(id, name) for each added token.
template <class F>
void for_each_added(const json& root, F&& f) {
  const json& all = part(root, "added_tokens");
  if (!all.is_null() && !all.is_array()) fail("added_tokens: expected an array, got ", shown(all));
  for (const json& token : all) {
    const json &id = part(token, "id"), &content = part(token, "content");
    if (!id.is_number_integer() || !content.is_string())
      fail("added_tokens: expected tokens with id and content, got ", shown(token));
    if (part(token, "special") == false)
      fail("added_tokens: expected special tokens, got ", shown(content), ", which is not");
    f(id, content.get<std::string>());
  }
}

/// The tokens that a post-processor adds around a text A: "[CLS] A [SEP]". For a post-processor of
/// unknown type, returns the type.
std::string around(const json& processor) {
  const json& type = part(processor, "type");
  if (processor.is_null() || type == "ByteLevel") return "A";
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const json &first = part(processor, "cls"), &last = part(processor, "sep");
    auto name = [](const json& token) {
      return token.is_array() && !token.empty() && token[0].is_string() ? token[0] : json("?");
    };
    return name(first).get<std::string>() + " A " + name(last).get<std::string>();
  }
  const json& parts = part(processor, "single");
  if (type != "TemplateProcessing" || !parts.is_array())
    return type.is_string() ? type.get<std::string>() : shown(type);
  std::string all;
  for (const json& one : parts)
    for (const char* kind : {"SpecialToken", "Sequence"})
      if (const json& id = part(part(one, kind), "id"); id.is_string())
        all += (all.empty() ? "" : " ") + id.get<std::string>();
  return all;
}

/// Throws Error unless the post-processor adds nothing or is `allowed`.
void expect_around(const json& root, const std::string& allowed) {
  const json& processor = part(root, "post_processor");
  std::string found = around(processor);
  if (part(processor, "type") == "Sequence") {
    found = "A";
    if (const json& all = part(processor, "processors"); all.is_array())
      for (const json& one : all)
        if (const std::string text = around(one); text != "A")
          found = found == "A" ? text : found + ", " + text;
  }
  if (found != "A" && found != allowed)
    fail("post_processor: expected ", allowed == "A" ? "none that adds tokens" : shown(allowed),
         ", got ", shown(found));
}

}  // namespace

bool TokenizerFile::is_hugging_face() const {
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

std::string hf_type(const json& root) {
  const json &model = part(root, "model"), &type = part(model, "type");
  // The oldest files have no type.
  const bool untyped = type.is_null() && model.is_object();
  if (type == "BPE" || (untyped && model.contains("merges"))) return "bpe";
  if (type == "WordPiece" || (untyped && model.contains("max_input_chars_per_word")))
    return "wordpiece";
  fail("model.type: expected \"BPE\" or \"WordPiece\", got ", shown(type));
}

bool hf_is_gpt2(const json& root) {
  const json& type = part(part(root, "pre_tokenizer"), "type");
  return type != "Sequence" && type != "Metaspace" &&
         !(type.is_null() && part(part(root, "model"), "byte_fallback") == true);
}

std::vector<std::string> hf_tokens(const json& root) {
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

std::vector<std::string> hf_special(const json& root) {
  std::vector<std::string> names;
  for_each_added(root, [&](const json&, const std::string& name) { names.push_back(name); });
  return names;
}

std::vector<std::string> hf_merges(const json& root) {
  const json& model = part(root, "model");
  if (const json& normalizer = part(root, "normalizer"); !normalizer.is_null())
    fail("normalizer: expected none, got ", shown(normalizer));
  expect_type(root, "pre_tokenizer", "ByteLevel");
  expect(part(root, "pre_tokenizer"), "pre_tokenizer.", "add_prefix_space", {false});
  expect(part(root, "pre_tokenizer"), "pre_tokenizer.", "use_regex", {true});
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    expect(model, "model.", key, {""});
  for (const char* key : {"byte_fallback", "ignore_merges"}) expect(model, "model.", key, {false});
  expect(model, "model.", "dropout", {0});
  for (const json& token : part(root, "added_tokens"))
    for (const char* key : {"single_word", "lstrip", "rstrip"})
      expect(token, "added_tokens.", key, {false});
  expect_around(root, "A");
  const json& merges = part(model, "merges");
  if (!merges.is_array()) fail("model.merges: expected an array, got ", shown(merges));
  std::vector<std::string> all;
  all.reserve(merges.size());
  for (const json& merge : merges) {  // "a b", or ["a", "b"] in newer files
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

/// object[key], or `otherwise` if it is missing or null.
bool flag_in(const std::string& where, const json& object, const char* key, bool otherwise) {
  const json& value = part(object, key);
  if (!value.is_null() && !value.is_boolean())
    fail(where, key, ": expected true or false, got ", shown(value));
  return value.is_null() ? otherwise : value.get<bool>();
}

}  // namespace

WordPieceOptions hf_wordpiece_options(const json& root) {
  const json &model = part(root, "model"), &normalizer = part(root, "normalizer");
  expect_type(root, "normalizer", "BertNormalizer");
  expect_type(root, "pre_tokenizer", "BertPreTokenizer");
  expect(normalizer, "normalizer.", "clean_text", {true});
  expect(model, "model.", "unk_token", {"[UNK]"});
  expect(model, "model.", "continuing_subword_prefix", {"##"});
  expect(model, "model.", "max_input_chars_per_word", {100});
  expect_around(root, "[CLS] A [SEP]");
  WordPieceOptions o;
  o.lower_case = flag_in("normalizer.", normalizer, "lowercase", true);
  o.strip_accents = flag_in("normalizer.", normalizer, "strip_accents", o.lower_case);
  o.split_cjk = flag_in("normalizer.", normalizer, "handle_chinese_chars", true);
  o.special = hf_special(root);
  return o;
}

// ---- folders ----

namespace {

/// The object in a file; an empty one if the file does not exist.
json object_in(const std::string& path) {
  return internal::file_exists(path) ? internal::read_json_object(path) : json::object();
}

/// The text of a token, which is a string or an object with a "content"; else "".
std::string name_of_token(const json& token) {
  const json& name = token.is_object() ? part(token, "content") : token;
  return name.is_string() ? name.get<std::string>() : "";
}

/// `names` and the special tokens in tokenizer_config.json.
std::vector<std::string> special_in(const json& config, std::vector<std::string> names) {
  auto add = [&](const json& token) {
    const std::string name = name_of_token(token);
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  };
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"})
    add(part(config, key));
  if (const json& more = part(config, "additional_special_tokens"); more.is_array())
    for (const json& token : more) add(token);
  if (const json& more = part(config, "added_tokens_decoder"); more.is_object())
    for (const json& token : more)
      if (part(token, "special") == true) add(token);
  return names;
}

/// A model folder and its tokenizer_config.json.
struct Folder {
  std::string dir, config_file;
  json config;

  explicit Folder(const std::string& at) : dir(at), config_file(file("tokenizer_config.json")) {
    config = object_in(config_file);
  }
  std::string file(const char* name) const { return internal::in_folder(dir, name); }
  bool has(const char* name) const { return internal::file_exists(file(name)); }
  void expect(const char* key, std::initializer_list<json> allowed) const {
    internal::expect(config, config_file + ": ", key, allowed);
  }
  bool flag(const char* key, bool otherwise) const {
    return flag_in(config_file + ": ", config, key, otherwise);
  }
  /// Throws Error unless the tokenizer's class is among `classes`.
  void expect_class(std::initializer_list<json> classes) const {
    expect("tokenizer_class", classes);
    const std::string model = file("config.json");
    if (!config.contains("tokenizer_class"))
      internal::expect(object_in(model), model + ": ", "tokenizer_class", classes);
  }
  std::unique_ptr<Tokenizer> load_file() const;
  std::unique_ptr<Tokenizer> load_bpe() const;
  std::unique_ptr<Tokenizer> load_wordpiece() const;
  void check_added(const Tokenizer& tokenizer) const;
};

std::unique_ptr<Tokenizer> Folder::load_file() const {
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(file("tokenizer.json"));
  // In transformers, these settings override the normalizer in tokenizer.json.
  if (const auto* pieces = dynamic_cast<const WordPieceTokenizer*>(tokenizer.get())) {
    expect("do_lower_case", {pieces->options().lower_case});
    expect("strip_accents", {pieces->options().strip_accents});
    expect("tokenize_chinese_chars", {pieces->options().split_cjk});
  }
  return tokenizer;
}

std::unique_ptr<Tokenizer> Folder::load_bpe() const {
  expect_class({"GPT2Tokenizer", "GPT2TokenizerFast"});
  const json vocab = object_in(file("vocab.json"));
  std::vector<std::string> special = special_in(config, {"<|endoftext|>"});
  std::erase_if(special, [&](const std::string& name) { return !vocab.contains(name); });
  return std::make_unique<BPETokenizer>(
      BPETokenizer::load_gpt2(file("vocab.json"), file("merges.txt"), special));
}

std::unique_ptr<Tokenizer> Folder::load_wordpiece() const {
  expect_class(
      {"BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast"});
  expect("do_basic_tokenize", {true});
  expect("never_split", {json::array()});
  WordPieceOptions o;
  o.lower_case = flag("do_lower_case", true);
  o.strip_accents = flag("strip_accents", o.lower_case);
  o.split_cjk = flag("tokenize_chinese_chars", true);
  for (const auto& [role, name] : bert_roles)
    if (const std::string other = name_of_token(part(config, role));
        !other.empty() && other != name)
      fail(config_file, ": ", role, ": expected ", shown(name), ", got ", shown(other));
  o.special = special_in(config, o.special);
  return std::make_unique<WordPieceTokenizer>(WordPieceTokenizer::load_vocab(file("vocab.txt"), o));
}

/// Throws Error on an added token that is not special (transformers matches it before it splits a
/// text), or that is not in the vocabulary with the same id.
void Folder::check_added(const Tokenizer& tokenizer) const {
  const auto* bpe = dynamic_cast<const HuggingFaceBPE*>(&tokenizer);
  auto check_one = [&](const std::string& where, const std::string& name, const std::string& id,
                       bool special) {
    if (bpe && std::to_string(bpe->added(name)) == id) return;
    if (!special || !tokenizer.has_special(name) || std::to_string(tokenizer.special(name)) != id)
      fail(where, "expected special tokens of the vocabulary and their ids, got ", shown(name),
           " and ", id);
  };
  if (const json& more = part(config, "added_tokens_decoder"); more.is_object())
    for (const auto& [id, token] : more.items())
      check_one(config_file + ": added_tokens_decoder: ", name_of_token(token), id,
                part(token, "special") == true);
  const json added = object_in(file("added_tokens.json"));
  for (const auto& [name, id] : added.items())
    check_one(file("added_tokens.json") + ": ", name, shown(id), true);
}

}  // namespace

std::unique_ptr<Tokenizer> load_folder_tokenizer(const std::string& dir) {
  const Folder folder(dir);
  std::unique_ptr<Tokenizer> tokenizer;
  if (folder.has("tokenizer.json"))
    tokenizer = folder.load_file();
  else if (folder.has("vocab.json") && folder.has("merges.txt"))
    tokenizer = folder.load_bpe();
  else if (folder.has("vocab.txt"))
    tokenizer = folder.load_wordpiece();
  else
    fail(dir, ": expected a tokenizer: tokenizer.json, vocab.json and merges.txt, or vocab.txt; ",
         "transformers converts tokenizer.model and spiece.model to tokenizer.json");
  const auto* bpe = dynamic_cast<const HuggingFaceBPE*>(tokenizer.get());
  if (!bpe) folder.expect("add_prefix_space", {false});
  folder.expect("add_bos_token", {!tokenizer->begin_ids().empty()});
  if (bpe) folder.expect("add_eos_token", {false});
  folder.check_added(*tokenizer);
  return tokenizer;
}

}  // namespace gradus::models::internal
