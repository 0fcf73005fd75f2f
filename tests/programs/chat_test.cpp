// train_gpt on conversations, chat, and generate's flags.

#include "examples/tasks/chat_corpus.h"
#include "gradus/core/debug/build_info.h"
#include "gradus/models/models.h"
#include "tests/support/compare.h"
#include "tests/support/train_bench.h"

namespace chat_test {

using namespace gradus;
using Catch::Matchers::Contains, Catch::Matchers::EndsWith;

namespace {

/// Ten conversations twice: questions with a letter each, answers that name it.
std::string conversations() {
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    const std::string letter(1, static_cast<char>('a' + i % 10));
    lines += R"({"prompt": "say )" + letter + R"(", "answer": ")" + letter + letter +
             R"("})"
             "\n";
  }
  return lines;
}

/// A folder with these conversations, and the flags that train on them.
struct ChatBench : Bench {
  ChatBench() {
    write_file_atomically(*this / "chat.jsonl", conversations());
    flags = " --data '" + (*this / "chat.jsonl") + "' --val-data '" + (*this / "chat.jsonl") + "'" +
            small + " --context 64 --dim 32 --seed 5";
  }
};

}  // namespace

TEST_CASE("train_gpt on conversations: chat gives the answers that were learnt") {
  const ChatBench bench;
  const Result train = run("train_gpt", bench.flags + " --lr 1e-2 --steps 200" + bench.out());
  INFO(train.output);
  REQUIRE(train.status == 0);
  write_file_atomically(bench / "questions", "say c\n\n/new\nsay h\n");
  const std::string model =
      "--model '" + (bench / "out") + "' --temperature 0 < '" + (bench / "questions") + "'";
  CHECK(run("chat", model).output == "cc\nhh\n");
  write_file_atomically(bench / "questions", "say c\r\n\r\n/new\r\nsay h\r\n");
  CHECK(run("chat", model).output == "cc\nhh\n");
  CHECK(run("chat", "--tokens 1 " + model).output == "c\nh\n");
  // Where the processor has no such products, a message goes before.
  CHECK_THAT(run("chat", "--chat-template plain --precision bf16 " + model).output,
             EndsWith("cc\nhh\n"));
  CHECK_THAT(run("chat", "--system 'be quick' " + model).output,
             Contains("is not among") && Contains("vocabulary"));
  CHECK_THAT(run("chat", "--chat-template other " + model).output,
             Contains("other") && Contains("chatml"));
  CHECK_THAT(run("chat", "--chat-template chatml " + model).output, Contains("<|im_start|>"));
}

TEST_CASE("train_gpt on conversations: one without a question") {
  const ChatBench bench;
  write_file_atomically(bench / "system.jsonl",
                        R"({"messages": [{"role": "system", "content": "be quick"}]})"
                        "\n" +
                            conversations());
  const Result train = run("train_gpt", bench.flags + " --steps 1 --val-data '" +
                                            (bench / "system.jsonl") + "'" + bench.out());
  CHECK(train.status == 0);
  CHECK_THAT(train.output, Contains("system.jsonl") && Contains("say a"));
}

TEST_CASE("train_gpt on conversations: resumed to the same bits, with --lora too") {
  const ChatBench bench;
  REQUIRE(run("train_gpt", bench.flags + " --steps 6 --decay-steps 6 --eval-every 3" + bench.out())
              .status == 0);
  REQUIRE(run("train_gpt",
              bench.flags + " --steps 3 --decay-steps 6 --eval-every 3" + bench.out("parts"))
              .status == 0);
  REQUIRE(run("train_gpt", "--resume --steps 6" + bench.out("parts")).status == 0);
  CHECK(bench.file("parts/model.safetensors") == bench.file("out/model.safetensors"));
  const std::string lora = "--data '" + (bench / "chat.jsonl") + "' --init-from '" +
                           (bench / "out") + "' --lora 2 --steps 4 --warmup 1 --eval-every 2";
  REQUIRE(run("train_gpt", lora + bench.out("tuned")).status == 0);
  REQUIRE(run("train_gpt", lora + " --overwrite --accumulate 2" + bench.out("tuned")).status == 0);
  CHECK(bench.has("tuned/adapter_model.safetensors"));
}

