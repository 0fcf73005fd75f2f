// Programs as a user runs them: exit status, output, files.

#include "tests/support/programs.h"

#include <algorithm>
#include <cmath>

#include "gradus/gradus.h"

namespace programs_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

/// Checks the curves of gradients by distance: through an LSTM's cell alone, each step multiplies
/// the gradient by the forget gate; the gradient through all paths does not shrink so.
void check_gradients(const std::string& csv) {
  const auto at = [&](const std::string& name, int distance) {
    const std::string row = '\n' + name + ',' + std::to_string(distance) + ',';
    const size_t begin = csv.find(row);
    INFO(row);
    REQUIRE(begin != std::string::npos);
    return std::stod(csv.substr(begin + row.size()));
  };
  const std::string whole = "\"LSTM, forget gate 0.95: all paths\"",
                    cell = "the same: through the cell alone";
  CHECK(at(cell, 0) == Approx(at(whole, 0)));  // the last input reaches the output on one path only
  CHECK(std::pow(at(cell, 99) / at(cell, 0), 1 / 99.0) == Approx(0.95).margin(0.01));
  CHECK(at(whole, 99) > 10 * at(cell, 99));
}

}  // namespace

TEST_CASE("the small examples run") {
  const TemporaryFolder scratch;
  const Result graph = run("scalar_graph", scratch / "graph.dot");
  CHECK(graph.status == 0);
  CHECK_THAT(graph.output, Contains("dy/dw1      1.2695    1.2695"));
  CHECK_THAT(read_file(scratch / "graph.dot"), Contains("digraph") && Contains("tanh") &&
                                                   Contains("{n | 0.7 | grad 0.634") &&
                                                   Contains("{y | 0.604"));

  const Result attention = run("attention_steps");
  CHECK(attention.status == 0);
  CHECK_THAT(attention.output,
             Contains("[[0.0, 2.0, 1.0]]") && Contains("[[0.0900, 0.6652, 0.2447]]"));

  const Result custom = run("custom_op");
  CHECK(custom.status == 0);
  CHECK_THAT(custom.output, Contains("softsign(x) = 0.8 at x = 4.0000"));

  for (const std::string program : {"own_layer", "scalar_graph"})
    CHECK_THAT(run(program, "--help").output, Contains("usage: " + program));
  const Result unwritable = run("scalar_graph", "/proc/nowhere/graph.dot");
  CHECK(unwritable.status == 1);
  CHECK_THAT(unwritable.output, Contains("scalar_graph: cannot create the folder /proc/nowhere"));
  fs::create_directory(scratch / "folder");
  const Result untrained = run("own_layer", scratch / "folder");  // not a file
  CHECK(untrained.status == 1);
  CHECK_THAT(untrained.output, Contains("own_layer: ") && !Contains("training;"));
  const Result layer = run("own_layer", scratch / "blocks.safetensors");
  CHECK(layer.status == 0);
  CHECK_THAT(layer.output,
             Contains("blocks.2.down.weight") && Contains("changed: a block no, the head yes"));

  CHECK_THAT(run("name_model", scratch / "none.txt").output, Contains("name_model: "));
  write_file_atomically(scratch / "dots.txt", "anna\nst. john\n");
  CHECK_THAT(run("name_model", scratch / "dots.txt").output,
             Contains("dots.txt: expected names without a '.', got st...\n"));

  const Result lecture = run("lecture_pictures", "--csv --out '" + scratch / "lecture'");
  CHECK(lecture.status == 0);
  for (const char* name : {"positions", "rotary", "gradients", "scaling"}) {
    CHECK_THAT(lecture.output, Contains(std::string("lecture/") + name + '.'));
    CHECK(scratch.has(std::string("lecture/") + name + ".csv"));
  }
  CHECK_THAT(read_file(scratch / "lecture/rotary.csv"),
             Contains("\n\"q = k = (1, ..., 1)\",0,8\n"));
  check_gradients(read_file(scratch / "lecture/gradients.csv"));
  CHECK(run("lecture_pictures", "--out /proc/nowhere").status == 1);

  const Result steps = run("muon_steps", "--steps 20 --out '" + scratch / "muon'");
  CHECK(steps.status == 0);
  CHECK_THAT(steps.output, Contains("Muon's step") && Contains("of 64 directions hold 90%"));
  // The mean gradient is of low rank, Muon's step is not.
  const auto directions = [&](const std::string& name) {
    const size_t row = steps.output.find("  " + name);
    return std::stoi(steps.output.substr(steps.output.find(", ", row) + 2));
  };
  CHECK(directions("Muon's step") > 3 * directions("mean gradient"));
}

