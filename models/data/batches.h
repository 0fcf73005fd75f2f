#pragma once
// Tensors of examples, batch by batch.

#include <array>
#include <cstddef>
#include <iterator>
#include <vector>

#include "gradus/core/ops/indexing.h"
#include "gradus/core/tensor/tensor.h"

namespace gradus::models {

struct BatchesOptions {
  int64_t size = 32;       ///< rows of a batch; the last of an epoch has what is left
  uint64_t seed = 0;       ///< with the epoch's number, of the order of its rows
  bool shuffle = true;     ///< else: in their own order
  bool drop_last = false;  ///< leaves out a last batch that would be smaller
};

namespace detail {

/// Throws Error unless there is such an epoch.
void check_epoch(int64_t epoch);

/// Which rows of n make up which batch: a function of (seed, epoch) alone.
class BatchOrder {
 public:
  BatchOrder(const std::vector<Tensor>& tensors, const BatchesOptions& options);
  const BatchesOptions& options() const { return options_; }
  /// How many batches an epoch has.
  int64_t batches() const;
  /// The rows of batch i of an epoch: int64 (b), i from 0. Throws Error if there is no such batch.
  Tensor rows(int64_t epoch, int64_t i) const;

 private:
  int64_t n_;
  BatchesOptions options_;
  // The order of the epoch that was asked for last.
  mutable int64_t ordered_epoch_ = -1;
  mutable Tensor order_;
};

}  // namespace detail

/// N tensors whose first axes are as long, such as examples and their labels, cut into batches of
/// the same rows of each. What a batch holds depends on the options and its number alone: not on
/// what was asked for before, nor on threads; a resumed run sees the batches of an uninterrupted
/// one.
///   const models::Batches train({images, labels}, {.size = 64, .seed = 1});
///   for (int64_t step = 0; step < steps; ++step) { const auto [x, y] = train.at(step); ... }
/// or by epochs:
///   for (const auto& [x, y] : train.epoch(3)) ...
/// Batches are copies; int64 and bool tensors are cut as well. Throws Error if first axes differ,
/// or an epoch would have no batch. One object belongs to one thread; a copy of it costs nothing.
template <size_t N>
class Batches {
 public:
  /// The same rows of each tensor.
  using Batch = std::array<Tensor, N>;

  Batches(const Tensor (&tensors)[N], const BatchesOptions& options = {})
      : tensors_(std::begin(tensors), std::end(tensors)), order_(tensors_, options) {}

  /// How many batches an epoch has.
  int64_t size() const { return order_.batches(); }
  /// The step-th batch of a run that begins with epoch 0 and goes on from epoch to epoch.
  Batch at(int64_t step) const { return batch(step / size(), step % size()); }

  /// One epoch's batches, to go through. (Batches themselves have no begin(): each epoch has an
  /// order of its own.)
  class Epoch {
   public:
    Epoch(const Batches& batches, int64_t number) : batches_(batches), number_(number) {}
    int64_t size() const { return batches_.size(); }  ///< how many batches
    /// Batch i, from 0. Throws Error if there is no such batch.
    Batch operator[](int64_t i) const { return batches_.batch(number_, i); }

    /// Goes from batch to batch.
    struct Iterator {
      const Epoch* epoch;  ///< must outlive it
      int64_t i;           ///< the batch's number
      ///@{
      /// As of any input iterator.
      Batch operator*() const { return (*epoch)[i]; }
      Iterator& operator++() { return ++i, *this; }
      bool operator==(const Iterator& other) const { return i == other.i; }
      ///@}
    };
    ///@{
    /// The first batch; behind the last.
    Iterator begin() const { return {this, 0}; }
    Iterator end() const { return {this, size()}; }
    ///@}

   private:
    Batches batches_;
    int64_t number_;
  };
  /// Throws Error unless number >= 0.
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
