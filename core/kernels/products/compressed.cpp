#include "gradus/core/kernels/products/compressed.h"

#include <limits>

#include "gradus/core/kernels/products/tile_gemm.h"
#include "gradus/core/runtime/parallel.h"

namespace gradus::kernel {

namespace {

using Vector = detail::Register<float>::type;
using Memory = detail::Register<float>::memory;
typedef int32_t Integers __attribute__((vector_size(vector_bytes)));
constexpr int64_t width = lanes<float>;

// Rows of int8 weights, columns of y, per block of sums.
constexpr int64_t block_rows = width / 2;

// Weights are prefetched this many bytes before their use: products with bfloat16 become a fifth
// faster, and those with int8 twice as fast (with 4096 bytes 1.5 times).
constexpr int64_t bfloat16_ahead = 4096, int8_ahead = 16384;

// Returns the `width` bfloat16 elements from w on, as float32.
[[gnu::always_inline]] inline Vector widened(const uint16_t* w) {
  typedef uint16_t Halves
      __attribute__((vector_size(vector_bytes / 2), aligned(alignof(uint16_t)), may_alias));
  typedef uint32_t Words __attribute__((vector_size(vector_bytes)));
  return reinterpret_cast<Vector>(
      __builtin_convertvector(*reinterpret_cast<const Halves*>(w), Words) << 16);
}

// Returns the products of a block of weights with a block of x, summed to one number per lane. Uses
// intrinsics where available, because plain loops compiled by g++ 12 are half as fast.
[[gnu::always_inline]] inline Integers block_products(const int8_t* w, const int16_t* x) {
  static_assert(scale_block == 32);
#if defined(__AVX512BW__)
  const __m512i weights =
      _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)));
  return reinterpret_cast<Integers>(_mm512_madd_epi16(weights, _mm512_loadu_si512(x)));
#elif defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__)
  auto half = [=](int64_t at) {
    const __m256i weights =
        _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w + at)));
    return _mm256_madd_epi16(weights, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + at)));
  };
  return reinterpret_cast<Integers>(_mm256_add_epi32(half(0), half(16)));
#else
  Integers sum = {};
  for (int64_t i = 0; i < scale_block; ++i) sum[i % width] += w[i] * x[i];
  return sum;
#endif
}

// Rounds a block of n elements, n <= scale_block, to 16 bits. Returns their scale: NaN if an
// element is not finite.
float round_block(const float* x, int64_t n, int16_t* to) {
  const float largest = simd_max(n, 0.f, [=](int64_t i) { return std::abs(x[i]); });
  const float zero = simd_sum<float>(n, [=](int64_t i) { return x[i] * 0; });
  if (!(zero == 0)) return std::numeric_limits<float>::quiet_NaN();
  const float scale = largest / 32767;
  if (scale < std::numeric_limits<float>::min()) return 0;
  simd_for(n, [=](int64_t i) { to[i] = static_cast<int16_t>(std::nearbyint(x[i] / scale)); });
  return scale;
}

}  // namespace

CompressedProduct::CompressedProduct(const CompressedMatrix& w, int64_t m, const float* x, float* y)
    : w_(w),
      m_(m),
      blocks_(ceil_div(w.cols, scale_block)),
      x_(x),
      y_(y),
      rounded_(w.dtype == int8 ? m * blocks_ * scale_block : 0),
      rounded_scales_(w.dtype == int8 ? m * blocks_ : 0) {
  if (w.dtype != int8) return;
  const FlushDenormals flush;
  std::fill_n(rounded_.data(), m * blocks_ * scale_block, int16_t{0});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t b = 0; b < blocks_; ++b) {
      const int64_t at = b * scale_block, block = i * blocks_ + b;
      rounded_scales_.data()[block] =
          round_block(x + i * w.cols + at, std::min(scale_block, w.cols - at),
                      rounded_.data() + block * scale_block);
    }
}

// Computes columns [row, row + R) of y for rows [i, i + M). R rows of weights at a time keep as many
// sums in flight, which takes 0.57 of the time of one row at a time. Takes the blocks of a row in
// stretches whose scales fit in L1.
template <int64_t M, int64_t R>
void CompressedProduct::int8_dots(int64_t row, int64_t i) const {
  constexpr int64_t stretch = 64;
  const int64_t cols = w_.cols, whole = cols / scale_block, padded = blocks_ * scale_block;
  const int8_t* w = static_cast<const int8_t*>(w_.values) + row * cols;
  const uint16_t* scales = w_.scales + row * blocks_;
  const int16_t* x = rounded_.data() + i * padded;
  const float* x_scales = rounded_scales_.data() + i * blocks_;
  Vector sums[M][R] = {};
  for (int64_t begin = 0; begin < whole; begin += stretch) {
    const int64_t count = std::min(stretch, whole - begin);
    float scale[M][R][stretch];
    for (int64_t r = 0; r < R; ++r) {
      const uint16_t* from = scales + r * blocks_ + begin;
      __builtin_prefetch(from + int8_ahead / scale_block);
      for (int64_t k = 0; k < M; ++k)
        simd_for(count, [=, to = scale[k][r], by = x_scales + k * blocks_ + begin](int64_t b) {
          to[b] = float_from_bfloat16(from[b]) * by[b];
        });
    }
    for (int64_t b = 0; b < count; ++b) {
      const int64_t at = (begin + b) * scale_block;
      detail::unroll<R>([&](auto r) {
        __builtin_prefetch(w + r * cols + at + int8_ahead);
        detail::unroll<M>([&](auto k) {
          const Integers products = block_products(w + r * cols + at, x + k * padded + at);
          sums[k][r] += __builtin_convertvector(products, Vector) * scale[k][r][b];
        });
      });
    }
  }
  for (int64_t k = 0; k < M; ++k) {
    float totals[width];
    detail::sums_of_lanes<R>(sums[k], totals);
    for (int64_t r = 0; r < R; ++r) {
      int32_t rest = 0;
      for (int64_t at = whole * scale_block; at < cols; ++at)
        rest += w[r * cols + at] * x[k * padded + at];
      if (whole < blocks_)
        totals[r] += static_cast<float>(rest) * float_from_bfloat16(scales[r * blocks_ + whole]) *
                     x_scales[k * blocks_ + whole];
      y_[(i + k) * w_.rows + row + r] = totals[r];
    }
  }
}

