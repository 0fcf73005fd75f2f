#include "gradus/models/folder/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/bpe.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/hugging_face_bpe.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/folder/gguf/gguf_pieces.h"

namespace gradus::models::internal {

using nlohmann::json, nlohmann::ordered_json;

std::string in_ggml(const char* key) { return std::string("tokenizer.ggml.") + key; }

std::vector<std::string> Vocabulary::of_type(TokenType type) const {
  std::vector<std::string> some;
  for (size_t id = 0; id < tokens.size(); ++id)
    if (types[id] == type) some.push_back(tokens[id]);
  return some;
}

namespace {

// ---- characters: llama.cpp's "rwkv", which escapes bytes as Python's literals do ----

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\')
      out += "\\\\";
    else if (byte >= 0x20 && byte != 0x7f)
      out += c;
    else
      out += {'\\', 'x', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  }
  return out;
}

std::string unescaped(const std::string& text) {
  constexpr std::string_view digits = "0123456789abcdef", letters = "tnr", meant = "\t\n\r";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    if (++i == text.size()) fail("expected a character after the last \\ of ", shown(text));
    const size_t letter = letters.find(text[i]);
    if (text[i] != 'x') {
      out += letter == std::string_view::npos ? text[i] : meant[letter];
      continue;
    }
    const size_t high = i + 1 < text.size() ? digits.find(text[i + 1]) : std::string::npos,
                 low = i + 2 < text.size() ? digits.find(text[i + 2]) : std::string::npos;
    if (high == std::string::npos || low == std::string::npos)
      fail("expected two digits of 0 to f after \\x in ", shown(text));
    out += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return out;
}

Vocabulary vocabulary_of(const CharTokenizer& tokenizer) {
  Vocabulary v{.model = "rwkv"};
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id)
    v.add(escaped(tokenizer.decode({id})), tokenizer.is_special(id) ? control : normal);
  return v;
}

std::unique_ptr<Tokenizer> characters(const Vocabulary& v) {
  json file{{"type", "char"}, {"special", json::array()}, {"vocab", json::array()}};
  for (size_t id = 0; id < v.tokens.size(); ++id) {
    const bool is_special = v.types[id] == control;
    if (is_special && !file["vocab"].empty())
      fail("expected special tokens before the characters, got ", shown(v.tokens[id]));
    file[is_special ? "special" : "vocab"].push_back(unescaped(v.tokens[id]));
  }
  return std::make_unique<CharTokenizer>(TokenizerFile{file});
}

// ---- byte pairs: llama.cpp's "gpt2" ----

// All of these stand for GPT-2's words. With "gpt-2", llama.cpp drops the space of " ." and " 's"
// when it writes text, with "trillion" it does not.
constexpr const char* gpt2_words = "trillion";
constexpr const char* gpt2_names[] = {gpt2_words, "gpt-2", "olmo", "mpt", "jais"};

/// One of the forms of Hugging Face's tokenizers that llama.cpp has too.
struct Form {
  const char* pre;
  json pre_tokenizer, normalizer;
  bool ignores_merges;
};

