// The benchmark: one JSON line per workload, or with --profile a table of time per op.

#include <gradus/core/kernels/products/blas.h>
#include <gradus/core/runtime/parallel.h>
#include <gradus/gradus.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "examples/support/cli.h"
#include "examples/training/ranks.h"
#include "workloads.h"

using namespace gradus;
using namespace gradus::core;
using namespace gradus::bench;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Runs f for `seconds`, at least three times, and returns the seconds of each run.
std::vector<double> time_runs(const std::function<void()>& f, double seconds) {
  std::vector<double> times;
  const double start = now();
  while (now() - start < seconds || times.size() < 3) {
    const double before = now();
    f();
    times.push_back(now() - before);
  }
  return times;
}

/// FLOP/s of a large matrix product on these threads.
double gemm_rate() {
  constexpr int64_t n = 1536;
  const Tensor a = randn({n, n}), b = randn({n, n}), c = empty({n, n});
  const auto times = time_runs(
      [&] {
        blas::gemm<float>({.trans_b = true,
                           .m = n,
                           .n = n,
                           .k = n,
                           .a = a.data<float>(),
                           .lda = n,
                           .b = b.data<float>(),
                           .ldb = n,
                           .c = c.data<float>(),
                           .ldc = n});
      },
      0.3);
  return 2.0 * n * n * n / *std::min_element(times.begin(), times.end());
}

/// Memory read bandwidth of all threads together, in bytes/s.
double read_rate() {
  constexpr int64_t n = 64 << 20;
  const Tensor x = zeros({n});
  const float* data = x.data<float>();
  volatile float sink = 0;
  const auto times = time_runs(
      [&] {
        sink = parallel_sum<float>(n, 1 << 16, [data](int64_t begin, int64_t end) {
          return simd_sum<float>(end - begin, [=](int64_t i) { return data[begin + i]; });
        });
      },
      0.3);
  return sizeof(float) * n / *std::min_element(times.begin(), times.end());
}

/// Nanoseconds that a cache line takes from one core to another and back: about 60 to 100 where
/// both share a last-level cache, 300 and more where they do not. A host may move a virtual
/// machine's cores while it runs. 0 with a single thread.
double round_trip() {
  if (num_threads() < 2) return 0;
  constexpr int trips = 20000;
  constexpr int over = -1;
  std::atomic<int> turn{0}, ready{0};
  double nanoseconds = 0;
  parallel_for(2, 1, [&](int64_t side, int64_t) {
    ++ready;
    const double limit = now() + 1;  // the worker may not come, or share this thread's core
    while (ready.load() < 2)
      if (now() > limit) turn.store(over), ready.store(2);
    const double start = now();
    for (int i = 0; i < trips; ++i) {
      while (turn.load() != 2 * i + side)
        if (turn.load() == over) return;
      const bool look = side == 0 && i % 256 == 255;
      if (look) nanoseconds = (now() - start) / i * 1e9;
      const bool late = look && nanoseconds * i > 1e9;
      turn.store(late ? over : 2 * i + 1 + static_cast<int>(side));
      if (late) return;
    }
  });
  return nanoseconds;
}

double flops_of(const std::function<void()>& step) {
  const Profile profile;
  step();
  double flops = 0;
  for (const ProfileRow& row : profile.rows()) flops += row.flops;
  return flops;
}

/// v rounded to `digits` decimal places.
double rounded(double v, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(v * scale) / scale;
}

