// WordPiece: the plain Python of tests/golden/scripts/make_hugging_face.py, intact and damaged
// files, and the tokenizers of Hugging Face folders.

#include "gradus/models/data/tokenizers/wordpiece_tokenizer.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/data/tokenizers/utf8.h"
#include "tests/support/damaged_files.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace wordpiece_tokenizer_test {

using namespace gradus;
using Catch::Matchers::Contains;
using models::WordPieceTokenizer;
using nlohmann::json;
using Ids = std::vector<int64_t>;

namespace {

const std::string folders = gradus::testing::source_path("tests/golden/hugging_face/");

WordPieceTokenizer golden_vocab(const models::WordPieceOptions& options = {}) {
  return WordPieceTokenizer::load_vocab(folders + "bert/vocab.txt", options);
}

void check_same(const models::Tokenizer& a, const models::Tokenizer& b) {
  REQUIRE(a.vocab_size() == b.vocab_size());
  CHECK(a.special_tokens() == b.special_tokens());
  for (int64_t id = 0; id < a.vocab_size(); ++id) {
    CHECK(a.decode({id}) == b.decode({id}));
    CHECK(a.is_special(id) == b.is_special(id));
  }
  for (const char* text : {"The cat sat; whichever HATS rained \xc3\x89 1999!", "\n\n x  y"})
    CHECK(a.encode(text) == b.encode(text));
}

/// {"token": id, ...}
json ids_of(const models::Tokenizer& tokenizer) {
  json ids = json::object();
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id) ids[tokenizer.decode({id})] = id;
  return ids;
}

/// A folder with a tokenizer.json.
struct JsonFolder {
  TemporaryFolder folder{};
  const std::string path = folder / "tokenizer.json";
  json good{};

  std::unique_ptr<models::Tokenizer> load(const json& file) const {
    write_file_atomically(path, file.dump());
    return models::load_tokenizer(folder.path.string());
  }
  /// Checks that the good file with one value changed is refused.
  void refused(const char* pointer, const json& value, const std::string& message) const {
    json bad = good;
    bad[json::json_pointer(pointer)] = value;
    CHECK_THROWS_WITH(load(bad), Contains(path + ": ") && Contains(message));
  }
  /// Loads the tokenizer with these settings next to it.
  std::unique_ptr<models::Tokenizer> with_settings(const json& settings) const {
    write_file_atomically(folder / "tokenizer_config.json", settings.dump());
    return models::load_tokenizer(folder.path.string());
  }
  void refused_settings(const json& settings, const std::string& message) const {
    CAPTURE(settings.dump());
    CHECK_THROWS_WITH(with_settings(settings),
                      Contains(folder / "tokenizer_config.json" + ": " + message));
  }
};

