// train_translator: data, errors, resuming and output.

#include <cstdlib>

#include "examples/tasks/pair_corpus.h"
#include "gradus/models/models.h"
#include "tests/support/train_bench.h"

namespace train_translator_test {

using namespace gradus;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

/// Flags of a small model of either kind.
const std::string small_model =
    " --layers 1 --dim 8 --batch 4 --eval-batches 1 --warmup 2 --seed 5";
/// The same, on generated pairs.
const std::string tiny = small_model + " --count 40";
const std::string kinds[] = {" --model transformer --heads 2", " --model rnn --hidden 8"};

Result train(const std::string& flags) { return run("train_translator", flags); }

/// The last line of the output that starts with `beginning`, without the line break.
std::string line_of(const std::string& output, const std::string& beginning) {
  const size_t at = output.rfind('\n' + beginning) + 1;
  return at == 0 && !output.starts_with(beginning) ? ""
                                                   : output.substr(at, output.find('\n', at) - at);
}

/// A folder with a file of pairs.
struct PairsBench : Bench {
  std::string flags;
  explicit PairsBench(const std::string& pairs) {
    write_file_atomically(*this / "pairs.tsv", pairs);
    flags = "--pairs '" + (*this / "pairs.tsv") + "' --heads 2 --steps 2" + small_model;
  }
};

const std::string sixteen = [] {
  std::string text;
  for (const char c : std::string("abcdefghijklmnop"))
    text += std::string(3, c) + '\t' + std::string(2, c) + '\n';
  return text;
}();

}  // namespace

TEST_CASE("pairs: a source has at most --context tokens, a target with its [START] too") {
  const PairsBench bench("aaaa\tbbb\nb\tc\nabcda\tb\na\tbbbb\n");
  PairCorpusOptions options;
  options.pairs = bench / "pairs.tsv";
  const PairCorpus corpus = make_pair_corpus(options, "", 4, 0);
  CHECK(corpus.pairs->num_pairs(models::Split::train) == 1);
  CHECK(corpus.pairs->num_pairs(models::Split::validation) == 1);
  CHECK_THAT(corpus.about, Contains("left out: 2 longer than --context"));
}

TEST_CASE("train_translator: both kinds train; resuming and evaluating need no --model") {
  for (const std::string& kind : kinds) {
    const Bench bench;
    const Result result = train(kind + tiny + " --steps 4" + bench.out());
    INFO(result.output);
    REQUIRE(result.status == 0);
    const std::string final = line_of(result.output, "final: ");
    double numbers[4];
    CHECK(std::sscanf(final.c_str(),
                      "final: step 4 train_loss %lf val_loss %lf exact %lf seconds %lf",
                      &numbers[0], &numbers[1], &numbers[2], &numbers[3]) == 4);
    CHECK_THAT(result.output, Contains("36 train, 4 with other sources validate"));
    CHECK(bench.has("out/alignment.png"));

    const Result judged = train("--eval-only" + bench.out());
    INFO(judged.output);
    CHECK(judged.status == 0);
    const size_t at = final.find(" val_loss");
    CHECK_THAT(judged.output, Contains(final.substr(at, final.find(" seconds") - at)));
    CHECK_THAT(train("--resume --steps 5" + bench.out()).output, Contains("final: step 5 "));
    // The kind is that of --init-from, not of --out.
    const Result begun = train("--init-from '" + (bench / "out") + "' --steps 1 --lr 0 --count 40" +
                               bench.out("begun"));
    INFO(begun.output);
    CHECK(begun.status == 0);
    CHECK(bench.file("begun/config.json") == bench.file("out/config.json"));
    CHECK(bench.file("begun/model.safetensors") == bench.file("out/model.safetensors"));

    const std::string config = bench.file("out/config.json");
    for (const bool is_cut : {false, true}) {  // the checkpoint tells the kind too
      std::filesystem::remove(bench / "out/config.json");
      if (is_cut) write_file_atomically(bench / "out/config.json", config.substr(0, 20));
      const Result again = train("--resume --steps " + std::to_string(6 + is_cut) + bench.out());
      INFO(again.output);
      CHECK(again.status == 0);
      CHECK(bench.file("out/config.json") == config);
    }

    const std::string other = kind == kinds[0] ? "rnn" : "transformer";
    for (const std::string& flags :
         {"--resume --model " + other + bench.out(),
          "--model=" + other + " --init-from '" + (bench / "out") + "'" + bench.out("new")}) {
      const Result refused = train(flags);
      CHECK(refused.status == 1);
      CHECK(one_line(refused.output));
      CHECK_THAT(refused.output, Contains("--model \"" + other + "\": the model in"));
    }
  }
  CHECK_THAT(train("--model gru").output, Contains("expected rnn or transformer, got \"gru\""));
}

