#include "gradus/models/data/chat/chat_template.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "gradus/core/files/file.h"
#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "tests/support/compare.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace chat_template_test {

using namespace gradus;
using Catch::Matchers::Contains;
using models::chat_template, models::encode_chat, models::find_chat_template;

namespace {

const models::Conversation talk{
    {"system", "Be brief."}, {"user", "Hi"}, {"assistant", "Yo"}, {"user", "<s>?"}};

models::CharTokenizer characters(const std::vector<std::string>& special) {
  return models::CharTokenizer("\n !\"'.:<>?[]/|_abcdefghijklmnopqrstuvwxyzABHINSTUY", special);
}

/// The text of the tokens, with those of answers in braces.
std::string marked(const models::Tokenizer& tokenizer, const models::ChatTokens& tokens) {
  std::string text;
  bool inside = false;
  for (size_t i = 0; i <= tokens.ids.size(); ++i) {
    const bool answer = i < tokens.ids.size() && tokens.answers[i];
    if (answer != inside) text += answer ? "{" : "}";
    inside = answer;
    if (i < tokens.ids.size()) text += tokenizer.decode({tokens.ids[i]});
  }
  return text;
}

}  // namespace

TEST_CASE("conversations are written as their models' templates say", "[chat]") {
  // From the templates that Qwen 2, Llama 2 and 3 and Mistral publish.
  struct Form {
    const char* name;
    std::vector<std::string> special;
    const char* text;
  };
  const std::vector<Form> forms{
      {"plain", {}, "Be brief.\n\nUser: Hi\nAssistant: {Yo\n\n}User: <s>?\nAssistant: "},
      {"chatml",
       {"<|im_start|>", "<|im_end|>"},
       "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
       "<|im_start|>assistant\n{Yo<|im_end|>\n}<|im_start|>user\n<s>?<|im_end|>\n"
       "<|im_start|>assistant\n"},
      {"llama3",
       {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
       "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
       "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
       "<|start_header_id|>assistant<|end_header_id|>\n\n{Yo<|eot_id|>}"
       "<|start_header_id|>user<|end_header_id|>\n\n<s>?<|eot_id|>"
       "<|start_header_id|>assistant<|end_header_id|>\n\n"},
      {"llama2",
       {"<s>", "</s>"},
       "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST]{Yo </s>}<s>[INST] <s>? [/INST]"},
      {"mistral", {"<s>", "</s>"}, "[INST] Be brief.\n\nHi [/INST]{Yo</s>}[INST] <s>? [/INST]"},
  };
  for (const auto& [name, special, text] : forms) {
    CAPTURE(name);
    const auto tokenizer = characters(special);
    const auto tokens = encode_chat(tokenizer, chat_template(name), talk, true);
    CHECK(marked(tokenizer, tokens) == text);
    // A message cannot hold a special token: "<s>?" is four characters.
    const auto last = encode_chat(tokenizer, chat_template(name), {{"user", "<s>?"}});
    const auto other = encode_chat(tokenizer, chat_template(name), {{"user", "abc?"}});
    CHECK(last.ids.size() == other.ids.size());
  }
}

namespace {

/// A tokenizer whose texts begin with <s> and that encodes a text as one token, numbered in order.
struct WholeTexts : models::CharTokenizer {
  mutable std::vector<std::string> texts{};
  WholeTexts() : CharTokenizer("a", {"<s>", "</s>"}) {}
  std::vector<int64_t> begin_ids() const override { return {special("<s>")}; }
  std::vector<int64_t> encode(const std::string& text) const override {
    texts.push_back(text);
    return {99 + std::ssize(texts)};
  }
};

}  // namespace

TEST_CASE("a conversation begins with one <s>, and adjacent texts are encoded together", "[chat]") {
  using Texts = std::vector<std::string>;
  using Ids = std::vector<int64_t>;
  const WholeTexts llama2, mistral;
  // Llama 2's template begins with <s>, Mistral's does not.
  const auto two = encode_chat(llama2, chat_template("llama2"), talk, true);
  CHECK(llama2.texts ==
        Texts{"[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST]", "Yo ", "[INST] <s>? [/INST]"});
  CHECK(two.ids == Ids{0, 100, 101, 1, 0, 102});
  CHECK(two.answers == std::vector<bool>{false, false, true, true, false, false});
  const auto three = encode_chat(mistral, chat_template("mistral"), talk, true);
  CHECK(mistral.texts == Texts{"[INST] Be brief.\n\nHi [/INST]", "Yo", "[INST] <s>? [/INST]"});
  CHECK(three.ids == Ids{0, 100, 101, 1, 102});
  CHECK(three.answers == std::vector<bool>{false, false, true, true, false});
}

TEST_CASE("answers begin with the space that SentencePiece puts before a text", "[chat]") {
  using nlohmann::json;
  const TemporaryFolder folder;
  const std::string folders = testing::source_path("tests/golden/hugging_face/");
  auto load = [&](const json& file) {
    write_file_atomically(folder / "tokenizer.json", file.dump());
    return models::load_tokenizer(folder / "tokenizer.json");
  };
  // The tokens of one question and one answer, or of a whole text.
  auto chat = [&](const auto& tokenizer, const char* form, const char* answer) {
    return encode_chat(*tokenizer, chat_template(form), {{"user", "hi"}, {"assistant", answer}})
        .ids;
  };
  auto whole = [&](const auto& tokenizer, const std::string& text) {
    auto ids = tokenizer->begin_ids();
    for (const int64_t id : tokenizer->encode_with_special(text)) ids.push_back(id);
    return ids;
  };
  json file = json::parse(read_file(folders + "mistral/tokenizer.json"));
  for (const char* scheme : {"always", "first", "never"}) {
    CAPTURE(scheme);
    file["pre_tokenizer"]["prepend_scheme"] = scheme;
    const auto tokenizer = load(file);
    CHECK(chat(tokenizer, "mistral", "") == whole(tokenizer, "[INST] hi [/INST]</s>"));
    for (const char* answer : {"the", " the"}) {
      CHECK(chat(tokenizer, "mistral", answer) == whole(tokenizer, "[INST] hi [/INST] the</s>"));
      CHECK(chat(tokenizer, "llama2", answer) == whole(tokenizer, "[INST] hi [/INST] the </s>"));
    }
  }
  const auto never = load(file);
  CHECK(chat(never, "plain", "the") != chat(never, "plain", " the"));  // as written
  // The template of Mistral's byte-level tokenizers has no space.
  file = json::parse(read_file(folders + "smollm2/tokenizer.json"));
  file["added_tokens"][1]["content"] = "<s>";
  file["added_tokens"][2]["content"] = "</s>";
  const auto bytes = load(file);
  CHECK(chat(bytes, "mistral", "the") == whole(bytes, "[INST] hi [/INST]the</s>"));
}

TEST_CASE("a system message alone is written, also where it belongs to a user's message",
          "[chat]") {
  for (const auto& [name, text] : {std::pair{"plain", "Be brief.\n\n"},
                                   {"llama2", "<<SYS>>\nBe brief.\n<</SYS>>\n\n"},
                                   {"mistral", "Be brief.\n\n"}}) {
    CAPTURE(name);
    const WholeTexts tokenizer;
    const auto tokens =
        encode_chat(tokenizer, chat_template(name), {{"system", "Be brief."}}, false);
    CHECK(tokenizer.texts == std::vector<std::string>{text});
    CHECK(tokens.answers == std::vector<bool>(tokens.ids.size(), false));
  }
}

TEST_CASE("a conversation that cannot be written is refused", "[chat]") {
  const auto tokenizer = characters({});
  auto error = [&](const models::Conversation& conversation, bool ask = false) {
    return testing::error_of(
        [&] { encode_chat(tokenizer, chat_template("plain"), conversation, ask); });
  };
  CHECK(error({{"user", "a"}, {"assistant", "b"}, {"user", "a"}}) == "");
  CHECK(error({}) == "a conversation needs a message");
  const std::string order =
      "a conversation is a system message or none, then user and assistant in turn: got ";
  CHECK(error({{"tool", "a"}}) == order + "\"tool\" first");
  CHECK(error({{"assistant", "a"}}) == order + "\"assistant\" first");
  CHECK(error({{"user", "a"}, {"user", "b"}}) == order + "\"user\" after user");
  CHECK(error({{"user", "a"}, {"system", "b"}}) == order + "\"system\" after user");
  CHECK(error({{"system", "a"}, {"system", "b"}}) == order + "\"system\" after system");
  CHECK(error({{"system", "a"}, {"assistant", "b"}}) == order + "\"assistant\" after system");
  const models::Conversation answered{{"user", "a"}, {"assistant", "b"}};
  for (const char* role : {"assistant", "system"}) {
    models::Conversation more = answered;
    more.push_back({role, "c"});
    CHECK(error(more) == order + "\"" + role + "\" after assistant");
  }
  CHECK(error({{"system", "a"}, {"user", "b"}}, true) == "");
  CHECK(error({{"user", "a"}, {"assistant", "b"}}, true) ==
        "a model answers a user's message: expected one last, got assistant");
  CHECK_THAT(error({{"user", "a\n\nb"}}), Contains("empty line"));
  CHECK_THAT(error({{"user", "a\n"}}), Contains("empty line"));
  CHECK_NOTHROW(encode_chat(characters({"<|im_start|>", "<|im_end|>"}), chat_template("chatml"),
                            {{"user", "a\n\nb\n"}}));
  CHECK_THAT(error({{"user", "#"}}), Contains("#"));
  CHECK_THROWS_WITH(chat_template("jinja"),
                    "chat template: expected one of plain, chatml, llama2, llama3, mistral, got "
                    "\"jinja\"");
}

TEST_CASE("a chat template needs the special tokens that begin and end its messages", "[chat]") {
  using Names = std::vector<std::string>;
  for (const auto& [form, names] :
       {std::pair{"plain", Names{}},
        {"chatml", Names{"<|im_start|>", "<|im_end|>"}},
        {"llama3", Names{"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
        {"llama2", Names{"<s>", "</s>"}},
        {"mistral", Names{"</s>"}}}) {
    CHECK_NOTHROW(encode_chat(characters(names), chat_template(form), talk));
    for (const std::string& lacking : names) {
      Names others;
      for (const std::string& name : names)
        if (name != lacking) others.push_back(name);
      CHECK(testing::error_of([&, form = form] {
              encode_chat(characters(others), chat_template(form), talk);
            }) == std::string("the chat template ") + form +
                      " needs a tokenizer with the special token " + lacking);
    }
  }
}

TEST_CASE("of special tokens that begin alike, a template's text holds the longest", "[chat]") {
  const std::string start = "<|im_start|>", whole = "<|im_start|>user", end = "<|im_end|>";
  for (const auto& special : {std::vector{start, whole, end}, std::vector{whole, start, end}}) {
    const auto tokenizer = characters(special);
    const auto ids = encode_chat(tokenizer, chat_template("chatml"), {{"user", "a"}}).ids;
    CHECK(ids == std::vector<int64_t>{tokenizer.special(whole), tokenizer.encode("\n")[0],
                                      tokenizer.encode("a")[0], tokenizer.special(end),
                                      tokenizer.encode("\n")[0]});
  }
}

TEST_CASE("a model folder's chat template is found", "[chat]") {
  const TemporaryFolder folder;
  const std::string dir = folder / "model";
  std::filesystem::create_directory(dir);
  auto found = [&](const std::vector<std::string>& special = {}) {
    return find_chat_template(dir, characters(special)).name;
  };
  CHECK(found() == "plain");
  CHECK(found({"<|im_start|>"}) == "chatml");
  CHECK(found({"<|start_header_id|>"}) == "llama3");
  CHECK(find_chat_template("", characters({"<|im_start|>"})).name == "chatml");
  for (const char* without : {R"({"model_max_length": 5})", R"({"chat_template": null})"}) {
    write_file_atomically(dir + "/tokenizer_config.json", without);
    CHECK(found() == "plain");
  }
  write_file_atomically(dir + "/tokenizer_config.json",
                        R"({"chat_template": [{"name": "rag", "template": "[INST]"},
                                              {"name": "default", "template": "<|im_start|>"}]})");
  CHECK(found() == "chatml");
  for (const char* without :
       {R"([])", R"(["[INST]"])", R"([{"name": "rag", "template": "[INST]"}])",
        R"([{"name": "default", "template": 3}])"}) {
    write_file_atomically(dir + "/tokenizer_config.json",
                          std::string(R"({"chat_template": )") + without + '}');
    CHECK(found() == "plain");
  }
  std::filesystem::remove(dir + "/tokenizer_config.json");
  write_file_atomically(dir + "/text.json", R"({"chat_template": "[INST]"})");
  CHECK(found() == "mistral");
  auto with = [&](const std::string& jinja) {
    write_file_atomically(dir + "/tokenizer_config.json",
                          R"({"model_max_length": 5, "chat_template": ")" + jinja + "\"}");
    return found({"<|im_start|>"});
  };
  CHECK(with("{% '[INST] <<SYS>>' %}") == "llama2");
  CHECK(with("{{ '[INST] ' + message }}") == "mistral");
  CHECK(with("{{ '<|start_header_id|>' }}") == "llama3");
  CHECK(with("<|im_start|>") == "chatml");
  CHECK_THROWS_WITH(with("### Human"), Contains("tokenizer_config.json: expected a chat template"));
  write_file_atomically(dir + "/chat_template.jinja", "[INST]");
  CHECK(found() == "mistral");
}

