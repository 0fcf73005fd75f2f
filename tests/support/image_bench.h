#pragma once
// Code shared by the tests of image programs.

#include "gradus/models/data/images/png.h"
#include "tests/support/train_bench.h"

/// Checks that the program fails and prints a single line, which contains `why`.
inline void refused(const std::string& program, const std::string& flags, const std::string& why) {
  const Result result = run(program, flags);
  INFO(result.output);
  CHECK(result.status == 1);
  CHECK(one_line(result.output));
  CHECK_THAT(result.output, Catch::Matchers::Contains(why));
}

/// Returns the last line of the output that starts with `beginning`, or "" if there is none. The
/// first line of the output is ignored.
inline std::string line_of(const std::string& output, const std::string& beginning) {
  const size_t at = output.rfind('\n' + beginning) + 1;
  return at == 0 ? "" : output.substr(at, output.find('\n', at) - at);
}

/// Returns the height and width of a PNG file in the temporary folder `bench`.
inline std::pair<int64_t, int64_t> size_of(const Bench& bench, const std::string& file) {
  const gradus::models::ImageBytes image = gradus::models::read_png(bench / file);
  return {image.height, image.width};
}

inline gradus::models::ImageBytes picture(int64_t channels, int64_t side, uint8_t value) {
  return {channels, side, side,
          std::vector<uint8_t>(static_cast<size_t>(channels * side * side), value)};
}

/// Returns the validation scores in the output of a training program: the part of the last line
/// "final: ..." that begins with " val_loss" and ends before " seconds".
inline std::string judgement(const std::string& output) {
  const std::string line = line_of(output, "final: ");
  const size_t at = line.find(" val_loss");
  REQUIRE(at != std::string::npos);
  return line.substr(at, line.find(" seconds") - at);
}

/// Kills a training run and resumes it. Checks that it writes the same logs, models and images.json
/// as an uninterrupted run. Also compares the output files listed in `files`, each given as
/// "/NAME".
inline void ends_with_the_same_bits(const std::string& program, const std::string& flags,
                                    std::vector<std::string> files) {
  const Bench bench;
  const std::string all = flags + " --accumulate 2 --decay-steps 100000";
  {
    Process part(program, all + " --steps 1000000" + bench.out("part"));
    REQUIRE(part.read_until("step 5 train"));
    part.finish(SIGKILL);
  }
  const std::string steps = " --steps " + std::to_string(bench.checkpoint_step("part") + 7);
  const Result resumed = run(program, "--resume" + steps + bench.out("part"));
  INFO(resumed.output);
  REQUIRE(resumed.status == 0);
  const Result whole = run(program, all + steps + bench.out("whole") + " --threads 1");
  REQUIRE(whole.status == 0);
  CHECK(judgement(resumed.output) == judgement(whole.output));
  for (const char* file :
       {"/model.safetensors", "/loss.csv", "/best/model.safetensors", "/images.json"})
    files.push_back(file);
  for (const std::string& file : files)
    CHECK(bench.file("part" + file) == bench.file("whole" + file));
  CHECK(bench.rows("part/steps.csv", true) == bench.rows("whole/steps.csv", true));
}
