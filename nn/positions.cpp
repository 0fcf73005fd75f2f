#include "gradus/nn/positions.h"

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
  const Tensor table = empty(checked_sizes("sinusoidal_positions", {length, dim}), dtype);
  dispatch_floating("sinusoidal_positions", dtype, [&]<class T>(TypeTag<T>) {
    T* p = table.data<T>();
    for (int64_t t = 0; t < length; ++t)
      for (int64_t i = 0; i < dim; ++i) {
        const double pair = static_cast<double>(i - i % 2), time = static_cast<double>(t);
        const double angle = time / std::pow(1e4, pair / static_cast<double>(dim));
        p[t * dim + i] = static_cast<T>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
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
