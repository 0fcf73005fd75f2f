#pragma once
// A fast checksum that detects damage, not forgery.

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

namespace gradus::internal {

/// Computes a 64-bit checksum of data that is read as 64-bit words. The state is four 64-bit
/// numbers called chains. Word i updates chain i mod 4 by one step of XXH64, and digits() combines
/// the chains. Each step is one to one in the chain and one to one in the word. A change within one
/// word therefore always changes the checksum.
class Checksum {
 public:
  /// Adds n bytes, padded with zeros to a multiple of 32 bytes. If n is a multiple of 32 in all
  /// calls but the last, the checksum does not depend on how the data is divided among calls.
  void add(const void* bytes, size_t n) {
    const char* from = static_cast<const char*>(bytes);
    for (; n >= sizeof(Words); n -= sizeof(Words), from += sizeof(Words))
      add_words(from, sizeof(Words));
    if (n > 0) add_words(from, n);
  }
  /// Returns the checksum as 16 hexadecimal digits.
  std::string digits() const {
    uint64_t all = 0;
    for (uint64_t chain : chains_) all = step(all, chain);
    std::string text;
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[all >> shift & 15];
    return text;
  }

 private:
  using Words = std::array<uint64_t, 4>;
  // One step of XXH64, with its constants.
  static uint64_t step(uint64_t chain, uint64_t word) {
    return std::rotl(chain + word * 0xc2b2ae3d27d4eb4f, 31) * 0x9e3779b185ebca87;
  }
  void add_words(const char* from, size_t n) {
    Words words{};
    std::memcpy(words.data(), from, n);
    for (size_t i = 0; i < words.size(); ++i) chains_[i] = step(chains_[i], words[i]);
  }

  Words chains_{1, 2, 3, 4};
};

}  // namespace gradus::internal
