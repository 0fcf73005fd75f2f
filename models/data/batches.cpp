#include "gradus/models/data/batches.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/runtime/ceil_div.h"

namespace gradus::models::detail {

namespace {
// Each epoch draws its order from a separate range of counters. The key differs from the seed
// because manual_seed(seed) uses the seed itself.
constexpr int64_t max_rows = int64_t{1} << 32, max_epochs = int64_t{1} << 31;
constexpr uint64_t key_of_batches = 0x8f1bbcdcbfa53e0au;
}  // namespace

void check_epoch(int64_t epoch) {
  check(epoch >= 0 && epoch < max_epochs, "Batches: expected an epoch in [0, ", max_epochs,
        "), got ", epoch);
}

BatchOrder::BatchOrder(const std::vector<Tensor>& tensors, const BatchesOptions& options)
    : n_(0), options_(options) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    check(x.defined() && x.rank() >= 1, "Batches: expected tensors of rank 1 or more, but tensor ",
          i, " is ", x.defined() ? "of rank 0" : "undefined");
    check(!is_compressed(x.dtype()), "Batches: expected float32, float64, int64 or bool, but ",
          "tensor ", i, " is ", x.dtype());
    if (i == 0) n_ = x.size(0);
    check(x.size(0) == n_, "Batches: tensor 0 has ", n_, " rows, tensor ", i, " has ", x.size(0));
  }
  check(options.size >= 1, "Batches: expected a batch of at least 1 row, got ", options.size);
  check(n_ < max_rows, "Batches: ", n_, " rows are too many, expected fewer than 2^32");
  check(batches() >= 1, "Batches: ", n_, " rows make no batch of ", options.size);
}

int64_t BatchOrder::batches() const {
  return options_.drop_last ? n_ / options_.size : ceil_div(n_, options_.size);
}

Tensor BatchOrder::rows(int64_t epoch, int64_t i) const {
  check_epoch(epoch);
  check(i >= 0 && i < batches(), "Batches: batch ", i, " is outside [0, ", batches(), ")");
  const int64_t first = i * options_.size, last = first + std::min(options_.size, n_ - first);
  if (!options_.shuffle) return arange(static_cast<double>(first), static_cast<double>(last));
  if (epoch != ordered_epoch_) {
    order_ = randperm(n_, {options_.seed ^ key_of_batches, static_cast<uint64_t>(epoch) << 32});
    ordered_epoch_ = epoch;
  }
  return order_.slice(0, first, last);
}

}  // namespace gradus::models::detail
