// Modes: scopes that end in any order, and modes inside parallel loops.

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "gradus/core/core.h"
#include "gradus/core/runtime/parallel.h"

namespace modes_test {

using namespace gradus;
using namespace gradus::core;

TEST_CASE("modes that end in a different order", "[modes]") {
  auto outer = std::make_unique<NoGrad>();
  auto inner = std::make_unique<NoGrad>();
  outer.reset();
  CHECK(!grad_enabled());
  inner.reset();
  CHECK(grad_enabled());

  std::optional<NoGrad> off(std::in_place);
  std::optional<EvalMode> eval(std::in_place);
  std::optional<GradMode> on(std::in_place, true);
  std::optional<NoGrad> off_again(std::in_place);
  CHECK(!grad_enabled());
  on.reset();  // in the middle
  CHECK(!grad_enabled());
  off_again.reset();
  CHECK(!grad_enabled());
  CHECK(!is_training());
  off.reset();
  CHECK(grad_enabled());
  CHECK(!is_training());
  eval.reset();
  CHECK(is_training());
}

TEST_CASE("a loop's workers see the modes of the thread that runs it", "[modes]") {
  const int before = num_threads();
  set_num_threads(3);
  auto count = [](auto&& holds) {
    std::atomic<int> found{0}, threads{0};
    const auto caller = std::this_thread::get_id();
    // Repeats until another thread has run a chunk, which may take long on a busy machine.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (threads == 0 && std::chrono::steady_clock::now() < deadline) {
      found = 0;
      parallel_for(64, 1, [&](int64_t, int64_t) {
        if (std::this_thread::get_id() != caller) ++threads;
        if (holds()) ++found;
        for (int spin = 0; spin < 1000; ++spin) std::atomic_signal_fence(std::memory_order_seq_cst);
      });
      if (found != 64) break;
    }
    CHECK(threads > 0);
    return found.load();
  };
  CHECK(count([] { return grad_enabled() && is_training(); }) == 64);
  {
    const NoGrad no_grad;
    const EvalMode eval;
    CHECK(count([] { return !grad_enabled() && !is_training(); }) == 64);
    const GradMode on(true);
    CHECK(count([] { return grad_enabled() && !is_training(); }) == 64);
  }
  {
    const AnomalyMode anomaly;
    CHECK(count([] {
            const Tensor x = tensor({0}).requires_grad_();
            try {
              log(x).backward();
              return false;
            } catch (const Error&) {
              return true;
            }
          }) == 64);
  }
  CHECK(count([] { return grad_enabled() && is_training(); }) == 64);
  set_num_threads(before);
}

}  // namespace modes_test
