#include "gradus/nn/positions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gradus/core/internal.h"
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
/// What a pair's frequency is divided by: from 1 to o.factor.
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
      const double tokens = wave * slowed(1 / wave, o);  // per radian
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

SinusoidalPositions::SinusoidalPositions(int64_t context, int64_t dim)
    : table(buffer("table", sinusoidal_table(context, dim))) {}

Tensor SinusoidalPositions::operator()(int64_t length, int64_t offset) const {
  return rows("SinusoidalPositions", table, length, offset);
}

}  // namespace gradus::nn
