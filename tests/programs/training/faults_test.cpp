// Faults during a training run: damaged checkpoints, a full disk, a folder that disappears,
// signals. The run reports them in one line and leaves good files intact.

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/damaged_files.h"
#include "tests/support/paths.h"
#include "tests/support/train_bench.h"

namespace faults_test {

using namespace gradus;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

const std::string often = " --eval-every 2 --dropout 0.1 --decay-steps 100";

/// A file's bytes with 8 bytes in its middle overwritten.
std::string without_middle(std::string bytes) {
  return bytes.replace(bytes.size() / 2, 8, std::string(8, '\x55'));
}

std::string without_seconds(const std::string& csv) {
  std::istringstream in(csv);
  std::string all;
  for (std::string line; std::getline(in, line);) all += line.substr(0, line.rfind(',')) + '\n';
  return all;
}

/// Checks that two runs have the same final results, except the time they took.
void check_same(const Bench& bench, const std::string& a, const std::string& b) {
  for (const char* file : {"/model.safetensors", "/loss.csv", "/best/model.safetensors"})
    CHECK(bench.file(a + file) == bench.file(b + file));
  CHECK(without_seconds(bench.file(a + "/steps.csv")) ==
        without_seconds(bench.file(b + "/steps.csv")));
}

/// The output of a failed run: one line.
std::string failure(const Result& result) {
  INFO(result.output);
  CHECK(result.status == 1);
  const size_t begin = result.output.rfind('\n', result.output.size() - 2) + 1;
  return result.output.substr(begin);
}

}  // namespace

TEST_CASE("faults: a damaged checkpoint is replaced by the previous one", "[faults]") {
  const Bench bench;
  const std::string flags = bench.flags + often;
  REQUIRE(run("train_gpt", flags + " --steps 6" + bench.out("whole")).status == 0);
  REQUIRE(run("train_gpt", flags + " --steps 4" + bench.out()).status == 0);
  const std::string newest = bench / "out/checkpoint.safetensors",
                    before = bench / "out/checkpoint.previous.safetensors";
  const std::string good = read_file(newest), older = read_file(before);
  CHECK(load_safetensors(before).metadata.at("step") == "2");

  const int damage = GENERATE(0, 1, 2, 3);
  if (damage == 0) overwrite(newest, without_middle(good));
  if (damage == 1) overwrite(newest, good.substr(0, good.size() / 2));
  if (damage == 2) overwrite(newest, "");
  if (damage == 3) fs::remove(newest);
  CHECK(read_file(before) == older);  // the previous checkpoint is another file
  CHECK_THAT(run("train_gpt", flags + " --steps 6" + bench.out()).output,
             Contains("holds a run that has done 2 steps: --resume"));
  CHECK(run("train_gpt", "--eval-only" + bench.out()).status == 0);
  {
    Process killed("train_gpt", "--resume --steps 6" + bench.out());
    REQUIRE(killed.read_until("using the previous checkpoint instead"));
    REQUIRE(killed.read_until("resumed at step 2 of"));
    killed.finish(SIGKILL);
  }
  const Result resumed = run("train_gpt", "--resume --steps 6" + bench.out());
  INFO(resumed.output);
  REQUIRE(resumed.status == 0);
  check_same(bench, "out", "whole");
  CHECK(load_safetensors(before).metadata.at("step") == "4");
}

TEST_CASE("faults: a damaged checkpoint never becomes the previous one", "[faults]") {
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + often + " --steps 4" + bench.out()).status == 0);
  const std::string newest = bench / "out/checkpoint.safetensors",
                    before = bench / "out/checkpoint.previous.safetensors";
  overwrite(newest, without_middle(read_file(newest)));
  REQUIRE(run("train_gpt", "--resume --steps 4" + bench.out()).status == 0);
  CHECK(bench.checkpoint_step() == 4);
  CHECK(load_safetensors(before).metadata.at("step") == "2");
}

