// Storage and the caching allocator.

#include "gradus/core/runtime/allocator.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/runtime/error.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/sanitizer.h"
#include "gradus/core/tensor/tensor.h"
#include "tests/support/child.h"

extern "C" int __asan_address_is_poisoned(const volatile void*);

namespace allocator_test {

using namespace gradus;
using namespace gradus::core;

namespace {

// Allocates, and computes in parallel loops and a product.
bool computes() {
  std::vector<Storage*> blocks;
  for (int64_t i = 0; i < 100; ++i) blocks.push_back(new Storage(64 * (i + 1)));
  for (Storage* block : blocks) delete block;
  std::vector<int64_t> seen(1000);
  for (int round = 0; round < 3; ++round)
    parallel_for(1000, 10, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)] += i;
    });
  for (int64_t i = 0; i < 1000; ++i)
    if (seen[static_cast<size_t>(i)] != 3 * i) return false;
  const Tensor product = matmul(full({128, 256}, 0.5), full({256, 192}, 2));
  return sum(product).item<double>() == 128.0 * 192 * 256;
}

// Whether a loop's chunks run on at least two threads: the first chunk waits for another.
bool computes_on_workers() {
  std::atomic<int> begun{0};
  parallel_for(2, 1, [&](int64_t, int64_t) {
    for (++begun; begun < 2;) std::this_thread::yield();
  });
  return begun == 2;
}

// Frees enough bytes that the allocator's recent peak becomes the memory live now plus 1 MB.
void forget_peak() {
  for (int i = 0; i < 500'000; ++i) Storage block(1 << 20);
}

}  // namespace

TEST_CASE("blocks are aligned, and waste at most an eighth", "[memory]") {
  for (int64_t bytes : {0, 1, 63, 64, 65, 512, 513, 576, 577, 1000, 1024, 1025, 4097, 100000,
                        1 << 20, (1 << 21) - 1, 1 << 21, (1 << 21) + 1, 5000000}) {
    CAPTURE(bytes);
    const int64_t before = memory_stats().live;
    Storage s(bytes);
    CHECK(s.bytes() == bytes);
    REQUIRE(s.data() != nullptr);
    CHECK(reinterpret_cast<uintptr_t>(s.data()) % 64 == 0);
    std::memset(s.data(), 7, static_cast<size_t>(bytes));
    const int64_t taken = memory_stats().live - before;
    CHECK(taken >= bytes);
    CHECK(taken <= std::max<int64_t>(bytes + 64, bytes + bytes / 8));
  }
}

TEST_CASE("large blocks waste at most a 64th", "[memory]") {
  for (int64_t bytes : {1 << 25, (1 << 25) + 1, (1 << 25) + (1 << 19), (1 << 25) + (1 << 19) + 1,
                        100'000'000, 1 << 27, (1 << 27) + 1}) {
    CAPTURE(bytes);
    const int64_t before = memory_stats().live;
    const Storage s(bytes);
    s.data()[bytes - 1] = std::byte{7};
    const int64_t taken = memory_stats().live - before;
    CHECK(taken >= bytes);
    CHECK(taken <= bytes + bytes / 64);
  }
  release_cached_memory();
}

TEST_CASE("live and peak are exact", "[memory]") {
  const int64_t live = memory_stats().live;
  reset_peak_memory();
  CHECK(memory_stats().peak == live);
  {
    Storage a(1024), b(2048);
    CHECK(memory_stats().live == live + 3072);
  }
  Storage c(64);
  CHECK(memory_stats().live == live + 64);
  CHECK(memory_stats().peak == live + 3072);
  reset_peak_memory();
  CHECK(memory_stats().peak == live + 64);
}

TEST_CASE("AddressSanitizer sees what lies outside of a cached block", "[memory]") {
  if constexpr (address_sanitized) {
    const std::byte* freed = nullptr;
    for (int i = 0; i < 2; ++i) {  // new, then reused
      const Storage s(200001);
      const std::byte* data = s.data();
      CHECK(__asan_address_is_poisoned(data + 200000) == 0);
      CHECK(__asan_address_is_poisoned(data + 200001) != 0);
      freed = data + 100;
    }
    CHECK(__asan_address_is_poisoned(freed) != 0);
  }
}

