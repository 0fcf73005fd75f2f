#include "gradus/models/data/text/pair_batch.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/data/draws.h"
#include "gradus/models/data/text/reading.h"

namespace gradus::models {

namespace {
constexpr uint64_t key_of_split = 0x6c62272e07bb0142u, key_of_fixed = 0x2545f4914f6cdd1du;
constexpr double no_target = -100;  // cross_entropy's ignore_index
}  // namespace

PairSource::PairSource(const char* name, const Tokenizer& source, const Tokenizer& target)
    : name_(name),
      source_pad_(source.special("[PAD]")),
      target_pad_(target.special("[PAD]")),
      start_(target.special("[START]")),
      end_(target.special("[END]")) {
  for (const Tokenizer* one : {&source, &target})
    check(one->vocab_size() < int64_t{1} << 31, name_,
          ": expected a vocabulary of less than 2^31 tokens, got ", one->vocab_size());
}

std::vector<bool> PairSource::held_out(const std::vector<std::span<const int32_t>>& sequences,
                                       double share, uint64_t seed) const {
  check(share >= 0 && share < 1, name_, ": expected a share for validation in [0, 1), got ", share);
  // The distinct sequences are numbered in the order of their tokens. Those whose numbers come
  // first in a random permutation are held out.
  std::map<std::span<const int32_t>, int64_t, internal::TokensLess> numbers;
  for (const auto& sequence : sequences) numbers.emplace(sequence, 0);
  int64_t count = 0;
  for (auto& [sequence, number] : numbers) number = count++;
  const auto rounded = static_cast<int64_t>(std::llround(share * static_cast<double>(count)));
  const int64_t count_held_out = share > 0 && count > 1 ? std::max<int64_t>(rounded, 1) : rounded;
  const Tensor order = randperm(count, {seed ^ key_of_split, 0});
  std::vector<bool> chosen(static_cast<size_t>(count)), result;
  for (int64_t i = 0; i < count_held_out; ++i)
    chosen[static_cast<size_t>(order.data<int64_t>()[i])] = true;
  for (const auto& sequence : sequences)
    result.push_back(chosen[static_cast<size_t>(numbers.at(sequence))]);
  return result;
}

PairBatch PairSource::gather(const std::vector<TokenPair>& rows) const {
  int64_t S = 0, T = 0;
  for (const TokenPair& row : rows) {
    S = std::max(S, std::ssize(row.source));
    T = std::max(T, std::ssize(row.target) + 1);
  }
  const int64_t B = std::ssize(rows);
  PairBatch batch{full({B, S}, static_cast<double>(source_pad_), int64), empty({B}, int64),
                  full({B, T}, static_cast<double>(target_pad_), int64),
                  full({B, T}, no_target, int64)};
  for (int64_t b = 0; b < B; ++b) {
    const auto& [x, y] = rows[static_cast<size_t>(b)];
    std::copy(x.begin(), x.end(), batch.source.data<int64_t>() + b * S);
    batch.source_lengths.data<int64_t>()[b] = std::ssize(x);
    int64_t* inputs = batch.inputs.data<int64_t>() + b * T;
    *inputs = start_;
    std::copy(y.begin(), y.end(), inputs + 1);
    *std::copy(y.begin(), y.end(), batch.targets.data<int64_t>() + b * T) = end_;
  }
  return batch;
}

PairBatch PairSource::random_batch(Split split, int64_t batch, uint64_t seed, int64_t step,
                                   int64_t index) const {
  const RandomKey key = internal::batch_key(name_, "pairs", {split, batch, seed, step, index});
  check(num_pairs(split) > 0, name_, ": no pairs are held out");
  std::vector<TokenPair> rows;
  for (int64_t i = 0; i < batch; ++i)
    rows.push_back(
        pair(split, internal::row_choice(key, i, num_pairs(split)), internal::row_key(key, i)));
  return gather(rows);
}

PairBatch PairSource::pairs(Split split, int64_t first, int64_t batch) const {
  check(first >= 0 && first < num_pairs(split), name_, ": pair ", first, " is outside [0, ",
        num_pairs(split), ")");
  check(batch >= 1, name_, ": expected a batch of at least 1 pair, got ", batch);
  const RandomKey key{key_of_fixed + (split == Split::train ? 0 : 1), 0};
  std::vector<TokenPair> rows;
  for (int64_t i = first; i < first + std::min(batch, num_pairs(split) - first); ++i)
    rows.push_back(pair(split, i, internal::row_key(key, i)));
  return gather(rows);
}

}  // namespace gradus::models
