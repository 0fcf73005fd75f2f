// Support of the programs: flags, logs, numbers, folders.

#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>

#include "examples/logs/loss_log.h"
#include "examples/logs/step_log.h"
#include "examples/support/flags.h"
#include "examples/support/folder.h"
#include "examples/support/source_text.h"
#include "examples/support/text.h"
#include "examples/training/finite.h"
#include "examples/training/run_folder.h"
#include "examples/training/task.h"
#include "gradus/core/ops/factories.h"
#include "tests/support/programs.h"

namespace support_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;
using models::parse_number;
namespace fs = std::filesystem;

namespace {

struct Settings {
  int64_t size = 4;
  double rate = 0.5;
  uint64_t seed = 7;
  bool fast = false;
  std::string name = "x", note;
  Flags flags{"About."};

  Settings() {
    flags.group("Stored", true);
    flags.add("--size", size, 1, 100, "how large");
    flags.add("--the-rate", rate, 0, 1, "how fast");
    flags.add("--seed", seed, "of all");
    flags.add("--fast", fast, "hurry");
    flags.add("--name", name, "NAME", "whose");
    flags.group("Not stored");
    flags.add("--note", note, "TEXT", "why", "none");
  }
  bool parse(std::vector<std::string> arguments, bool known_only = false) {
    arguments.insert(arguments.begin(), "program");
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    const auto argc = static_cast<int>(argv.size());
    if (!known_only) return flags.parse(argc, argv.data());
    flags.parse_known(argc, argv.data());
    return true;
  }
};

}  // namespace

TEST_CASE("flags: read, stored, restored", "[support]") {
  Settings first;
  REQUIRE(first.parse({"--size", "100", "--the-rate=0.1", "--seed", "18446744073709551615",
                       "--fast", "--note", "a", "--size", "99"}));
  CHECK(first.size == 99);  // the last one wins
  CHECK(first.seed == std::numeric_limits<uint64_t>::max());
  CHECK(first.flags.given("--fast"));
  CHECK(!first.flags.given("--name"));
  const std::string json = first.flags.to_json();
  CHECK(json == R"({"size":99,"the_rate":0.1,"seed":18446744073709551615,"fast":true,"name":"x"})");

  Settings second;
  REQUIRE(second.parse({"--name", "y", "--size", "99"}));
  second.flags.restore(json, "FILE", {"--name"});
  CHECK(second.size == 99);
  CHECK(second.rate == 0.1);
  CHECK(second.seed == first.seed);
  CHECK(second.fast);
  CHECK(second.name == "y");
  CHECK(second.note.empty());

  Settings third;
  REQUIRE(third.parse({"--size", "98"}));
  CHECK_THROWS_WITH(third.flags.restore(json, "FILE", {"--name"}),
                    Contains("--size") && Contains("FILE") && Contains("99") && Contains("98"));
  CHECK_THROWS_WITH(Settings().parse({"--size", "0"}), Contains("--size: expected a whole number "
                                                                "from 1 to 100, got \"0\""));
  CHECK_THROWS_WITH(Settings().parse({"--the-rate", "inf"}), Contains("from 0 to 1, got \"inf\""));
  CHECK_THROWS(Settings().parse({"--fast=false"}));  // a switch takes no value
  CHECK_THROWS_WITH(Settings().parse({"--note", "--fast"}),
                    Contains("--note: expected a value, got \"--fast\""));
  CHECK_THAT(Settings().flags.help(), Contains("  --the-rate X        how fast; default 0.5\n") &&
                                          Contains("\nNot stored\n") && Contains("default none"));
}

TEST_CASE("flags: parse_known ignores unknown ones", "[support]") {
  Settings settings;
  settings.parse({"--other", "3", "--size=7", "--help", "--fast", "--more=--note", "--note", "a b"},
                 true);
  CHECK(settings.size == 7);
  CHECK(settings.fast);
  CHECK(settings.note == "a b");
  CHECK(settings.rate == 0.5);
  CHECK(settings.flags.given("--size"));
  CHECK(!settings.flags.given("--the-rate"));
  CHECK_THROWS_WITH(Settings().parse({"--other", "3", "--size", "0"}, true),
                    Contains("--size: expected a whole number from 1 to 100"));
  CHECK_THROWS_WITH(Settings().parse({"--note"}, true), Contains("--note"));
}