TEST_CASE("train_translator: a killed run ends with the bits of an uninterrupted one") {
  for (const std::string& kind : kinds) {
    const Bench bench;
    const std::string flags = kind + tiny + " --dropout 0.1 --eval-every 5 --decay-steps 100000";
    {
      Process part("train_translator", flags + " --steps 1000000" + bench.out("part"));
      REQUIRE(part.read_until("step 5 train"));
      part.finish(SIGKILL);
    }
    const std::string steps = " --steps " + std::to_string(bench.checkpoint_step("part") + 7);
    const Result resumed = train("--resume" + steps + bench.out("part"));
    INFO(resumed.output);
    REQUIRE(resumed.status == 0);
    REQUIRE(train(flags + steps + bench.out("whole")).status == 0);
    for (const char* file : {"/model.safetensors", "/best/model.safetensors", "/loss.csv"})
      CHECK(bench.file(std::string("part") + file) == bench.file(std::string("whole") + file));
    CHECK(bench.rows("part/steps.csv", true) == bench.rows("whole/steps.csv", true));
  }
}

TEST_CASE("train_translator: one thread and two give the same bits") {
  for (const std::string& kind : kinds) {
    const Bench bench;
    for (const char* threads : {"1", "2"})
      REQUIRE(train(kind + tiny + " --steps 3 --batch 64 --dim 32 --threads " + threads +
                    bench.out(threads))
                  .status == 0);
    CHECK(bench.file("1/model.safetensors") == bench.file("2/model.safetensors"));
  }
}

TEST_CASE("train_translator: bad pairs are an error of one line, or skipped and counted") {
  const auto refused = [](const std::string& pairs, const std::string& what) {
    const PairsBench bench(pairs);
    const Result result = train(bench.flags + bench.out());
    INFO(result.output);
    CHECK(result.status == 1);
    CHECK(one_line(result.output));
    CHECK_THAT(result.output, Contains("pairs.tsv") && Contains(what));
    CHECK(!bench.has("out/checkpoint.safetensors"));
  };
  refused("a\tb\nnone\n", "line 2: no tab between source and target");
  refused("a\tb\n\nc\td\n", "line 2: an empty line");
  refused("a\t\n", "line 1: an empty target");
  refused("a\tb\n\xff\tb\n", "line 2: invalid UTF-8");
  refused("", "expected a text, got none");
  refused("a\tb\n", "none is left for validation");
  refused("a\tb\na\tc\n", "none is left for validation");

  const PairsBench bench(sixteen + "none\n\xff\tb\n\nnone\n" + std::string(200, 'a') + "\tb\n");
  const Result result = train(bench.flags + " --skip-bad" + bench.out());
  INFO(result.output);
  CHECK(result.status == 0);
  CHECK_THAT(result.output, Contains("no tab between source and target, lines: 2, the first: 17") &&
                                Contains("invalid UTF-8, lines: 1, the first: 18") &&
                                Contains("an empty line, lines: 1, the first: 19") &&
                                Contains("14 train, 2 with other sources validate") &&
                                Contains("left out: 1 longer than --context, 0 without tokens"));
  CHECK(train(PairsBench("a\tb\nc\td\n").flags + bench.out("two")).status ==
        0);  // one pair is for validation
}

TEST_CASE("train_translator: flags that have no effect are refused") {
  const Bench bench;
  for (const auto& [flags, why] : std::vector<std::pair<std::string, std::string>>{
           {"--pairs a.tsv --data denoise", "--pairs has no effect with --data denoise"},
           {"--data denoise --count 40", "--count has no effect with --data denoise"},
           {"--data denoise --skip-bad", "--skip-bad has no effect with --data denoise"},
           {"--text a.txt", "--text has no effect without --data denoise"},
           {"--skip-bad", "--skip-bad has no effect without --pairs"},
           {"--data reversal --pairs a.tsv", "--data has no effect with --pairs"},
           {"--count 77 --pairs a.tsv", "--count has no effect with --pairs"},
           {"--data denoise --context 3",
            "--context: expected at least 4 with --data denoise, got 3"},
           {"--vocab 300", "--vocab has no effect with --tokenizer char"}}) {
    const Result result = train(flags + bench.out("wrong"));
    INFO(result.output);
    CHECK(result.status == 1);
    CHECK(one_line(result.output));
    CHECK_THAT(result.output, Contains(why));
  }
  const std::string transformer = tiny + " --schedule transformer --steps 1 --heads 2";
  for (const std::string flag :
       {"--optimizer muon", "--lr 0.1", "--min-lr 1e-5", "--stable 0.5", "--decay-steps 9",
        "--beta1 0.5", "--beta2 0.5", "--weight-decay 0.5"}) {
    const Result result = train(transformer + ' ' + flag + bench.out("wrong"));
    CHECK(result.status == 1);
    CHECK_THAT(result.output, Contains(flag.substr(0, flag.find(' ')) +
                                       " has no effect: --schedule transformer trains with Adam"));
  }
  CHECK(!bench.has("wrong"));
  REQUIRE(train(transformer + bench.out()).status == 0);
  CHECK(train("--resume --steps 2" + bench.out()).status == 0);
}

