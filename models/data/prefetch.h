#pragma once
// The next batch, made while the step runs.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "gradus/core/runtime/error.h"
#include "gradus/core/runtime/modes.h"

namespace gradus::models {

/// A function (step, index) -> Batch, whose next result a thread of its own makes in advance.
///   models::Prefetch<TokenBatch> batches([&](int64_t step, int64_t index) {
///     return data.random_batch(Split::train, 32, seed, step, index);
///   });
///   for (int64_t step = 0; step < steps; ++step) { const TokenBatch batch = batches.at(step); ... }
/// What is asked for is what the function gives, whatever was made in advance: another batch than
/// the next is made there and then. The function must be a pure one, safe to call from two threads
/// at once (TextData's and PairData's are; Batches' is not, as it remembers an epoch's order), and
/// must outlive the object with all that it refers to. It sees the modes (NoGrad, EvalMode) of the
/// thread that asks, as they stand when the batch before is asked for. If it throws, the exception
/// comes out where that batch is asked for. Its parallel loops run on its thread alone while the
/// step's have the others.
///
/// One object belongs to one thread. Destroying it waits for a batch that is being made.
template <class Batch>
class Prefetch {
 public:
  using Make = std::function<Batch(int64_t step, int64_t index)>;  ///< makes one batch

  /// `indices`: batches a step: after (step, index) comes (step, index + 1), after the step's last
  /// (step + 1, 0). Throws Error if it is not positive, or the system has no thread left.
  explicit Prefetch(Make make, int64_t indices = 1) : make_(std::move(make)), indices_(indices) {
    core::check(make_ != nullptr, "Prefetch: expected a function");
    core::check(indices >= 1, "Prefetch: expected at least 1 batch a step, got ", indices);
    try {
      worker_ = std::thread([this] { work(); });
    } catch (const std::system_error& e) {
      core::fail("Prefetch: no thread: ", e.what());
    }
  }
  ~Prefetch() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  /// make(step, index). The one after it is begun.
  Batch at(int64_t step, int64_t index = 0) {
    const Place place{step, index};
    std::optional<Result> result;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return busy_ != place; });
      if (ready_ && ready_->place == place) result = std::move(ready_);
      wanted_ = next(place);  // in the place of one that is not begun: that is made below
      const bool is_ready = ready_ && ready_->place == wanted_;
      if (!is_ready) ready_.reset();
      if (is_ready || busy_ == wanted_) wanted_.reset();
      modes_ = core::modes();
    }
    changed_.notify_all();
    if (!result) return make_(step, index);
    if (result->error) std::rethrow_exception(result->error);
    return *std::move(result->batch);
  }

 private:
  struct Place {
    int64_t step, index;
    bool operator==(const Place&) const = default;
  };
  struct Result {
    Place place;
    std::optional<Batch> batch;
    std::exception_ptr error;  // or this
  };

  std::optional<Place> next(const Place& place) const {
    if (place.index < indices_ - 1) return Place{place.step, place.index + 1};
    if (place.step == std::numeric_limits<int64_t>::max()) return std::nullopt;
    return Place{place.step + 1, 0};
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || wanted_; });
      if (stop_) return;
      busy_ = std::exchange(wanted_, std::nullopt);
      Result result{*busy_, std::nullopt, nullptr};
      core::modes() = modes_;
      lock.unlock();
      try {
        result.batch = make_(result.place.step, result.place.index);
      } catch (...) {
        result.error = std::current_exception();
      }
      lock.lock();
      ready_ = std::move(result);
      busy_.reset();
      changed_.notify_all();
    }
  }

  const Make make_;
  const int64_t indices_;
  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  std::optional<Place> wanted_, busy_;  // to be made; being made
  std::optional<Result> ready_;
  core::Modes modes_;
  bool stop_ = false;
  std::thread worker_;
};

}  // namespace gradus::models
