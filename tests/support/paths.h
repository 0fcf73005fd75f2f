#pragma once
// The paths of the source tree and of the programs.

#include <string>

namespace gradus::testing {

/// Returns the path of a file or folder in the source tree, for example
/// source_path("tests/golden").
std::string source_path(const std::string& path);
/// Returns the path of a built program, for example program_path("train_gpt").
std::string program_path(const std::string& name);

}  // namespace gradus::testing