TEST_CASE("flags: an unknown one is answered by the nearest", "[support]") {
  const auto refusal = [](std::vector<std::string> arguments) -> std::string {
    try {
      Settings().parse(std::move(arguments));
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  CHECK(refusal({"--szie", "3"}) == "--szie: unknown flag; did you mean --size? (see --help)");
  CHECK(refusal({"--sigh", "3"}) == "--sigh: unknown flag (see --help)");  // two letters of four
  CHECK(refusal({"--sise", "3"}) == "--sise: unknown flag; did you mean --size? (see --help)");
  CHECK(refusal({"--the_rate=0.5"}) ==
        "--the_rate: unknown flag; did you mean --the-rate? (see --help)");
  CHECK(refusal({"--theerat", "1"}) ==
        "--theerat: unknown flag; did you mean --the-rate? (see --help)");
  CHECK(refusal({"--hlp"}) == "--hlp: unknown flag; did you mean --help? (see --help)");
  CHECK(refusal({"--fast", "--elsewhere"}) == "--elsewhere: unknown flag (see --help)");
  CHECK(refusal({"stray"}) == "\"stray\": expected a flag (see --help)");
  CHECK(refusal({"stray", "--nota=a"}) ==
        "--nota: unknown flag; did you mean --note? (see --help)");
}

TEST_CASE("edit distance: insertions, deletions, replacements and swaps", "[support]") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("sunday", "saturday") == 3);
  CHECK(edit_distance("ab", "ba") == 1);
  CHECK(edit_distance("model", "modle") == 1);
  CHECK(edit_distance("abcd", "badc") == 2);
  CHECK(edit_distance("ca", "abc") == 3);  // no change within a swapped pair
}

TEST_CASE("missing_file: one path, or several separated by commas", "[support]") {
  const TemporaryFolder scratch;
  write_file_atomically(scratch / "a", "1");
  write_file_atomically(scratch / "b,c", "1");
  const std::string a = scratch / "a", none = scratch / "none";
  CHECK(missing_file(a).empty());
  CHECK(missing_file(a + ',' + scratch.path.string()).empty());
  CHECK(missing_file(scratch / "b,c").empty());
  CHECK(missing_file(a + ",-").empty());
  CHECK(missing_file(none) == none);
  CHECK(missing_file(a + ',' + none + ',' + a) == none);
}

TEST_CASE("gradus's own source: its files in alphabetical order, one after the other",
          "[support]") {
  const std::string text = source_text(), root = gradus::testing::source_path("");
  const auto at = [&](const std::string& file) {
    const size_t found = text.find(read_file(root + file));
    CAPTURE(file);
    CHECK(found != std::string::npos);
    return found;
  };
  const std::string first = "core/core.h";
  CHECK(at(first) == 0);
  CHECK(at("core/debug/build_info.cpp") == read_file(root + first).size());
  CHECK(at("core/tensor/tensor.cpp") < at("core/tensor/tensor.h"));
  CHECK(at("core/tensor/tensor.h") < at("models/gpt.cpp"));
  CHECK(at("models/gpt.cpp") < at("nn/attention.h"));
  CHECK(at("nn/attention.h") < at("optim/optimizer.h"));
  CHECK(text.find(read_file(root + "examples/train_gpt.cpp")) == std::string::npos);
  CHECK(read_text("") == text);
  CHECK(name_of_text("") == "gradus's own source");
  CHECK(name_of_text("a") == "a");
}

TEST_CASE("read_text: a list of files may be longer than a path", "[support]") {
  const TemporaryFolder scratch;
  std::string list, text;
  for (char c = 'a'; c <= 'z'; ++c) {
    const std::string path = scratch / std::string(200, c);
    write_file_atomically(path, {c});
    list += (list.empty() ? "" : ",") + path;
    text += (text.empty() ? "" : "\n") + std::string{c};
  }
  REQUIRE(list.size() > 4096);
  CHECK(read_text(list) == text);
  CHECK(missing_file(list).empty());
  CHECK_THROWS_WITH(read_text(list + ",none"), Contains("none"));
}

