// Runs random programs and wrong calls; prints what fails, shrunk, as a C++ test.
//   random_programs [--from SEED] [--count N] [--seconds S] [--failures N] [--json] [--wrong-calls]
//                   [--list]

#include <chrono>
#include <cstring>
#include <iostream>

#include "tests/random_programs/checks.h"
#include "tests/random_programs/generate.h"
#include "tests/random_programs/ops.h"
#include "tests/random_programs/replay.h"
#include "tests/random_programs/shrink.h"
#include "tests/random_programs/wrong_calls.h"

using namespace gradus::programs;

namespace {

struct Options {
  uint64_t from = 0;
  int64_t count = INT64_MAX;
  double seconds = 60;
  int64_t failures = 10;  // then it ends
  bool json = false, wrong_calls = false, list = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int k = 1; k < argc; ++k) {
    const std::string flag = argv[k];
    const char* value = k + 1 < argc ? argv[k + 1] : "";
    if (flag == "--json")
      options.json = true;
    else if (flag == "--wrong-calls")
      options.wrong_calls = true;
    else if (flag == "--list")
      options.list = true;
    else if (flag == "--from")
      options.from = std::strtoull(value, nullptr, 10), ++k;
    else if (flag == "--count")
      options.count = std::atoll(value), ++k;
    else if (flag == "--seconds")
      options.seconds = std::atof(value), ++k;
    else if (flag == "--failures")
      options.failures = std::atoll(value), ++k;
    else {
      std::cerr << "unknown option " << flag << "\n";
      std::exit(2);
    }
  }
  return options;
}

void list_ops() {
  for (size_t k = 0; k < all_ops().size(); ++k) {
    const Drawn& d = drawn()[k];
    std::cout << all_ops()[k].name << ": " << d.kept << " kept, " << d.unfit << " unfit, "
              << d.refused << " refused " << d.message << "\n";
  }
}

/// Prints the failure of a program, shrunk.
void report(const Program& program, const Check& check, const std::string& message) {
  const Program small = shrunk(program, check);
  std::cout << "FAILED: " << check.name << ", seed " << program.seed << ": " << program.ops()
            << " ops, shrunk to " << small.ops() << "\n  " << message
            << "\n  shrunk: " << failure_of(check, small) << "\n"
            << as_test(small, check.name) << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const auto start = std::chrono::steady_clock::now();
  auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  gradus::set_num_threads(1);
  int64_t done = 0, ops = 0, failures = 0;
  for (uint64_t seed = options.from; done < options.count && elapsed() < options.seconds;
       ++seed, ++done) {
    if (options.wrong_calls) {
      const std::string message = wrong_call(seed);
      if (!message.empty())
        std::cout << "FAILED: wrong call, seed " << seed << ": " << message << std::endl,
            ++failures;
      if (failures == options.failures) break;
      continue;
    }
    const Program program = generate(seed);
    ops += program.ops();
    if (options.json) {
      if (program.split) continue;  // megabytes of text
      std::cout << replay_line(program) << "\n";
      continue;
    }
    std::string message;
    if (const Check* check = failing_check(program, message)) {
      report(program, *check, message);
      if (++failures == options.failures) break;
    }
  }
  if (options.list) list_ops();
  std::cerr << done << (options.wrong_calls ? " wrong calls, " : " programs, ") << ops << " ops, "
            << elapsed() << " s, " << unmeasured() << " derivatives not measured, " << failures
            << " failed\n";
  return failures > 0;
}
