#include "examples/support/drawn_digits.h"

#include <algorithm>
#include <cmath>

#include "gradus/core/ops/factories.h"
#include "gradus/core/runtime/random.h"
#include "gradus/models/data/images/images.h"

namespace gradus {
namespace {

constexpr int columns = 5, rows = 7, side = 28;

// Each number is a row of dots; its highest bit is the leftmost dot.
constexpr uint8_t font[10][rows] = {{14, 17, 19, 21, 25, 17, 14}, {4, 12, 4, 4, 4, 4, 14},
                                    {14, 17, 1, 2, 4, 8, 31},     {31, 2, 4, 2, 1, 17, 14},
                                    {2, 6, 10, 18, 31, 2, 2},     {31, 16, 30, 1, 1, 17, 14},
                                    {6, 8, 16, 30, 17, 17, 14},   {31, 1, 2, 4, 8, 8, 8},
                                    {14, 17, 17, 14, 17, 17, 14}, {14, 17, 17, 15, 1, 2, 12}};

/// 1 if the digit has a dot at (row, column), else 0, also outside.
double dot(int64_t digit, int row, int column) {
  if (row < 0 || row >= rows || column < 0 || column >= columns) return 0;
  return font[digit][row] >> (columns - 1 - column) & 1;
}

/// Bilinear interpolation of the dots.
double ink(int64_t digit, double y, double x) {
  const int row = static_cast<int>(std::floor(y)), column = static_cast<int>(std::floor(x));
  const double v = y - row, u = x - column;
  return (1 - v) * ((1 - u) * dot(digit, row, column) + u * dot(digit, row, column + 1)) +
         v * ((1 - u) * dot(digit, row + 1, column) + u * dot(digit, row + 1, column + 1));
}

}  // namespace

Digits drawn_digits(int64_t n, uint64_t seed, double variety) {
  const Digits digits{zeros({n, side, side}), zeros({n}, int64)};
  for (int64_t i = 0; i < n; ++i) {
    uint64_t block = 0;
    auto uniform = [&](double low, double high) {
      const auto words = philox({seed, static_cast<uint64_t>(i) << 32}, block++);
      return low + (high - low) * uniform_double(words[0], words[1]);
    };
    const auto digit = static_cast<int64_t>(uniform(0, 10));
    const auto near = [&](double low, double high) {
      const double middle = (low + high) / 2;
      return uniform(std::lerp(middle, low, variety), std::lerp(middle, high, variety));
    };
    const double angle = near(-0.3, 0.3), down = near(-3, 3), right = near(-3, 3);
    const double height = near(2.2, 3.4), width = near(2.2, 3.4);  // pixels per dot
    float* pixel = digits.images.data<float>() + i * side * side;
    for (int row = 0; row < side; ++row)
      for (int column = 0; column < side; ++column) {
        const double y = row - side / 2.0 - down, x = column - side / 2.0 - right;
        const double v = (std::cos(angle) * y - std::sin(angle) * x) / height + (rows - 1) / 2.0;
        const double u = (std::sin(angle) * y + std::cos(angle) * x) / width + (columns - 1) / 2.0;
        const double value = ink(digit, v, u) + uniform(-0.3, 0.3);
        *pixel++ = static_cast<float>(std::clamp(value, 0.0, 1.0));
      }
    digits.labels.data<int64_t>()[i] = digit;
  }
  return digits;
}

Digits read_digits(const std::string& source) {
  if (source.empty()) return drawn_digits(10000, 0, 0.3);
  const models::ImageData data = models::read_images(source).train;
  const Shape shape = data.shape();
  core::check(shape[1] == 1 && shape[2] % 4 == 0 && shape[3] % 4 == 0, source,
              ": expected grey images with sides that are multiples of 4, got ", shape);
  const models::ImageBatch all = data.range(0, data.size());
  return {all.images.squeeze(1), all.labels};
}

}  // namespace gradus
