#include "gradus/nn/positions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/shape.h"
#include "gradus/nn/key_value_cache.h"
#include "gradus/nn/loading.h"

namespace gradus::nn {

namespace {
Tensor rows(const char* op, const Tensor& table, int64_t length, int64_t offset) {
  check(length >= 0 && offset >= 0 && length <= table.size(0) - offset, op, ": ", length,
        " positions from ", offset, " on do not fit a context of ", table.size(0));
  return table.slice(0, offset, offset + length);
}
}  // namespace

Tensor sinusoidal_positions(int64_t length, int64_t dim, Dtype dtype) {
  checked_sizes("sinusoidal_positions", {length, dim});
  return rotary_positions(length, dim, {}, dtype);
}

namespace {
/// Returns the number, from 1 to o.factor, by which the options divide a pair's frequency.
double slowed(double frequency, const RotaryOptions& o) {
  if (o.factor == 1) return 1;
  const double turns = static_cast<double>(o.trained_context) * frequency / (2 * std::numbers::pi);
  const double kept = std::clamp((turns - o.low_turns) / (o.high_turns - o.low_turns), 0.0, 1.0);
  return 1 / (kept + (1 - kept) / o.factor);
}
}  // namespace

Tensor rotary_positions(int64_t length, int64_t dim, const RotaryOptions& o, Dtype dtype) {
  check(o.theta > 0 && o.factor >= 1 && o.low_turns >= 0 && o.low_turns < o.high_turns &&
            o.trained_context > 0,
        "rotary_positions: expected theta > 0, factor >= 1, 0 <= low_turns < high_turns and ",
        "trained_context > 0, got ", o.theta, ", ", o.factor, ", ", o.low_turns, ", ", o.high_turns,
        " and ", o.trained_context);
  const Tensor table = empty(checked_sizes("rotary_positions", {length, dim}), dtype);
  dispatch_floating("rotary_positions", dtype, [&]<class T>(TypeTag<T>) {
    T* p = table.data<T>();
    for (int64_t i = 0; i < dim; ++i) {
      const double wave =
          std::pow(o.theta, static_cast<double>(i - i % 2) / static_cast<double>(dim));
      const double tokens = wave * slowed(1 / wave, o);  // number of tokens per radian
      for (int64_t t = 0; t < length; ++t) {
        const double angle = static_cast<double>(t) / tokens;
        p[t * dim + i] = static_cast<T>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
      }
    }
  });
  return table;
}

LearnedPositions::LearnedPositions(int64_t context, int64_t dim)
    : weight(param("weight", {context, dim}, init::normal())) {}

Tensor LearnedPositions::operator()(int64_t length, int64_t offset) const {
  return rows("LearnedPositions", weight, length, offset);
}

Tensor LearnedPositions::operator()(const Tensor& positions) const {
  return embedding(weight, positions);
}

SinusoidalPositions::SinusoidalPositions(int64_t context, int64_t dim)
    : table(buffer("table", sinusoidal_table(context, dim))) {}

Tensor SinusoidalPositions::operator()(int64_t length, int64_t offset) const {
  return rows("SinusoidalPositions", table, length, offset);
}

Tensor SinusoidalPositions::operator()(const Tensor& positions) const {
  return embedding(table, positions);
}

Tensor same_example(const Tensor& x, const Tensor& positions) {
  if (!positions.defined()) return {};
  check(x.rank() >= 2, "same_example: expected x (B, T, ...), got ", x.shape());
  const int64_t B = x.size(0), T = x.size(1);
  check_tensor("same_example", "positions", positions, int64, {B, T});
  const std::vector<int64_t> all = positions.to_vector<int64_t>();
  for (int64_t i = 0; i < B * T; ++i) {
    const int64_t at = all[static_cast<size_t>(i)],
                  next = i % T == 0 ? 0 : all[static_cast<size_t>(i - 1)] + 1;
    check(at == 0 || at == next,
          "same_example: positions count an example's tokens from 0: expected 0 or ", next,
          ", got ", at);
  }
  const Tensor first = arange(T) - positions;  // (B, T): where its example starts
  return ge(arange(T), first.unsqueeze(2)).unsqueeze(1);
}

namespace {
void check_operands(const Tensor& x, const Tensor& weight) {
  check_shape("token_shift", "x", x, {"B", "T", "dim"});
  check_tensor("token_shift", "a weight", weight, x.dtype(), {x.size(2)});
}

/// Returns 1 for each token that may attend to the token before it, else 0: (B, T, 1).
Tensor sees_previous(const Tensor& mask, const Tensor& x) {
  const int64_t B = x.size(0), T = x.size(1);
  core::check_tensor("token_shift", "a mask", mask, boolean, {B, 1, T, T});
  std::vector<int64_t> before;  // in the flat mask: row t, column t - 1
  for (int64_t t = 1; t < T; ++t) before.push_back(t * T + t - 1);
  const Tensor seen =
      index_select(mask.reshape({B, T * T}), 1, from_data(before, {std::ssize(before)}));
  return pad(seen.to(x.dtype()), {1, 0}).unsqueeze(2);
}
}  // namespace

Tensor token_shift(const Tensor& x, const Tensor& weight, const Tensor& mask) {
  if (!weight.defined()) return x;
  check_operands(x, weight);
  Tensor previous = pad(x.slice(1, 0, -1), {0, 0, 1, 0});
  if (mask.defined()) previous = previous * sees_previous(mask, x);
  return x + (previous - x) * weight;
}

Tensor token_shift(const Tensor& x, const Tensor& weight, KeyValueCache& cache, size_t sublayer,
                   bool save) {
  if (!weight.defined()) return x;
  check_operands(x, weight);
  return x + (cache.previous_tokens(sublayer, x, save) - x) * weight;
}

}  // namespace gradus::nn
