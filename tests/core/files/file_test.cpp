#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "gradus/core/files/safetensors.h"
#include "gradus/core/ops/factories.h"
#include "tests/support/temporary_folder.h"

namespace file_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

/// For its lifetime, writes that would make a file larger than `bytes` fail with EFBIG.
struct FileSizeLimit {
  explicit FileSizeLimit(rlim_t bytes) : action(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit limit{bytes, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, action);
  }
  rlimit before;
  void (*action)(int);
};

/// Forks a process that calls f and exits, with status 1 if f throws.
template <class F>
pid_t in_child(F&& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      f();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  REQUIRE(child > 0);
  return child;
}

int exit_status(pid_t child) {
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

/// The content written by writer i: its letter, repeated a number of times unique to it.
std::string content(int i) {
  return std::string(100'000 + 1000 * static_cast<size_t>(i), static_cast<char>('a' + i));
}

}  // namespace

TEST_CASE("write_file_atomically and read_file", "[file]") {
  TemporaryFolder folder;
  const std::string path = folder / "text";
  std::string text(3'000'000, 'x');
  text[1] = '\0';
  for (const std::string& content : {std::string(), std::string("one\n"), text}) {
    write_file_atomically(path, content);
    CHECK(read_file(path) == content);
  }
  CHECK(folder.files() == 1);
  CHECK_THROWS_WITH(read_file(folder / "none"),
                    "read_file: " + (folder / "none") + ": No such file or directory");
  CHECK_THROWS_WITH(read_file(folder.path.string()), Contains("Is a directory"));
}

TEST_CASE("a save that fails midway leaves the old file as it was, and nothing else", "[file]") {
  TemporaryFolder folder;
  const std::string text = folder / "text", tensors = folder / "tensors";
  write_file_atomically(text, "the old text");
  save_safetensors(tensors, {{"x", ones({10})}});
  const std::string old = read_file(tensors);
  {
    FileSizeLimit limit(10'000);
    CHECK_THROWS_WITH(
        write_file_atomically(text, std::string(20'000, 'n')),
        "write_file_atomically: " + text + ": cannot write " + text + ".tmp: File too large");
    CHECK_THROWS_WITH(
        save_safetensors(tensors, {{"a", ones({10})}, {"x", zeros({5000})}}),
        "save_safetensors: " + tensors + ": cannot write " + tensors + ".tmp: File too large");
  }
  {
    FileSizeLimit limit(5);  // of a short text nothing is written before the end
    CHECK_THROWS_WITH(write_file_atomically(text, "the new text"), Contains("File too large"));
  }
  CHECK(read_file(text) == "the old text");
  CHECK(read_file(tensors) == old);
  CHECK(folder.files() == 2);
}

TEST_CASE("a killed writer leaves at most one temporary file, which the next writer reuses",
          "[file]") {
  TemporaryFolder folder;
  const std::string path = folder / "x", beside = path + ".tmp";
  std::ofstream(beside) << std::string(200'000, 'z');  // longer than the new content
  write_file_atomically(path, content(0));
  CHECK(read_file(path) == content(0));
  CHECK(folder.files() == 1);

  for (int round = 0; round < 12; ++round) {
    const pid_t child = in_child([&] {
      for (;;) write_file_atomically(path, content(1));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(3 + 2 * round));
    ::kill(child, SIGKILL);
    exit_status(child);
    const std::string now = read_file(path);
    CHECK((now == content(0) || now == content(1)));
  }
  CHECK(folder.files() <= 2);
  CHECK(folder.files() == 1 + fs::exists(beside));
  write_file_atomically(path, content(2));
  CHECK(read_file(path) == content(2));
  CHECK(folder.files() == 1);
}

TEST_CASE("a link, folder or pipe at the temporary path is an error, and a link is not followed",
          "[file]") {
  TemporaryFolder folder;
  const std::string path = folder / "x", beside = path + ".tmp", victim = folder / "victim";
  std::ofstream(victim) << "untouched";
  write_file_atomically(path, "old");
  auto refused = [&] {
    CHECK_THROWS_WITH(write_file_atomically(path, "new"),
                      Contains("write_file_atomically: " + path + ": ") && Contains(beside));
    CHECK(read_file(path) == "old");
    fs::remove(beside);
  };
  fs::create_symlink(victim, beside), refused();
  CHECK(read_file(victim) == "untouched");
  fs::create_directory(beside), refused();
  REQUIRE(::mkfifo(beside.c_str(), 0666) == 0);
  refused();
}

TEST_CASE("threads and processes may write one file at the same time", "[file]") {
  TemporaryFolder folder;
  const std::string path = folder / "x";
  write_file_atomically(path, content(0));
  auto write_many = [&](int i) {
    for (int n = 0; n < 15; ++n) write_file_atomically(path, content(i));
  };
  std::vector<pid_t> children;
  for (int i = 1; i <= 2; ++i) children.push_back(in_child([&] { write_many(i); }));
  std::atomic<int> running{3}, failed{0};
  std::vector<std::thread> threads;
  for (int i = 3; i <= 5; ++i)
    threads.emplace_back([&, i] {
      try {
        write_many(i);
      } catch (...) {
        ++failed;
      }
      --running;
    });
  int torn = 0;
  while (running > 0) {
    const std::string now = read_file(path);
    torn += now.empty() || now[0] < 'a' || now[0] > 'f' || now != content(now[0] - 'a');
  }
  for (std::thread& thread : threads) thread.join();
  for (pid_t child : children) CHECK(exit_status(child) == 0);
  CHECK(failed == 0);
  CHECK(torn == 0);
  const std::string last = read_file(path);
  CHECK(last == content(last[0] - 'a'));
  CHECK(folder.files() == 1);
}

}  // namespace file_test