TEST_CASE("of a folder's chat templates, chat_template.jinja comes first and text.json last",
          "[chat]") {
  const TemporaryFolder folder;
  const auto found = [&] { return find_chat_template(folder.path, characters({})).name; };
  write_file_atomically(folder / "text.json", R"({"chat_template": "<|im_start|>"})");
  write_file_atomically(folder / "tokenizer_config.json", R"({"chat_template": "[INST]"})");
  write_file_atomically(folder / "chat_template.jinja", "<|start_header_id|>");
  CHECK(found() == "llama3");
  write_file_atomically(folder / "chat_template.jinja", "### Human");  // not skipped
  CHECK_THROWS_WITH(found(), Contains("chat_template.jinja: expected a chat template"));
  std::filesystem::remove(folder / "chat_template.jinja");
  CHECK(found() == "mistral");
  write_file_atomically(folder / "tokenizer_config.json", R"({"chat_template": null})");
  CHECK(found() == "chatml");
  std::filesystem::remove(folder / "text.json");
  CHECK(found() == "plain");
}

TEST_CASE("a folder's name that the file system refuses has no chat template", "[chat]") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder / "loop");
  CHECK(find_chat_template(folder / "loop", characters({})).name == "plain");
  CHECK(find_chat_template(std::string(5000, 'a'), characters({"<|im_start|>"})).name == "chatml");
}