TEST_CASE("train_gpt on conversations: the chat template of --init-from stays with the model") {
  const ChatBench bench;
  const models::CharTokenizer tokenizer(conversations() + "[INST] /\nUser: Assistant: ",
                                        {"</s>", "<|im_start|>"});
  models::GPT base(
      {.vocab = tokenizer.vocab_size(), .context = 64, .layers = 1, .heads = 2, .dim = 16});
  models::save_model(bench / "base", base, &tokenizer);
  const models::TextInfo info{.token_ids = {{"eos_token_id", {0}}},
                              .chat_template = "{{ '[INST] ' }}"};
  models::save_text_info(bench / "base", info);
  const std::string data = "--data '" + (bench / "chat.jsonl") + "'",
                    from = data + " --init-from '" + (bench / "base") +
                           "' --batch 2 --warmup 1 --eval-every 1 --ema 0.5";
  const Result begun = run("train_gpt", from + " --steps 2" + bench.out());
  INFO(begun.output);
  REQUIRE(begun.status == 0);
  CHECK_THAT(begun.output, Contains("chat template mistral"));
  CHECK_THAT(run("train_gpt", "--resume --steps 3" + bench.out()).output,
             Contains("chat template mistral") && Contains("final: step 3"));
  for (const char* model : {"out", "out/best", "out/ema"})
    CHECK(models::load_text_info(bench / model) == info);
  CHECK(models::find_chat_template(bench / "out", tokenizer).name == "mistral");

  // Another template replaces it, and --overwrite removes it with the model.
  REQUIRE(run("train_gpt", from + " --chat-template plain --steps 1" + bench.out("plain")).status ==
          0);
  CHECK(models::load_text_info(bench / "plain").chat_template == "plain");
  CHECK(models::find_chat_template(bench / "plain", tokenizer).name == "plain");
  CHECK(models::load_text_info(bench / "plain").token_ids == info.token_ids);
  REQUIRE(run("train_gpt", bench.flags + " --steps 1 --overwrite" + bench.out()).status == 0);
  CHECK(!bench.has("out/text.json"));
  REQUIRE(run("train_gpt", from + " --lora 2 --steps 1" + bench.out("lora")).status == 0);
  CHECK(models::load_text_info(bench / "lora") == info);
  const Bench text;
  CHECK_THAT(run("train_gpt", text.flags + " --chat-template plain" + text.out()).output,
             Contains("--chat-template is of conversations: expected --data FILE.jsonl"));
}

TEST_CASE("train_gpt on conversations: the model keeps the template that --chat-template names") {
  const ChatBench bench;
  const models::CharTokenizer tokenizer(conversations() + "[INST] /", {"</s>"});
  std::filesystem::create_directory(bench / "characters");
  tokenizer.save(models::tokenizer_path(bench / "characters"));
  const std::string flags = bench.flags + " --tokenizer '" + (bench / "characters") +
                            "' --chat-template mistral --steps 1";
  const Result begun = run("train_gpt", flags + bench.out());
  INFO(begun.output);
  REQUIRE(begun.status == 0);
  CHECK(models::find_chat_template(bench / "out", tokenizer).name == "mistral");
  CHECK_THAT(run("train_gpt", "--resume --steps 2" + bench.out()).output,
             Contains("chat template mistral"));
  CHECK(models::find_chat_template(bench / "out", tokenizer).name == "mistral");
}

TEST_CASE("conversations: the last tenth validates, and only answers count") {
  const TemporaryFolder folder;
  const auto corpus = [&](size_t count, const std::string& begins_with = "",
                          const std::string& form = "") {
    const std::string lines = conversations();
    const size_t line = lines.size() / 20;  // bytes
    write_file_atomically(folder / "chat.jsonl", lines.substr(0, count * line));
    return ChatCorpus({.data = folder / "chat.jsonl", .val_data = ""}, begins_with, form, 64);
  };
  const ChatCorpus all = corpus(20);
  CHECK_THAT(all.opening(), Contains("18 conversations train, the last 2 validate; chat template"));
  CHECK(all.tokenizer().decode(all.first_tokens()) == "User: say i\nAssistant: ");
  CHECK(all.end_of_sample() == "\n\n");
  REQUIRE(all.validation_batches() == 1);  // both conversations fit 64 tokens
  CHECK(all.validation_tokens() == 8);     // "ii\n\n" and "jj\n\n"
  CHECK(all.validation_inputs() == 64);
  CHECK(all.bytes(all.validation_batch(0).targets) == 8);
  CHECK_THAT(corpus(5).opening(), Contains("4 conversations train, the last 1 validate"));
  CHECK_THAT(testing::error_of([&] { corpus(1); }),
             EndsWith("expected at least two conversations, got 1"));

  // The token </s> after an answer counts in the loss, but is no text.
  models::CharTokenizer(conversations() + "[INST] /", {"</s>"}).save(folder / "tokenizer.json");
  const ChatCorpus special = corpus(20, folder / "", "mistral");
  CHECK(special.validation_tokens() == 6);
  CHECK(special.bytes(special.validation_batch(0).targets) == 4);
  CHECK(special.id() != all.id());
}