TEST_CASE("numbers are parsed completely or refused", "[support]") {
  CHECK(parse_number<int64_t>("-12") == -12);
  CHECK(parse_number<int64_t>("9223372036854775807") == std::numeric_limits<int64_t>::max());
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x1", "1.0", "9223372036854775808"})
    CHECK(!parse_number<int64_t>(text));
  CHECK(!parse_number<uint64_t>("-1"));
  CHECK(parse_number<double>("1e-5") == 1e-5);
  for (const char* text : {"", "nan", "inf", "-inf", "1e999", "1,5", "1e"})
    CHECK(!parse_number<double>(text));

  CHECK(with_commas(0) == "0");
  CHECK(with_commas(999) == "999");
  CHECK(with_commas(1000) == "1,000");
  CHECK(with_commas(100000) == "100,000");
  CHECK(with_commas(1234567) == "1,234,567");
  CHECK(as_clock(65.4) == "1:05");
  CHECK(as_clock(7265) == "2:01:05");
  CHECK(as_clock(0) == "0:00");
  CHECK(as_clock(59.5) == "1:00");
  CHECK(as_clock(3599) == "59:59");
  CHECK(as_clock(3599.5) == "1:00:00");
  CHECK(shown("a\nb") == "\"a b\"");
  CHECK(shown(std::string(300, '9')) == '"' + std::string(40, '9') + "...\"");
  CHECK(shown(std::string(40, '9')) == '"' + std::string(40, '9') + '"');
  CHECK(shown(std::string(39, '9') + "\u00e9") == '"' + std::string(39, '9') + "...\"");
}

TEST_CASE("texts as words of a shell, and fingerprints", "[support]") {
  CHECK(in_shell("out/a-b_c.d+e,f=g@h%i9") == "out/a-b_c.d+e,f=g@h%i9");
  CHECK(in_shell("") == "''");
  CHECK(in_shell("it's") == "'it'\\''s'");
  CHECK(in_shell("\u00e9") == "'\u00e9'");
  for (const char c : std::string(" \t\n$`\"\\!*?[]{}()<>|&;~#^:")) {
    CAPTURE(c);
    CHECK(in_shell(std::string{'a', c}) == std::string{'\'', 'a', c, '\''});
  }
  // FNV-1a's published values: 0xcbf29ce484222325, 0xaf63dc4c8601ec8c and 0x85944171f73967e8.
  CHECK(fingerprint("") == "0 14695981039346656037");
  CHECK(fingerprint("a") == "1 12638187200555641996");
  CHECK(fingerprint("foobar") == "6 9625390261332436968");
}

TEST_CASE("scores of batches are weighted by their examples", "[support]") {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  const Score all = mean_score(
      {{.loss = 2, .examples = 3, .more = {{"right", 1, 1}, {"none", unknown, 0}}},
       {.loss = 6, .examples = 1, .more = {{"right", 0.5, 3}, {"none", 0, 0}, {"once", 4, 2}}},
       {.loss = unknown, .examples = 0}});
  CHECK(all.loss == 3);
  CHECK(all.examples == 4);
  REQUIRE(all.more.size() == 2);  // means over no examples are omitted
  CHECK(all.more[0].name == "right");
  CHECK(all.more[0].value == 0.625);
  CHECK(all.more[0].examples == 4);
  CHECK(all.more[1].name == "once");
  CHECK(all.more[1].value == 4);
}

TEST_CASE("first_not_finite finds the first NaN or infinity", "[support]") {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor good = full({1000}, 3e38f), count = from_data(std::vector<int64_t>{1}, {1});
  CHECK(first_not_finite({}) == "");
  CHECK(first_not_finite({{"a", good}, {"b", count}}) == "");
  for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()})
    for (const int64_t at : {0, 500, 999}) {
      const Tensor t = good.clone();
      t.data<float>()[at] = bad;
      CHECK(first_not_finite({{"a", good}, {"b", count}, {"c", t}}) == "c");
    }
  const Tensor doubles = tensor({1, NAN, 2, 3}, float64);
  CHECK(first_not_finite({{"none", {}}, {"a", doubles}, {"b", doubles}}) == "a");
  CHECK(first_not_finite({{"a", doubles.slice(0, 2)}}) == "");
  CHECK(first_not_finite({{"a", doubles.slice(0, 0, 4, 2)}}) == "");  // not contiguous
  CHECK(first_not_finite({{"a", doubles.slice(0, 1, 4, 2)}}) == "a");
  CHECK(first_not_finite({{"a", full({2}, 1e300, float64)}}) == "");
}

