// The functions and tests named in examples/guide/equations.md must exist.

#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <sstream>

#include "gradus/core/files/file.h"
#include "tests/support/paths.h"

namespace equations_test {

using namespace gradus;

namespace {

/// The concatenated text of all files in these folders with this extension.
std::string text_of(const std::vector<std::string>& folders, const std::string& extension) {
  std::string text;
  for (const std::string& folder : folders)
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(gradus::testing::source_path(folder)))
      if (entry.path().extension() == extension) text += read_file(entry.path().string());
  return text;
}

std::vector<std::string> in_ticks(const std::string& cell) {
  static const std::regex name("`([^`]+)`");
  std::vector<std::string> names;
  for (std::sregex_iterator it(cell.begin(), cell.end(), name), end; it != end; ++it)
    names.push_back((*it)[1]);
  return names;
}

}  // namespace

TEST_CASE("the table of equations names existing functions and tests", "[readme]") {
  const std::string headers = text_of({"core", "nn", "optim", "models"}, ".h"),
                    tests = text_of({"tests"}, ".cpp");
  std::istringstream lines(read_file(gradus::testing::source_path("examples/guide/equations.md")));
  int equations = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ") || line.starts_with("| **") || line.starts_with("| equation"))
      continue;
    CAPTURE(line);
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
    REQUIRE(cells.size() == 4);
    REQUIRE_FALSE(in_ticks(cells[2]).empty());
    for (const std::string& name : in_ticks(cells[2])) {
      const std::string last =
          name.substr(name.rfind(':') == std::string::npos ? 0 : name.rfind(':') + 1);
      CAPTURE(last);
      CHECK(std::regex_search(headers, std::regex("\\b" + last + "\\b")));
    }
    REQUIRE(in_ticks(cells[3]).size() == 1);
    std::string test = "TEST_CASE(\"" + in_ticks(cells[3])[0];
    if (test.ends_with('*'))
      test.pop_back();
    else
      test += '"';
    CHECK(tests.find(test) != std::string::npos);
    ++equations;
  }
  CHECK(equations > 40);
}

}  // namespace equations_test