TEST_CASE("train_gpt on conversations: refuses damaged ones by line, and flags of plain text") {
  const ChatBench bench;
  const std::string bad = bench / "bad.jsonl", flags = small + " --data '" + bad + "'";
  const auto message = [&](const std::string& lines) {
    write_file_atomically(bad, lines);
    const Result result = run("train_gpt", flags + " --steps 1" + bench.out("bad"));
    CHECK(result.status == 1);
    return result.output;
  };
  const std::string good = conversations();
  CHECK_THAT(message(good + "{\"prompt\": \"x\"\n"), Contains("bad.jsonl") && Contains("line 21"));
  CHECK_THAT(message(good + "{\"prompt\": \"x\"}\n"), Contains("line 21"));
  CHECK_THAT(message(""), Contains("bad.jsonl"));
  CHECK_THAT(run("train_gpt", bench.flags + " --on-disk --steps 1" + bench.out("disk")).output,
             Contains("--on-disk"));
  write_file_atomically(bench / "text.txt", good);
  const Result mixed = run("train_gpt", bench.flags + " --data '" + (bench / "text.txt") + "'" +
                                            " --steps 1" + bench.out("mixed"));
  CHECK(mixed.status == 1);
  CHECK_THAT(mixed.output, Contains("--val-data: expected a text, as --data is, got the "
                                    "conversations " +
                                    (bench / "chat.jsonl")));
  const Result words =
      run("train_gpt", bench.flags + " --tokenizer word --steps 1" + bench.out("words"));
  CHECK(words.status == 1);
  CHECK_THAT(words.output, Contains("chat.jsonl: an empty line ends each answer") &&
                               Contains("expected one of characters or byte pairs"));
  CHECK(!bench.has("words"));
}

TEST_CASE("train_gpt: --precision bf16 is kept with the run, and resumes to the same bits") {
  const Bench bench;
  const std::string flags = bench.flags + " --precision bf16 --decay-steps 6 --eval-every 3";
  REQUIRE(run("train_gpt", flags + " --steps 6" + bench.out()).status == 0);
  REQUIRE(run("train_gpt", flags + " --steps 3" + bench.out("parts")).status == 0);
  REQUIRE(run("train_gpt", "--resume --steps 6 --threads 1" + bench.out("parts")).status == 0);
  CHECK(bench.file("parts/model.safetensors") == bench.file("out/model.safetensors"));
  CHECK(Json::parse(bench.metadata("parts").at("options")).at("precision") == "bf16");
  REQUIRE(run("train_gpt",
              bench.flags + " --decay-steps 6 --eval-every 3 --steps 6" + bench.out("float32"))
              .status == 0);
  const Rows rounded = bench.rows("out/loss.csv"), plain = bench.rows("float32/loss.csv");
  CHECK((rounded != plain) == has_bfloat16_products());
  for (size_t i = 0; i < plain.size(); ++i) CHECK(std::abs(rounded[i][1] - plain[i][1]) < 0.02);
  const Result refused = run("train_gpt", "--resume --precision float32" + bench.out("parts"));
  CHECK(refused.status == 1);
  CHECK_THAT(refused.output, Contains("--precision"));
}

TEST_CASE("generate: samples, prompts from files, and sampling's flags") {
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + " --steps 60" + bench.out()).status == 0);
  const std::string model = "--model '" + (bench / "out") + "' --tokens 30 --temperature 1.5";
  const auto text = [&](const std::string& more) {
    const Result result = run("generate", model + more);
    INFO(result.output);
    CHECK(result.status == 0);
    return result.output;
  };
  const std::string one = text(" --prompt line --seed 3"), two = text(" --prompt line --seed 4");
  CHECK(one != two);
  CHECK(text(" --prompt line --seed 3 --samples 2") ==
        "--- sample 1 ---\n" + one + "--- sample 2 ---\n" + two);
  write_file_atomically(bench / "prompt", "line");
  const std::string file = " --prompt-file '" + (bench / "prompt") + "' --seed 3";
  CHECK(text(file) == one);
  CHECK(text(" --prompt-file - --seed 3 < '" + (bench / "prompt") + "'") == one);
  CHECK_THAT(run("generate", model + file + " --prompt x").output, Contains("--prompt-file"));

  // The only tokens left by min-p are the most likely ones, as with --temperature 0.
  CHECK(text(" --prompt line --min-p 1") == text(" --prompt line --temperature 0"));
  const auto tokenizer = models::load_tokenizer(bench / "out/tokenizer.json");
  const int64_t e = tokenizer->encode("e")[0], x = tokenizer->encode("x")[0];
  const std::string biased = " --prompt line --logit-bias " + std::to_string(e) + ":-inf,";
  CHECK(text(biased + std::to_string(x) + ":0").substr(4).find('e') == std::string::npos);
  CHECK(text(biased + std::to_string(x) + ":1e4") == "line" + std::string(30, 'x') + "\n");
  for (const std::string bad : {"5", "x:1", "1:nan", "9999:1", "1:"}) {
    INFO(bad);
    const Result refused = run("generate", model + " --prompt line --logit-bias " + bad);
    CHECK(refused.status == 1);
    CHECK_THAT(refused.output, Contains("--logit-bias") || Contains("logit_bias"));
  }
  const auto net = models::load_model<models::GPT>(bench / "out");
  const auto ids = tokenizer->encode("line");
  const models::GenerateOptions penalised{.tokens = 30,
                                          .sampling = {.temperature = 0, .repetition_penalty = 3}};
  CHECK(text(" --prompt line --temperature 0 --repetition-penalty 3") ==
        "line" + tokenizer->decode(models::generate(net, ids, penalised)) + "\n");
}

}  // namespace chat_test
