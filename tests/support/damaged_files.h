#pragma once
// Files with every damage that a small one can have.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"

/// Makes these the content of a file, in place: to empty it first or to replace it would make some
/// file systems write to the disk each time.
inline void overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::app).close();
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << bytes;
  std::filesystem::resize_file(path, bytes.size());
}

/// Whether load() takes the file; if not, sees that its Error names the file, in few words.
template <class Load>
bool taken(const std::string& path, Load&& load) {
  try {
    load();
    return true;
  } catch (const gradus::Error& e) {
    const std::string message = e.what();
    if (message.find(path) == std::string::npos || message.size() > path.size() + 1000)
      FAIL_CHECK("expected a short message about " << path << ", got " << message.substr(0, 2000));
    return false;
  }
}

/// Writes the file with every bit flipped (or every n-th of a byte's), cut at every length and
/// lengthened, and calls load(): it throws Error or finds what is right. Returns how many damaged
/// files it took.
template <class Load>
int count_taken(const std::string& path, Load&& load, int nth = 1) {
  const std::string good = gradus::read_file(path);
  REQUIRE(good.size() < 3000);
  REQUIRE(taken(path, load));
  int count = 0;
  auto with = [&](const std::string& bytes) {
    overwrite(path, bytes);
    count += taken(path, load);
  };
  for (size_t at = 0; at < good.size(); ++at) {
    CAPTURE(at);
    std::string bytes = good;
    for (int bit = 0; bit < 8; bit += nth) {
      bytes[at] = static_cast<char>(good[at] ^ 1 << bit);
      with(bytes);
    }
    with(good.substr(0, at));
  }
  for (const char* more : {"x", " ", "\n", "}", "{}", "12345678"}) with(good + more);
  with(good + std::string(8, '\0'));
  with(good + good);
  overwrite(path, good);
  REQUIRE(taken(path, load));
  return count;
}