template <int64_t M>
void CompressedProduct::bfloat16_dots(int64_t row, int64_t i) const {
  constexpr int64_t vectors = M == 1 ? 4 : 2;  // enough sums to hide the latency of an addition
  const int64_t n = w_.cols, step = vectors * width, whole = n / step * step;
  const uint16_t* w = static_cast<const uint16_t*>(w_.values) + row * n;
  const float* x = x_ + i * n;
  Vector sum[M][vectors] = {};
  for (int64_t at = 0; at < whole; at += step) {
    __builtin_prefetch(reinterpret_cast<const char*>(w + at) + bfloat16_ahead);
    detail::unroll<vectors>([&](auto v) {
      const Vector weights = widened(w + at + v * width);
      detail::unroll<M>([&](auto r) {
        sum[r][v] += weights * *reinterpret_cast<const Memory*>(x + r * n + at + v * width);
      });
    });
  }
  for (int64_t r = 0; r < M; ++r) {
    Vector all = sum[r][0];
    for (int64_t v = 1; v < vectors; ++v) all += sum[r][v];
    float total;
    detail::sums_of_lanes<1>(&all, &total);
    for (int64_t at = whole; at < n; ++at) total += float_from_bfloat16(w[at]) * x[r * n + at];
    y_[(i + r) * w_.rows + row] = total;
  }
}

int64_t CompressedProduct::grain() const {
  const int64_t rows = 65536 / std::max<int64_t>(w_.cols * m_, 1);
  return std::max<int64_t>(1, rows / block_rows) * block_rows;
}

void CompressedProduct::run(int64_t begin, int64_t end) const {
  int64_t row = begin;
  auto int8_rows = [&]<int64_t R>(std::integral_constant<int64_t, R>) {
    for (; row + R <= end; row += R) {
      int64_t i = 0;
      for (; i + 2 <= m_; i += 2) int8_dots<2, R>(row, i);
      if (i < m_) int8_dots<1, R>(row, i);
    }
  };
  if (w_.dtype == int8) {
    int8_rows(std::integral_constant<int64_t, block_rows>{});
    int8_rows(std::integral_constant<int64_t, 1>{});
  }
  // A row of bfloat16 weights is read once for 4 rows of x.
  for (; row < end; ++row) {
    int64_t i = 0;
    for (; i + 4 <= m_; i += 4) bfloat16_dots<4>(row, i);
    for (; i < m_; ++i) bfloat16_dots<1>(row, i);
  }
}

void CompressedMatrix::decompress(int64_t begin, int64_t end, float* to) const {
  const int64_t blocks = ceil_div(cols, scale_block);
  if (dtype == bfloat16) {
    const uint16_t* from = static_cast<const uint16_t*>(values) + begin * cols;
    simd_for((end - begin) * cols, [=](int64_t i) { to[i] = float_from_bfloat16(from[i]); });
    return;
  }
  for (int64_t r = begin; r < end; ++r, to += cols) {
    const int8_t* row = static_cast<const int8_t*>(values) + r * cols;
    for (int64_t b = 0; b < blocks; ++b) {
      const float scale = float_from_bfloat16(scales[r * blocks + b]);
      const int64_t at = b * scale_block;
      simd_for(std::min(scale_block, cols - at),
               [=](int64_t i) { to[at + i] = static_cast<float>(row[at + i]) * scale; });
    }
  }
}

void compress_to_bfloat16(const float* x, int64_t n, uint16_t* to) {
  simd_for(n, [=](int64_t i) { to[i] = bfloat16_from(x[i]); });
}

void compress_to_int8(const float* x, int64_t n, int8_t* values, uint16_t* scales) {
  for (int64_t at = 0; at < n; at += scale_block, ++scales) {
    const int64_t count = std::min(scale_block, n - at);
    const float largest = simd_max(count, 0.f, [=](int64_t i) { return std::abs(x[at + i]); });
    const auto bits = std::bit_cast<uint32_t>(largest / 127);
    *scales = static_cast<uint16_t>((bits + 0xffffu) >> 16);
    const float scale = float_from_bfloat16(*scales);
    if (scale < std::numeric_limits<float>::min()) {
      *scales = 0;
      std::fill_n(values + at, count, int8_t{0});
      continue;
    }
    for (int64_t i = at; i < at + count; ++i)
      values[i] = static_cast<int8_t>(std::nearbyint(x[i] / scale));
  }
}

}  // namespace gradus::kernel
