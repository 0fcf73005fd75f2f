#pragma once
// Prefetching: prepares the next batch while a training step runs.

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

/// The order in which one consumer, for example one of several processes, requests batches. A batch
/// is identified by (step, index). In each step, the consumer requests the batches with the indices
/// first, first + stride, first + 2 stride, ... that are below per_step.
struct BatchOrder {
  int64_t per_step = 1;  ///< batches per step, for all consumers together
  int64_t first = 0;     ///< index of this consumer's first batch
  int64_t stride = 1;    ///< number of consumers
};

/// Calls a function (step, index) -> Batch ahead of time, on a separate thread. Example:
///   models::Prefetch<TokenBatch> batches([&](int64_t step, int64_t index) {
///     return data.random_batch(Split::train, 32, seed, step, index);
///   });
///   for (int64_t step = 0; step < steps; ++step) { const auto batch = batches.at(step); ... }
/// at() always returns the function's result: a batch that was not prefetched is computed when at()
/// is called. Each call of at() also starts the next batch on the other thread, in the modes (such
/// as NoGrad and EvalMode) of the calling thread. If the function throws an exception for a batch,
/// at() rethrows it for that batch.
///
/// The function must be pure and thread-safe, and everything it refers to must outlive this object.
/// The methods of TextData and PairData are thread-safe; those of Batches are not. The function and
/// the training step share one pool of worker threads: while a parallel loop of the training step
/// uses the pool, parallel loops of the function run on a single thread, and vice versa.
///
/// An object must be used by one thread at a time. The destructor waits for a batch in progress.
template <class Batch>
class Prefetch {
 public:
  using Make = std::function<Batch(int64_t step, int64_t index)>;  ///< makes one batch

  /// Starts the thread. Throws Error if `make` is empty, if no thread can be started, if
  /// order.per_step or order.stride is below 1, or if order.first is outside [0, order.per_step).
  explicit Prefetch(Make make, const BatchOrder& order = {})
      : make_(std::move(make)), order_(order) {
    core::check(make_ != nullptr, "Prefetch: expected a function");
    core::check(order.per_step >= 1, "Prefetch: expected at least 1 batch per step, got ",
                order.per_step);
    core::check(order.first >= 0 && order.first < order.per_step && order.stride >= 1,
                "Prefetch: expected 0 <= first < ", order.per_step, " and stride >= 1, got ",
                order.first, " and ", order.stride);
    try {
      worker_ = std::thread([this] { work(); });
    } catch (const std::system_error& e) {
      core::fail("Prefetch: cannot start a thread: ", e.what());
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

  /// Returns batch (step, index), and starts to compute the next batch on the other thread. The
  /// `order` passed to the constructor defines which batch is next.
  Batch at(int64_t step, int64_t index = 0) {
    const Position position{step, index};
    std::optional<Result> result;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return busy_ != position; });
      if (ready_ && ready_->position == position) result = std::move(ready_);
      wanted_ = next(position);  // replaces a request that the worker has not started
      const bool is_ready = ready_ && ready_->position == wanted_;
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
  struct Position {
    int64_t step, index;
    bool operator==(const Position&) const = default;
  };
  struct Result {
    Position position;
    std::optional<Batch> batch;
    std::exception_ptr error;  // set if make_ threw
  };

  std::optional<Position> next(const Position& position) const {
    if (position.index < order_.per_step - order_.stride)
      return Position{position.step, position.index + order_.stride};
    if (position.step == std::numeric_limits<int64_t>::max()) return std::nullopt;
    return Position{position.step + 1, order_.first};
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
        result.batch = make_(result.position.step, result.position.index);
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
  const BatchOrder order_;
  std::mutex mutex_;  // guards the members below, except changed_ and worker_
  std::condition_variable changed_;
  std::optional<Position> wanted_, busy_;  // the next batch to compute; the batch in progress
  std::optional<Result> ready_;
  core::Modes modes_;
  bool stop_ = false;
  std::thread worker_;
};

}  // namespace gradus::models