TEST_CASE("the small trainings reach their results", "[learns]") {
  const TemporaryFolder scratch;
  const Result logistic = run("logistic_regression");
  CHECK(logistic.status == 0);
  CHECK_THAT(logistic.output, Contains("step   0  loss 0.6931") && Contains("accuracy 9"));

  std::string names;
  for (const char* name : {"anna", "hannah", "nina", "ian", "hanna", "tina", "nathan", "tia", "ann",
                           "thia", "ina", "aino"})
    names += std::string(name) + '\n';
  write_file_atomically(scratch / "names.txt", names);
  const Result model = run("name_model", scratch / "names.txt");
  CHECK(model.status == 0);
  CHECK_THAT(model.output, Contains("12 names") && Contains("step 18000"));

  CHECK(run("two_moons").status == 0);  // status 0: 98% of the test points are classified right
}

TEST_CASE("a trained model generates text, the same for the same seed") {
  const TemporaryFolder scratch;
  write_file_atomically(scratch / "text.txt", sample_text());
  const std::string folder = "'" + scratch / "out'";
  const Result trained =
      run("train_gpt", "--data '" + scratch / "text.txt'" + small + " --steps 5 --out " + folder);
  REQUIRE(trained.status == 0);
  // The output ends with the folder, the next command and the scores.
  const size_t last = trained.output.rfind('\n', trained.output.size() - 2) + 1;
  CHECK_THAT(trained.output.substr(last), Contains("final: step 5 train_loss "));
  CHECK_THAT(trained.output, Contains("generate --model " + scratch / "out"));
  // The opening names about 12,000 characters of 21 kinds: 9 letters, 10 digits, space and line
  // break.
  CHECK_THAT(trained.output, Contains("text.txt: 12,0") && Contains(" tokens, 21 different") &&
                                 Contains("parameters") && Contains("threads"));
  for (const char* file : {"model.safetensors", "config.json", "tokenizer.json",
                           "checkpoint.safetensors", "loss.csv", "steps.csv"})
    CHECK(scratch.has(std::string("out/") + file));

  const std::string ask = "--model " + folder + " --tokens 30 --prompt line";
  const Result text = run("generate", ask + " --seed 3");
  CHECK(text.status == 0);
  CHECK(text.output.size() == 35);  // the prompt, 30 characters, a line break
  CHECK(text.output == run("generate", ask + " --seed 3").output);
  CHECK(text.output != run("generate", ask + " --seed 4").output);
  const Result unknown = run("generate", ask + " --prompt '#'");
  CHECK(unknown.status == 1);
  CHECK_THAT(unknown.output, Contains("\"#\""));
  const std::string file = scratch / "out/model.safetensors", none = scratch / "none";
  CHECK(run("generate", "--model '" + file + "'").output ==
        "generate: " + file + ": expected a model's folder, got a file\n");
  CHECK(run("generate", "--model '" + none + "'").output ==
        "generate: --model: " + none + ": no such file or folder\n");
  // A message is one line without characters that a terminal would obey.
  CHECK(run("generate", "--model 'a\nb\x1b[2J\x7f'").output ==
        "generate: --model: a b [2J : no such file or folder\n");
  CHECK(run("generate", "--modle x").output ==
        "generate: --modle: unknown flag; did you mean --model? (see --help)\n");
  const Result wrong = run("generate", ask + " --top-p 2");
  CHECK(wrong.status == 1);
  CHECK_THAT(wrong.output, Contains("--top-p") && Contains("1"));
}

