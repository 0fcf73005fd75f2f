// Tensors of random numbers. Element i is a function of the op's key and i alone, so the numbers
// are the same at any thread count.

#include "gradus/core/random.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "gradus/core/internal.h"
#include "gradus/core/kernels/math.h"
#include "gradus/core/parallel.h"
#include "gradus/core/profiler.h"
#include "gradus/core/tensor.h"

namespace gradus {

namespace {

/// Philox blocks made at a time; a chunk of work.
constexpr int64_t batch_blocks = 256, chunk_blocks = 16 * batch_blocks;

/// Elements that one block of four words makes: 4 float32, or 2 of eight bytes.
template <class T>
constexpr int64_t per_block = 16 / static_cast<int64_t>(sizeof(T));

/// The words of `count` blocks from `first`, as four rows of batch_blocks.
void fill_words(RandomKey key, int64_t first, int64_t count, uint32_t (*words)[batch_blocks]) {
  simd_for(count, [=](int64_t i) {
    const auto w = philox(key, static_cast<uint64_t>(first + i));
    for (size_t k = 0; k < 4; ++k) words[k][i] = w[k];
  });
}

/// Fills y: each block's words w make elements through fill(w, number of blocks, values), where
/// values is per_block<T> rows of batch_blocks.
template <class T, class Fill>
Tensor generate(const Shape& shape, Dtype dtype, const Fill& fill) {
  const Tensor y = empty(shape, dtype);
  const int64_t n = y.numel(), blocks = (n + per_block<T> - 1) / per_block<T>;
  const RandomKey key = default_generator().reserve(4 * blocks);
  T* out = y.data<T>();
  parallel_for(blocks, chunk_blocks, [=, &fill](int64_t begin, int64_t end) {
    uint32_t words[4][batch_blocks];
    T values[per_block<T>][batch_blocks];
    for (int64_t first = begin; first < end; first += batch_blocks) {
      const int64_t count = std::min(batch_blocks, end - first);
      fill_words(key, first, count, words);
      fill(words, count, values);
      const int64_t whole = std::min(count, n / per_block<T> - first);  // the last may not be
      T* to = out + first * per_block<T>;
      for (int64_t i = 0; i < whole; ++i)
        for (int64_t k = 0; k < per_block<T>; ++k) *to++ = values[k][i];
      for (int64_t k = 0; to < out + n && whole < count; ++k) *to++ = values[k][whole];
    }
  });
  return y;
}

/// Rows of uniform u in (0, 1] and v in [0, 1) become rows of independent Normal(0, 1) numbers.
/// Box & Muller 1958: radius sqrt(-2 log u), angle 2 pi v.
template <class T>
void box_muller(int64_t n, T* u, T* v) {
  simd_for(n, [=](int64_t i) {
    const T radius = std::sqrt(T{-2} * kernel::log(u[i]));
    const T angle = T{2} * std::numbers::pi_v<T> * v[i];
    u[i] = radius * kernel::cos(angle);
    v[i] = radius * kernel::sin(angle);
  });
}

/// The high 64 bits of a 64 x 64 bit product: a uniform `bits` to a uniform number in [0, n).
inline uint64_t scale_to(uint64_t bits, uint64_t n) {
  const uint64_t low = (bits & 0xFFFFFFFFu) * (n & 0xFFFFFFFFu);
  const uint64_t mid1 = (bits >> 32) * (n & 0xFFFFFFFFu) + (low >> 32);
  const uint64_t mid2 = (bits & 0xFFFFFFFFu) * (n >> 32) + (mid1 & 0xFFFFFFFFu);
  return (bits >> 32) * (n >> 32) + (mid1 >> 32) + (mid2 >> 32);
}

}  // namespace

Tensor randn(const Shape& shape, Dtype dtype) {
  ProfileScope scope("randn");
  check(is_floating(dtype), "randn: expected float32 or float64, got ", dtype);
  if (dtype == float32)
    return generate<float>(shape, dtype, [](auto words, int64_t count, auto values) {
      for (size_t k = 0; k < 4; k += 2) {
        simd_for(count, [=](int64_t i) {
          values[k][i] = (static_cast<float>(words[k][i]) + 1) * 0x1p-32f;
          values[k + 1][i] = uniform_float(words[k + 1][i]);
        });
        box_muller(count, values[k], values[k + 1]);
      }
    });
  return generate<double>(shape, dtype, [](auto words, int64_t count, auto values) {
    simd_for(count, [=](int64_t i) {
      values[0][i] = 1 - uniform_double(words[0][i], words[1][i]);
      values[1][i] = uniform_double(words[2][i], words[3][i]);
    });
    box_muller(count, values[0], values[1]);
  });
}

Tensor rand(const Shape& shape, Dtype dtype) {
  ProfileScope scope("rand");
  check(is_floating(dtype), "rand: expected float32 or float64, got ", dtype);
  if (dtype == float32)
    return generate<float>(shape, dtype, [](auto words, int64_t count, auto values) {
      for (size_t k = 0; k < 4; ++k)
        simd_for(count, [=](int64_t i) { values[k][i] = uniform_float(words[k][i]); });
    });
  return generate<double>(shape, dtype, [](auto words, int64_t count, auto values) {
    for (size_t k = 0; k < 2; ++k)
      simd_for(count, [=](int64_t i) {
        values[k][i] = uniform_double(words[2 * k][i], words[2 * k + 1][i]);
      });
  });
}

Tensor randint(int64_t low, int64_t high, const Shape& shape) {
  ProfileScope scope("randint");
  check(low < high, "randint: expected low < high, got ", low, " and ", high);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return generate<int64_t>(shape, int64, [=](auto words, int64_t count, auto values) {
    for (size_t k = 0; k < 2; ++k)
      simd_for(count, [=](int64_t i) {
        const uint64_t bits = uint64_t{words[2 * k][i]} << 32 | words[2 * k + 1][i];
        values[k][i] = static_cast<int64_t>(static_cast<uint64_t>(low) + scale_to(bits, range));
      });
  });
}

// Fisher & Yates, as Durstenfeld 1964: place i is exchanged with one of the places 0 ... i.
Tensor randperm(int64_t n) {
  ProfileScope scope("randperm");
  check(n >= 0, "randperm: expected n >= 0, got ", n);
  const Tensor y = empty({n}, int64);
  int64_t* p = y.data<int64_t>();
  std::iota(p, p + n, int64_t{0});
  const RandomKey key = default_generator().reserve(4 * n);
  for (int64_t i = n - 1; i > 0; --i) {
    const auto w = philox(key, static_cast<uint64_t>(i));
    const uint64_t bits = uint64_t{w[0]} << 32 | w[1];
    std::swap(p[i], p[scale_to(bits, static_cast<uint64_t>(i) + 1)]);
  }
  return y;
}

}  // namespace gradus