TEST_CASE("train_translator: denoising, then --init-from for pairs with its tokenizer") {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "abcdefghijklmnop" + std::to_string(i) + "\n\n";
  const Bench bench(text + text);
  const std::string of_text = " --text '" + (bench / "text.txt") + "'";
  const Result first = train("--data denoise --heads 2 --steps 3 --context 24" + of_text +
                             small_model + bench.out("first"));
  INFO(first.output);
  REQUIRE(first.status == 0);
  CHECK_THAT(first.output, Contains("54 lines train, 6 other ones validate") &&
                               Contains("left out: 60 that repeat another") && Contains("[X0]"));
  CHECK_THAT(line_of(first.output, "final: "), Contains(" exact "));
  CHECK(train("--data denoise --heads 2 --steps 1 --context 4" + of_text + small_model +
              bench.out("short"))
            .status == 0);
  const Result resumed =
      train("--resume --steps 4" + of_text + bench.out("first"));  // the text may have moved
  CHECK_THAT(resumed.output, Contains("final: step 4"));

  const PairsBench pairs(sixteen + "xyz\tabc\n");
  const Result second = train("--pairs '" + (pairs / "pairs.tsv") + "' --steps 2 --batch 4" +
                              " --init-from '" + (bench / "first") + "'" + bench.out("second"));
  INFO(second.output);
  REQUIRE(second.status == 0);
  CHECK_THAT(second.output, Contains("unknown: 3 of 51 source tokens, 0 of 35 target tokens"));
  CHECK(bench.file("second/tokenizer.json") == bench.file("first/tokenizer.json"));
  CHECK_THAT(train("--pairs '" + (pairs / "pairs.tsv") + "' --tokenizer bpe --init-from '" +
                   (bench / "first") + "'" + bench.out("third"))
                 .output,
             Contains("--tokenizer: --init-from uses its folder's tokenizer"));
  // Conversely, a model trained on pairs has no sentinel tokens.
  REQUIRE(train(pairs.flags + bench.out("plain")).status == 0);
  const Result lacking = train("--data denoise" + of_text + " --init-from '" + (bench / "plain") +
                               "'" + bench.out("new"));
  CHECK(lacking.status == 1);
  CHECK_THAT(lacking.output, Contains("the tokenizer lacks [X0]"));
}

TEST_CASE("train_translator: its sample is printable") {
  std::string text;
  for (const char c : std::string("abcdefghijklmnop")) text += std::string("\x1b[2J") + c + "\tx\n";
  const PairsBench bench(text);
  const Result result = train(bench.flags + bench.out());
  INFO(result.output);
  CHECK(result.status == 0);
  CHECK_THAT(result.output, Contains("\u241b[2J") && !Contains("\x1b"));
}

TEST_CASE("train_translator: translations that fill the context are drawn") {
  for (const std::string& kind : kinds) {
    const Bench bench;
    const Result result =
        train(kind + tiny + " --data addition --context 8 --beams 1 --steps 1" + bench.out());
    INFO(result.output);
    CHECK(result.status == 0);
    CHECK_THAT(line_of(result.output, "final: "), Contains(" exact "));
  }
}

TEST_CASE("train_translator: every model, tokenizer and decoding option trains") {
  const Bench bench;
  const auto works = [&](const std::string& flags) {
    const Result result = train(flags + tiny + " --steps 2 --overwrite" + bench.out());
    INFO(flags << '\n' << result.output);
    CHECK(result.status == 0);
    CHECK_THAT(result.output, Contains("final: step 2 "));
    return bench.file("out/model.safetensors");
  };
  std::vector<std::string> different;
  for (const char* cell : {"rnn", "relu", "lstm", "gru"})
    different.push_back(works(kinds[1] + " --cell " + cell));
  for (const char* score : {"dot", "scaled_dot", "bilinear"})
    different.push_back(works(kinds[1] + " --beams 4 --score " + score));
  different.push_back(works(kinds[0] + " --beams 4 --label-smoothing 0"));
  different.push_back(works(kinds[0] + " --pre-norm"));
  different.push_back(works(kinds[0] + " --schedule transformer"));
  different.push_back(works(kinds[0] + " --tokenizer word --data addition"));
  different.push_back(works(kinds[0] + " --tokenizer bpe --vocab 270 --data reversal"));
  for (size_t i = 0; i < different.size(); ++i)
    for (size_t j = 0; j < i; ++j) CHECK(different[i] != different[j]);
}

TEST_CASE("train_translator: without gnuplot the alignment is a table") {
  const Bench bench;
  const std::string path = std::getenv("PATH") ? std::getenv("PATH") : "";
  setenv("PATH", bench.path.c_str(), 1);
  const Result result = train(kinds[1] + tiny + " --steps 1" + bench.out());
  setenv("PATH", path.c_str(), 1);
  INFO(result.output);
  CHECK(result.status == 0);
  CHECK(!bench.has("out/alignment.png"));
  const std::string csv = bench.file("out/alignment.csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') > 1);
  CHECK_THAT(line_of(result.output, "alignment: "),
             Contains("out/alignment.csv") && Contains("gnuplot"));
}

}  // namespace train_translator_test
