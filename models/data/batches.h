#pragma once
// Batches of examples that are rows of tensors.

#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

#include "gradus/core/ops/indexing.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::models {

struct BatchesOptions {
  int64_t size = 32;       ///< rows per batch; the last batch of an epoch may be smaller
  uint64_t seed = 0;       ///< determines, with the epoch's number, the order of rows
  bool shuffle = true;     ///< false: rows in their own order
  bool drop_last = false;  ///< drops a smaller last batch
};

namespace detail {

/// Throws Error unless the epoch is in range.
void check_epoch(int64_t epoch);

/// Assigns n rows to batches; the assignment depends on (seed, epoch) alone.
class BatchOrder {
 public:
  BatchOrder(const std::vector<Tensor>& tensors, const BatchesOptions& options);
  const BatchesOptions& options() const { return options_; }
  /// Number of batches per epoch.
  int64_t batches() const;
  /// Rows of batch i of an epoch: (b) int64, i from 0. Throws Error if there is no such batch.
  Tensor rows(int64_t epoch, int64_t i) const;

 private:
  int64_t n_;
  BatchesOptions options_;
  // Cache: the order of the rows in the epoch used last.
  mutable int64_t ordered_epoch_ = -1;
  mutable Tensor order_;
};

}  // namespace detail

/// Cuts N tensors with equally long first axes, such as examples and their labels, into batches of
/// matching rows. A batch depends on the options and its number alone, not on earlier calls or
/// threads: a resumed run sees the batches of an uninterrupted one.
///   const models::Batches train({images, labels}, {.size = 64, .seed = 1});
///   for (int64_t step = 0; step < steps; ++step) { const auto [x, y] = train.at(step); ... }
/// or by epochs:
///   for (const auto& [x, y] : train.epoch(3)) ...
/// Batches are copies; tensors may have any dtype. Throws Error if first axes differ or an epoch
/// would have no batch. Each object belongs to one thread; copies of it are cheap.
template <size_t N>
class Batches {
 public:
  /// The same rows of each tensor.
  using Batch = std::array<Tensor, N>;

  Batches(const Tensor (&tensors)[N], const BatchesOptions& options = {})
      : tensors_(std::begin(tensors), std::end(tensors)), order_(tensors_, options) {}

  /// Number of batches per epoch.
  int64_t size() const { return order_.batches(); }
  /// Batch number `step` of a run of consecutive epochs from epoch 0 on.
  Batch at(int64_t step) const { return batch(step / size(), step % size()); }

  /// Range of one epoch's batches. (Batches itself has no begin(): each epoch has its own order.)
  class Epoch {
   public:
    Epoch(const Batches& batches, int64_t number) : batches_(batches), number_(number) {}
    int64_t size() const { return batches_.size(); }  ///< number of batches
    /// Batch i, from 0. Throws Error if there is no such batch.
    Batch operator[](int64_t i) const { return batches_.batch(number_, i); }

    /// Iterates over the batches.
    struct Iterator {
      const Epoch* epoch;  ///< must outlive the iterator
      int64_t i;           ///< number of the batch
      ///@{
      /// As for any input iterator.
      Batch operator*() const { return (*epoch)[i]; }
      Iterator& operator++() { return ++i, *this; }
      bool operator==(const Iterator& other) const { return i == other.i; }
      ///@}
    };
    ///@{
    /// Iterators to the first batch and past the last.
    Iterator begin() const { return {this, 0}; }
    Iterator end() const { return {this, size()}; }
    ///@}

   private:
    Batches batches_;
    int64_t number_;
  };
  /// The batches of one epoch. Throws Error if number < 0.
  Epoch epoch(int64_t number) const {
    detail::check_epoch(number);
    return Epoch(*this, number);
  }

 private:
  Batch batch(int64_t epoch, int64_t i) const {
    const Tensor rows = order_.rows(epoch, i);
    Batch out;
    for (size_t k = 0; k < N; ++k) out[k] = index_select(tensors_[k], 0, rows);
    return out;
  }

  std::vector<Tensor> tensors_;
  detail::BatchOrder order_;
};

}  // namespace gradus::models