std::vector<Form> forms() {
  const auto sequence = [](const json& first) {
    const json bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    return json{{"type", "Sequence"}, {"pretokenizers", {first, bytes}}};
  };
  const auto split = [&](const char* pattern) {
    return sequence({{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  };
  json digits = sequence({{"type", "Digits"}, {"individual_digits", true}});
  digits["pretokenizers"][1]["use_regex"] = true;
  return {{"llama-bpe", split(llama3_pattern), nullptr, true},
          {"qwen2", split(qwen2_pattern), {{"type", "NFC"}}, false},
          {"smollm", std::move(digits), nullptr, false}};
}

/// Whether a tokenizer.json, which HuggingFaceBPE has accepted, has the form.
bool has_form(const json& root, const Form& form) {
  const json& parts = root["pre_tokenizer"].value("pretokenizers", json());
  const json& ours = form.pre_tokenizer["pretokenizers"][0];
  return parts.is_array() && parts[0].value("type", json()) == ours["type"] &&
         parts[0].value("pattern", json()) == ours.value("pattern", json()) &&
         root.value("normalizer", json()).is_null() == form.normalizer.is_null() &&
         (root["model"].value("ignore_merges", json()) == true) == form.ignores_merges;
}

Vocabulary vocabulary_of(const BPETokenizer& tokenizer) {
  const json file = parse_json("the tokenizer", tokenizer.to_json());
  Vocabulary v{.model = "gpt2", .pre = gpt2_words, .merges = file["merges"]};
  for (const json& token : file["vocab"])
    v.add(token, tokenizer.has_special(token) ? control : normal);
  return v;
}

Vocabulary vocabulary_of(const HuggingFaceBPE& tokenizer) {
  const json root = parse_json("the tokenizer", tokenizer.to_json());
  Vocabulary v{.model = "gpt2"};
  for (const Form& form : forms())
    if (has_form(root, form)) v.pre = form.pre;
  check(!v.pre.empty(),
        "save_gguf: expected a byte-level tokenizer of the form of Llama 3's, Qwen "
        "2's or SmolLM2's");
  for (const std::string& token : tokenizer.tokens())
    v.add(token, tokenizer.has_special(token)  ? control
                 : tokenizer.added(token) >= 0 ? user_defined
                                               : normal);
  for (const json& merge : root["model"]["merges"])
    v.merges.push_back(merge.is_array() ? std::string(merge[0]) + ' ' + std::string(merge[1])
                                        : std::string(merge));
  return v;
}

std::unique_ptr<Tokenizer> byte_pairs(const Vocabulary& v, const json& first) {
  const auto is_pre = [&](const char* name) { return v.pre == name; };
  if (std::any_of(std::begin(gpt2_names), std::end(gpt2_names), is_pre)) {
    check(first.is_null(), in_ggml("add_bos_token"), ": expected false with the words of GPT-2");
    return std::make_unique<BPETokenizer>(TokenizerFile{json{{"type", "bpe"},
                                                             {"special", v.of_type(control)},
                                                             {"vocab", v.tokens},
                                                             {"merges", v.merges}}});
  }
  for (const Form& form : forms()) {
    if (v.pre != form.pre) continue;
    json vocab = json::object(), added = json::array(), around;
    for (size_t id = 0; id < v.tokens.size(); ++id)
      if (v.types[id] == normal)
        vocab[v.tokens[id]] = id;
      else
        added.push_back(
            {{"id", id}, {"content", v.tokens[id]}, {"special", v.types[id] != user_defined}});
    if (!first.is_null())
      around = {{"type", "TemplateProcessing"},
                {"single", {{{"SpecialToken", {{"id", first}}}}, {{"Sequence", {{"id", "A"}}}}}}};
    return std::make_unique<HuggingFaceBPE>(
        TokenizerFile{json{{"added_tokens", added},
                           {"normalizer", form.normalizer},
                           {"pre_tokenizer", form.pre_tokenizer},
                           {"post_processor", around},
                           {"decoder", {{"type", "ByteLevel"}}},
                           {"model",
                            {{"type", "BPE"},
                             {"vocab", vocab},
                             {"merges", v.merges},
                             {"ignore_merges", form.ignores_merges}}}}});
  }
  fail(in_ggml("pre"), ": expected \"gpt-2\", \"llama-bpe\", \"qwen2\" or \"smollm\", got ",
       shown(v.pre));
}

Vocabulary vocabulary_of(const Tokenizer& tokenizer) {
  if (const auto* bpe = dynamic_cast<const BPETokenizer*>(&tokenizer)) return vocabulary_of(*bpe);
  if (const auto* form = dynamic_cast<const HuggingFaceBPE*>(&tokenizer))
    return vocabulary_of(*form);
  if (const auto* chars = dynamic_cast<const CharTokenizer*>(&tokenizer))
    return vocabulary_of(*chars);
  fail("save_gguf: expected a tokenizer of characters or byte pairs, got ",
       json_text(parse_json("the tokenizer", tokenizer.to_json()), "type"));
}

/// The token that ends texts. llama.cpp stops at token 11 of byte pairs unless the metadata name
/// another; without an end, that is the byte 0xff, which is not in any UTF-8 text.
int64_t end_token(const Tokenizer& tokenizer) {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "<|im_end|>"})
    if (tokenizer.has_special(name)) return tokenizer.special(name);
  return tokenizer.encode("\xff").back();
}

}  // namespace

void add_gguf_tokenizer(ordered_json& metadata, const Tokenizer* tokenizer, int64_t vocab) {
  if (!tokenizer) {
    metadata[in_ggml("model")] = "no_vocab";
    return;
  }
  const auto* form = dynamic_cast<const HuggingFaceBPE*>(tokenizer);
  const bool is_pieces = form && has_pieces(*form);
  Vocabulary v = is_pieces ? Vocabulary() : vocabulary_of(*tokenizer);
  check(tokenizer->vocab_size() <= vocab, "save_gguf: the model has ", vocab,
        " tokens, the tokenizer ", tokenizer->vocab_size());
  const std::vector<int64_t> begin = tokenizer->begin_ids();
  check(begin.size() <= 1, "save_gguf: expected at most one token before a text, got ",
        begin.size());
  if (is_pieces) return add_gguf_pieces(metadata, *form, vocab);
  while (std::ssize(v.tokens) < vocab)
    v.add("<unused" + std::to_string(v.tokens.size()) + ">", unused);
  metadata[in_ggml("model")] = v.model;
  if (!v.pre.empty()) metadata[in_ggml("pre")] = v.pre;
  metadata[in_ggml("tokens")] = v.tokens;
  metadata[in_ggml("token_type")] = v.types;
  if (tokenizer->has_special("[UNK]"))
    metadata[in_ggml("unknown_token_id")] = tokenizer->special("[UNK]");
  if (v.model != "gpt2") return;
  const int64_t end = end_token(*tokenizer);
  metadata[in_ggml("merges")] = v.merges;
  metadata[in_ggml("bos_token_id")] = begin.empty() ? end : begin[0];
  metadata[in_ggml("eos_token_id")] = end;
  metadata[in_ggml("add_bos_token")] = !begin.empty();
}

