#include "examples/training/ranks.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "examples/support/text.h"
#include "examples/training/interrupt.h"
#include "gradus/core/files/checksum.h"
#include "gradus/models/folder/fields.h"
#include "gradus/optim/mpi/mpi.h"
#include "gradus/optim/parallel/bytes.h"

namespace gradus {

namespace {

/// The first of these environment variables that is a number, or `otherwise`.
int number_from(const std::vector<const char*>& names, int otherwise) {
  for (const char* name : names)
    if (const char* text = std::getenv(name))
      if (const auto number = models::parse_number<int64_t>(text)) return static_cast<int>(*number);
  return otherwise;
}

int launched_size() { return number_from({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 1); }

/// Prints what this rank waits for when it is told to end, perhaps because another one was killed:
/// on the first rank that waits, and once.
void report_interrupt(int rank, const std::string& what, const std::vector<int>& missing) {
  static bool reported = false;
  if (reported || !interrupted()) return;
  reported = true;
  for (int before = 0; before < rank; ++before)
    if (std::find(missing.begin(), missing.end(), before) == missing.end()) return;
  std::ostringstream list;
  for (const int other : missing) list << (other == missing.front() ? " " : ", ") << other;
  std::fprintf(stderr, "rank %d was told to end while it waited for %s from rank%s%s\n", rank,
               what.c_str(), missing.size() > 1 ? "s" : "", list.str().c_str());
}

/// Loads libgradus_mpi.so, from ../lib beside the program or from the system's folders.
std::unique_ptr<optim::Communicator> connect(double deadline) {
  const char* const name = "libgradus_mpi.so";
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error),
                              beside = program.parent_path().parent_path() / "lib" / name;
  void* library = dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::string reason = library ? "" : dlerror();
  if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library && !std::filesystem::exists(beside, error)) reason = dlerror();
  core::check(
      library, "started by mpirun as ", launched_size(),
      " processes, which only libgradus_mpi.so can connect (make MPI=1 builds it): ", reason);
  const auto create = reinterpret_cast<decltype(&gradus_mpi_communicator)>(
      dlsym(library, "gradus_mpi_communicator"));
  core::check(create, name, ": it is of another version of gradus");
  const int rank = launched_rank();
  const auto report = [rank](const std::string& what, const std::vector<int>& missing) {
    report_interrupt(rank, what, missing);
  };
  return std::unique_ptr<optim::Communicator>(create({.deadline_seconds = deadline,
                                                      .start_seconds = deadline + 0.3 * rank,
                                                      .while_waiting = report}));
}

template <class T>
void put(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T take(const std::string& bytes, size_t& at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  at += sizeof value;
  return value;
}

/// A score as bytes, for another rank of the same program.
std::string to_bytes(const Score& score) {
  std::string bytes;
  put(bytes, score.loss);
  put(bytes, score.examples);
  put(bytes, score.more.size());
  for (const NamedMean& mean : score.more) {
    put(bytes, mean.name.size());
    bytes += mean.name;
    put(bytes, mean.value);
    put(bytes, mean.examples);
  }
  return bytes;
}

/// Reads a score at bytes[at], and moves `at` past it.
Score score_from(const std::string& bytes, size_t& at) {
  Score score;
  score.loss = take<double>(bytes, at);
  score.examples = take<double>(bytes, at);
  score.more.resize(take<size_t>(bytes, at));
  for (NamedMean& mean : score.more) {
    const auto size = take<size_t>(bytes, at);
    mean.name = bytes.substr(at, size);
    at += size;
    mean.value = take<double>(bytes, at);
    mean.examples = take<double>(bytes, at);
  }
  return score;
}

}  // namespace

int launched_rank() {
  return launched_size() > 1 ? number_from({"OMPI_COMM_WORLD_RANK", "PMI_RANK"}, 0) : 0;
}

Ranks::Ranks(double deadline)
    : communicator_(launched_size() > 1 ? connect(deadline)
                                        : std::move(optim::local_communicators(1, deadline)[0])) {
  if (!is_first() && !std::freopen("/dev/null", "w", stdout))
    core::fail("cannot open /dev/null: ", std::strerror(errno));
}

std::vector<std::string> Ranks::gather(const std::string& own, const std::string& what) const {
  return optim::all_gather(*communicator_, own, what);
}

void Ranks::expect_same(const std::vector<std::pair<std::string, std::string>>& values) const {
  std::string own;
  for (const auto& [name, value] : values) own += name + '\0' + value + '\0';
  const std::vector<std::string> all = gather(own, "its options");
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    std::istringstream first(all[0]), other(all[rank]);
    std::string name, expected, got;
    do {
      std::getline(first, name, '\0');
      std::getline(first, expected, '\0');
      std::getline(other, got, '\0');  // its name
      if (got != name) optim::fail_on_all(*communicator_, "ranks of different versions of gradus");
      std::getline(other, got, '\0');
    } while (expected == got);
    std::ostringstream message;
    message << "rank " << rank << " differs from rank 0: " << name << " is " << shown(got)
            << " instead of " << shown(expected);
    optim::fail_on_all(*communicator_, message.str());
  }
}

StepReport Ranks::share_step(const std::vector<double>& losses, const RandomKey& next,
                             int64_t step) const {
  std::string own;
  put(own, StepReport{.next = next, .interrupted = interrupted()});
  for (const double loss : losses) put(own, loss);
  const std::vector<std::string> all = gather(own, "the losses of step " + std::to_string(step));
  StepReport sum;
  std::vector<size_t> at(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto report = take<StepReport>(all[rank], at[rank]);
    sum.interrupted = sum.interrupted || report.interrupted;
    if (rank == 0) sum.next = report.next;
  }
  for (size_t pass = 0; pass < losses.size(); ++pass)
    for (size_t rank = 0; rank < all.size(); ++rank) sum.loss += take<double>(all[rank], at[rank]);
  return sum;
}

std::vector<Score> Ranks::gather_scores(const std::vector<Score>& own, bool complete,
                                        int64_t batches, const std::string& what) const {
  std::string bytes(1, complete);
  for (const Score& score : own) bytes += to_bytes(score);
  const std::vector<std::string> all = gather(bytes, what);
  for (const std::string& from : all)
    if (!from[0]) return {};
  std::vector<size_t> at(all.size(), 1);
  std::vector<Score> scores;
  for (int64_t i = 0; i < batches; ++i) {
    const auto rank = static_cast<size_t>(i % size());
    scores.push_back(score_from(all[rank], at[rank]));
  }
  return scores;
}

void Ranks::expect_same_weights(const std::vector<Tensor>& weights, int64_t step) const {
  if (!several()) return;
  internal::Checksum sum;
  for (const Tensor& w : weights)
    internal::for_memory_of(
        w, [&](std::span<const std::byte> bytes) { sum.add(bytes.data(), bytes.size()); });
  const std::vector<std::string> all = gather(sum.digits(), "the checksum of its weights");
  std::string differing;
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0]) differing += ' ' + std::to_string(rank);
  if (differing.empty()) return;
  optim::fail_on_all(*communicator_, "after step " + std::to_string(step) +
                                         " the weights of these ranks differ from rank 0's:" +
                                         differing + "; are their machines of one kind?");
}

}  // namespace gradus
