#pragma once
// Makes pieces of binary files: bytes listed as integers, random bytes, big-endian numbers,
// deflated data and PNG chunks.

#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <initializer_list>
#include <string>

inline std::string bytes_of(std::initializer_list<int> bytes) {
  std::string out;
  for (const int b : bytes) out += static_cast<char>(b);
  return out;
}

/// Returns n pseudo-random bytes.
inline std::string noise(size_t n, uint32_t seed = 1) {
  std::string bytes;
  while (bytes.size() < n) bytes += static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
  return bytes;
}

inline std::string big_endian(size_t n) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(n >> shift & 255);
  return bytes;
}

/// Returns the bytes compressed with deflate. `window` is zlib's windowBits: 15 for a zlib header,
/// 15 + 16 for a gzip header.
inline std::string packed(const std::string& bytes, int window, int level = 9) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, level, Z_DEFLATED, window, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&z, bytes.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

/// Returns a chunk of a PNG file, with its checksum.
inline std::string chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  return big_endian(data.size()) + body +
         big_endian(
             crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
}
