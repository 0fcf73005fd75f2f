#pragma once
// Assembles and splits the bytes of safetensors files, and compares tensors bit for bit.

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "gradus/core/tensor/tensor.h"

/// Returns the bytes of a safetensors file: the length of the header, the header, and the data.
inline std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

/// Returns the JSON header and the data in the bytes of a safetensors file.
inline std::pair<nlohmann::json, std::string> parts_of(const std::string& bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  return {nlohmann::json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
}

/// Checks that two contiguous tensors with elements of type T have the same shape, dtype and bits.
template <class T>
void check_same_bits(const gradus::Tensor& a, const gradus::Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  REQUIRE(a.dtype() == b.dtype());
  REQUIRE((a.is_contiguous() && b.is_contiguous()));
  CHECK(std::memcmp(a.data<T>(), b.data<T>(), static_cast<size_t>(a.numel()) * sizeof(T)) == 0);
}
