#pragma once
// Tests a loader on damaged copies of a small file. A copy has one flipped bit, lacks bytes at its
// end, or has additional bytes at its end.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"

/// Overwrites a file in place. Emptying or replacing the file would make some file systems write to
/// disk each time.
inline void overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::app).close();
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << bytes;
  std::filesystem::resize_file(path, bytes.size());
}

/// Returns whether load() accepts the file `path`. If load() throws Error, checks that the message
/// is short and contains `path`.
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

/// Calls load() on damaged copies of the file and returns how many copies load() accepts. load()
/// must throw Error for the others. There is one copy per flipped bit (bits 0, nth, 2 nth, ... of
/// each byte), one per shorter length, and a few with bytes appended. Each copy overwrites the
/// file; at the end, the original is restored. The original must have fewer than 3,000 bytes, and
/// load() must accept it.
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