TEST_CASE("a freed block is reused", "[memory]") {
  if (!caches()) return;
  { Storage s(3000000); }
  const MemoryStats before = memory_stats();
  CHECK(before.cached >= 3000000);
  for (int i = 0; i < 10; ++i) Storage s(3000000);
  CHECK(memory_stats().system_allocations == before.system_allocations);
  std::thread([] { Storage s(3000000); }).join();  // blocks freed by another thread are reused too
  CHECK(memory_stats().system_allocations == before.system_allocations);
  release_cached_memory();
  CHECK(memory_stats().cached == 0);
  CHECK(memory_stats().live == before.live);
}

TEST_CASE("blocks taken from the system are counted", "[memory]") {
  release_cached_memory();
  const int64_t before = memory_stats().system_allocations;
  const Storage one(3000000), two(3000000);
  CHECK(memory_stats().system_allocations == before + 2);
}

TEST_CASE("memory held stays near the peak of live memory for any sizes", "[memory]") {
  if (!caches()) return;
  constexpr int64_t most = 64 << 20, slack = 8 << 20;
  const int64_t live = memory_stats().live;
  // Makes the recent peak forget earlier tests: see the next test.
  forget_peak();
  std::mt19937 random(1);
  std::vector<std::unique_ptr<Storage>> blocks;
  int64_t held = 0;
  for (int round = 0; round < 300; ++round) {
    // Like a training step with its own batch size: a dozen blocks of few sizes, sharing small
    // sizes.
    const int64_t unit = static_cast<int64_t>(1 + random() % 400'000);
    while (memory_stats().live - live + 4 * unit < most && blocks.size() < 60)
      blocks.push_back(std::make_unique<Storage>(unit * static_cast<int64_t>(1 + random() % 3)));
    blocks.clear();
    const MemoryStats s = memory_stats();
    held = std::max(held, s.live + s.cached);
    if (round % 10 == 0) reset_peak_memory();  // must not have an effect
  }
  CHECK(held - live < most * 13 / 10 + slack);
  CHECK(memory_stats().live == live);
}

TEST_CASE("a large model's memory returns to the system while a small one runs", "[memory]") {
  if (!caches()) return;
  const int64_t live = memory_stats().live;
  {
    std::vector<std::unique_ptr<Storage>> large;
    for (int i = 0; i < 64; ++i) large.push_back(std::make_unique<Storage>((i % 8 + 1) << 20));
  }
  CHECK(memory_stats().cached >= 250 << 20);
  forget_peak();
  CHECK(memory_stats().live == live);
  CHECK(memory_stats().cached <= (live + (1 << 20)) / 4 * 5 + (20 << 20));
}

TEST_CASE("a peak is recent until 64 times as much has been freed, and longer", "[memory]") {
  if (!caches()) return;
  constexpr int64_t megabyte = 1 << 20;
  forget_peak();
  {
    std::vector<std::unique_ptr<Storage>> large;
    for (int i = 0; i < 64; ++i) large.push_back(std::make_unique<Storage>(megabyte));
  }
  for (const int peaks : {20, 50}) {  // 20, then 70 in all
    for (int i = 0; i < 64 * peaks; ++i) Storage block(megabyte);
    CHECK(memory_stats().cached >= 64 * megabyte);
  }
}

TEST_CASE("the peak of live memory is kept while the recent peak is forgotten", "[memory]") {
  if (!caches()) return;
  const int64_t live = memory_stats().live;
  reset_peak_memory();
  { Storage block(1 << 23); }
  forget_peak();
  CHECK(memory_stats().peak == live + (1 << 23));
}

TEST_CASE("repeating the same allocations needs no memory from the system", "[memory]") {
  if (!caches()) return;
  forget_peak();
  const auto round = [] {  // like a training step: much is kept, then freed among temporaries
    std::vector<std::unique_ptr<Storage>> kept;
    for (int64_t i = 0; i < 40; ++i) {
      kept.push_back(std::make_unique<Storage>((i % 4 + 1) * 300'000));
      const Storage temporary(700'000);
    }
    while (!kept.empty()) {
      const Storage gradient(kept.back()->bytes()), scratch(900'000);
      kept.pop_back();
    }
  };
  round();
  round();
  const int64_t before = memory_stats().system_allocations;
  for (int i = 0; i < 200; ++i) {
    round();
    reset_peak_memory();
  }
  CHECK(memory_stats().system_allocations == before);
}

TEST_CASE("blocks pass between threads", "[memory]") {
  const int64_t live = memory_stats().live;
  std::vector<std::thread> threads;
  std::vector<int> broken(4, 0);
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::unique_ptr<Storage>> held(64);
      for (size_t i = 0; i < 20000; ++i) {
        auto& slot = held[(i * 7) % held.size()];
        if (slot && slot->data()[0] != std::byte{static_cast<unsigned char>(t)}) broken[t] = 1;
        slot = std::make_unique<Storage>(static_cast<int64_t>(1 + (i * 37) % 5000));
        slot->data()[0] = std::byte{static_cast<unsigned char>(t)};
        if (i % 5000 == 0) release_cached_memory();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(broken == std::vector<int>(4, 0));
  CHECK(memory_stats().live == live);
}

TEST_CASE("a child forked while other threads allocate and compute works", "[memory][fork]") {
  if (!caches()) return;  // the sanitizers' own allocators cannot be used after such a fork
  const int threads_before = num_threads();
  set_num_threads(3);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; !stop; ++i) {
        { Storage block(64 + (i * 64 + t) % 4096), other(64); }
        if (i % 100 == 0) release_cached_memory();
        if (i % 10 == t) parallel_for(8, 1, [](int64_t, int64_t) { Storage scratch(500); });
      }
    });
  }
  int failed = 0;
  auto works = [] { return computes() && computes_on_workers() ? 0 : 1; };
  for (int i = 0; i < 100 && failed == 0; ++i) {
    if (in_child(works) != 0) failed = i + 1;
    if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(computes());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // wait until the workers sleep
  CHECK(in_child(works) == 0);
  set_num_threads(threads_before);
}

TEST_CASE("impossible sizes throw and change nothing", "[memory]") {
  const int64_t live = memory_stats().live;
  CHECK_THROWS_WITH(Storage(-1), Catch::Contains("storage: cannot allocate -1 bytes"));
  CHECK_THROWS_AS(Storage(INT64_MAX), Error);
  CHECK_THROWS_AS(Storage(int64_t{1} << 60), Error);
  CHECK_THROWS_WITH(Scratch<double>(INT64_MAX / 2), Catch::Contains("elements of 8 bytes"));
  CHECK_THROWS_AS(Scratch<double>(INT64_MIN), Error);
  const int64_t most = int64_t{1} << 47;  // bytes
  CHECK_THROWS_WITH(Storage(most),
                    Catch::Contains("storage: cannot allocate 140737488355328 bytes"));
  CHECK(array_bytes(most / 8, 8) == most);
  CHECK_THROWS_WITH(array_bytes(most / 8 + 1, 8), Catch::Contains("elements of 8 bytes"));
  if (caches()) {
    reset_peak_memory();
    CHECK_THROWS_WITH(Storage(int64_t{1} << 46),
                      Catch::Contains("out of memory: requested 70368744177664 bytes"));
    CHECK(memory_stats().cached == 0);
    CHECK(memory_stats().peak == live);
    for (int i = 0; i < 2; ++i) Storage(3000000);  // still works, and still caches
    CHECK(memory_stats().cached >= 3000000);
  }
  CHECK(memory_stats().live == live);
}

#if defined(__linux__)
TEST_CASE("cached memory is released when the system refuses more", "[memory][fork]") {
  if (!caches()) return;
  CHECK(in_child([] {
          { Storage one(256 << 20), two(256 << 20); }
          if (memory_stats().cached < 512 << 20) return 2;
          limit_memory(32 << 20);
          try {
            Storage other(100 << 20);
            return memory_stats().cached == 0 ? 0 : 3;
          } catch (const Error&) {
            return 1;
          }
        }) == 0);
}
#endif

#if defined(__linux__)
TEST_CASE("large blocks take no more of the address space than their size", "[memory][fork]") {
  if (!caches()) return;
  CHECK(in_child([] {
          release_cached_memory();
          limit_memory(140 << 20);
          std::vector<std::unique_ptr<Storage>> blocks;  // aligned to 2 MB
          for (int i = 0; i < 40; ++i) blocks.push_back(std::make_unique<Storage>(3 << 20));
          return 0;
        }) == 0);
}
#endif

TEST_CASE("scratch memory can be written and read", "[memory]") {
  Scratch<float> s(100);
  for (int64_t i = 0; i < 100; ++i) s[i] = static_cast<float>(i);
  CHECK(s.data()[99] == 99.0f);
}

// Is destroyed after static variables that tests create, and must not crash then.
static const Storage outlives_everything(4096);

}  // namespace allocator_test