TEST_CASE("train_gpt: bad input is one line and status 1, and changes nothing") {
  const TemporaryFolder scratch;
  const std::string text = scratch / "text.txt", out = " --out '" + scratch / "out'";
  write_file_atomically(text, sample_text());
  write_file_atomically(scratch / "empty", "");
  write_file_atomically(scratch / "short", "abc abc abc");
  write_file_atomically(scratch / "binary", "abc\xff\xfe");
  auto refused = [&](const std::string& arguments, const std::string& why) {
    const Result result = run("train_gpt", arguments + out);
    INFO(arguments << '\n' << result.output);
    CHECK(result.status == 1);
    CHECK_THAT(result.output, Contains(why));
    CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
    CHECK(result.output.size() < 300);
    CHECK(!fs::exists(scratch / "out"));
  };
  const std::string data = "--data '" + text + "'";
  refused("--data '" + scratch / "none'", "none");
  refused("--data '" + scratch / "empty'", scratch / "empty: the text is empty");
  refused("--data '" + scratch / "short'", "too few");
  refused("--data '" + scratch / "binary'", scratch / "binary: CharTokenizer: expected UTF-8");
  refused(data + " --heads 3", "heads must divide dim: dim 128, heads 3");
  refused(data + " --min-lr 1", "--min-lr");
  refused(data + " --steps 0", "--steps");
  refused(data + " --dropout 1.5", "--dropout");
  refused(data + " --unknown", "--unknown");
  refused("--resume", "checkpoint");
  refused("--resume --overwrite", "--overwrite");
  refused(data + " --heads 0", "--heads");
  refused(data + " --lr 1e300", "from 0 to 1000000");
  refused(data + " --lr nan", "--lr");
  refused(data + " --lr -1", "--lr");
  refused(data + " --steps 1e3", "whole number");
  refused(data + " --steps " + std::string(300, '9'), "--steps");
  refused(data + " --batch 65537", "--batch");
  refused(data + " --seed 18446744073709551616", "--seed");  // 2^64
  refused(data + " --" + std::string(300, 'x'), "xxx");
  CHECK(run("train_gpt", data + " --out /proc/nowhere").status == 1);
}

TEST_CASE("--help gives each flag's meaning and default") {
  for (const char* program : {"train_gpt", "generate"}) {
    const Result help = run(program, "--help");
    INFO(help.output);
    CHECK(help.status == 0);
    CHECK_THAT(help.output, !Contains("INT") && !Contains("FLOAT") && !Contains("1099511627776"));
    std::istringstream lines(help.output);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() < 100);
  }
  CHECK_THAT(run("train_gpt", "--help").output,
             Contains("--layers N          transformer blocks; default 4\n") &&
                 Contains("default 0.01\n") && Contains("default a tenth of --lr") &&
                 Contains("default out/train\n") && Contains("--resume            "));
  CHECK_THAT(run("generate", "--help").output,
             Contains("default 0.8\n") && Contains("default 300\n"));
}

TEST_CASE("generate: each option reaches the text") {
  const TemporaryFolder scratch;
  const models::CharTokenizer tokenizer("abcdefghijklmnopqrstuvwxyz ");
  manual_seed(3);
  const models::GPT model(
      {.vocab = tokenizer.vocab_size(), .context = 12, .layers = 1, .heads = 2, .dim = 16});
  for (const Tensor& p : model.parameters()) {
    const NoGrad no_grad;
    p.mul_(8);  // so that tokens differ in probability
  }
  models::save_model(scratch / "model", model);
  tokenizer.save(scratch / "model/tokenizer.json");
  auto check_text = [&](const std::string& arguments, const models::GenerateOptions& options) {
    const Result result =
        run("generate", "--model '" + (scratch / "model") + "' --prompt 'the cat' " + arguments);
    INFO(arguments);
    CHECK(result.status == 0);
    CHECK(result.output ==
          "the cat" +
              tokenizer.decode(models::generate(model, tokenizer.encode("the cat"), options)) +
              "\n");
  };
  check_text("", {.tokens = 300, .sampling = {.temperature = 0.8, .top_k = 40}, .seed = 1});
  const models::SamplingOptions sampling{.temperature = 1.3, .top_k = 9, .top_p = 0.7};
  const std::string flags = "--temperature 1.3 --top-k 9 --top-p 0.7 --seed 12 --threads 1";
  check_text(flags + " --tokens 50", {.tokens = 50, .sampling = sampling, .seed = 12});
  const std::vector<int64_t> text = models::generate(
      model, tokenizer.encode("the cat"), {.tokens = 50, .sampling = sampling, .seed = 12});
  check_text(flags + " --tokens 50 --stop '" + tokenizer.decode({text[20]}) + "'",
             {.tokens = 50, .sampling = sampling, .seed = 12, .stop_token = text[20]});
  check_text("--temperature 0 --tokens 9", {.tokens = 9, .sampling = {.temperature = 0}});

  // The vocabulary lacks the line break: without a prompt, a text begins with its first token.
  const std::string model_flag = "--model '" + (scratch / "model") + "' ";
  const Result unprompted = run("generate", model_flag + "--tokens 3");
  CHECK(unprompted.status == 0);
  CHECK_THAT(unprompted.output, Catch::Matchers::StartsWith(tokenizer.decode({0})));
  CHECK(unprompted.output.size() == 5);
  write_file_atomically(scratch / "empty", "");
  CHECK_THAT(run("generate", model_flag + "--prompt-file '" + scratch / "empty'").output,
             Contains("generate: --prompt-file: expected at least one token"));
}

}  // namespace programs_test