TEST_CASE("faults: without a checkpoint --resume says what to do", "[faults]") {
  const Bench bench;
  const std::string flags = bench.flags + often + " --steps 4" + bench.out();
  CHECK_THAT(failure(run("train_gpt", "--resume" + bench.out())),
             Contains("out holds no checkpoint") && Contains("is --out right?"));
  REQUIRE(run("train_gpt", flags).status == 0);
  for (const char* name : {"checkpoint", "checkpoint.previous"})
    overwrite(bench / ("out/" + std::string(name) + ".safetensors"), "no checkpoint");
  const std::vector<std::string> files = bench.run_files();
  CHECK_THAT(failure(run("train_gpt", "--resume" + bench.out())),
             Contains("checkpoint.safetensors: ") &&
                 Contains("checkpoint.previous.safetensors: ") &&
                 Contains("start over with --overwrite"));
  CHECK_THAT(failure(run("train_gpt", flags)), Contains("--overwrite starts over"));
  fs::remove(bench.path / "out/checkpoint.previous.safetensors");
  CHECK_THAT(failure(run("train_gpt", "--resume" + bench.out())),
             Contains("there is no previous checkpoint: start over with --overwrite"));
  CHECK(bench.run_files() == files);
  fs::remove(bench.path / "out/checkpoint.safetensors");
  CHECK_THAT(failure(run("train_gpt", "--resume" + bench.out())),
             Contains("out holds no checkpoint") && Contains("start over with --overwrite"));
  CHECK(run("train_gpt", flags + " --overwrite").status == 0);
}

TEST_CASE("faults: a full disk ends a run, which resumes when there is room", "[faults]") {
  const Bench bench;
  const std::string flags = bench.flags + often;
  REQUIRE(run("train_gpt", flags + " --steps 6" + bench.out("whole")).status == 0);
  REQUIRE(run("train_gpt", flags + " --steps 4" + bench.out()).status == 0);
  const auto checkpoint = fs::file_size(bench.path / "out/checkpoint.safetensors");
  REQUIRE(fs::file_size(bench.path / "out/model.safetensors") + 2048 < checkpoint);
  const std::string good = bench.file("out/checkpoint.safetensors");
  // The maximum file size in units of 512 bytes, and a file that exceeds it. (clang's OpenMP writes
  // a file of 1024 bytes itself.)
  const auto& [blocks, file] = GENERATE_COPY(table<uintmax_t, std::string>(
      {{2, "model.safetensors"}, {checkpoint / 512 - 1, "checkpoint.safetensors"}}));
  INFO(file);
  const std::string limit = "ulimit -f " + std::to_string(blocks) + "; ";
  const std::string said = failure(run("train_gpt", "--resume --steps 6" + bench.out(), limit));
  CHECK_THAT(said, Contains(file) && Contains("File too large"));
  if (file == "checkpoint.safetensors")
    CHECK_THAT(said, Contains("; the last checkpoint is of step 4; continue with --resume"));
  CHECK(bench.file("out/checkpoint.safetensors") == good);
  for (const std::string& name : bench.names()) CHECK_THAT(name, !Contains(".tmp"));
  REQUIRE(run("train_gpt", "--resume --steps 6" + bench.out()).status == 0);
  check_same(bench, "out", "whole");
}

TEST_CASE("faults: a run on a full disk saves nothing, and says so", "[faults]") {
  const Bench bench;
  const std::string flags = bench.flags + " --steps 2" + bench.out();
  CHECK_THAT(failure(run("train_gpt", flags, "ulimit -f 2; ")),
             Contains("model.safetensors") && Contains("File too large; nothing is saved"));
  CHECK(bench.names() == std::vector<std::string>{"loss.csv", "steps.csv"});
  CHECK_THAT(failure(run("train_gpt", flags)), Contains("--overwrite replaces it"));
  CHECK(run("train_gpt", flags + " --overwrite").status == 0);
}

TEST_CASE("faults: a run whose folder disappears, or is replaced by a file, loses nothing",
          "[faults]") {
  const Bench bench;
  const bool file = GENERATE(false, true);
  Process process("train_gpt", bench.flags + " --steps 1000000 --eval-every 300" + bench.out());
  REQUIRE(process.read_until("step 300 train"));
  fs::rename(bench.path / "out", bench.path / "elsewhere");
  if (file) std::ofstream(bench.path / "out") << "x";
  CHECK_THAT(failure(process.finish()),
             Contains("the last checkpoint is of step") &&
                 Contains(bench / "out" +
                          (file ? " is no longer the folder of this run" : ": No such file")));
  CHECK(bench.has("out") == file);
  // Nothing is lost, and the run resumes.
  const int64_t step = bench.checkpoint_step("elsewhere");
  CHECK(step >= 300);
  CHECK(run("train_gpt", "--resume --steps " + std::to_string(step + 1) + bench.out("elsewhere"))
            .status == 0);
}

