// Tokenizers in the metadata of GGUF files: what is written, what other programs may leave out, and
// what is refused.

#include "gradus/models/folder/gguf/gguf_tokenizer.h"

#include <catch2/catch.hpp>
#include <cstdio>

#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/folder/gguf/gguf_file.h"
#include "tests/models/folder/hugging_face_folders.h"
#include "tests/support/compare.h"

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace gradus::testing::gguf_tokenizer_test {
namespace {

using namespace models;
using Metadata = nlohmann::ordered_json;
using Ids = std::vector<int64_t>;

/// The metadata as a file gives them back.
Metadata through_file(const Metadata& metadata) {
  const TemporaryFolder folder;
  models::internal::write_gguf(folder / "x.gguf", {metadata, {}}, GgufType::f32,
                               [](const std::string&) { return false; });
  return models::internal::read_gguf(folder / "x.gguf").metadata;
}

Metadata metadata_of(const Tokenizer& tokenizer, int64_t vocab) {
  Metadata metadata = Metadata::object();
  models::internal::add_gguf_tokenizer(metadata, &tokenizer, vocab);
  return through_file(metadata);
}

/// Reads the tokenizer with these entries changed, after "tokenizer.ggml."; null removes one.
std::unique_ptr<Tokenizer> read(Metadata metadata, const json& changes = json::object()) {
  const int64_t vocab = std::ssize(metadata["tokenizer.ggml.tokens"]);
  for (const auto& [key, value] : changes.items()) {
    metadata["tokenizer.ggml." + key] = value;
    if (value.is_null()) metadata.erase("tokenizer.ggml." + key);
  }
  return models::internal::read_gguf_tokenizer(metadata, vocab);
}

std::string refused(const Metadata& metadata, const json& changes = json::object()) {
  return error_of([&] { read(metadata, changes); });
}

/// Characters as another program has them, without types of tokens.
Metadata characters(const std::vector<std::string>& tokens) {
  return {{"tokenizer.ggml.model", "rwkv"}, {"tokenizer.ggml.tokens", tokens}};
}

}  // namespace

TEST_CASE("GGUF: characters are escaped, special ones have their type", "[gguf]") {
  const CharTokenizer chars("a \n\\\x7f", {"[UNK]", "[PAD]"});
  const Metadata metadata = metadata_of(chars, 9);
  const auto written = [&](const std::string& c) -> std::string {
    return metadata["tokenizer.ggml.tokens"][static_cast<size_t>(chars.encode(c)[0])];
  };
  CHECK(written("a") == "a");
  CHECK(written(" ") == " ");
  CHECK(written("\n") == "\\x0a");
  CHECK(written("\\") == "\\\\");
  CHECK(written("\x7f") == "\\x7f");
  CHECK(metadata["tokenizer.ggml.token_type"] == Metadata{3, 3, 1, 1, 1, 1, 1, 5, 5});
  CHECK(metadata["tokenizer.ggml.unknown_token_id"] == 0);
  CHECK(read(metadata)->to_json() == chars.to_json());
}

TEST_CASE("GGUF: characters of other programs", "[gguf]") {
  const auto tokenizer = read(characters({"\\t", "\\r", "\\x41", "\\q", "\\\\"}));
  CHECK(tokenizer->encode("A\r\tq\\") == Ids{2, 1, 0, 3, 4});
  const auto refused_token = [](const char* token) { return refused(characters({token})); };
  CHECK_THAT(refused_token("a\\"), Contains("expected a character after the last \\ of \"a"));
  for (const char* token : {"\\x4g", "\\xg4", "\\x4", "\\x"})
    CHECK_THAT(refused_token(token), Contains("expected two digits of 0 to f after \\x in "));
  CHECK(read(characters({"[UNK]", "a"}), {{"token_type", {3, 1}}})->vocab_size() == 2);
  CHECK_THAT(refused(characters({"a", "[UNK]"}), {{"token_type", {1, 3}}}),
             EndsWith("expected special tokens before the characters, got \"[UNK]\""));
}

TEST_CASE("GGUF: metadata of another type than a tokenizer's are refused by their key", "[gguf]") {
  const Metadata two = characters({"a", "b"});
  CHECK(refused(two) == "");
  const std::string tokens = "metadata \"tokenizer.ggml.tokens\": ",
                    types = "metadata \"tokenizer.ggml.token_type\": ";
  CHECK(refused(two, {{"tokens", nullptr}}) == tokens + "expected an array of strings");
  CHECK(refused(two, {{"tokens", "a"}}) == tokens + "expected an array of strings");
  CHECK(refused(two, {{"tokens", {"a", 1}}}) == tokens + "expected strings, got 1");
  CHECK(refused(two, {{"tokens", {"a"}}}) ==
        tokens + "expected 2 tokens, as \"token_embd.weight\" has rows, got 1");
  CHECK(refused(two, {{"token_type", 1}}) == types + "expected an array of 2 numbers");
  CHECK(refused(two, {{"token_type", {1}}}) == types + "expected an array of 2 numbers");
  CHECK(refused(two, {{"token_type", {1, 6}}}) == types + "expected one of [1,3,4,5], got 6");
}

TEST_CASE("GGUF: byte pairs whose metadata say less, or what does not fit", "[gguf]") {
  const auto llama3 = load_tokenizer(all_folders + "llama3"),
             gpt2 = load_tokenizer(all_folders + "gpt2");
  const Metadata form = metadata_of(*llama3, llama3->vocab_size()),
                 words = metadata_of(*gpt2, gpt2->vocab_size());
  const std::string begin = "metadata \"tokenizer.ggml.bos_token_id\": expected a token, got ";
  // Texts begin with a token by default with Llama 3's words, but not with GPT-2's.
  CHECK(read(form, {{"add_bos_token", nullptr}})->begin_ids() == llama3->begin_ids());
  CHECK(read(form, {{"add_bos_token", false}})->begin_ids().empty());
  CHECK(read(words, {{"add_bos_token", nullptr}})->begin_ids().empty());
  CHECK_THAT(refused(words, {{"add_bos_token", true}}),
             EndsWith("add_bos_token: expected false with the words of GPT-2"));
  for (const char* key : {"add_eos_token", "add_sep_token"}) {
    CHECK(read(form, {{key, false}})->begin_ids() == llama3->begin_ids());
    CHECK(refused(form, {{key, true}}) ==
          std::string("metadata \"tokenizer.ggml.") + key +
              "\": expected false, because encode() adds no such token");
  }
  CHECK(refused(form, {{"bos_token_id", nullptr}}) == begin + "null");
  CHECK(refused(form, {{"bos_token_id", "x"}}) == begin + "\"x\"");
  const auto size = static_cast<uint64_t>(llama3->vocab_size());
  CHECK(refused(form, {{"bos_token_id", size}}) == begin + std::to_string(size));
  CHECK_THAT(refused(words, {{"pre", nullptr}}), EndsWith("got \"default\""));
  CHECK_THAT(refused(words, {{"pre", 3}}), EndsWith("got \"\""));
  CHECK(refused(words, {{"merges", nullptr}}) ==
        "metadata \"tokenizer.ggml.merges\": expected an array of strings");
}

TEST_CASE("GGUF: the tokens that begin and end texts of byte pairs", "[gguf]") {
  const auto check = [](const Tokenizer& tokenizer, const char* bos, const char* eos, bool begins) {
    CAPTURE(bos, eos);
    const Metadata got = metadata_of(tokenizer, tokenizer.vocab_size());
    CHECK(got["tokenizer.ggml.bos_token_id"] == tokenizer.special(bos));
    CHECK(got["tokenizer.ggml.eos_token_id"] == tokenizer.special(eos));
    CHECK(got["tokenizer.ggml.add_bos_token"] == begins);
  };
  check(*load_tokenizer(all_folders + "llama3"), "<|begin_of_text|>", "<|end_of_text|>", true);
  for (const char* name : {"qwen2", "smollm2"})
    check(*load_tokenizer(all_folders + name), "<|endoftext|>", "<|endoftext|>", false);
  const auto chat =
      BPETokenizer::train("abab", {.vocab_size = 259, .special = {"<|im_start|>", "<|im_end|>"}});
  check(chat, "<|im_end|>", "<|im_end|>", false);
}

TEST_CASE("GGUF: no text holds an unused token, also if it is not the last", "[gguf]") {
  const auto llama3 = load_tokenizer(all_folders + "llama3");
  Metadata metadata = metadata_of(*llama3, llama3->vocab_size());
  const std::string unused = "<|reserved|>";
  for (const auto& [token, type] : {std::pair{unused, 5}, {"<|last|>", 3}}) {
    metadata["tokenizer.ggml.tokens"].push_back(token);
    metadata["tokenizer.ggml.token_type"].push_back(type);
  }
  const auto tokenizer = read(metadata);
  CHECK(tokenizer->special(unused) == llama3->vocab_size());
  CHECK(tokenizer->encode(unused) == llama3->encode(unused));
}

TEST_CASE("GGUF: all names of GPT-2's words stand for them", "[gguf]") {
  const auto gpt2 = load_tokenizer(all_folders + "gpt2"),
             qwen2 = load_tokenizer(all_folders + "qwen2");
  const Metadata words = metadata_of(*gpt2, gpt2->vocab_size());
  for (const char* name : {"gpt-2", "olmo", "mpt", "jais", "trillion"})
    CHECK(read(words, {{"pre", name}})->to_json() == gpt2->to_json());
  // With the words of Qwen, as with GPT-2's, no token begins a text unless the file says so.
  const Metadata form = metadata_of(*qwen2, qwen2->vocab_size());
  CHECK(read(form, {{"add_bos_token", nullptr}})->begin_ids().empty());
  CHECK(read(form, {{"add_bos_token", true}})->begin_ids() == Ids{qwen2->special("<|endoftext|>")});
}

TEST_CASE("GGUF: a tokenizer.json of a form that llama.cpp lacks is refused", "[gguf]") {
  const auto saved = [](const std::string& name, const char* pointer, const json& value) {
    const TemporaryFolder folder;
    json file = json_in(all_folders + name + "/tokenizer.json");
    file[json::json_pointer(pointer)] = value;
    write_file_atomically(folder / "tokenizer.json", file.dump());
    const auto tokenizer = load_tokenizer(folder / "tokenizer.json");
    return error_of([&] { metadata_of(*tokenizer, tokenizer->vocab_size()); });
  };
  const std::string refusal = "save_gguf: expected a byte-level tokenizer of the form of ";
  CHECK_THAT(saved("llama3", "/model/ignore_merges", false), Contains(refusal));
  CHECK_THAT(saved("qwen2", "/normalizer", nullptr), Contains(refusal));
  CHECK_THAT(saved("qwen2", "/model/ignore_merges", true), Contains(refusal));
  CHECK_THAT(saved("smollm2", "/normalizer", {{"type", "NFC"}}), Contains(refusal));
  CHECK_THAT(saved("smollm2", "/model/ignore_merges", true), Contains(refusal));
  CHECK(saved("smollm2", "/model/ignore_merges", false) == "");
}

namespace {

/// Pieces of a, b and c as in SentencePiece. "bc" has the smaller id, "ab" the higher score.
Metadata pieces() {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<int> types{2, 3, 3};
  const auto add = [&](const std::string& token, int type) {
    tokens.push_back(token);
    types.push_back(type);
  };
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    add(name, 6);
  }
  for (const char* token : {"\xe2\x96\x81", "a", "b", "c", "bc", "ab"})
    add(token, 1);  // 259 to 264
  add("<tool>", 4);
  std::vector<double> scores(tokens.size(), 0.0);
  for (size_t id = 259; id < 263; ++id) scores[id] = -2;  // characters, which no merge makes
  scores[263] = -1;                                       // bc
  return {{"tokenizer.ggml.model", "llama"},
          {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.scores", scores},
          {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.bos_token_id", 1u}};
}

}  // namespace

TEST_CASE("GGUF: pieces are merged by score, then by id", "[gguf]") {
  constexpr int64_t space = 259, a = 260, c = 262, bc = 263, ab = 264, tool = 265;
  const auto tokenizer = read(pieces());
  CHECK(tokenizer->begin_ids() == Ids{1});
  CHECK(tokenizer->encode("abc") == Ids{space, ab, c});
  CHECK(tokenizer->encode("a<tool>")[2] == tool);
  CHECK_FALSE(tokenizer->has_special("<tool>"));
  CHECK(tokenizer->has_special("<unk>"));
  CHECK(json::parse(tokenizer->to_json())["model"]["unk_token"] == "<unk>");
  json scores = pieces()["tokenizer.ggml.scores"];
  scores[ab] = -1;
  CHECK(read(pieces(), {{"scores", scores}})->encode("abc") == Ids{space, a, bc});
  scores[ab] = -1.5;
  CHECK(read(pieces(), {{"scores", scores}})->encode("abc") == Ids{space, a, bc});
  CHECK(read(pieces(), {{"add_space_prefix", false}})->encode("abc") == Ids{ab, c});
  CHECK(read(pieces(), {{"add_space_prefix", true}})->encode("abc") == Ids{space, ab, c});
  CHECK(read(pieces(), {{"add_bos_token", false}})->begin_ids().empty());
}

TEST_CASE("GGUF: pieces are written as they were read", "[gguf]") {
  const auto tokenizer = read(pieces());
  const Metadata got = metadata_of(*tokenizer, tokenizer->vocab_size() + 1), want = pieces();
  auto tokens = want["tokenizer.ggml.tokens"], types = want["tokenizer.ggml.token_type"],
       scores = want["tokenizer.ggml.scores"];
  tokens.push_back("<unused266>");
  types.push_back(5);
  scores.push_back(0);
  CHECK(got["tokenizer.ggml.tokens"] == tokens);
  CHECK(got["tokenizer.ggml.token_type"] == types);
  CHECK(got["tokenizer.ggml.scores"] == scores);
  CHECK(got["tokenizer.ggml.bos_token_id"] == 1);
  CHECK(got["tokenizer.ggml.eos_token_id"] == 2);
  CHECK(got["tokenizer.ggml.unknown_token_id"] == 0);
  CHECK(got["tokenizer.ggml.add_bos_token"] == true);
  CHECK(got["tokenizer.ggml.add_space_prefix"] == true);
}

TEST_CASE("GGUF: whether a space precedes each text, from the parts of a Sequence", "[gguf]") {
  const TemporaryFolder folder;
  json file = json::parse(read(pieces(), {{"add_space_prefix", false}})->to_json());
  const auto adds_space = [&] {
    write_file_atomically(folder / "tokenizer.json", file.dump());
    const auto tokenizer = load_tokenizer(folder / "tokenizer.json");
    const Metadata metadata = metadata_of(*tokenizer, tokenizer->vocab_size());
    CHECK(read(metadata)->encode("abc") == tokenizer->encode("abc"));
    return metadata["tokenizer.ggml.add_space_prefix"].get<bool>();
  };
  CHECK_FALSE(adds_space());
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array()}};
  CHECK_FALSE(adds_space());
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", json::array({file["pre_tokenizer"]})}};
  CHECK_FALSE(adds_space());
  file["pre_tokenizer"]["pretokenizers"][0]["prepend_scheme"] = "first";
  CHECK_THAT(error_of(adds_space), Contains("puts a space before some texts only"));
  file = json::parse(read(pieces(), {{"add_space_prefix", true}})->to_json());
  CHECK(adds_space());
}

TEST_CASE("GGUF: pieces with other scores or too long a token are refused", "[gguf]") {
  const Metadata good = pieces();
  const std::string scores =
      "metadata \"tokenizer.ggml.scores\": expected an array of 266 finite numbers";
  CHECK(refused(good, {{"scores", nullptr}}) == scores);
  CHECK(refused(good, {{"scores", {1, 2}}}) == scores);
  CHECK(refused(good, {{"scores", std::vector<std::string>(266, "x")}}) == scores);
  for (const double bad : {NAN, INFINITY}) {
    std::vector<double> some(266);
    some[9] = bad;
    CHECK(refused(good, {{"scores", some}}) == scores);
  }
  json tokens = good["tokenizer.ggml.tokens"];
  tokens[264] = std::string(1024, 'x');
  CHECK(refused(good, {{"tokens", tokens}}) == "");
  tokens[264] = std::string(1025, 'x');
  CHECK(refused(good, {{"tokens", tokens}}) ==
        "metadata \"tokenizer.ggml.tokens\": expected at most 1024 bytes, got 1025");
  CHECK(refused(good, {{"bos_token_id", nullptr}}) ==  // needed by default
        "metadata \"tokenizer.ggml.bos_token_id\": expected a token, got null");
}

}  // namespace gradus::testing::gguf_tokenizer_test