TEST_CASE("a chat template is matched by its name, by its marks or by the tokenizer", "[chat]") {
  using models::match_chat_template;
  const auto tokenizer = characters({"<|im_start|>"});
  for (const std::string name : {"plain", "chatml", "llama2", "llama3", "mistral"})
    CHECK(match_chat_template(name, tokenizer).name == name);
  CHECK(match_chat_template("{{ '[INST] plain' }}", tokenizer).name == "mistral");
  CHECK(match_chat_template("", tokenizer).name == "chatml");
  CHECK_THROWS_WITH(match_chat_template("### Human", tokenizer, "x.gguf"),
                    Contains("x.gguf: expected a chat template of the form"));

  const TemporaryFolder folder;
  write_file_atomically(folder / "text.json", R"({"chat_template": "plain"})");
  CHECK(find_chat_template(folder.path, tokenizer).name == "plain");
  write_file_atomically(folder / "text.json", R"({"chat_template": ""})");
  CHECK(find_chat_template(folder.path, tokenizer).name == "chatml");
}

TEST_CASE("what ends an answer is a special token or an empty line", "[chat]") {
  CHECK(end_of_answer(chat_template("plain")) == "\n\n");
  CHECK(end_of_answer(chat_template("chatml")) == "<|im_end|>");
  CHECK(end_of_answer(chat_template("llama2")) == "</s>");
  CHECK(end_of_answer(chat_template("llama3")) == "<|eot_id|>");
  CHECK(end_of_answer(chat_template("mistral")) == "</s>");
  // A '>' before the token, and a text with '<' but without a token.
  models::ChatTemplate form = chat_template("plain");
  form.assistant.after = "->\n<|x|>\n";
  CHECK(end_of_answer(form) == "<|x|>");
  form.assistant.after = "<end\n";
  CHECK(end_of_answer(form) == "<end\n");
}

}  // namespace chat_template_test
