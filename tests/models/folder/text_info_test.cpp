#include "gradus/models/folder/text_info.h"

#include <catch2/catch.hpp>

#include "gradus/core/files/file.h"
#include "gradus/models/bert.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/folder/hugging_face/hugging_face.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/models/gpt.h"
#include "tests/support/temporary_folder.h"

namespace text_info_test {

using namespace gradus;

TEST_CASE("text.json: what it must hold", "[hugging_face]") {
  const TemporaryFolder folder;
  models::save_config(folder / "", models::GPT::kind, {});
  models::save_text_info(folder / "", {});
  CHECK_FALSE(folder.has("text.json"));
  const models::TextInfo info{.class_names = {"a", "b"},
                              .token_ids = {{"eos_token_id", {1, 2}}},
                              .token_names = {{"unk_token", "?"}},
                              .chat_template = "x"};
  models::save_text_info(folder / "", info);
  CHECK(models::load_text_info(folder / "") == info);
  models::save_text_info(folder / "", {});  // nothing of an earlier model remains
  CHECK(models::load_text_info(folder / "") == models::TextInfo());
  const auto refused = [&](const char* content) {
    const std::string path = models::text_info_path(folder / "");
    write_file_atomically(path, content);
    try {
      models::load_text_info(folder / "");
    } catch (const Error& e) {
      const std::string message = e.what();
      CHECK(message.starts_with(path + ": "));
      return message.substr(path.size() + 2);
    }
    return std::string("accepted");
  };
  CHECK(refused(R"({"token": 1})") == R"("token" is not a known entry)");
  CHECK(refused(R"({"classes": "a"})") == R"(classes: expected an array, got "a")");
  CHECK(refused(R"({"classes": [1]})") == "classes: expected a string, got 1");
  CHECK(refused(R"({"eos_token_id": [1, "b"]})") ==
        R"(eos_token_id: expected a token's id or an array of them, got [1,"b"])");
  CHECK(refused(R"({"bos_token_id": 18446744073709551615})") ==
        "bos_token_id: expected a token's id or an array of them, got 18446744073709551615");
  CHECK(refused(R"({"pad_token": 7})") == "pad_token: expected a string, got 7");
  CHECK(refused(R"({"chat_template": ["x"]})") == "accepted");
  CHECK(refused(R"({"chat_template": 7})") == "accepted");
  CHECK(models::load_text_info(folder / "") == models::TextInfo());
}

TEST_CASE("a Hugging Face folder's chat_template.jinja replaces the template in its settings",
          "[hugging_face]") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "config.json", R"({"model_type": "gpt2", "pad_token_id": 3})");
  write_file_atomically(folder / "tokenizer_config.json", R"({"chat_template": "old"})");
  CHECK(models::load_text_info(folder / "").chat_template == "old");
  write_file_atomically(folder / "tokenizer_config.json",
                        R"({"chat_template": [{"name": "tools", "template": "x"},
                                              {"name": "default", "template": "named"}]})");
  CHECK(models::load_text_info(folder / "").chat_template == "named");
  write_file_atomically(folder / "chat_template.jinja", "new");
  CHECK(models::load_text_info(folder / "").chat_template == "new");
  const std::map<std::string, std::vector<int64_t>> ids{{"pad_token_id", {3}}};
  CHECK(models::load_text_info(folder / "").token_ids == ids);
}

TEST_CASE("the name of a chat template stays in our folders", "[hugging_face]") {
  const TemporaryFolder ours, theirs;
  models::TextInfo info{.chat_template = "llama2"};
  models::save_config(ours / "", models::GPT::kind, {});
  models::save_text_info(ours / "", info);
  CHECK(models::load_text_info(ours / "") == info);
  const auto tokenizer = models::BPETokenizer::train("the the", {.vocab_size = 257});
  const models::GPT model({.vocab = 257, .context = 4, .layers = 1, .heads = 1, .dim = 4});
  const auto written = [&] {
    models::save_hugging_face(theirs / "", model, {.tokenizer = &tokenizer, .text = &info});
    return models::load_text_info(theirs / "").chat_template;
  };
  CHECK(written().empty());
  info.chat_template = "{{ '[INST]' }}";
  CHECK(written() == info.chat_template);
}

TEST_CASE("a classifier's folder with Hugging Face's default labels has no names of classes",
          "[hugging_face]") {
  const TemporaryFolder folder;
  const models::BertClassifier classifier(
      {.bert = {.vocab = 7, .layers = 1, .heads = 1, .dim = 4}, .classes = 2});
  models::save_hugging_face(folder / "", classifier);  // LABEL_0, LABEL_1
  CHECK(models::load_text_info(folder / "") == models::TextInfo());
  const models::TextInfo named{.class_names = {"LABEL_0", "b"}};
  models::save_hugging_face(folder / "", classifier, {.text = &named});
  CHECK(models::load_text_info(folder / "") == named);
}

}  // namespace text_info_test