// ---- reading ----

namespace {

std::vector<std::string> strings(const ordered_json& metadata, const char* key) {
  const auto found = metadata.find(in_ggml(key));
  std::vector<std::string> all;
  if (found == metadata.end() || !found->is_array())
    fail("metadata \"", in_ggml(key), "\": expected an array of strings");
  for (const auto& one : *found) {
    if (!one.is_string())
      fail("metadata \"", in_ggml(key), "\": expected strings, got ", shown(one));
    all.push_back(one);
  }
  return all;
}

std::vector<int> types_in(const ordered_json& metadata, size_t count,
                          std::initializer_list<int> allowed) {
  const json types = metadata.value(in_ggml("token_type"), ordered_json());
  if (types.is_null()) return std::vector<int>(count, normal);
  if (!types.is_array() || types.size() != count)
    fail("metadata \"", in_ggml("token_type"), "\": expected an array of ", count, " numbers");
  std::vector<int> all;
  for (const json& type : types) {
    if (std::find(allowed.begin(), allowed.end(), type) == allowed.end())
      fail("metadata \"", in_ggml("token_type"), "\": expected one of ", shown(json(allowed)),
           ", got ", shown(type));
    all.push_back(type);
  }
  return all;
}

}  // namespace

json first_token(const ordered_json& metadata, const Vocabulary& v, bool by_default) {
  const json flag = metadata.value(in_ggml("add_bos_token"), ordered_json(by_default));
  if (flag != true) return nullptr;
  const json id = metadata.value(in_ggml("bos_token_id"), ordered_json());
  if (!id.is_number_unsigned() || id >= v.tokens.size())
    fail("metadata \"", in_ggml("bos_token_id"), "\": expected a token, got ", shown(id));
  return v.tokens[id];
}

Vocabulary read_vocabulary(const ordered_json& metadata, int64_t vocab,
                           std::initializer_list<int> allowed) {
  Vocabulary v{.model = metadata.value(in_ggml("model"), "")};
  v.tokens = strings(metadata, "tokens");
  v.types = types_in(metadata, v.tokens.size(), allowed);
  check(std::ssize(v.tokens) == vocab, "metadata \"", in_ggml("tokens"), "\": expected ", vocab,
        " tokens, as \"token_embd.weight\" has rows, got ", v.tokens.size());
  while (!v.types.empty() && v.types.back() == unused) v.types.pop_back(), v.tokens.pop_back();
  return v;
}

std::unique_ptr<Tokenizer> read_gguf_tokenizer(const ordered_json& metadata, int64_t vocab) {
  const json model = metadata.value(in_ggml("model"), ordered_json());
  if (model == "no_vocab") return nullptr;
  if (model != "gpt2" && model != "rwkv" && model != "llama")
    fail("metadata \"", in_ggml("model"), "\": expected \"gpt2\" (byte pairs), \"llama\" ",
         "(SentencePiece), \"rwkv\" (characters) or \"no_vocab\", got ", shown(model));
  for (const char* key : {"add_eos_token", "add_sep_token"})
    if (metadata.value(in_ggml(key), ordered_json(false)) == true)
      fail("metadata \"", in_ggml(key), "\": expected false, because encode() adds no such token");
  try {
    if (model == "llama") return read_gguf_pieces(metadata, vocab);
    Vocabulary v = read_vocabulary(metadata, vocab, {normal, control, user_defined, unused});
    if (model == "rwkv") return characters(v);
    v.merges = strings(metadata, "merges");
    const json pre = metadata.value(in_ggml("pre"), ordered_json("default"));
    v.pre = pre.is_string() ? pre.get<std::string>() : "";
    return byte_pairs(v, first_token(metadata, v, v.pre == "llama-bpe"));
  } catch (const Error& e) {
    const std::string message = e.what();
    if (message.starts_with("metadata")) throw;
    fail("metadata \"tokenizer.ggml\": ", message);
  }
}

}  // namespace gradus::models::internal