TEST_CASE("the log of steps is cut where a run resumes", "[support]") {
  const TemporaryFolder scratch;
  const std::string path = scratch / "steps.csv", header = "step,loss,lr,grad_norm,seconds\n";
  StepLog log(path);
  log.cut_after(3);  // the file does not exist yet
  CHECK(!scratch.has("steps.csv"));
  log.add({1, 2.5, 1e-3, 0.25, 0.1234});
  log.add({2, 2.25, 2e-3, 0.5, 1});
  CHECK(!scratch.has("steps.csv"));  // rows are buffered
  log.flush();
  log.flush();
  const std::string one = header + "1,2.5,0.001,0.25,0.123\n",
                    two = one + "2,2.25,0.002,0.5,1.000\n";
  CHECK(read_file(path) == two);

  auto cut = [&](const std::string& content, int64_t step) {
    write_file_atomically(path, content);
    StepLog(path).cut_after(step);
    return read_file(path);
  };
  CHECK(cut(two, 2) == two);
  CHECK(cut(two, 1) == one);
  CHECK(cut(two, 0) == header);
  CHECK(cut(two + "3,1,1", 2) == two);  // the last row is truncated
  CHECK(cut(two.substr(0, two.size() - 1), 1) == one);
  CHECK(cut(two + "nonsense\n", 2) == two);
  CHECK(cut(header, 5) == header);  // the log is removed and started again
  CHECK(cut(header + "7,1,1,1,1\n", 5) == header);
  const std::string go_on = "remove the file to continue without its rows";
  CHECK_THROWS_WITH(cut(two, 3), Contains("ends at step 2, before the checkpoint's 3; " + go_on));
  CHECK_THROWS_WITH(cut(two + "3,1,1", 3), Contains("ends at step 2"));
  CHECK_THROWS_WITH(cut(header + "1,2", 1), Contains("ends at step 0"));
  CHECK(read_file(path) == header + "1,2");
  CHECK_THROWS_WITH(cut(two + "nonsense\n", 5), Contains("\"nonsense\" is not a row of a step"));
  for (const std::string step : {"0", "-1"})
    CHECK_THROWS_WITH(cut(header + step + ",1,1,1,1\n" + two.substr(header.size()), 2),
                      Contains("\"" + step + ",1,1,1,1\" is not a row of a step"));
  CHECK_THROWS_WITH(cut("step\n" + two, 5), Contains("is not its header"));
  CHECK_THROWS_WITH(cut("my notes\n", 0), Contains("\"my notes\" is not its header"));
  CHECK(read_file(path) == "my notes\n");
  CHECK_THROWS_WITH(cut("my notes", 0), Contains("\"my notes\" is not its header"));
  CHECK(cut("step,lo", 0) == "");
  CHECK(cut("", 0) == "");
  CHECK_THROWS_WITH(cut("step,lo", 5), Contains("ends at step 0"));
  CHECK_THROWS_WITH(cut("", 5), Contains("ends at step 0"));
  CHECK_THROWS_WITH(StepLog(scratch / "none/steps.csv").flush(), Contains("none/steps.csv"));
}

