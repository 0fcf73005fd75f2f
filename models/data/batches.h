#pragma once
// Batches: divides tensors with one example per row into batches.

#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

#include "gradus/core/ops/indexing.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::models {

struct BatchesOptions {
  int64_t size = 32;       ///< rows per batch; the last batch of an epoch may be smaller
  uint64_t seed = 0;       ///< random seed of the shuffle; each epoch has its own order
  bool shuffle = true;     ///< whether to shuffle the rows in each epoch
  bool drop_last = false;  ///< whether to drop an epoch's last batch if it is smaller than `size`
};

namespace detail {

/// Throws Error unless 0 <= epoch < 2^31.
void check_epoch(int64_t epoch);

/// Assigns rows to batches. The assignment depends only on the number of rows, the options and the
/// epoch.
class BatchOrder {
 public:
  BatchOrder(const std::vector<Tensor>& tensors, const BatchesOptions& options);
  const BatchesOptions& options() const { return options_; }
  /// Returns the number of batches per epoch.
  int64_t batches() const;
  /// Returns the row indices of batch i of an epoch: (b) int64 for a batch of b rows. Batches and
  /// epochs are counted from 0. Throws Error unless 0 <= i < batches() and 0 <= epoch < 2^31.
  Tensor rows(int64_t epoch, int64_t i) const;

 private:
  int64_t n_;
  BatchesOptions options_;
  // Cache: the row order of the most recently used epoch.
  mutable int64_t ordered_epoch_ = -1;
  mutable Tensor order_;
};

}  // namespace detail

/// Divides N tensors with the same number of rows (axis 0), for example images and their labels,
/// into batches. Each batch contains the same rows of every tensor. A batch depends only on the
/// tensors, the options and its number, not on earlier calls or threads. A resumed run therefore
/// sees the same batches as an uninterrupted run.
/// Usage by step:
///   const models::Batches train({images, labels}, {.size = 64, .seed = 1});
///   for (int64_t step = 0; step < steps; ++step) { const auto [x, y] = train.at(step); ... }
/// or by epoch:
///   for (const auto& [x, y] : train.epoch(3)) ...
/// A batch contains copies of rows. The constructor throws Error if a tensor is undefined, has rank
/// 0 or is bfloat16 or int8, if the numbers of rows differ or are 2^32 or more, if the batch size
/// is below 1, or if an epoch would have no batch. A Batches object must be used by one thread at a
/// time. Copying a Batches object is cheap.
template <size_t N>
class Batches {
 public:
  /// One batch: element k contains the batch's rows of tensor k.
  using Batch = std::array<Tensor, N>;

  Batches(const Tensor (&tensors)[N], const BatchesOptions& options = {})
      : tensors_(std::begin(tensors), std::end(tensors)), order_(tensors_, options) {}

  /// Returns the number of batches per epoch.
  int64_t size() const { return order_.batches(); }
  /// Returns batch `step`, counted from 0 across consecutive epochs. Throws Error unless
  /// 0 <= step < 2^31 * size().
  Batch at(int64_t step) const { return batch(step / size(), step % size()); }

  /// The batches of one epoch, as a range for range-based for loops.
  class Epoch {
   public:
    Epoch(const Batches& batches, int64_t number) : batches_(batches), number_(number) {}
    int64_t size() const { return batches_.size(); }  ///< number of batches
    /// Returns batch i of the epoch, counted from 0. Throws Error unless 0 <= i < size().
    Batch operator[](int64_t i) const { return batches_.batch(number_, i); }

    /// Iterates over the batches.
    struct Iterator {
      const Epoch* epoch;  ///< must outlive the iterator
      int64_t i;           ///< index of the current batch
      ///@{
      /// The operations that a range-based for loop needs.
      Batch operator*() const { return (*epoch)[i]; }
      Iterator& operator++() { return ++i, *this; }
      bool operator==(const Iterator& other) const { return i == other.i; }
      ///@}
    };
    ///@{
    /// Return iterators to the first batch and past the last batch.
    Iterator begin() const { return {this, 0}; }
    Iterator end() const { return {this, size()}; }
    ///@}

   private:
    Batches batches_;
    int64_t number_;
  };
  /// Returns the batches of epoch `number`, counted from 0. Throws Error unless
  /// 0 <= number < 2^31.
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
