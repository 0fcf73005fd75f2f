// Parallel loops, vector loops and floating-point modes.

#include "gradus/core/runtime/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cfenv>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gradus/core/runtime/error.h"
#include "gradus/core/runtime/profiler.h"

namespace parallel_test {

using namespace gradus;
using namespace gradus::core;

namespace {

const int initial_threads = num_threads();

struct Threads {
  explicit Threads(int n) : before(num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before); }
  int before;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The words of a line of a profile's table: op, calls, ms, ms, GFLOP/s, GB/s, share.
std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace

TEST_CASE("the number of threads is OpenMP's until it is set", "[threads]") {
  CHECK(initial_threads == std::min(omp_get_max_threads(), 1024));
}

TEST_CASE("parallel_for visits each element once, in fixed chunks", "[parallel]") {
  for (int threads : {1, 2, 5}) {
    Threads scope(threads);
    for (int64_t n : {0, 1, 9, 10, 11, 1000}) {
      for (int64_t grain : {-3, 1, 10, 5000}) {
        std::vector<int> visits(static_cast<size_t>(n));
        std::atomic<bool> fits{true};
        parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          const int64_t g = std::max<int64_t>(grain, 1);
          if (begin % g != 0 || (end != n && end - begin != g)) fits = false;
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        CHECK(fits);
        CHECK(visits == std::vector<int>(static_cast<size_t>(n), 1));
      }
    }
  }
}

TEST_CASE("parallel_sum gives the same bits at any thread count", "[parallel]") {
  auto sum = [] {
    return parallel_sum<float>(100003, 1000, [](int64_t begin, int64_t end) {
      return simd_sum<float>(end - begin,
                             [=](int64_t i) { return 1.0f / static_cast<float>(begin + i + 1); });
    });
  };
  Threads one(1);
  const float expected = sum();
  CHECK(expected == Approx(12.0902));
  for (int threads : {2, 3, 8}) {
    set_num_threads(threads);
    CHECK(sum() == expected);
  }
  CHECK(parallel_sum<double>(0, 10, [](int64_t, int64_t) { return 1.0; }) == 0);
  for (const int64_t grain : {-1, 0, 1, 3, 7, 8})  // below 1 as if 1
    CHECK(parallel_sum<int64_t>(7, grain, [](int64_t i, int64_t end) { return end - i; }) == 7);
}

TEST_CASE("an exception in a body reaches the caller, and the next loop runs", "[parallel]") {
  for (int threads : {1, 2}) {
    Threads scope(threads);
    CHECK_THROWS_WITH(
        parallel_for(100, 1, [](int64_t i, int64_t) { check(i != 37, "op: element ", i); }),
        "op: element 37");
    std::atomic<int> count{0};
    parallel_for(100, 1, [&](int64_t, int64_t) { ++count; });
    CHECK(count == 100);
  }
}

TEST_CASE("parallel_for inside parallel_for stays on its thread", "[parallel]") {
  Threads scope(2);
  std::vector<int> visits(64);
  std::atomic<bool> same_thread{true};
  parallel_for(8, 1, [&](int64_t i, int64_t) {
    const auto outer = std::this_thread::get_id();
    parallel_for(8, 1, [&](int64_t j, int64_t) {
      if (std::this_thread::get_id() != outer) same_thread = false;
      ++visits[static_cast<size_t>(8 * i + j)];
    });
  });
  CHECK(same_thread);
  CHECK(visits == std::vector<int>(64, 1));
}

TEST_CASE("workers that have fallen asleep wake for the next loop", "[parallel]") {
  Threads scope(2);
  parallel_for(2, 1, [](int64_t, int64_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // wait until the workers sleep
  // The chunk that begins first waits for the other. If no worker comes, it gives up after 20 s.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::atomic<int> begun{0};
  std::thread::id threads[2];
  parallel_for(2, 1, [&](int64_t i, int64_t) {
    threads[i] = std::this_thread::get_id();
    for (++begun; begun < 2 && std::chrono::steady_clock::now() < end;) std::this_thread::yield();
  });
  CHECK(threads[0] != threads[1]);
}

TEST_CASE("the chunks of loops on several threads are counted", "[parallel]") {
  Threads scope(2);
  const int64_t before = internal::chunk_counts().run;
  parallel_for(1000, 10, [](int64_t, int64_t) {});
  CHECK(internal::chunk_counts().run - before == 100);
  parallel_for(41, 10, [](int64_t, int64_t) {});
  CHECK(internal::chunk_counts().run - before == 105);
}

TEST_CASE("set_num_threads refuses counts out of range", "[parallel]") {
  const int before = num_threads();
  CHECK_THROWS_WITH(set_num_threads(0), Catch::Contains("set_num_threads: expected 1 to 1024"));
  CHECK_THROWS_AS(set_num_threads(-4), Error);
  CHECK_THROWS_AS(set_num_threads(1025), Error);
  CHECK(num_threads() == before);
}

TEST_CASE("simd_sum and simd_max", "[parallel]") {
  std::vector<float> v;
  for (int i = 0; i < 1001; ++i) v.push_back(static_cast<float>((i * 37) % 1001));
  CHECK(simd_sum<float>(1001, [&](int64_t i) { return v[static_cast<size_t>(i)]; }) == 500500.0f);
  CHECK(simd_max<float>(1001, -1.0f, [&](int64_t i) { return v[static_cast<size_t>(i)]; }) == 1000);
  CHECK(simd_max<float>(0, -1.0f, [&](int64_t) { return 5.0f; }) == -1);
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST_CASE("denormals are flushed in parallel loops only", "[parallel]") {
  volatile float tiny = std::numeric_limits<float>::min();
  const auto half = [&] { return tiny * 0.5f; };
  CHECK(half() > 0);
  Threads scope(2);
  for (int64_t n : {1, 64}) {
    std::vector<float> in_region(static_cast<size_t>(n), 1.0f);
    parallel_for(n, 1, [&](int64_t i, int64_t) { in_region[static_cast<size_t>(i)] = half(); });
    CHECK(in_region == std::vector<float>(static_cast<size_t>(n), 0.0f));
    CHECK(half() > 0);
  }
}
#endif

#if defined(__x86_64__) || defined(__aarch64__)
TEST_CASE("denormals are flushed while another thread's loop occupies the workers", "[parallel]") {
  volatile float tiny = std::numeric_limits<float>::min();
  Threads scope(2);
  std::atomic<bool> begun{false}, done{false};
  std::thread other([&] {
    parallel_for(2, 1, [&](int64_t, int64_t) {
      for (begun = true; !done;) std::this_thread::yield();
    });
  });
  while (!begun) std::this_thread::yield();
  std::vector<float> halves(64, 1.0f);
  parallel_for(64, 1, [&](int64_t i, int64_t) { halves[static_cast<size_t>(i)] = tiny * 0.5f; });
  done = true;
  other.join();
  CHECK(halves == std::vector<float>(64, 0.0f));
  CHECK(tiny * 0.5f > 0);
}
#endif

TEST_CASE("loops neither use nor change the caller's rounding mode and floating-point traps",
          "[parallel]") {
  std::fenv_t before;
  REQUIRE(std::feholdexcept(&before) == 0);
  std::fesetround(FE_UPWARD);
#if defined(__x86_64__)
  feenableexcept(FE_DIVBYZERO);  // a division by zero would raise SIGFPE if this were in force
#endif
  volatile float three = 3, zero = 0;
  std::vector<float> thirds[3];
  for (const int threads : {1, 2}) {
    Threads scope(threads);
    thirds[threads].resize(64);
    parallel_for(64, 1, [&](int64_t i, int64_t) {
      thirds[threads][static_cast<size_t>(i)] = 1 / three + 0 * (1 / zero == 0);
    });
  }
  const bool upward = std::fegetround() == FE_UPWARD, flagged = std::fetestexcept(FE_DIVBYZERO);
  std::fesetenv(&before);
  CHECK(upward);
  CHECK(!flagged);
  CHECK(thirds[1] == std::vector<float>(64, 0x1.555556p-2f));  // upward rounding would give ...558
  CHECK(thirds[2] == thirds[1]);
}

TEST_CASE("profiles may end in any order", "[profiler]") {
  auto first = std::make_unique<Profile>(), second = std::make_unique<Profile>();
  Profile third;
  second.reset();
  first.reset();
  { ProfileScope exp("exp"); }
  CHECK(third.rows().size() == 1);
}

TEST_CASE("a profile that starts within an op leaves the older profile whole", "[profiler]") {
  Profile older;
  std::unique_ptr<Profile> newer;
  {
    ProfileScope first("first");
    newer = std::make_unique<Profile>();
  }
  CHECK(newer->rows().empty());
  newer.reset();
  { ProfileScope second("second"); }
  CHECK(older.rows().size() == 2);
}

TEST_CASE("the profiler counts the outermost op", "[profiler]") {
  { ProfileScope unheard("before"); }
  Profile outer;
  {
    ProfileScope linear("linear");
    ProfileScope::count(2e9, 100);
    ProfileScope inner("matmul");
    ProfileScope::count(1e9, 0);
  }
  { ProfileScope backward("linear", true); }
  { ProfileScope softmax("softmax"); }
  ProfileScope::count(1, 1);  // no scope is open: counted for no op
  {
    Profile nested;
    { ProfileScope exp("exp"); }
    CHECK(nested.rows().size() == 1);
  }
  { ProfileScope after("after"); }
  std::thread([] { ProfileScope other("another thread's"); }).join();
  auto rows = outer.rows();
  std::sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.op < b.op; });
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].op == "after");
  CHECK(rows[2].op == "softmax");
  CHECK(rows[2].flops == 0);
  const ProfileRow& linear = rows[1];
  CHECK(linear.op == "linear");
  CHECK(linear.calls == 1);
  CHECK(linear.flops == 3e9);
  CHECK(linear.bytes == 100);
  CHECK(linear.backward_ms > 0);
  const std::string table = outer.table();
  CHECK(table.find("GFLOP/s") != std::string::npos);
  CHECK(table.find("total") != std::string::npos);
}

TEST_CASE("an empty profile's table has a header and a total of nothing", "[profiler]") {
  const std::vector<std::string> lines = lines_of(Profile().table());
  REQUIRE(lines.size() == 2);
  CHECK(words_of(lines[1]) ==
        std::vector<std::string>{"total", "0", "0.000", "0.000", "-", "-", "0.0%"});
}

TEST_CASE("a profile may end before a scope that it has begun to count", "[profiler]") {
  auto profile = std::make_unique<Profile>();
  ProfileScope scope("op");
  profile.reset();
  ProfileScope::count(1, 1);
  CHECK(Profile().rows().empty());
}

TEST_CASE("simd_max of -infinities only, or of nothing, is -infinity") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> x(37, -infinity);
  const float* p = x.data();
  for (int64_t n : {0, 1, 3, 16, 37})
    CHECK(simd_max(n, -infinity, [=](int64_t i) { return p[i]; }) == -infinity);
}