TEST_CASE("the curve of losses: a mean per group of steps, resumed runs included", "[support]") {
  LossCurve curve;
  CHECK(curve.series().points.empty());
  const auto loss = [](int64_t step) { return static_cast<double>(step % 7) / 8; };
  for (int64_t step = 1; step <= 2000; ++step) curve.add(step, loss(step));
  Series series = curve.series();
  REQUIRE(series.points.size() == 2000);
  CHECK(series.points[6] == std::pair(7.0, 0.0));
  CHECK(series.points[1999] == std::pair(2000.0, 5.0 / 8));
  CHECK(series.name == "each step's batch, as trained on");
  CHECK(series.stroke == Stroke::faint);
  curve.add(2001, 40);
  series = curve.series();
  REQUIRE(series.points.size() == 1001);
  CHECK(series.points[0] == std::pair(1.5, 1.5 / 8));
  CHECK(series.points[999] == std::pair(1999.5, 4.5 / 8));
  CHECK(series.points[1000] == std::pair(2001.0, 40.0));
  CHECK(series.name == "mean of 2 steps' batches, as trained on");
  curve.add(1000000, 1);  // the rows in between are missing
  series = curve.series();
  CHECK(series.points.size() == 5);  // groups of 512
  CHECK(series.points[4] == std::pair(1000000.0, 1.0));
  CHECK(series.points[3].first == (1537 + 2001) / 2.0);

  const TemporaryFolder scratch;
  const std::string path = scratch / "steps.csv";
  StepLog whole(path), resumed(path);
  for (int64_t step = 1; step <= 3001; ++step) whole.add({step, loss(step), 1, 1, 1});
  whole.flush();
  resumed.cut_after(2500);
  for (int64_t step = 2501; step <= 3001; ++step) resumed.add({step, loss(step), 1, 1, 1});
  CHECK(resumed.curve().series().points == whole.curve().series().points);
  CHECK(whole.curve().series().points.size() == 1501);
  write_file_atomically(path,
                        "step,loss,lr,grad_norm,seconds\n1,2,1,1,1\n2,nan,1,1,1\n3,4,1,1,1\n");
  StepLog odd(path);
  odd.cut_after(2);
  REQUIRE(odd.curve().series().points.size() == 2);
  CHECK(odd.curve().series().points[0] == std::pair(1.0, 2.0));
}

TEST_CASE("a run's folder is locked, and only the run's files are removed", "[support]") {
  const TemporaryFolder scratch;
  const std::string path = scratch / "a/b";
  RunFolder folder(path, {"c.bin", "m.bin"});
  folder.lock();  // a missing folder is neither locked nor created
  CHECK(!scratch.has("a"));
  folder.make();
  RunFolder second(path, {"c.bin", "m.bin"});
  CHECK_THROWS_WITH(second.lock(), Contains("another process is training in " + path));
  CHECK_THROWS_WITH(second.make(), Contains("another process"));

  folder.expect_no_run();
  for (const char* name : {"c.bin.tmp", "m.bin.tmp12-3", "m.bin.tmpx", "other.tmp", "m.bin"})
    write_file_atomically(folder / name, "x");
  folder.remove_leftovers();
  CHECK(!scratch.has("a/b/c.bin.tmp"));
  CHECK(!scratch.has("a/b/m.bin.tmp12-3"));
  CHECK(scratch.has("a/b/m.bin.tmpx"));
  CHECK(scratch.has("a/b/other.tmp"));
  CHECK_THROWS_WITH(folder.expect_no_run(), Contains("m.bin") && Contains("--overwrite"));
  write_file_atomically(folder / "c.bin", "no checkpoint");
  CHECK_THROWS_WITH(folder.expect_no_run(), Contains("cannot be read"));
  folder.remove_run();
  folder.expect_no_run();
  CHECK(scratch.has("a/b/other.tmp"));

  RunFolder tokens(path, {"c.bin"}, {"t.bin"});
  for (const char* name : {"t.bin", "t.bin.tmp"}) write_file_atomically(tokens / name, "x");
  tokens.expect_no_run();
  tokens.remove_leftovers();
  tokens.remove_run();
  CHECK(scratch.has("a/b/t.bin"));
  CHECK(!scratch.has("a/b/t.bin.tmp"));

  RunFolder file(folder / "other.tmp", {"c.bin"});
  CHECK_THROWS_WITH(file.lock(), Contains("other.tmp"));
}

TEST_CASE("append_to_file: a file's head is written once, also after a failure", "[support]") {
  const TemporaryFolder scratch;
  const std::string path = scratch / "log";
  std::string rows = "1\n";
  CHECK_THROWS_WITH(append_to_file("/dev/full", "head\n", rows), Contains("/dev/full"));
  CHECK(rows == "1\n");
  append_to_file(path, "head\n", rows);
  rows = "2\n";
  append_to_file(path, "other head\n", rows);
  CHECK(read_file(path) == "head\n1\n2\n");
}

