#include "gradus/optim/parallel/communicator.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>

namespace gradus::optim {

namespace {
/// The state that the ranks of one process share.
struct Board {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<const std::vector<SentPieces>*> sent;  // by rank: what it sends in the current call
  std::vector<int64_t> posted, taken;                // by rank: calls begun; calls read completely
  int failed = -1;                                   // the rank that failed first, or -1
  explicit Board(size_t size) : sent(size), posted(size), taken(size) {}
};

class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Board> board, int rank, double deadline)
      : board_(std::move(board)), rank_(rank), deadline_(deadline) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(board_->sent.size()); }
  int threads() const override { return 1; }

  void all_to_all(const std::vector<SentPieces>& send, const std::vector<ReceivedPieces>& receive,
                  const std::string& what) override {
    const auto own = static_cast<size_t>(rank_), ranks = board_->sent.size();
    core::check(send.size() == ranks && receive.size() == ranks, "all_to_all: ", what,
                ": expected entries for ", ranks, " ranks, got ", send.size(), " and ",
                receive.size());
    std::unique_lock lock(board_->mutex);
    board_->sent[own] = &send;
    ++board_->posted[own];
    board_->changed.notify_all();
    wait_for(lock, board_->posted, what);
    try {
      for (size_t i = 0; i < receive.size(); ++i)
        if (i != own) copy((*board_->sent[i])[own], receive[i], i, what);
    } catch (const Error&) {
      // Set before the lock is released: other ranks must no longer read what this rank sends.
      board_->failed = rank_;
      board_->changed.notify_all();
      throw;
    }
    ++board_->taken[own];
    board_->changed.notify_all();
    wait_for(lock, board_->taken, what);  // until then, others read this rank's data
  }

  bool abort() noexcept override {
    const std::lock_guard lock(board_->mutex);
    if (board_->failed < 0) board_->failed = rank_;
    board_->changed.notify_all();
    return board_->failed == rank_;
  }

 private:
  static void copy(const SentPieces& from, const ReceivedPieces& to, size_t rank,
                   const std::string& what) {
    core::check(from.size() == to.size(), "rank ", rank, " sent ", from.size(), " pieces of ", what,
                ", expected ", to.size());
    for (size_t i = 0; i < to.size(); ++i) {
      core::check(from[i].size() == to[i].size(), "rank ", rank, " sent ", from[i].size(),
                  " bytes of ", what, ", expected ", to[i].size());
      if (!to[i].empty()) std::memcpy(to[i].data(), from[i].data(), to[i].size());
    }
  }
  /// Waits until all ranks' counts have reached this rank's.
  void wait_for(std::unique_lock<std::mutex>& lock, const std::vector<int64_t>& counts,
                const std::string& what) {
    const int64_t own = counts[static_cast<size_t>(rank_)];
    const auto complete = [&] {
      return board_->failed >= 0 || *std::min_element(counts.begin(), counts.end()) >= own;
    };
    const std::chrono::duration<double> limit(deadline_);
    const bool in_time = board_->changed.wait_for(lock, limit, complete);
    if (in_time && board_->failed < 0) return;
    if (board_->failed >= 0)
      throw OtherRankFailed("rank " + std::to_string(board_->failed) + " has failed");
    board_->failed = rank_;
    board_->changed.notify_all();
    const auto late = std::min_element(counts.begin(), counts.end()) - counts.begin();
    core::fail("rank ", late, " has not sent ", what, " within ", limit.count(), " s");
  }

  std::shared_ptr<Board> board_;
  int rank_;
  double deadline_;
};
}  // namespace

std::vector<std::unique_ptr<Communicator>> local_communicators(int size, double deadline_seconds) {
  core::check(size >= 1, "local_communicators: expected at least 1 rank, got ", size);
  core::check(deadline_seconds > 0 && deadline_seconds <= 1e9,
              "local_communicators: expected a deadline above 0 and up to 1e9 s, got ",
              deadline_seconds);
  const auto board = std::make_shared<Board>(static_cast<size_t>(size));
  std::vector<std::unique_ptr<Communicator>> all;
  for (int rank = 0; rank < size; ++rank)
    all.push_back(std::make_unique<LocalCommunicator>(board, rank, deadline_seconds));
  return all;
}

std::vector<std::string> all_gather(Communicator& communicator, const std::string& own,
                                    const std::string& what) {
  const auto ranks = static_cast<size_t>(communicator.size());
  const uint64_t own_size = own.size();
  std::vector<uint64_t> sizes(ranks, own_size);
  std::vector<ReceivedPieces> into(ranks);
  for (size_t i = 0; i < ranks; ++i) into[i] = {std::as_writable_bytes(std::span(&sizes[i], 1))};
  const SentPieces size_bytes{std::as_bytes(std::span(&own_size, 1))},
      bytes{std::as_bytes(std::span(own))};
  communicator.all_to_all(std::vector(ranks, size_bytes), into, what);
  std::vector<std::string> all(ranks, own);
  for (size_t i = 0; i < ranks; ++i) {
    all[i].resize(sizes[i]);
    into[i] = {std::as_writable_bytes(std::span(all[i]))};
  }
  communicator.all_to_all(std::vector(ranks, bytes), into, what);
  return all;
}

void broadcast(Communicator& communicator, std::span<std::byte> data, const std::string& what) {
  const auto ranks = static_cast<size_t>(communicator.size());
  const bool sends = communicator.rank() == 0;
  std::vector<SentPieces> send(ranks);
  std::vector<ReceivedPieces> receive(ranks);
  if (sends) send.assign(ranks, {data});
  if (!sends) receive[0] = {data};
  communicator.all_to_all(send, receive, what);
}

void fail_on_all(const Communicator& communicator, const std::string& message) {
  if (communicator.rank() == 0) throw Error(message);
  throw OtherRankFailed(message);
}

}  // namespace gradus::optim
