#pragma once
// Runs the built programs through a shell, and captures their output.

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <initializer_list>
#include <string>

#include "tests/support/child.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

struct Result {
  int status;
  std::string output;  // stdout and stderr
};

/// Restores the default handlers of `signals`. Otherwise a program that a test starts would ignore
/// the signals that the test ignores, for example SIGHUP under nohup.
inline void do_not_ignore(std::initializer_list<int> signals) {
  for (const int signal : signals) std::signal(signal, SIG_DFL);
}

/// A program that runs in the background and is killed at the end of the scope.
class Process {
 public:
  /// Starts a shell that runs `before`, for example "ulimit -f 2; ", then the program with
  /// `arguments`.
  Process(const std::string& program, const std::string& arguments,
          const std::string& before = "") {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const std::string command =
        before + "exec '" + gradus::testing::program_path(program) + "' " + arguments;
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      do_not_ignore({SIGHUP, SIGINT, SIGTERM, SIGPIPE});
      for (const int output : {STDOUT_FILENO, STDERR_FILENO}) dup2(ends[1], output);
      close(ends[0]);
      close(ends[1]);
      execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    close(ends[1]);
    pipe_ = ends[0];
  }
  ~Process() {
    if (pid_ > 0) finish(SIGKILL);
    close(pipe_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Sends a signal to the program, for example SIGSTOP, which pauses it until SIGCONT.
  void send(int signal) const { REQUIRE(kill(pid_, signal) == 0); }
  /// Reads until the output contains the text. Returns false if the output ends first.
  bool read_until(const std::string& text) {
    while (output_.find(text) == std::string::npos)
      if (!read_some()) return false;
    return true;
  }
  /// Returns the output that has been read so far.
  const std::string& output() const { return output_; }
  /// Sends the signal, unless it is 0, and waits until the program ends. Returns the program's exit
  /// status (-1 if a signal ended it) and whole output.
  Result finish(int signal = 0) {
    if (signal) kill(pid_, signal);
    while (read_some()) {
    }
    const int status = wait_for(pid_);
    if (status < 0) FAIL_CHECK("waitpid: no status of process " << pid_);
    remove_leftovers(pid_);
    pid_ = 0;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output_};
  }

 private:
  bool read_some() {
    char buffer[4096];
    ssize_t n;
    while ((n = read(pipe_, buffer, sizeof buffer)) < 0 && errno == EINTR) {
    }
    if (n > 0) output_.append(buffer, static_cast<size_t>(n));
    return n > 0;
  }
  pid_t pid_ = 0;
  int pipe_ = -1;
  std::string output_;
};

inline Result run(const std::string& program, const std::string& arguments = "",
                  const std::string& before = "") {
  return Process(program, arguments, before).finish();
}

/// Returns a text of at least `characters` characters: similar lines that each contain a number.
inline std::string sample_text(size_t characters = 12000) {
  std::string text;
  for (int i = 0; text.size() < characters; ++i)
    text += "line " + std::to_string(i * 7919 % 1000) + " of the text\n";
  return text;
}

/// Flags of train_gpt for a small model and quick estimates of the loss.
inline const std::string small =
    " --recipe nanogpt"
    " --layers 1 --heads 2 --dim 16 --context 16 --batch 4 --eval-batches 2 --warmup 2";
