#include "gradus/models/data/text/text_data.h"

#include <algorithm>

#include "gradus/core/internal.h"
#include "gradus/models/data/draws.h"

namespace gradus::models {

TextData::TextData(std::vector<int64_t> tokens, int64_t context)
    : tokens_(std::move(tokens)),
      total_(std::ssize(tokens_)),
      context_(context),
      train_length_(total_ * 9 / 10) {
  check_lengths();
}

TextData::TextData(std::vector<int64_t> train, const std::vector<int64_t>& validation,
                   int64_t context)
    : tokens_(std::move(train)),
      total_(std::ssize(tokens_) + std::ssize(validation)),
      context_(context),
      train_length_(std::ssize(tokens_)) {
  tokens_.insert(tokens_.end(), validation.begin(), validation.end());
  check_lengths();
}

TextData::TextData(TokenFile tokens, int64_t context)
    : files_{std::move(tokens)},
      total_(files_[0].size()),
      context_(context),
      train_length_(total_ / 10 * 9 + total_ % 10 * 9 / 10) {
  check_lengths();
}

TextData::TextData(TokenFile train, TokenFile validation, int64_t context)
    : files_{std::move(train), std::move(validation)},
      total_(files_[0].size() + files_[1].size()),
      context_(context),
      train_length_(files_[0].size()) {
  check_lengths();
}

void TextData::check_lengths() const {
  check(context_ >= 1, "text data: context must be positive, got ", context_);
  for (const Split split : {Split::train, Split::validation})
    check(length(split) > context_, "text data: ", length(split), " tokens of ", total_,
          " are too few to ", split == Split::train ? "train" : "validate", ": windows of ",
          context_, " need more than ", context_);
}

void TextData::copy(Split split, int64_t first, int64_t n, int64_t* to) const {
  const bool own_file = files_.size() == 2 && split == Split::validation;
  const int64_t begin = split == Split::train || own_file ? first : train_length_ + first;
  if (files_.empty())
    std::copy_n(tokens_.data() + begin, n, to);
  else
    files_[own_file].read(begin, n, to);
}

int64_t TextData::length(Split split) const {
  return split == Split::train ? train_length_ : total_ - train_length_;
}

int64_t TextData::num_windows(Split split) const { return (length(split) - 1) / context_; }

TokenBatch TextData::gather(Split split, const std::vector<int64_t>& starts, int64_t length) const {
  const Shape shape{std::ssize(starts), length};
  TokenBatch batch{empty(shape, int64), empty(shape, int64)};
  std::vector<int64_t> window(static_cast<size_t>(length) + 1);
  for (int64_t row = 0; row < std::ssize(starts); ++row) {
    copy(split, starts[static_cast<size_t>(row)], length + 1, window.data());
    std::copy_n(window.data(), length, batch.inputs.data<int64_t>() + row * length);
    std::copy_n(window.data() + 1, length, batch.targets.data<int64_t>() + row * length);
  }
  return batch;
}

TokenBatch TextData::random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                                  int64_t index) const {
  const RandomKey key =
      internal::batch_key("text data", "windows", {split, batch, seed, step, index});
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < batch; ++i)
    starts.push_back(internal::row_choice(key, i, length(split) - context_));
  return gather(split, starts, context_);
}

TokenBatch TextData::windows(Split split, int64_t first, int64_t batch) const {
  check(first >= 0 && first < num_windows(split), "text data: window ", first, " is outside [0, ",
        num_windows(split), ")");
  check(batch >= 1, "text data: expected a batch of at least 1 window, got ", batch);
  const int64_t last = first + std::min(batch, num_windows(split) - first);
  std::vector<int64_t> starts;
  for (int64_t i = first; i < last; ++i) starts.push_back(i * context_);
  return gather(split, starts, context_);
}

TokenBatch TextData::after_windows(Split split) const {
  const int64_t first = num_windows(split) * context_;
  return gather(split, {first}, length(split) - 1 - first);
}

}  // namespace gradus::models