TEST_CASE("a run's folder that was moved is not written to by its old path", "[support]") {
  const TemporaryFolder scratch;
  const std::string path = scratch / "run";
  RunFolder folder(path, {"c.bin"});
  folder.make();
  folder.expect_in_place();
  fs::rename(path, scratch / "moved");
  CHECK_THROWS_WITH(folder.expect_in_place(), Contains(path) && Contains("No such file"));
  fs::create_directory(path);
  CHECK_THROWS_WITH(folder.expect_in_place(),
                    Contains(path + " is no longer the folder of this run"));
  fs::remove(path);
  fs::create_directory_symlink(scratch / "moved", path);
  folder.expect_in_place();  // the same folder by another path
}

TEST_CASE("the previous checkpoint stays until a new one is complete, wherever a run is killed",
          "[support]") {
  const TemporaryFolder scratch;
  const std::string path = scratch / "run", now = path + "/c.bin",
                    before = path + "/c.previous.bin", coming = before + ".tmp";
  const auto write = [&](const std::string& text) {
    return [&, text] { write_file_atomically(now, text); };
  };
  {
    RunFolder folder(path, {"c.bin", "c.previous.bin"});
    folder.make();
    folder.replace_checkpoint(write("1"));
    CHECK(!scratch.has("run/c.previous.bin"));
    folder.replace_checkpoint(write("2"));
    CHECK(read_file(before) == "1");
    fs::copy_file(now, coming);  // a stale file
    folder.replace_checkpoint([&] {
      CHECK(read_file(now) == "2");
      CHECK(read_file(before) == "1");
      CHECK(fs::equivalent(coming, now));
      write("3")();
    });
    CHECK(read_file(before) == "2");
    CHECK_THROWS_WITH(folder.replace_checkpoint([] { fail("full"); }), Contains("full"));
    CHECK(read_file(before) == "2");
    CHECK(!fs::exists(coming));
  }
  const auto lock = [&] { RunFolder(path, {"c.bin", "c.previous.bin"}).lock(); };
  fs::create_hard_link(now, coming);  // killed before the new checkpoint was written
  lock();
  CHECK(read_file(now) == "3");
  CHECK(read_file(before) == "2");
  CHECK(!fs::exists(coming));
  fs::create_hard_link(now, coming);  // killed after it was written
  write("4")();
  lock();
  CHECK(read_file(now) == "4");
  CHECK(read_file(before) == "3");
  CHECK(!fs::exists(coming));
  fs::create_hard_link(before, coming);  // renaming a file to its own link does nothing
  lock();
  CHECK(read_file(before) == "3");
  CHECK(!fs::exists(coming));
}

TEST_CASE("loss.png: steps behind the estimates; a log axis if the loss falls by more than five",
          "[support]") {
  LossCurve steps;
  steps.add(1, 4.5);
  steps.add(2, 3.5);
  const auto picture = [&](std::vector<LossLog::Row> rows, const LossCurve& curve) {
    LossLog log("run", false);
    for (const LossLog::Row& row : rows) log.add(row);
    return log.picture("title", "nats", curve);
  };
  const Picture drawn = picture({{0, 5, 4.75}, {2, 3, 3.25}}, steps);
  CHECK(drawn.path == "run/loss.png");
  CHECK(drawn.title == "title");
  REQUIRE(drawn.series.size() == 3);
  CHECK(drawn.series[0].points == steps.series().points);  // first: behind the others
  CHECK(drawn.series[0].stroke == Stroke::faint);
  using Points = std::vector<std::pair<double, double>>;
  CHECK(drawn.series[1].points == Points{{0, 5}, {2, 3}});
  CHECK(drawn.series[2].points == Points{{0, 4.75}, {2, 3.25}});
  CHECK_THAT(drawn.series[1].name, Contains("training"));
  CHECK_THAT(drawn.series[2].name, Contains("validation"));
  CHECK(drawn.series[1].stroke != drawn.series[2].stroke);
  CHECK(drawn.series[1].colour != drawn.series[2].colour);
  CHECK(picture({{0, 5, 4.75}}, {}).series.size() == 2);

  CHECK(!drawn.log_y);
  CHECK(!picture({{0, 5, 5}, {2, 1, 1}}, steps).log_y);
  CHECK(picture({{0, 5.25, 5}, {2, 1, 1}}, steps).log_y);
  CHECK(picture({{0, 1, 5.25}, {2, 1, 1}}, steps).log_y);
  CHECK(!picture({{0, 5.25, 5}, {2, 0, 1}}, steps).log_y);
  CHECK(!picture({{0, 5.25, 5}, {2, 1, -1}}, steps).log_y);
  CHECK(!picture({}, steps).log_y);
}

