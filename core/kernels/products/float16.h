#pragma once
// Conversion between float32 and float16 (IEEE 754's binary16: 1 sign, 5 exponent and 10 fraction
// bits). float16 is a storage format in files: there is no arithmetic on it.

#include <bit>
#include <cmath>
#include <cstdint>

namespace gradus::kernel {

inline float float_from_float16(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, fraction = h & 0x3ffu;
  const uint32_t exponent = (h >> 10) & 0x1fu;
  if (exponent == 0)  // zero or subnormal: the value is fraction * 2^-24
    return std::copysign(static_cast<float>(fraction) * 0x1p-24f, std::bit_cast<float>(sign));
  const uint32_t wide = exponent == 31 ? 255 : exponent + 127 - 15;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

/// Returns the nearest float16, ties to even. NaN stays NaN. Magnitudes of 65520 or more become
/// infinite; the largest float16 is 65504.
inline uint16_t float16_from(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  uint32_t rounded = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
  if (magnitude < 0x38800000u)  // subnormal: adding 0.5f rounds to a multiple of 2^-24
    rounded = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  else if (magnitude > 0x7f800000u)
    rounded = 0x7e00u;  // NaN
  else if (magnitude >= 0x477ff000u)
    rounded = 0x7c00u;  // infinity
  return static_cast<uint16_t>(sign | rounded);
}

}  // namespace gradus::kernel
