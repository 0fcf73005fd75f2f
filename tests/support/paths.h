#pragma once
// Where the tests find the source tree and the programs.

#include <string>

namespace gradus::testing {

/// Path of a file or folder in the source tree: source_path("tests/golden").
std::string source_path(const std::string& path);
/// Path of a built program: program_path("train_gpt").
std::string program_path(const std::string& name);

}  // namespace gradus::testing
