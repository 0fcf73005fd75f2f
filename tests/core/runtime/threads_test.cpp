// Who runs the chunks of a parallel loop, and what is counted of it.

#include "gradus/core/runtime/threads.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gradus/core/runtime/parallel.h"

namespace threads_test {

using namespace gradus;

namespace {

struct Threads {
  explicit Threads(int n) : before(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before;
};

}  // namespace

TEST_CASE("the largest number of threads is 1024", "[threads]") {
  const Threads scope(1024);
  CHECK(num_threads() == 1024);
}

TEST_CASE("chunks that run on another thread than planned are counted", "[threads]") {
  const Threads scope(2);
  // The caller should run chunks 0 and 1, the worker chunks 2 and 3. Chunk 0 waits until all
  // others have begun, so that whoever runs it leaves the rest to the other thread. It gives up
  // after 20 s.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const internal::ChunkCounts before = internal::chunk_counts();
  std::atomic<int> begun{0};
  std::vector<std::thread::id> ran(4);
  parallel_for_each(4, 1, [&](int64_t i) {
    ran[static_cast<size_t>(i)] = std::this_thread::get_id();
    ++begun;
    while (i == 0 && begun < 4 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
  });
  const internal::ChunkCounts after = internal::chunk_counts();
  const auto caller = std::this_thread::get_id();
  const int moved =
      (ran[0] != caller) + (ran[1] != caller) + (ran[2] == caller) + (ran[3] == caller);
  CHECK(moved > 0);
  CHECK(after.moved - before.moved == moved);
  CHECK(after.run - before.run == 4);
}

TEST_CASE("a worker that a larger number of threads left joins no loop", "[threads]") {
  for (int round = 0; round < 50; ++round) {
    {
      const Threads scope(8);
      parallel_for_each(64, 1, [](int64_t) {});
    }
    const Threads scope(2);
    std::vector<std::thread::id> ran(64);
    parallel_for_each(64, 1, [&](int64_t i) {
      ran[static_cast<size_t>(i)] = std::this_thread::get_id();
      if (i % 8 == 0) std::this_thread::yield();
    });
    CHECK(std::set(ran.begin(), ran.end()).size() <= 2);
  }
}

TEST_CASE("a thread starts no further chunk after one of its chunks has thrown", "[threads]") {
  const Threads scope(2);
  std::atomic<int> begun{0};
  CHECK_THROWS_WITH(parallel_for_each(100, 1,
                                      [&](int64_t) {
                                        ++begun;
                                        throw std::runtime_error("a chunk");
                                      }),
                    "a chunk");
  CHECK(begun >= 1);
  CHECK(begun <= 2);
}

TEST_CASE("in_parallel_region: inside loops that run on several threads", "[threads]") {
  CHECK_FALSE(in_parallel_region());
  for (const int threads : {1, 2}) {
    const Threads scope(threads);
    std::atomic<int> inside{0};
    parallel_for_each(64, 1, [&](int64_t) { inside += in_parallel_region(); });
    CHECK(inside == (threads == 1 ? 0 : 64));
    CHECK_FALSE(in_parallel_region());
  }
}

}  // namespace threads_test
