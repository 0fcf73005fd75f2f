// train_bert and attention_map, run as programs.

#include <nlohmann/json.hpp>

#include "gradus/models/data/tokenizers/char_tokenizer.h"
#include "gradus/models/data/tokenizers/word_tokenizer.h"
#include "gradus/models/models.h"
#include "tests/support/programs.h"
#include "tests/support/train_bench.h"

namespace attention_map_test {

using namespace gradus;
using Catch::Matchers::Contains;

namespace {

constexpr const char* tiny =
    " --layers 1 --heads 2 --dim 16 --context 24 --batch 8 --warmup 2 "
    "--eval-batches 2 --eval-every 10 --lr 0.01";

/// A folder with an untrained model and its tokenizer.
template <class Model>
std::string saved(const TemporaryFolder& folder, const std::string& name,
                  const models::Tokenizer& tokenizer, typename Model::Config config) {
  if constexpr (requires { config.vocab; })
    config.vocab = tokenizer.vocab_size();
  else
    config.source_vocab = config.target_vocab = tokenizer.vocab_size();
  manual_seed(1);
  models::save_model(folder / name, Model(config), &tokenizer);
  return "--model '" + (folder / name) + "' --out '" + (folder / (name + "/a.png")) + "' ";
}

/// Checks that attention_map fails with one line that contains `why`.
void refused(const std::string& flags, const std::string& why) {
  const Result result = run("attention_map", flags);
  INFO(flags << result.output);
  CHECK(result.status == 1);
  CHECK(one_line(result.output));
  CHECK_THAT(result.output, Contains(why));
}

}  // namespace

TEST_CASE("train_bert: learns, evaluates, resumes to the same bits") {
  const Bench bench;
  const std::string flags = "--data '" + (bench / "text.txt") + "'" + tiny;
  const Result whole = run("train_bert", flags + bench.out("whole") + " --steps 20");
  INFO(whole.output);
  REQUIRE(whole.status == 0);
  CHECK_THAT(whole.output, Contains("final: step 20 train_loss ") &&
                               Contains(" masked_accuracy ") && Contains(" next_accuracy ") &&
                               Contains(" seconds "));
  CHECK_THAT(whole.output, Contains("[CLS]") && Contains("<"));  // predictions
  REQUIRE(run("train_bert", flags + bench.out() + " --steps 10 --decay-steps 20").status == 0);
  REQUIRE(run("train_bert", "--resume --steps 20" + bench.out()).status == 0);
  REQUIRE(run("train_bert", flags + bench.out("whole") + " --steps 20 --decay-steps 20 --overwrite")
              .status == 0);
  CHECK(bench.file("out/model.safetensors") == bench.file("whole/model.safetensors"));
  CHECK_THAT(bench.file("out/loss.csv"), Contains("step,train_loss,val_loss,masked_accuracy,"));
  const auto model = models::load_model<models::Bert>(bench / "out");
  CHECK(model.config.dim == 16);
}

TEST_CASE("train_bert: every tokenizer, and texts it refuses") {
  const Bench bench;
  const std::string data =
      "--data '" + (bench / "text.txt") + "'" + std::string(tiny) + " --steps 2";
  for (const char* tokenizer : {"char", "word", "bpe --vocab 300"}) {
    const Result result = run("train_bert", data + bench.out(std::string(tokenizer).substr(0, 4)) +
                                                " --tokenizer " + tokenizer);
    INFO(result.output);
    CHECK(result.status == 0);
  }
  for (const std::string flag : {"--tokenizer", "--vocab"}) {
    const Result result = run("train_bert", data + " --init-from '" + (bench / "word") + "' " +
                                                flag + " 7" + bench.out("new"));
    CHECK(result.status == 1);
    CHECK_THAT(result.output, Contains(flag + ": --init-from uses its folder's tokenizer"));
  }
  CHECK_THAT(run("train_bert", data + " --tokenizer char --vocab 7" + bench.out("new")).output,
             Contains("--vocab has no effect with --tokenizer char"));
  CHECK(!bench.has("new"));
  auto refused = [&](const std::string& text, const std::string& why) {
    write_file_atomically(bench / "bad.txt", text);
    const Result result =
        run("train_bert", "--data '" + (bench / "bad.txt") + "'" + tiny + bench.out("bad"));
    INFO(result.output);
    CHECK(result.status == 1);
    CHECK(one_line(result.output));
    CHECK_THAT(result.output, Contains(why));
  };
  refused("", "train_bert: ");
  refused("one line", "train_bert: " + (bench / "bad.txt") + ": too little text to train: ");
  refused("one line", "each line is a segment, an empty line ends a document");
  refused("good\n\xff\xfe bad\n" + sample_text(), "byte");
  CHECK_THAT(run("train_bert", "--context 4 --data '" + (bench / "text.txt") + "'").output,
             Contains("--context: expected at least 5"));
  CHECK_THAT(run("train_bert", "--heads 3 --dim 16 --data '" + (bench / "text.txt") + "'").output,
             Contains("heads must divide dim"));
}

TEST_CASE("train_bert: held-out examples of unknown words alone are not scored") {
  std::string text;
  for (int i = 0; i < 190; ++i) text += "the cat sat on mats\n";
  for (char line = 'a'; line < 'k'; ++line) {
    for (char word = 'a'; word < 'f'; ++word) text += std::string{'q', line, word, ' '};
    text += '\n';
  }
  const Bench bench(text);
  const Result result =
      run("train_bert", "--data '" + (bench / "text.txt") + "'" + tiny +
                            " --vocab 5 --batch 1 --eval-batches 40 --steps 1" + bench.out());
  INFO(result.output);
  CHECK(result.status == 0);
  CHECK_THAT(result.output, Contains(" and 50 unknown;") && Contains("final: step 1 train_loss "));
}

TEST_CASE("train_bert: its sample is printable, one example per line") {
  const Bench bench;
  std::string text;
  for (int i = 0; i < 60; ++i) text += std::string("a\0b\x1b[2J c d e f g h\n", 20);
  write_file_atomically(bench / "odd.txt", text);
  const Result result = run("train_bert", "--data '" + (bench / "odd.txt") + "' --tokenizer char" +
                                              tiny + " --steps 1" + bench.out());
  INFO(result.output);
  REQUIRE(result.status == 0);
  CHECK_THAT(result.output, Contains("\u2400") && Contains("\u241b"));
  CHECK(result.output.find('\x1b') == std::string::npos);
}

TEST_CASE("attention_map: draws a GPT, a BERT and both translators") {
  const TemporaryFolder folder;
  const models::CharTokenizer letters("abc ", {"[PAD]", "[UNK]", "[START]", "[END]"}),
      plain("abc ");
  const models::WordTokenizer words("a b c cat",
                                    {.special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}});
  const std::vector<std::pair<std::string, int>> kinds{
      {saved<models::GPT>(folder, "gpt", plain, {.context = 8, .layers = 2, .heads = 2, .dim = 8}),
       1},
      {saved<models::Bert>(folder, "bert", words,
                           {.context = 8, .layers = 1, .heads = 2, .dim = 8}),
       1},
      {saved<models::Transformer>(folder, "transformer", letters,
                                  {.context = 8, .layers = 2, .heads = 2, .dim = 8}),
       3},
      {saved<models::RNNTranslator>(folder, "rnn", letters, {.context = 8, .dim = 4, .hidden = 4}),
       1}};
  for (const auto& [flags, pictures] : kinds) {
    const std::string page = folder / "page.html";
    const Result result = run("attention_map", flags + "--text 'a cab' --html '" + page + "'");
    INFO(flags << result.output);
    REQUIRE(result.status == 0);
    const std::string dir = flags.substr(9, flags.find('\'', 9) - 9);
    for (int i = 1; i <= 3; ++i) {
      const std::string file = dir + (i == 1 ? "/a.png" : "/a-" + std::to_string(i) + ".png");
      CHECK(std::filesystem::exists(file) == (i <= pictures));
    }
    CHECK_THAT(read_file(page), Contains("</html>"));
    std::filesystem::remove(page);
  }
  const std::string& transformer = kinds[2].first;
  CHECK_THAT(run("attention_map", transformer + "--text ab --target bca").output,
             Contains("ab -> bca\n"));
  refused(kinds[0].first + "--text ''",
          "attention_map: text: expected at least one token, got none");
  refused(kinds[0].first + "--text 'abcabcabc'",
          "attention_map: text: expected at most 8 tokens, got 9");
  refused(kinds[0].first + "--text 'xyz'", "character \"x\"");
  refused(transformer + "--text ab --target 'abcabcabc'", "target: expected at most 7 tokens");
  refused("--model '" + (folder / "none") + "'", "config.json");
  refused(kinds[0].first + "--text ab --target a", "--target needs a translator");
  refused(kinds[1].first + "--text a --target a", "--target needs a translator");
  // Pictures that cannot be written although gnuplot is installed.
  refused(kinds[0].first + "--text ab --out ''", "--out: expected a path");
  refused(kinds[0].first + "--text ab --out '" + folder.path.string() + "'",
          "--out: expected a file");
  for (const char* picture : {"gpt/a.png", "gpt/../gpt/a.png", "gpt/./a-2.png", "gpt/a-3.png"})
    refused(kinds[0].first + "--text ab --html '" + (folder / picture) + "'",
            "--html: expected another file than the pictures, got ");
  refused("--model '" + (folder / "none") + "' --out a.png --html ./a.png",  // before it is read
          "--html: expected another file");
  refused(kinds[0].first + "--text ab --out /dev/null/a.png", "cannot create the folder /dev/null");
  write_file_atomically(folder / "bert/config.json", "{\"model\": \"vase\"}");
  refused(kinds[1].first, "expected a gpt, bert, transformer or rnn, got");
  models::CharTokenizer("ab").save(folder / "gpt/tokenizer.json");
  refused(kinds[0].first, "the model has 4 tokens, the tokenizer 2");
}

}  // namespace attention_map_test
