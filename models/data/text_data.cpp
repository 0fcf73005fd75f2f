#include "gradus/models/data/text_data.h"

#include <algorithm>

#include "gradus/core/internal.h"
#include "gradus/core/random.h"

namespace gradus::models {

TextData::TextData(std::vector<int64_t> tokens, int64_t context)
    : tokens_(std::move(tokens)), context_(context), train_length_(std::ssize(tokens_) * 9 / 10) {
  check_lengths();
}

TextData::TextData(std::vector<int64_t> train, const std::vector<int64_t>& validation,
                   int64_t context)
    : tokens_(std::move(train)), context_(context), train_length_(std::ssize(tokens_)) {
  tokens_.insert(tokens_.end(), validation.begin(), validation.end());
  check_lengths();
}

void TextData::check_lengths() const {
  check(context_ >= 1, "text data: context must be positive, got ", context_);
  for (const Part part : {Part::train, Part::validation})
    check(length(part) > context_, "text data: ", length(part), " tokens of ", std::ssize(tokens_),
          " are too few to ", part == Part::train ? "train" : "validate", ": windows of ", context_,
          " need more than ", context_);
}

const int64_t* TextData::begin(Part part) const {
  return tokens_.data() + (part == Part::train ? 0 : train_length_);
}

int64_t TextData::length(Part part) const {
  return part == Part::train ? train_length_ : std::ssize(tokens_) - train_length_;
}

int64_t TextData::num_windows(Part part) const { return (length(part) - 1) / context_; }

TokenBatch TextData::gather(const int64_t* tokens, const std::vector<int64_t>& starts) const {
  const Shape shape{std::ssize(starts), context_};
  TokenBatch batch{empty(shape, int64), empty(shape, int64)};
  for (int64_t row = 0; row < std::ssize(starts); ++row) {
    const int64_t* from = tokens + starts[static_cast<size_t>(row)];
    std::copy_n(from, context_, batch.inputs.data<int64_t>() + row * context_);
    std::copy_n(from + 1, context_, batch.targets.data<int64_t>() + row * context_);
  }
  return batch;
}

TokenBatch TextData::random_batch(Part part, int64_t batch, uint64_t seed, int64_t step,
                                  int64_t index) const {
  constexpr int64_t rows = 1 << 16, indices = 1 << 16, steps = int64_t{1} << 32;
  check(batch >= 1 && batch <= rows, "text data: expected a batch of 1 to ", rows, " windows, got ",
        batch);
  check(step >= 0 && step < steps && index >= 0 && index < indices,
        "text data: expected a step in [0, ", steps, ") and an index in [0, ", indices, "), got ",
        step, " and ", index);
  // Philox as a hash: the seed, the part and the place in the run are all in key and counter.
  // Within these limits no two rows of a run share a counter.
  const RandomKey key{seed ^ (part == Part::train ? 0 : 0x9e3779b97f4a7c15u),
                      (static_cast<uint64_t>(step) << 32) + (static_cast<uint64_t>(index) << 16)};
  const auto choices = static_cast<uint64_t>(length(part) - context_);
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < batch; ++i) {
    const auto words = philox(key, static_cast<uint64_t>(i));
    const uint64_t wide = (static_cast<uint64_t>(words[0]) << 32) | words[1];
    starts.push_back(static_cast<int64_t>(wide % choices));
  }
  return gather(begin(part), starts);
}

TokenBatch TextData::windows(Part part, int64_t first, int64_t batch) const {
  check(first >= 0 && first < num_windows(part), "text data: window ", first, " is outside [0, ",
        num_windows(part), ")");
  check(batch >= 1, "text data: expected a batch of at least 1 window, got ", batch);
  const int64_t last = first + std::min(batch, num_windows(part) - first);
  std::vector<int64_t> starts;
  for (int64_t i = first; i < last; ++i) starts.push_back(i * context_);
  return gather(begin(part), starts);
}

}  // namespace gradus::models
