#pragma once
// Temporary folders.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

/// A new empty folder that is removed with its content at the end of the scope.
struct TemporaryFolder {
  std::filesystem::path path;
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "gradus-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path / name).string(); }
  bool has(const std::string& name) const { return std::filesystem::exists(path / name); }
  long files() const { return std::distance(std::filesystem::directory_iterator(path), {}); }
};
