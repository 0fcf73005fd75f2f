#include "gradus/models/folder/gguf/gguf_types.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gradus/core/internal.h"
#include "gradus/core/kernels/products/compressed.h"
#include "gradus/core/kernels/products/float16.h"
#include "gradus/core/runtime/error.h"

namespace gradus::models::internal {

namespace {

constexpr int64_t block = 32;  // elements of a q8_0 block: a float16 scale, then 32 int8

void decode_f16(const std::byte* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t x;
    std::memcpy(&x, from + 2 * i, 2);
    to[i] = kernel::float_from_float16(x);
  }
}

void decode_bf16(const std::byte* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i) {
    uint16_t x;
    std::memcpy(&x, from + 2 * i, 2);
    to[i] = kernel::float_from_bfloat16(x);
  }
}

void decode_q8_0(const std::byte* from, int64_t n, float* to) {
  for (int64_t i = 0; i < n; i += block, from += 2 + block) {
    float scale;
    decode_f16(from, 1, &scale);
    for (int64_t j = 0; j < block; ++j)
      to[i + j] = scale * static_cast<float>(static_cast<int8_t>(from[2 + j]));
  }
}

void encode_f32(const float* x, int64_t n, std::byte* to) {
  std::memcpy(to, x, static_cast<size_t>(n) * sizeof(float));
}

void encode_f16(const float* x, int64_t n, std::byte* to) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t half = kernel::float16_from(x[i]);
    check((half & 0x7fffu) != 0x7c00u || std::isinf(x[i]), "element ", x[i],
          " is beyond the largest float16, 65504");
    std::memcpy(to + 2 * i, &half, 2);
  }
}

void encode_bf16(const float* x, int64_t n, std::byte* to) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t upper = kernel::bfloat16_from(x[i]);
    check((upper & 0x7fffu) != 0x7f80u || std::isinf(x[i]), "element ", x[i],
          " is beyond the largest bfloat16, 3.39e38");
    std::memcpy(to + 2 * i, &upper, 2);
  }
}

/// As llama.cpp: a block's scale is its largest magnitude / 127, and is rounded after the division.
void encode_q8_0(const float* x, int64_t n, std::byte* to) {
  for (int64_t i = 0; i < n; i += block, to += 2 + block) {
    float most = 0;
    for (int64_t j = i; j < i + block; ++j) {
      check(std::isfinite(x[j]), "element ", x[j], " is not finite");
      check(std::abs(x[j]) < 127 * 65520.0f, "element ", x[j],  // a scale of 65520 rounds to inf
            " is beyond q8_0's largest value, 127 * 65504");
      most = std::max(most, std::abs(x[j]));
    }
    const float scale = most / 127, inverse = scale >= 0x1p-126f ? 1 / scale : 0;
    encode_f16(&scale, 1, to);
    for (int64_t j = 0; j < block; ++j)
      to[2 + j] = static_cast<std::byte>(static_cast<int8_t>(std::round(x[i + j] * inverse)));
  }
}

}  // namespace

const StoredType stored_types[4] = {{0, "f32", 1, 4, nullptr, encode_f32},
                                    {1, "f16", 1, 2, decode_f16, encode_f16},
                                    {30, "bf16", 1, 2, decode_bf16, encode_bf16},
                                    {8, "q8_0", block, 2 + block, decode_q8_0, encode_q8_0}};

}  // namespace gradus::models::internal
