// Byte pair encodings of Llama's family: token ids and texts as Hugging Face's tokenizers gives
// them (tests/golden/scripts/make_tokenizer_golden.py), files, and refusals by name.

#include "gradus/models/data/tokenizers/hugging_face_bpe.h"

#include <catch2/catch.hpp>

#include "gradus/models/data/tokenizers/bpe.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "tests/models/folder/hugging_face_folders.h"

using Catch::Matchers::Contains;

namespace gradus::testing::hugging_face_bpe_test {
namespace {

const std::vector<std::string> forms{"llama2", "llama3", "mistral", "qwen2", "smollm2"};

std::string file_of(const std::string& form) { return all_folders + form + "/tokenizer.json"; }

std::unique_ptr<models::Tokenizer> tokenizer_of(const json& file) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "tokenizer.json", file.dump());
  return models::load_tokenizer(folder / "tokenizer.json");
}

/// The error of a tokenizer whose entry at `pointer` has another value.
std::string refused(const std::string& form, const std::string& pointer, const json& value) {
  json file = json_in(file_of(form));
  file[json::json_pointer(pointer)] = value;
  try {
    tokenizer_of(file);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("Hugging Face BPE: token ids and texts of Hugging Face's tokenizers", "[tokenizer]") {
  const json cases = json_in(all_folders + "tokenizers.json");
  CHECK(cases.size() >= 200);
  for (const std::string& form : forms) {
    const auto tokenizer = models::load_tokenizer(file_of(form));
    CHECK(dynamic_cast<const models::HuggingFaceBPE*>(tokenizer.get()));
    for (const json& one : cases) {
      CAPTURE(form, one["text"].dump());
      const auto ids = one[form][0].get<std::vector<int64_t>>();
      CHECK(tokenizer->encode_with_special(one["text"]) == ids);
      const json& decoded = one[form].size() == 2 ? one[form][1] : one["text"];
      CHECK(tokenizer->decode(ids) == decoded.get<std::string>());
    }
  }
}

TEST_CASE("Hugging Face BPE: special and added tokens", "[tokenizer]") {
  const auto llama3 = models::load_tokenizer(file_of("llama3"));
  const std::string eot = "<|eot_id|>";
  CHECK(llama3->encode_with_special(eot) == std::vector<int64_t>{llama3->special(eot)});
  CHECK(llama3->encode(eot).size() > 3);  // plain text
  CHECK(llama3->decode(llama3->encode(eot)) == eot);
  CHECK(llama3->begin_ids() == std::vector<int64_t>{llama3->special("<|begin_of_text|>")});
  CHECK(llama3->encode(" untouched").size() == 1);  // ignore_merges

  const auto qwen2 = models::load_tokenizer(file_of("qwen2"));
  CHECK(qwen2->begin_ids().empty());
  CHECK_FALSE(qwen2->has_special("<think>"));
  CHECK(qwen2->encode("<think>").size() == 1);
  const auto& added = dynamic_cast<const models::HuggingFaceBPE&>(*qwen2);
  CHECK(added.added("<think>") == qwen2->encode("<think>")[0]);
  CHECK(added.added("<|im_end|>") == qwen2->special("<|im_end|>"));
  CHECK(added.added("the") == -1);
  CHECK(qwen2->encode("<|im_end|>").size() > 1);
  CHECK(qwen2->encode("e\xcc\x81t\xc3\xa9") == qwen2->encode("\xc3\xa9t\xc3\xa9"));  // NFC
  CHECK(qwen2->encode("e\xcc\x81\xff") == qwen2->encode("\xc3\xa9\xff"));

  const auto mistral = models::load_tokenizer(file_of("mistral"));
  CHECK(mistral->decode(mistral->encode("\xff\x80 a")) == "\xff\x80 a");  // not UTF-8
  CHECK(qwen2->decode(qwen2->encode("\xff\x80 a")) == "\xff\x80 a");
  CHECK_THROWS_WITH(mistral->decode({mistral->vocab_size()}), Contains("expected ids from 0 to"));
}

TEST_CASE("Hugging Face BPE: names of special tokens in a text, the longest first", "[tokenizer]") {
  std::string seen;
  models::internal::split_at_names(
      "ab<s>c<s>><t>", {{"<s>", 1}, {"<s>>", 2}, {"<t>", 3}, {"b<", 4}},
      [&](std::string_view part, bool is_first) {
        seen += '[' + std::string(part) + (is_first ? "!]" : "]");
      },
      [&](int64_t id) { seen += std::to_string(id); });
  CHECK(seen == "[a!]4[s>c]23");
  CHECK(
      models::load_tokenizer(all_folders + "gpt2")->encode_with_special("a<|endoftext|>").size() ==
      2);
}

TEST_CASE("Hugging Face BPE: the words of Llama 3's, Qwen 2's and SmolLM2's rules", "[tokenizer]") {
  using models::internal::WordRule;
  auto words = [](const std::string& text, WordRule rule) {
    std::string all;
    for (size_t at = 0; at < text.size();) {
      const size_t end = models::internal::end_of_word(text, at, rule);
      all += text.substr(at, end - at) + '|';
      at = end;
    }
    return all;
  };
  const std::string text = "I'LL  go 12345 (now).\n\n  x \n y  ";
  CHECK(words(text, WordRule::llama3) == "I|'LL| | go| |123|45| (|now|).\n\n| | x| \n| y|  |");
  CHECK(words(text, WordRule::qwen2) == "I|'LL| | go| |1|2|3|4|5| (|now|).\n\n| | x| \n| y|  |");
  CHECK(words("a  12 b", WordRule::digits) == "a|  |1|2| b|");
  CHECK(words("a  12 b", WordRule::gpt2) == "a| | 12| b|");
  // Up to a number, SmolLM2's words are those of a whole text, whose last spaces are one word.
  for (const auto& [whole, expected] :
       {std::pair{"it's5 don't 7 's8'9", "it|'s|5| don|'t| |7| '|s|8|'|9|"},
        {"a1b 2!!3 ?4", "a|1|b| |2|!!|3| ?|4|"},
        {"  5 \n 6\t7   b  c\n8", "  |5| \n |6|\t|7|  | b| | c|\n|8|"},
        {" \xc3 9\xe4\xb8 1 ", " \xc3| |9|\xe4\xb8| |1| |"},
        {"\u00a0\u0662x\u3000 \u0662\u0663 ", "\u00a0|\u0662|x|\u3000 |\u0662|\u0663| |"}})
    CHECK(words(whole, WordRule::digits) == expected);
}

TEST_CASE("Hugging Face BPE: SmolLM2's rule needs linear time in a text without digits",
          "[tokenizer]") {
  std::string text;  // of 1 MB: a quadratic rule takes a quarter of an hour
  while (text.size() < 1'000'000) text += "b cc ";
  const auto smollm2 = models::load_tokenizer(file_of("smollm2"));
  CHECK((smollm2->decode(smollm2->encode(text)) == text));
}

TEST_CASE("Hugging Face BPE: one pair is merged at a time", "[tokenizer]") {
  json file = json_in(file_of("smollm2"));
  json& model = file["model"];
  int64_t id = 385;  // the first that is free
  for (const char* token : {"ab", "bc", "abc", "abca"}) model["vocab"][token] = id++;
  model["merges"] = {"b c", "a b", "ab c", "abc a", "a bc"};
  // a bc a bc -> abc a bc -> abca bc: "abc a" is merged before the second "a bc".
  CHECK(tokenizer_of(file)->encode("abcabc") == std::vector<int64_t>{388, 386});
}

TEST_CASE("Hugging Face BPE: where a text of characters begins with a space", "[tokenizer]") {
  // Encodes a text, in which "</s>" is a special token, and decodes its tokens.
  auto tokens = [](const char* scheme, const std::string& text) {
    json file = json_in(file_of("mistral"));
    file["pre_tokenizer"]["prepend_scheme"] = scheme;
    file["decoder"]["decoders"].erase(size_t{3});  // keeps a space at the beginning
    const auto tokenizer = tokenizer_of(file);
    return tokenizer->decode(tokenizer->encode_with_special(text));
  };
  CHECK(tokens("always", "a</s>b") == " a</s> b");
  CHECK(tokens("first", "a</s>b") == " a</s>b");
  CHECK(tokens("never", "a</s>b") == "a</s>b");
  for (const char* scheme : {"always", "first", "never"})
    CHECK(tokens(scheme, " a</s> b") == " a</s> b");
}

TEST_CASE("Hugging Face BPE: a text may be cut at white space between two letters", "[tokenizer]") {
  const auto llama3 = models::load_tokenizer(file_of("llama3"));
  CHECK(llama3->may_cut("ab cd", 2));
  CHECK(llama3->may_cut("\u00e9 \u00e9", 2));
  for (const char* text : {"1 a", "a 1", "! a", "a !"}) CHECK_FALSE(llama3->may_cut(text, 1));
  for (const char* form : {"llama3", "qwen2", "smollm2"})
    for (const char* right : {" the", "\tthe", "\nthe", "\rthe"}) {
      const auto tokenizer = models::load_tokenizer(file_of(form));
      const std::string left = "they're the", text = left + right;
      CAPTURE(form, json(text).dump());
      CHECK(tokenizer->may_cut(text, left.size()));
      auto ids = tokenizer->encode(left);
      for (const int64_t id : tokenizer->encode(right)) ids.push_back(id);
      CHECK(tokenizer->encode(text) == ids);
    }
  CHECK_FALSE(llama3->may_cut(" ab", 0));
  CHECK_FALSE(models::load_tokenizer(file_of("mistral"))->may_cut("ab cd", 2));
  json file = json_in(file_of("qwen2"));
  CHECK(tokenizer_of(file)->may_cut("ab cd", 2));
  for (const char* name : {"b c", "b\tc", "b\nc", "b\rc"}) {
    file["added_tokens"][3]["content"] = name;  // an ordinary token
    CHECK_FALSE(tokenizer_of(file)->may_cut("a" + std::string(name) + "d", 2));
  }
}

TEST_CASE("Hugging Face BPE: saved and loaded unchanged", "[tokenizer]") {
  const TemporaryFolder folder;
  const json cases = json_in(all_folders + "tokenizers.json");
  for (const std::string& form : forms) {
    CAPTURE(form);
    models::load_tokenizer(file_of(form))->save(folder / "tokenizer.json");
    CHECK(json_in(folder / "tokenizer.json") == json_in(file_of(form)));
    const auto again = models::load_tokenizer(folder / "tokenizer.json");
    for (const json& one : cases)
      CHECK(again->encode_with_special(one["text"]) == one[form][0].get<std::vector<int64_t>>());
  }
  // Characters are written as they are, as Hugging Face does, not as \u2581.
  CHECK_THAT(models::load_tokenizer(file_of("llama2"))->to_json(), Contains("\"\xe2\x96\x81t"));
}

TEST_CASE("Hugging Face BPE: another form is refused by its entry", "[tokenizer]") {
  CHECK_THAT(refused("llama2", "/normalizer", nullptr),
             Contains("normalizer: expected that of Llama 2 or 3, Mistral, Qwen 2 or SmolLM2"));
  CHECK_THAT(refused("llama3", "/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\s+"),
             Contains("pre_tokenizer.pattern: expected Llama 3's or Qwen 2's, got {\"Regex\""));
  CHECK_THAT(refused("llama3", "/pre_tokenizer/pretokenizers/0/behavior", "Removed"),
             Contains("pre_tokenizer.behavior: expected \"Isolated\", got \"Removed\""));
  CHECK_THAT(refused("llama3", "/pre_tokenizer/pretokenizers/0/invert", true), Contains("invert"));
  CHECK_THAT(refused("llama3", "/pre_tokenizer/pretokenizers/1/use_regex", true),
             Contains("pre_tokenizer.use_regex: expected false"));
  CHECK_THAT(refused("llama3", "/pre_tokenizer/pretokenizers/1/add_prefix_space", true),
             Contains("pre_tokenizer.add_prefix_space: expected false"));
  CHECK_THAT(refused("smollm2", "/pre_tokenizer/pretokenizers/0/individual_digits", false),
             Contains("pre_tokenizer.individual_digits: expected true"));
  CHECK_THAT(refused("qwen2", "/normalizer/type", "NFKC"),
             Contains("normalizer: expected that of"));
  CHECK_THAT(refused("llama2", "/normalizer/normalizers/0/prepend", "_"),
             Contains("normalizer.prepend: expected"));
  CHECK_THAT(refused("llama2", "/normalizer/normalizers/1/pattern/String", "_"),
             Contains("normalizer.pattern: expected {\"String\":\" \"}, got {\"String\":\"_\"}"));
  CHECK_THAT(refused("llama2", "/normalizer/normalizers/1/content", "_"),
             Contains("normalizer.content: expected"));
  CHECK_THAT(refused("llama2", "/decoder/decoders/3/start", 2),
             Contains("decoder.start: expected"));
  CHECK_THAT(refused("llama3", "/decoder/type", "Fuse"), Contains("decoder: expected that of"));
  CHECK_THAT(refused("mistral", "/pre_tokenizer/replacement", "_"),
             Contains(R"(pre_tokenizer.replacement: expected "\u2581", got "_")"));
  CHECK_THAT(refused("mistral", "/pre_tokenizer/split", true),
             Contains("pre_tokenizer.split: expected false"));
  CHECK_THAT(refused("mistral", "/pre_tokenizer/prepend_scheme", "last"),
             Contains("pre_tokenizer.prepend_scheme: expected \"always\""));
  CHECK_THAT(refused("mistral", "/model/byte_fallback", false),
             Contains("model.byte_fallback: expected true, got false"));
  CHECK_THAT(refused("llama3", "/model/dropout", 0.1), Contains("model.dropout: expected 0"));
  CHECK_THAT(refused("llama3", "/model/merges/3", "t"), Contains("model.merges: expected two"));
  CHECK_THAT(refused("llama3", "/model/merges/3", "t zzz"), Contains("is not in the vocabulary"));
  CHECK_THAT(refused("llama3", "/model/vocab/!", 5000), Contains("model.vocab: expected ids from"));
  CHECK_THAT(refused("llama3", "/added_tokens/0/lstrip", true), Contains("added_tokens.lstrip"));
  CHECK_THAT(refused("llama3", "/added_tokens/1/content", "<|begin_of_text|>"),
             Contains("is given twice"));
  CHECK_THAT(refused("qwen2", "/added_tokens/3/normalized", true),
             Contains("added_tokens: \"<think>\": normalized: expected false"));
  CHECK_THAT(refused("llama2", "/post_processor/single/0/SpecialToken/id", "<b>"),
             Contains("post_processor: \"<b>\" is not a special token"));
  const json begin = {{"SpecialToken", {{"id", "<s>"}}}}, a = {{"Sequence", {{"id", "A"}}}},
             b = {{"Sequence", {{"id", "B"}}}};
  for (const json& single : {json{begin, a, begin}, json{begin, a, a}, json{begin, b}})
    CHECK_THAT(refused("llama2", "/post_processor/single", single),
               Contains("post_processor.single: expected tokens before a text A"));
  CHECK_THAT(refused("llama2", "/post_processor/single", json::array({begin})),
             Contains("post_processor.single: expected a text A"));
  CHECK_THAT(refused("qwen2", "/added_tokens/3/content", ""), Contains("got an empty one"));
  CHECK_THAT(refused("llama2", "/model/merges/3", json_in(file_of("llama2"))["model"]["merges"][0]),
             Contains("is given twice"));
  CHECK_THAT(refused("llama2", "/post_processor/type", "RobertaProcessing"),
             Contains("post_processor: expected tokens before a text at most"));
}

TEST_CASE("Hugging Face BPE: a folder's tokenizer_config.json agrees with its tokenizer.json",
          "[tokenizer]") {
  const Copy copy("llama2");
  auto load = [&](const json& config) {
    write_file_atomically(copy / "tokenizer_config.json", config.dump());
    return models::load_tokenizer(copy.dir);
  };
  CHECK(load({{"add_bos_token", true}, {"add_eos_token", false}})->begin_ids().size() == 1);
  CHECK_THROWS_WITH(load({{"add_bos_token", false}}),
                    Contains("tokenizer_config.json: add_bos_token: expected true, got false"));
  CHECK_THROWS_WITH(load({{"add_eos_token", true}}), Contains("add_eos_token: expected false"));
  const json decoder{{"2", {{"content", "</s>"}, {"special", true}}}};
  CHECK(load({{"added_tokens_decoder", decoder}})->special("</s>") == 2);
  CHECK_THROWS_WITH(load({{"added_tokens_decoder", {{"3", {{"content", "</s>"}}}}}}),
                    Contains("expected special tokens of the vocabulary and their ids"));
}

}  // namespace gradus::testing::hugging_face_bpe_test