TEST_CASE("the log of losses: rows with other scores share their columns, and can be read again",
          "[support]") {
  const TemporaryFolder scratch;
  LossLog log(scratch.path.string());
  log.add({1, 4, 3, {{"a", 1}, {"b", INFINITY}}});
  log.add({2, -NAN, 3});
  log.add({3, 4, 3, {{"c", 5}, {"b", -INFINITY}}});
  const std::string path = scratch / "loss.csv", header = "step,train_loss,val_loss";
  CHECK(read_file(path).substr(0, 30) == header + ",a,b,c");
  LossLog read(scratch.path.string());
  read.read_up_to(9);
  CHECK(read.last().step == 3);
  REQUIRE(read.last().more.size() == 3);
  CHECK(std::isnan(read.last().more[0].second));
  CHECK(read.last().more[1].second == -INFINITY);
  CHECK(read.last().more[2] == std::pair<std::string, double>("c", 5));
  CHECK(read.rows_after(0) == 3);
  CHECK(read.best()->validation_loss == 3);
  for (const char* bad : {"1,2,3abc", "1.5,2,3", "1,2", "1,2,3,4", "x,2,3", "1,,3", "nan,2,3",
                          "9999999999999999999,2,3", "1,2,"}) {
    CAPTURE(bad);
    write_file_atomically(path, header + '\n' + bad + '\n');
    CHECK_THROWS_WITH(read.read_up_to(4), Contains("loss.csv: line 2 is not a row of losses"));
  }
}

TEST_CASE("the log of losses: knows the best even without its row, and checks its header",
          "[support]") {
  const TemporaryFolder scratch;
  LossLog log(scratch.path.string());
  CHECK(!log.best());
  log.add({0, 4, 3.00000012345});
  log.add({2, 3, 2.25, {{"accuracy", 0.5}}});
  log.add({4, 2, 2.25, {{"accuracy", 0.5}}});
  CHECK(log.best()->step == 2);
  CHECK(log.last_line() == "step 4 train 2.0000 val 2.2500 accuracy 0.5000");
  CHECK(log.rows_after(2) == 1);
  LossLog read(scratch.path.string());
  CHECK(read.last_step() == -1);
  read.read_up_to(1);
  CHECK(read.last_step() == 0);
  CHECK(read.last_line() == "step 0 train 4.0000 val 3.0000 accuracy nan");
  CHECK(read.best()->step == 0);
  CHECK(read.best()->validation_loss == 3);  // rounded to 7 digits
  CHECK(LossLog::number(3.00000012345) == "3");
  LossLog odd("run", false);
  odd.add({0, 4, std::nan("")});
  odd.add({1, 4, 3});
  CHECK(odd.best()->step == 1);
  read.read_up_to(4);
  CHECK(read.best()->step == 2);

  const std::string path = scratch / "loss.csv";
  for (const char* bad :
       {"", "\n", "step,train_loss\n", "step,train_loss,val_loss2\n", "0,1,2\n"}) {
    write_file_atomically(path, bad);
    CHECK_THROWS_WITH(read.read_up_to(4), Contains("loss.csv: line 1 is not its header; remove"));
  }
  write_file_atomically(path, "step,train_loss,val_loss\n0,2,2.1,\n");
  CHECK_THROWS_WITH(read.read_up_to(4), Contains("loss.csv: line 2 is not a row of losses"));
  write_file_atomically(path, "step,train_loss,val_loss\n");
  read.read_up_to(4);
  CHECK(!read.best());
  fs::remove(path);
  read.read_up_to(4);
  read.set_best({2, 2.25});
  read.add({6, 2, 2.5});
  CHECK(read.best()->step == 2);
  read.add({8, 2, 2});
  CHECK(read.best()->step == 8);
}

}  // namespace support_test