void measure(const NamedWorkload& named, double seconds) {
  manual_seed(0);
  const Workload workload = named.make();
  workload.step();
  const double flops = flops_of(workload.step);
  const internal::ChunkCounts before = internal::chunk_counts();
  const std::vector<double> times = time_runs(workload.step, seconds);
  const internal::ChunkCounts after = internal::chunk_counts();
  const double step = median(times), steps = static_cast<double>(times.size());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  nlohmann::ordered_json line{
      {"workload", named.name},
      {"ms", rounded(step * 1e3, 3)},
      {"items_per_s", rounded(static_cast<double>(workload.items) / step, 1)},
      {"peak_rss_mb", usage.ru_maxrss / 1024},
      {"gflops", rounded(flops / step * 1e-9, 1)},
      {"bf16", modes().bfloat16 && has_bfloat16_products()},
      {"limit_share", rounded(flops / gemm_rate() / step, 3)},
  };
  line["round_trip_ns"] = rounded(round_trip(), 0);
  line["chunks"] = rounded(static_cast<double>(after.run - before.run) / steps, 1);
  line["moved_chunks"] = rounded(static_cast<double>(after.moved - before.moved) / steps, 1);
  if (workload.weight_bytes > 0) {
    const double bandwidth = read_rate();
    line["gb_per_s"] = rounded(workload.weight_bytes / step * 1e-9, 1);
    line["bandwidth_share"] = rounded(workload.weight_bytes / step / bandwidth, 3);
  }
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

void profile(const NamedWorkload& named, double seconds) {
  manual_seed(0);
  const Workload workload = named.make();
  workload.step();
  const Profile profile;
  const size_t steps = time_runs(workload.step, seconds).size();
  std::printf("%s: %zu steps\n%s\n", named.name.c_str(), steps, profile.table().c_str());
}

/// Times `steps` steps of a workload whose batches are divided among the ranks.
void measure_ranks(const NamedWorkload& named, int64_t steps, const Ranks& ranks) {
  RankSetup& setup = rank_setup();
  manual_seed(0);
  const Workload workload = named.make();
  core::check(setup.parallel != nullptr, named.name, ": no training step to divide among ranks");
  workload.step();
  const optim::DataParallel::Times before = setup.parallel->times();
  std::vector<double> times;
  for (int64_t i = 0; i < steps; ++i) {
    const double start = now();
    workload.step();
    times.push_back(now() - start);
  }
  const optim::DataParallel::Times after = setup.parallel->times();
  const double step = median(times), per_step = 1e3 / static_cast<double>(steps);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const nlohmann::ordered_json line{
      {"workload", named.name},
      {"ranks", ranks.size()},
      {"threads", num_threads()},
      {"ms", rounded(step * 1e3, 3)},
      {"items_per_s", rounded(static_cast<double>(workload.items * ranks.size()) / step, 1)},
      {"exchange_ms", rounded((after.exchange - before.exchange) * per_step, 2)},
      {"not_hidden_ms", rounded((after.wait - before.wait) * per_step, 2)},
      {"peak_rss_mb", usage.ru_maxrss / 1024}};
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
  setup.parallel = nullptr;
}

int run(int argc, char** argv) {
  CLI::App app("Times training steps and generation; one JSON line a workload.");
  app.option_defaults()->always_capture_default();
  std::vector<std::string> names;
  double seconds = 4;
  int threads = num_threads();
  bool with_profile = false, info = false;
  app.add_option("workloads", names, "default: all but those of growth.py");
  app.add_option("--seconds", seconds, "per workload")->check(CLI::NonNegativeNumber);
  app.add_option("--threads", threads, "threads")->check(CLI::Range(1, 1024));
  std::string precision = "float32";
  app.add_option("--precision", precision, "of products' operands")
      ->check(CLI::IsMember({"float32", "bf16"}));
  app.add_flag("--profile", with_profile, "a table by op instead");
  int64_t steps = 0;
  auto* with_steps = app.add_option("--steps", steps, "steps with several ranks or --batches")
                         ->check(CLI::PositiveNumber);
  app.add_option("--batches", rank_setup().batches, "batches per step and rank")
      ->needs(with_steps)
      ->check(CLI::PositiveNumber);
  app.add_flag("--shard-optimizer", rank_setup().shard_optimizer, "one share of it per rank")
      ->needs(with_steps);
  app.add_flag("--info", info, "print the build and the machine first");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  }
  set_num_threads(threads);
  const Bfloat16Products products(precision == "bf16");

  std::vector<NamedWorkload> chosen;
  if (names.empty()) {
    for (const NamedWorkload& w : workloads())
      if (!w.growth) chosen.push_back(w);
  } else {
    for (const std::string& name : names) {
      const auto found = std::find_if(workloads().begin(), workloads().end(),
                                      [&](const NamedWorkload& w) { return w.name == name; });
      check(found != workloads().end(), "bench: there is no workload ", name);
      chosen.push_back(*found);
    }
  }
  if (info) std::printf("%s\n", build_info().c_str());
  if (steps > 0) {
    const Ranks ranks(60);
    rank_setup().communicator = &ranks.communicator();
    for (const NamedWorkload& workload : chosen) measure_ranks(workload, steps, ranks);
    return 0;
  }
  for (const NamedWorkload& workload : chosen)
    with_profile ? profile(workload, seconds) : measure(workload, seconds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_program("bench", argc, argv, run); }