/// GPT-2's tokenizer in a tokenizer.json.
JsonFolder gpt2_json() {
  const auto gpt2 = models::load_tokenizer(folders + "gpt2");
  const json ours = json::parse(gpt2->to_json());
  json ids = json::object(), pairs = json::array();
  for (size_t i = 0; i + 1 < ours["vocab"].size(); ++i)
    ids[ours["vocab"][i].get<std::string>()] = i;
  for (const std::string merge : ours["merges"])
    pairs.push_back({merge.substr(0, merge.find(' ')), merge.substr(merge.find(' ') + 1)});
  return JsonFolder{
      .good = {
          {"version", "1.0"},
          {"truncation", nullptr},
          {"added_tokens", {{{"id", 292}, {"content", "<|endoftext|>"}, {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"unk_token", nullptr}, {"vocab", ids}, {"merges", pairs}}}}};
}

/// BERT's tokenizer in a tokenizer.json.
JsonFolder bert_json() {
  const auto bert = golden_vocab();
  json added = json::array();
  for (const std::string& name : bert.special_tokens())
    added.push_back({{"id", bert.special(name)}, {"content", name}, {"special", true}});
  return JsonFolder{.good = {{"added_tokens", added},
                             {"normalizer",
                              {{"type", "BertNormalizer"},
                               {"clean_text", true},
                               {"handle_chinese_chars", true},
                               {"strip_accents", nullptr},
                               {"lowercase", true}}},
                             {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                             {"model",
                              {{"type", "WordPiece"},
                               {"unk_token", "[UNK]"},
                               {"continuing_subword_prefix", "##"},
                               {"max_input_chars_per_word", 100},
                               {"vocab", ids_of(bert)}}}}};
}

}  // namespace

TEST_CASE("WordPiece: ids equal those of BERT's rules in plain Python", "[wordpiece]") {
  const auto uncased = golden_vocab();
  const auto cased = golden_vocab({.lower_case = false, .strip_accents = false});
  const json cases = json::parse(read_file(folders + "wordpiece.json"));
  REQUIRE(cases.size() > 15);
  for (const json& one : cases) {
    const std::string text = one["text"];
    CAPTURE(text);
    CHECK(uncased.encode(text) == one["uncased"].get<Ids>());
    CHECK(cased.encode(text) == one["cased"].get<Ids>());
  }
}

TEST_CASE("WordPiece: an example by hand", "[wordpiece]") {
  const WordPieceTokenizer tokenizer({"[UNK]", "un", "##aff", "##able", "a", "##b", "##ab", "!"});
  CHECK(tokenizer.encode("Unaffable") == Ids{1, 2, 3});
  CHECK(tokenizer.encode("aab!") == Ids{4, 6, 7});  // the longest piece first: not a ##a
  CHECK(tokenizer.encode("unx [UNK]") == Ids{0, 0, 0, 0});
  CHECK(tokenizer.count_unknown(tokenizer.encode("unx a")) == 1);
  CHECK(tokenizer.decode({1, 2, 3, 4, 7, 0}) == "unaffable a ! [UNK]");
  CHECK(tokenizer.decode({3, 3}) == "##ableable");
  CHECK(tokenizer.special_tokens() == std::vector<std::string>{"[UNK]"});
  CHECK_THROWS_WITH(tokenizer.decode({8}), Contains("expected ids from 0 to 7, got 8"));
  CHECK_THROWS_WITH(tokenizer.encode("a\xff"), Contains("encode: expected UTF-8"));
  const WordPieceTokenizer without({"a", "##b"});
  CHECK_THROWS_WITH(without.encode("ab ac"), Contains("encode: word \"ac\" cannot be split"));
  CHECK_THROWS_WITH(WordPieceTokenizer({"a", "b", "a"}),
                    Contains("\"a\" is in the vocabulary twice"));
  CHECK_THROWS_WITH(WordPieceTokenizer({"[UNK]", "[UNK]"}),
                    Contains("\"[UNK]\" is in the vocabulary twice"));
  CHECK_THROWS_WITH(WordPieceTokenizer({"a", ""}), Contains("piece 1 is empty"));
  CHECK_THROWS_WITH(WordPieceTokenizer(std::vector<std::string>{}), Contains("got none"));
  CHECK_THROWS_WITH(WordPieceTokenizer(std::vector<std::string>{"\xff"}),
                    Contains("expected UTF-8"));
}

TEST_CASE("WordPiece: a saved tokenizer loads unchanged, and damaged files are refused or valid",
          "[wordpiece]") {
  TemporaryFolder folder;
  const std::string path = folder / "tokenizer.json";
  const auto tokenizer = golden_vocab({.lower_case = false, .strip_accents = true});
  tokenizer.save(path);
  const auto loaded = WordPieceTokenizer::load(path);
  CHECK_FALSE(loaded.options().lower_case);
  CHECK(loaded.options().strip_accents);
  check_same(tokenizer, loaded);
  check_same(tokenizer, *models::load_tokenizer(path));
  tokenizer.save_vocab(folder / "vocab.txt");
  CHECK(read_file(folder / "vocab.txt") == read_file(folders + "bert/vocab.txt"));

  for (const char* piece : {"a\nb", "a\r"})
    CHECK_THROWS_WITH(
        WordPieceTokenizer(std::vector<std::string>{piece}).save_vocab(folder / "vocab.txt"),
        Contains("vocab.txt: a piece with a line break"));
  CHECK(WordPieceTokenizer({"a", "##"}).decode({0, 1}) == "a ##");
  json file = json::parse(tokenizer.to_json());
  auto error = [&](const char* key, const json& value) {
    json bad = file;
    bad[key] = value;
    write_file_atomically(path, bad.dump());
    CHECK_THROWS_WITH(WordPieceTokenizer::load(path), Contains(path + ": ") && Contains(key));
  };
  for (const char* key : {"lower_case", "strip_accents", "split_cjk"}) error(key, 1);
  error("special", {"[UNK]", 7});
  file["special"] = {"[UNK]", "[NONE]"};
  write_file_atomically(path, file.dump());
  CHECK_THROWS_WITH(WordPieceTokenizer::load(path), Contains("\"[NONE]\""));

  const WordPieceTokenizer small({"[PAD]", "[UNK]", "a", "##b", "\xc3\xa9"});
  small.save(path);
  CHECK(count_taken(path, [&] {
          const auto other = models::load_tokenizer(path);
          if (other->vocab_size() != 5) FAIL_CHECK("a damaged tokenizer was read as another");
        }) > 0);
  small.save_vocab(path);
  CHECK(count_taken(path, [&] { WordPieceTokenizer::load_vocab(path); }) > 0);
}

TEST_CASE("Hugging Face: finding the tokenizer of a folder", "[wordpiece]") {
  TemporaryFolder folder;
  const std::string dir = folder.path.string();
  CHECK_THROWS_WITH(models::load_tokenizer(dir),
                    Contains(dir + ": expected a tokenizer: tokenizer.json, vocab.json"));
  write_file_atomically(folder / "vocab.json", "{}");  // without merges.txt
  CHECK_THROWS_WITH(models::load_tokenizer(dir), Contains(dir + ": expected a tokenizer: "));
  std::filesystem::remove(folder / "vocab.json");
  const auto uncased = models::load_tokenizer(folders + "bert");
  CHECK(uncased->encode("HELLO") == golden_vocab().encode("hello"));
  std::filesystem::copy(folders + "bert/vocab.txt", folder / "vocab.txt");
  write_file_atomically(folder / "tokenizer_config.json", R"({"do_lower_case": false})");
  CHECK(models::load_tokenizer(dir)->encode("HELLO") != uncased->encode("hello"));
  write_file_atomically(folder / "tokenizer_config.json", R"({"do_lower_case": 1})");
  CHECK_THROWS_WITH(models::load_tokenizer(dir),
                    Contains("tokenizer_config.json: do_lower_case: expected true or false"));

  const auto gpt2 = models::load_tokenizer(folders + "gpt2");
  CHECK(gpt2->special("<|endoftext|>") == 292);
  CHECK(gpt2->decode(gpt2->encode("the cat \xff")) == "the cat \xff");
}

TEST_CASE("Hugging Face: a tokenizer.json of BPE equals vocab.json and merges.txt", "[wordpiece]") {
  const auto gpt2 = models::load_tokenizer(folders + "gpt2");
  const JsonFolder files = gpt2_json();
  check_same(*files.load(files.good), *gpt2);
  json old = files.good;  // the oldest format
  old["model"].erase("type");
  old["model"]["merges"] = json::parse(gpt2->to_json())["merges"];
  check_same(*files.load(old), *gpt2);
  json usual = files.good;  // the format of gpt2's own file
  usual["model"]["dropout"] = 0.0;
  usual["post_processor"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  check_same(*files.load(usual), *gpt2);
  files.load(files.good);
  files.refused_settings({{"add_prefix_space", true}}, "add_prefix_space: expected false");
  files.refused_settings({{"add_bos_token", true}}, "add_bos_token: expected false");
}

TEST_CASE("Hugging Face: a tokenizer.json of an unsupported BPE is refused", "[wordpiece]") {
  const JsonFolder files = gpt2_json();
  files.refused("/model/type", "Unigram", "expected \"BPE\" or \"WordPiece\", got \"Unigram\"");
  files.refused("/normalizer", {{"type", "NFC"}}, "normalizer: expected none");
  files.refused("/pre_tokenizer/type", "Whitespace", "pre_tokenizer.type: expected \"ByteLevel\"");
  files.refused("/pre_tokenizer/add_prefix_space", true,
                "add_prefix_space: expected false, got true");
  files.refused("/pre_tokenizer", nullptr, "got null");
  files.refused("/model/byte_fallback", true, "model.byte_fallback: expected false");
  files.refused("/model/vocab", json::array(), "model.vocab: expected an object");
  for (const int64_t id : {-1, 293, 9999})
    files.refused("/model/vocab/a", id, "expected ids from 0 to 292");
  files.refused("/model/merges", "a b", "model.merges: expected an array");
  files.refused("/model/merges/0", 7, "model.merges: expected two tokens, got 7");
  for (const json& merge : {json::array({"a"}), json::array({"a", 7}), json::array({7, "a"}),
                            json::array({"a", "b", "c"})})
    files.refused("/model/merges/0", merge, "expected two tokens, got " + merge.dump());
  files.refused("/model/merges/0", {"a", "\xc3\xbf\xc3\xbf"}, "merge 0 ");
  files.refused("/added_tokens/0/id", 5, "model.vocab: id 5 stands for");
  files.refused("/added_tokens/0/content", "a", "\"a\" has the id 292, in model.vocab");
  files.refused("/added_tokens/0/id", "x", "expected tokens with id and content");
  files.refused("/added_tokens/0/content", 7, "expected tokens with id and content");
  files.refused("/added_tokens", 4, "added_tokens: expected an array");
  files.refused("/added_tokens/0/special", false,
                "added_tokens: expected special tokens, got \"<|endof");
  for (const std::string key : {"single_word", "lstrip", "rstrip"}) {
    const std::string pointer = "/added_tokens/0/" + key;
    files.refused(pointer.c_str(), true, "added_tokens." + key + ": expected false, got true");
  }
  files.refused("/model/dropout", 0.5, "model.dropout: expected 0, got 0.5");
  const json end = {{"SpecialToken", {{"id", "<|endoftext|>"}}}},
             text = {{"Sequence", {{"id", "A"}}}},
             adds = {{"type", "TemplateProcessing"}, {"single", {end, text}}};
  files.refused("/post_processor", adds,
                R"(post_processor: expected none that adds tokens, got "<|endoftext|> A")");
  files.refused("/post_processor",
                {{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, adds}}},
                "<|endoftext|> A");
  for (const json& sep : {json(), json("</s>"), json::array(), json::array({7})})
    files.refused("/post_processor",
                  {{"type", "RobertaProcessing"}, {"cls", {"<s>", 0}}, {"sep", sep}}, "<s> A ?");
  files.refused("/post_processor/type", "TemplateProcessing", R"(got "TemplateProcessing")");
  files.refused("/post_processor/type", 7, "got \"7\"");
  files.refused("/post_processor", {{"type", "Other"}, {"single", {end, text}}}, R"(got "Other")");
}

TEST_CASE("Hugging Face: a tokenizer.json of WordPiece equals vocab.txt", "[wordpiece]") {
  const auto bert = golden_vocab();
  const JsonFolder files = bert_json();
  check_same(*files.load(files.good), bert);
  json cased = files.good;
  cased["normalizer"]["lowercase"] = false;
  CHECK(files.load(cased)->encode("\xc3\x89t\xc3\xa9") ==
        golden_vocab({.lower_case = false, .strip_accents = false}).encode("\xc3\x89t\xc3\xa9"));
  json old = files.good;  // the oldest format
  old["model"].erase("type");
  check_same(*files.load(old), bert);
  json brief = files.good;  // without entries equal to the defaults
  for (const char* key : {"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"})
    brief["normalizer"].erase(key);
  const auto usual_options = files.load(brief);
  const auto& options = dynamic_cast<const WordPieceTokenizer&>(*usual_options).options();
  CHECK((options.lower_case && options.strip_accents && options.split_cjk));
  files.refused("/model/type", "Unigram", "expected \"BPE\" or \"WordPiece\", got \"Unigram\"");
  files.refused("/normalizer/type", "Sequence", "normalizer.type: expected \"BertNormalizer\"");
  files.refused("/normalizer/clean_text", false, "normalizer.clean_text: expected true, got false");
  files.refused("/normalizer/lowercase", "yes", "normalizer.lowercase: expected true or false");
  files.refused("/model/unk_token", "<unk>", "model.unk_token: expected \"[UNK]\"");
  files.refused("/model/continuing_subword_prefix", "@@", "expected \"##\"");
  auto special = [](const char* name) { return json{{"SpecialToken", {{"id", name}}}}; };
  const json text = {{"Sequence", {{"id", "A"}}}};
  json usual = files.good;  // the format of bert-base-uncased's own file
  usual["post_processor"] = {{"type", "TemplateProcessing"},
                             {"single", {special("[CLS]"), text, special("[SEP]")}}};
  check_same(*files.load(usual), bert);
  usual["post_processor"] = {
      {"type", "BertProcessing"}, {"cls", {"[CLS]", 3}}, {"sep", {"[SEP]", 4}}};
  check_same(*files.load(usual), bert);
  files.refused("/post_processor",
                {{"type", "TemplateProcessing"}, {"single", {text, special("[SEP]")}}},
                R"(post_processor: expected "[CLS] A [SEP]", got "A [SEP]")");
  const json twice = {{"type", "Sequence"},
                      {"processors", {usual["post_processor"], usual["post_processor"]}}};
  files.refused("/post_processor", twice, R"(got "[CLS] A [SEP], [CLS] A [SEP]")");
  files.load(files.good);
  check_same(*files.with_settings({{"do_lower_case", true}, {"tokenizer_class", "BertTokenizer"}}),
             bert);
  files.refused_settings({{"do_lower_case", false}}, "do_lower_case: expected true, got false");
  files.refused_settings({{"strip_accents", false}}, "strip_accents: expected true, got false");
  files.refused_settings({{"tokenize_chinese_chars", false}},
                         "tokenize_chinese_chars: expected true, got false");
}

namespace {

/// Settings that add a special or ordinary token.
json added(const std::string& id, const char* name, bool special) {
  const json token{{"content", name}, {"special", special}, {"lstrip", false}};
  return json{{"added_tokens_decoder", {{id, token}}}};
}
const std::string not_special =
    "added_tokens_decoder: expected special tokens of the vocabulary and their ids, got ";

}  // namespace

TEST_CASE("Hugging Face: settings next to GPT-2's files are followed or refused", "[wordpiece]") {
  const JsonFolder files;
  const TemporaryFolder& folder = files.folder;
  for (const char* file : {"vocab.json", "merges.txt"})
    std::filesystem::copy(folders + "gpt2/" + file, folder / file);
  // Settings of gpt2 and of newer models.
  CHECK_NOTHROW(files.with_settings({{"model_max_length", 1024}}));
  json newer = added("292", "<|endoftext|>", true);
  newer.update({{"add_prefix_space", false},
                {"add_bos_token", false},
                {"tokenizer_class", "GPT2TokenizerFast"},
                {"errors", "replace"},
                {"bos_token", {{"content", "<|endoftext|>"}, {"__type", "AddedToken"}}}});
  CHECK(files.with_settings(newer)->special_tokens() == std::vector<std::string>{"<|endoftext|>"});
  files.refused_settings(
      {{"tokenizer_class", "CLIPTokenizer"}},
      R"(tokenizer_class: expected "GPT2Tokenizer" or "GPT2TokenizerFast", got "CLIPTokenizer")");
  files.refused_settings({{"add_bos_token", true}}, "add_bos_token: expected false, got true");
  files.refused_settings({{"add_prefix_space", true}},
                         "add_prefix_space: expected false, got true");
  files.refused_settings(added("293", "covid", true), not_special + R"("covid" and 293)");
  files.refused_settings(added("292", "<|endoftext|>", false), not_special);
  files.refused_settings(added("7", "<|endoftext|>", true), not_special);
  write_file_atomically(folder / "added_tokens.json", R"({"<|endoftext|>": 292})");
  CHECK_NOTHROW(files.with_settings(newer));
  write_file_atomically(folder / "added_tokens.json", R"({"covid": 293})");
  CHECK_THROWS_WITH(files.with_settings(newer),
                    Contains(folder / "added_tokens.json" +
                             ": expected special tokens of the vocabulary and their ids, got "));
  std::filesystem::remove(folder / "added_tokens.json");
  write_file_atomically(folder / "config.json", R"({"tokenizer_class": "BertJapaneseTokenizer"})");
  CHECK_NOTHROW(files.with_settings(newer));
  CHECK_THROWS_WITH(files.with_settings(json::object()),
                    Contains(folder / "config.json" + ": tokenizer_class: expected \"GPT2"));
  std::filesystem::remove(folder / "config.json");
}

TEST_CASE("Hugging Face: settings next to a vocab.txt are followed or refused", "[wordpiece]") {
  const JsonFolder files;
  const TemporaryFolder& folder = files.folder;
  std::filesystem::copy(folders + "bert/vocab.txt", folder / "vocab.txt");
  json newer = added("0", "[PAD]", true);
  newer.update({{"do_lower_case", true},
                {"do_basic_tokenize", true},
                {"never_split", nullptr},
                {"strip_accents", nullptr},
                {"unk_token", "[UNK]"},
                {"tokenizer_class", "BertTokenizer"}});
  check_same(*files.with_settings(newer), golden_vocab());
  newer["additional_special_tokens"] = {"[unused0]"};
  CHECK(files.with_settings(newer)->special("[unused0]") == 1);
  CHECK(files.with_settings(added("1", "[unused0]", true))->special("[unused0]") == 1);
  const auto plain = files.with_settings(json::object());
  CHECK(dynamic_cast<const WordPieceTokenizer&>(*plain).options().split_cjk);
  files.refused_settings({{"tokenizer_class", "BertJapaneseTokenizer"}},
                         "tokenizer_class: expected \"BertTok");
  files.refused_settings({{"do_basic_tokenize", false}},
                         "do_basic_tokenize: expected true, got false");
  files.refused_settings({{"never_split", {"a-b"}}}, R"(never_split: expected [], got ["a-b"])");
  files.refused_settings({{"unk_token", "<unk>"}}, R"(unk_token: expected "[UNK]", got "<unk>")");
  files.refused_settings(added("9999", "covid", true), not_special);
  files.refused_settings(added("6", "the", false), not_special);
}

TEST_CASE("Unicode: accents, categories and Hangul", "[wordpiece]") {
  using models::internal::Category, models::internal::category_of,
      models::internal::without_accents;
  CHECK(without_accents(U'e') == U"e");
  CHECK(without_accents(0xe9) == U"e");
  CHECK(without_accents(0x1ec7) == U"e");  // two accents
  CHECK(without_accents(0x301).empty());
  CHECK(without_accents(0x304c) == U"\x304b");
  CHECK(without_accents(0xac00) == U"\x1100\x1161");
  CHECK(without_accents(0xd7a3) == U"\x1112\x1175\x11c2");
  CHECK(without_accents(0x1f600) == U"\x1f600");
  CHECK(without_accents(0x9cb) == U"\x9c7\x9be");  // decomposes into two letters
  CHECK(without_accents(0xddd) == U"\xdd9\xdcf");  // and an accent
  CHECK(without_accents(0xf900) == U"\x8c48");
  CHECK(without_accents(0x2fa1d) == U"\x2a600");
  CHECK(without_accents(0x110ab) == U"\x110a5");
  CHECK(category_of(0x2014) == Category::punctuation);
  CHECK(category_of(0x20ac) == Category::symbol);
  CHECK(category_of(0xad) == Category::control);
  CHECK(category_of(0x903) == Category::mark);
  CHECK(category_of(0x10ffff) == Category::unassigned);
}

TEST_CASE("Unicode: lower case and decomposition of every character match Python's",
          "[wordpiece]") {
  const json ranges = json::parse(read_file(folders + "unicode.json"));
  REQUIRE(ranges.size() > 700);
  auto hash = [](const json& range, auto&& text_of) {  // FNV-1a
    uint32_t h = 0x811c9dc5;
    for (uint32_t c = range[0]; c <= range[1].get<uint32_t>(); ++c) {
      std::string bytes;
      for (const char32_t part : text_of(c)) models::internal::append_utf8(bytes, part);
      bytes += '\0';
      for (const char byte : bytes) h = (h ^ static_cast<unsigned char>(byte)) * 0x01000193u;
    }
    return h;
  };
  for (const json& range : ranges) {
    CAPTURE(range.dump());
    CHECK(hash(range, models::internal::without_accents) == range[2]);
    CHECK(hash(range, models::internal::lower_case_text) == range[3]);
  }
}

TEST_CASE("WordPiece: the combining dot that lower-casing U+0130 leaves", "[wordpiece]") {
  const std::vector<std::string> pieces{"[UNK]", "i", "i\xcc\x87", "\xcf\x83", "\xcf\x82"};
  const WordPieceTokenizer kept(pieces, {.strip_accents = false}), bare(pieces);
  CHECK(kept.encode("\xc4\xb0 I") == Ids{2, 1});
  CHECK(bare.encode("\xc4\xb0 I") == Ids{1, 1});
  CHECK(bare.encode("\xce\xa3") == Ids{3});  // no final sigma
}

}  // namespace wordpiece_tokenizer_test
