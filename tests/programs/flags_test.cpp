// Flags whose value may be left out, choices, switches that are on, and fields as flags.

#include "examples/support/flags.h"

#include <catch2/catch.hpp>

namespace flags_test {

using namespace gradus;
using Catch::Matchers::Contains;

namespace {

enum class Speed { slow, fast };

/// Flags and their variables.
struct Settings {
  int64_t page = -1;
  Speed speed = Speed::slow;
  bool tie = true, tie_break = false;
  std::string file = "in.txt";
  std::vector<std::string> rest;
  Flags flags{"About."};
  Settings() {
    flags.group("All", true);
    flags.add_optional("--page", page, 8080, 65535, "PORT", "serve a page");
    flags.add("--speed", speed, {"slow", "fast"}, "how fast");
    models::Fields fields;
    fields.add("tie", tie, "tie the weights");
    fields.add("tie_break", tie_break, "and break them");
    flags.add(fields, {"tie_break"});
    flags.add("--file", file, "FILE", "which");
    flags.rest(rest);
  }
  void parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "program");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    flags.parse(static_cast<int>(argv.size()), argv.data());
  }
};

}  // namespace

TEST_CASE("flags: one whose value may be left out, choices, and switches that are on",
          "[support]") {
  const auto parsed = [](const std::vector<std::string>& arguments) {
    Settings settings;
    settings.parse(arguments);
    return std::pair(settings.page, settings.rest);
  };
  using Rest = std::vector<std::string>;
  CHECK(parsed({}) == std::pair(int64_t{-1}, Rest{}));
  CHECK(parsed({"--page"}) == std::pair(int64_t{8080}, Rest{}));
  CHECK(parsed({"--page", "--no-tie"}) == std::pair(int64_t{8080}, Rest{}));
  CHECK(parsed({"--page", "0"}) == std::pair(int64_t{0}, Rest{}));
  CHECK(parsed({"--page=65535", "a", "b"}) == std::pair(int64_t{65535}, Rest{"a", "b"}));
  CHECK(parsed({"[a]", "[b,c]", "d"}) == std::pair(int64_t{-1}, Rest{"[a]", "[b,c]", "d"}));
  CHECK_THROWS_WITH(parsed({"a", "--pag"}), Contains("--pag: unknown flag; did you mean --page?"));
  CHECK_THROWS_WITH(parsed({"--page", "65536"}),
                    Contains("--page: expected a whole number from 0"));
  CHECK_THROWS_WITH(parsed({"--file", ""}), Contains("--file: expected a path, got \"\""));
  CHECK_THROWS_WITH(parsed({"--tie"}), Contains("--tie: unknown flag"));
  CHECK_THROWS_WITH(parsed({"--tie-break"}), Contains("--tie-break: unknown flag"));
  CHECK_THROWS_WITH(parsed({"--speed", "medium"}), Contains("expected one of slow, fast, got"));

  Settings first;
  first.parse({"--no-tie", "--speed", "fast", "--page", "5"});
  CHECK(!first.tie);
  CHECK(first.flags.given("--no-tie"));
  CHECK(!first.flags.given("--tie"));
  CHECK(first.speed == Speed::fast);
  CHECK(first.flags.to_json() == R"({"page":5,"speed":"fast","tie":false,"file":"in.txt"})");
  Settings second;
  second.parse({"--file", "out.txt"});
  CHECK(second.flags.restore(first.flags.to_json(), "FILE", {"--file"}) ==
        std::vector<std::string>{"--file from in.txt to out.txt"});
  CHECK(!second.tie);
  CHECK(second.file == "out.txt");
  Settings third;  // the same values in other words are no contradiction
  third.parse({"--no-tie", "--page", "05"});
  CHECK(third.flags.restore(first.flags.to_json(), "FILE", {}).empty());
  CHECK_THAT(Settings().flags.help(),
             Contains("\n  --page [PORT]       serve a page; default PORT 8080\n") &&
                 Contains("\n  --speed NAME        how fast, one of slow, fast; default slow\n") &&
                 Contains("\n  --no-tie            disable: tie the weights\n"));
}

}  // namespace flags_test