TEST_CASE("faults: a run whose folder was moved leaves that of the next run alone", "[faults]") {
  const Bench bench;
  const std::string flags = bench.flags + " --steps 1000000 --eval-every 1000000" + bench.out();
  Process first("train_gpt", flags);
  REQUIRE(first.read_until("tokens/s"));
  first.send(SIGSTOP);  // or it might find no folder at all
  fs::rename(bench.path / "out", bench.path / "elsewhere");
  Process second("train_gpt", flags + " --seed 6");
  REQUIRE(second.read_until("step 0 train"));
  while (!bench.has("out/checkpoint.safetensors")) std::this_thread::yield();
  const std::vector<std::string> files = bench.run_files();
  first.send(SIGCONT);
  CHECK_THAT(failure(first.finish(SIGTERM)),
             Contains(bench /
                      "out is no longer the folder of this run; the last checkpoint is of step 0"));
  CHECK(bench.run_files() == files);
  CHECK(second.finish(SIGTERM).status == 130);
  CHECK(bench.checkpoint_step("elsewhere") == 0);
}

TEST_CASE("faults: unwritable output is status 1, and the run is complete", "[faults]") {
  if (!fs::exists("/dev/full")) return;
  const Bench bench;
  const std::string flags = bench.flags + " --steps 2" + bench.out();
  CHECK(run("train_gpt", flags + " > /dev/full").status == 1);
  CHECK(bench.checkpoint_step() == 2);
}

TEST_CASE("faults: SIGTERM and SIGINT save; a second one ends at once", "[faults]") {
  const Bench bench;
  const int signal = GENERATE(SIGTERM, SIGINT);
  Process process("train_gpt", bench.flags + " --steps 1000000 --eval-every 1000000" + bench.out());
  REQUIRE(process.read_until("step 0 train"));
  const Result result = process.finish(signal);
  INFO(result.output);
  CHECK(result.status == 130);
  CHECK_THAT(result.output,
             Contains("interrupted: saved at step") && Contains("continue with --resume"));
  const std::string step = std::to_string(bench.checkpoint_step() + 1);
  CHECK(run("train_gpt", "--resume --steps " + step + bench.out()).status == 0);
}

TEST_CASE("faults: SIGHUP saves, unless ignored by nohup", "[faults]") {
  const Bench bench;
  const std::string flags = " --eval-every 1000000" + bench.out(), begun = "step 0 train";
  {
    Process process("train_gpt", bench.flags + " --steps 1000000" + flags);
    REQUIRE(process.read_until(begun));
    const Result result = process.finish(SIGHUP);
    CHECK(result.status == 130);
    CHECK_THAT(result.output, Contains("interrupted: saved at step"));
  }
  const int64_t step = bench.checkpoint_step() + 1;
  CHECK(run("train_gpt", "--resume --steps " + std::to_string(step) + bench.out()).status == 0);
  Process process("train_gpt", bench.flags + " --overwrite --steps 3000" + flags, "trap '' HUP; ");
  REQUIRE(process.read_until(begun));
  const Result result = process.finish(SIGHUP);
  CHECK(result.status == 0);
  CHECK_THAT(result.output, Contains("final: step 3000"));
}

TEST_CASE("faults: a run whose output is closed saves and ends", "[faults]") {
  do_not_ignore({SIGPIPE});
  const Bench bench;
  const std::string flags = bench.flags + " --steps 1000000 --eval-every 100" + bench.out();
  const std::string program = "'" + gradus::testing::program_path("train_gpt") + "' ",
                    said = bench / "said";
  // head reads up to the line of step 0.
  const std::string command = "(" + program + flags + " 2>'" + said + "'; echo $? >'" + said +
                              ".status') | grep -m1 'step 0 train' >/dev/null";
  REQUIRE(std::system(command.c_str()) == 0);
  CHECK(bench.file("said.status") == "130\n");
  const std::string step = std::to_string(bench.checkpoint_step());
  CHECK(bench.file("said") == "interrupted: saved at step " + step + "; continue with --resume\n");
  CHECK(bench.rows("out/steps.csv").size() == std::stoul(step));
  CHECK(run("train_gpt", "--resume --steps " + step + bench.out()).status == 0);
}

}  // namespace faults_test