TEST_CASE("a profile's table has one line per op, the most expensive first, and the total",
          "[profiler]") {
  const Profile profile;
  const auto wait = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  const std::string long_name(60, 'n');
  {
    ProfileScope quick("quick");
    ProfileScope::count(3, 0);
  }
  for (int i = 0; i < 2; ++i) {
    ProfileScope slow(long_name.c_str());
    ProfileScope::count(0, 1e9);
    wait(3);
  }
  {
    ProfileScope backward("middle", true);
    ProfileScope::count(3e9, 0);
    wait(2);
  }
  const std::vector<std::string> lines = lines_of(profile.table());
  REQUIRE(lines.size() == 5);
  for (const std::string& line : lines) CHECK(line.size() == lines[0].size());
  double shares = 0, forward_ms = 0, backward_ms = 0, before = 1e300;
  std::map<std::string, std::vector<std::string>> rows;
  for (size_t i = 1; i < 4; ++i) {
    const auto words = words_of(lines[i]);
    const double forward = std::stod(words[2]), backward = std::stod(words[3]);
    CHECK(forward + backward <= before + 0.002);
    before = forward + backward;
    shares += std::stod(words[6]), forward_ms += forward, backward_ms += backward;
    rows[words[0]] = words;
  }
  const auto slow = rows[std::string(40, 'n')], middle = rows["middle"], quick = rows["quick"];
  REQUIRE((!slow.empty() && !middle.empty() && !quick.empty()));
  CHECK(slow[1] == "2");
  CHECK(slow[3] == "0.000");
  CHECK(slow[4] == "-");
  CHECK(std::stod(slow[5]) == Approx(2e3 / std::stod(slow[2])).epsilon(0.01).margin(0.06));
  CHECK(middle[1] == "0");
  CHECK(middle[2] == "0.000");
  CHECK(std::stod(middle[3]) >= 2);
  CHECK(quick[4] != "-");
  CHECK(quick[5] == "-");
  const auto total = words_of(lines[4]);
  CHECK(total[0] == "total");
  CHECK(total[1] == "3");
  CHECK(std::stod(total[2]) == Approx(forward_ms).margin(0.003));
  CHECK(std::stod(total[3]) == Approx(backward_ms).margin(0.003));
  const double total_ms = std::stod(total[2]) + std::stod(total[3]);
  CHECK(std::stod(total[4]) == Approx(3e3 / total_ms).epsilon(0.01).margin(0.06));  // GFLOP/s
  CHECK(std::stod(total[5]) == Approx(2e3 / total_ms).epsilon(0.01).margin(0.06));  // GB/s
  CHECK(total[6] == "100.0%");
  CHECK(shares == Approx(100).margin(0.2));
}

}  // namespace parallel_test
