#include "gradus/nn/positions.h"

#include <cmath>

#include "gradus/nn/init.h"

namespace gradus {

namespace {
void check_sizes(const char* op, int64_t length, int64_t dim) {
  check(length > 0 && dim > 0, op, ": expected sizes > 0, got ", length, " x ", dim);
}

Tensor rows(const char* op, const Tensor& table, int64_t length, int64_t offset) {
  check(length >= 0 && offset >= 0 && length <= table.size(0) - offset, op, ": positions ", offset,
        " to ", offset + length, " do not fit a context of ", table.size(0));
  return table.slice(0, offset, offset + length);
}
}  // namespace

Tensor sinusoidal_positions(int64_t length, int64_t dim) {
  check_sizes("sinusoidal_positions", length, dim);
  Tensor table = empty({length, dim});
  float* p = table.data<float>();
  for (int64_t t = 0; t < length; ++t)
    for (int64_t i = 0; i < dim; ++i) {
      const double pair = static_cast<double>(i - i % 2);
      const double angle = static_cast<double>(t) / std::pow(1e4, pair / static_cast<double>(dim));
      p[t * dim + i] = static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  return table;
}

LearnedPositions::LearnedPositions(int64_t context, int64_t dim) {
  check_sizes("LearnedPositions", context, dim);
  weight = param("weight", init::normal({context, dim}));
}

Tensor LearnedPositions::operator()(int64_t length, int64_t offset) const {
  return rows("LearnedPositions", weight, length, offset);
}

SinusoidalPositions::SinusoidalPositions(int64_t context, int64_t dim)
    : table(buffer("table", sinusoidal_positions(context, dim), /*persistent=*/false)) {}

Tensor SinusoidalPositions::operator()(int64_t length, int64_t offset) const {
  return rows("SinusoidalPositions", table, length, offset);
}

}  // namespace gradus
