// The programs as a user runs them: exit status, what they print, what they leave on disk.

#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>

#include "gradus/core/safetensors.h"

using namespace gradus;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

struct Result {
  int status;
  std::string output;  // stdout and stderr
};

Result run(const std::string& program, const std::string& arguments = "") {
  const std::string command =
      std::string("'") + GRADUS_BIN_DIR + "/" + program + "' " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  Result result{};
  char buffer[4096];
  while (const size_t n = fread(buffer, 1, sizeof buffer, pipe)) result.output.append(buffer, n);
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  INFO(command << '\n' << result.output);
  return result;
}

/// A folder of its own for each test, removed at its end.
struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("gradus_programs_" + std::to_string(getpid()));
  TemporaryFolder() { fs::create_directories(path); }
  ~TemporaryFolder() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
};

/// Some text with structure, 12,000 characters.
std::string sample_text() {
  std::string text;
  for (int i = 0; text.size() < 12000; ++i)
    text += "line " + std::to_string(i * 7919 % 1000) + " of the text\n";
  return text;
}

const std::string small =
    " --layers 1 --heads 2 --dim 16 --context 16 --batch 4 --eval-batches 2 --warmup 2";

}  // namespace

TEST_CASE("the small examples run and come to what they claim") {
  const TemporaryFolder scratch;
  const Result graph = run("scalar_graph", scratch / "graph.dot");
  CHECK(graph.status == 0);
  CHECK_THAT(graph.output, Contains("dy/dw1      1.2695    1.2695"));
  CHECK_THAT(read_file(scratch / "graph.dot"), Contains("digraph") && Contains("tanh"));

  const Result attention = run("attention_steps");
  CHECK(attention.status == 0);
  CHECK_THAT(attention.output,
             Contains("[[0.0, 2.0, 1.0]]") && Contains("[[0.0900, 0.6652, 0.2447]]"));

  const Result custom = run("custom_op");
  CHECK(custom.status == 0);
  CHECK_THAT(custom.output, Contains("softsign(x) = 0.8 at x = 4.0000"));

  CHECK(run("two_moons").status == 0);  // 0 says that 98% of the test points are classified
}

TEST_CASE("train_gpt trains, and a run cut in two ends with the same bits") {
  const TemporaryFolder scratch;
  write_file_atomically(scratch / "text.txt", sample_text());
  const std::string common =
      "--data '" + scratch / "text.txt" + "'" + small + " --dropout 0.1 --seed 5";
  const Result whole =
      run("train_gpt", common + " --steps 40 --eval-every 20 --out '" + scratch / "whole'");
  REQUIRE(whole.status == 0);
  CHECK_THAT(whole.output, Contains("final: step 40 train_loss "));
  for (const char* file :
       {"model.safetensors", "config.json", "tokenizer.json", "checkpoint.safetensors", "loss.csv"})
    CHECK(fs::exists(scratch.path / "whole" / file));

  // Killed without warning after the checkpoint of step 20.
  const std::string part = " --out '" + scratch / "part'";
  run("train_gpt",
      common + " --steps 40 --eval-every 20" + part +
          " & pid=$!; while kill -0 $pid && ! grep -q '^20,' '" +
          scratch / "part/loss.csv' 2>/dev/null; do sleep 0.01; done; kill -9 $pid; wait");
  const Result resumed = run("train_gpt", "--resume" + part);
  CHECK(resumed.status == 0);
  CHECK(read_file(scratch / "part/model.safetensors") ==
        read_file(scratch / "whole/model.safetensors"));
  CHECK(read_file(scratch / "part/loss.csv") == read_file(scratch / "whole/loss.csv"));

  const std::string prompt = " --prompt line --tokens 30 --seed 3";
  const Result text = run("generate", "--model '" + scratch / "whole'" + prompt);
  CHECK(text.status == 0);
  CHECK(text.output.size() == 35);  // the prompt, 30 characters, a line break
  CHECK(text.output == run("generate", "--model '" + scratch / "part'" + prompt).output);
  const Result unknown = run("generate", "--model '" + scratch / "whole' --prompt '#'");
  CHECK(unknown.status == 1);
  CHECK_THAT(unknown.output, Contains("\"#\""));

  const Result other = run("train_gpt", "--resume --heads 1" + part);
  CHECK(other.status == 1);
  CHECK_THAT(other.output, Contains("--heads"));
}

TEST_CASE("bad input to train_gpt is one line and status 1, and leaves what was there") {
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
    CHECK(!fs::exists(scratch / "out"));
  };
  const std::string data = "--data '" + text + "'";
  refused("--data '" + scratch / "none'", "none");
  refused("--data '" + scratch / "empty'", "empty");
  refused("--data '" + scratch / "short'", "too few");
  refused("--data '" + scratch / "binary'", "UTF-8");
  refused(data + " --heads 3", "--heads 3 does not divide --dim 128");
  refused(data + " --min-lr 1", "--min-lr");
  refused(data + " --steps 0", "--steps");
  refused(data + " --dropout 1.5", "--dropout");
  refused(data + " --unknown", "--unknown");
  refused("--resume", "checkpoint");
  CHECK(run("train_gpt", data + " --out /proc/nowhere").status == 1);
  CHECK(run("train_gpt", "--help").status == 0);
}
