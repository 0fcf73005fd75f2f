// Storage and the caching allocator.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>
#include <vector>

#include "gradus/core/allocator.h"
#include "gradus/core/error.h"

using namespace gradus;

namespace {

// True if freed blocks are kept (they are not under a sanitizer).
bool caches() {
  release_cached_memory();
  { Storage s(1000); }
  const bool cached = memory_stats().cached > 0;
  release_cached_memory();
  return cached;
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

TEST_CASE("a freed block is handed out again", "[memory]") {
  if (!caches()) return;
  { Storage s(3000000); }
  const MemoryStats before = memory_stats();
  CHECK(before.cached >= 3000000);
  for (int i = 0; i < 10; ++i) Storage s(3000000);
  CHECK(memory_stats().system_allocations == before.system_allocations);
  std::thread([] { Storage s(3000000); }).join();  // from another thread's blocks too
  CHECK(memory_stats().system_allocations == before.system_allocations);
  release_cached_memory();
  CHECK(memory_stats().cached == 0);
  CHECK(memory_stats().live == before.live);
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

TEST_CASE("impossible sizes throw and change nothing", "[memory]") {
  const int64_t live = memory_stats().live;
  CHECK_THROWS_WITH(Storage(-1), Catch::Contains("storage: cannot allocate -1 bytes"));
  CHECK_THROWS_AS(Storage(INT64_MAX), Error);
  CHECK_THROWS_AS(Storage(int64_t{1} << 60), Error);
  CHECK_THROWS_WITH(Scratch<double>(INT64_MAX / 2), Catch::Contains("elements of 8 bytes"));
  CHECK_THROWS_AS(Scratch<double>(INT64_MIN), Error);
  if (caches()) CHECK_THROWS_WITH(Storage(int64_t{1} << 46), Catch::Contains("out of memory"));
  CHECK(memory_stats().live == live);
}

TEST_CASE("scratch memory", "[memory]") {
  Scratch<float> s(100);
  for (int64_t i = 0; i < 100; ++i) s[i] = static_cast<float>(i);
  CHECK(s.data()[99] == 99.0f);
}

// Destroyed after the static variables that tests create: must not crash at exit.
static const Storage outlives_everything(4096);
