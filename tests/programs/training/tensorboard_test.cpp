// train_gpt --tensorboard: the format is decoded here on its own.

#include <bit>
#include <cstring>

#include "tests/support/train_bench.h"

namespace tensorboard_test {

namespace {

using Scalars = std::map<std::string, std::map<int64_t, double>>;  // by tag and step

/// CRC-32C bit by bit.
uint32_t crc32c(const std::string& bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
  }
  return crc ^ 0xffffffff;
}

/// Reads values from the front of some bytes.
struct Reader {
  std::string bytes;
  std::string take(size_t count) {
    REQUIRE(count <= bytes.size());
    const std::string taken = bytes.substr(0, count);
    bytes.erase(0, count);
    return taken;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number<uint8_t>();
      value |= uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  }
  Reader message() { return {take(varint())}; }
};

void expect_checksum(Reader& file, const std::string& bytes) {
  CHECK(std::rotl(file.number<uint32_t>() - 0xa282ead8, 15) == crc32c(bytes));
}

/// The scalars in an event file, whose first record must hold the version.
Scalars read_events(const std::string& bytes) {
  Scalars scalars;
  Reader file{bytes};
  bool is_first = true;
  while (!file.bytes.empty()) {
    const std::string length = file.take(8);
    expect_checksum(file, length);
    Reader event{file.take(Reader{length}.number<uint64_t>())};
    expect_checksum(file, event.bytes);
    REQUIRE(event.number<uint8_t>() == (1 << 3 | 1));
    CHECK(event.number<double>() > 1.7e9);  // seconds since 1970
    REQUIRE(event.number<uint8_t>() == (2 << 3 | 0));
    const auto step = static_cast<int64_t>(event.varint());
    if (std::exchange(is_first, false)) {
      REQUIRE(event.number<uint8_t>() == (3 << 3 | 2));
      CHECK(event.message().bytes == "brain.Event:2");
      continue;
    }
    REQUIRE(event.number<uint8_t>() == (5 << 3 | 2));
    Reader summary = event.message();
    CHECK(event.bytes.empty());
    while (!summary.bytes.empty()) {
      REQUIRE(summary.number<uint8_t>() == (1 << 3 | 2));
      Reader value = summary.message();
      REQUIRE(value.number<uint8_t>() == (1 << 3 | 2));
      const std::string tag = value.message().bytes;
      REQUIRE(value.number<uint8_t>() == (2 << 3 | 5));
      CHECK(scalars[tag].emplace(step, value.number<float>()).second);
      CHECK(value.bytes.empty());
    }
  }
  return scalars;
}

/// Compares a tag's values with a column of a CSV file whose first column is the step.
void check_column(const std::map<int64_t, double>& values, const Rows& rows, size_t column) {
  REQUIRE(values.size() == rows.size());
  for (const auto& row : rows)
    CHECK(values.at(static_cast<int64_t>(row[0])) == Approx(row[column]).epsilon(1e-5));
}

const std::string events = "out/events.out.tfevents.gradus";

void check_log(const Bench& bench) {
  const Scalars scalars = read_events(bench.file(events));
  CHECK(scalars.size() == 6);
  const Rows steps = bench.rows("out/steps.csv"), losses = bench.rows("out/loss.csv");
  check_column(scalars.at("step/loss"), steps, 1);
  check_column(scalars.at("step/lr"), steps, 2);
  check_column(scalars.at("step/grad_norm"), steps, 3);
  check_column(scalars.at("estimate/train"), losses, 1);
  check_column(scalars.at("estimate/validation"), losses, 2);
  check_column(scalars.at("estimate/bits_per_byte"), losses, 3);
}

}  // namespace

TEST_CASE("--tensorboard: the values of steps.csv and loss.csv, once each, after a resume too") {
  CHECK(crc32c("123456789") == 0xe3069283);
  const Bench bench;
  const std::string flags = bench.flags + " --eval-every 2 --eval-batches 2" + bench.out();
  REQUIRE(run("train_gpt", flags + " --steps 200 --tensorboard").status == 0);
  check_log(bench);
  const std::string whole = bench.file(events);

  // A process that was killed has left records after its checkpoint, the last one cut.
  const std::string resume = "--resume --tensorboard" + bench.out();
  const std::string record = whole.substr(whole.size() - 40);
  for (const std::string& rest : {std::string(), std::string("\x7f"), record}) {
    gradus::write_file_atomically(bench / events, bench.file(events) + rest);
    REQUIRE(run("train_gpt", resume + " --steps " + std::to_string(203 + rest.size())).status == 0);
    check_log(bench);
  }
  const std::string damaged = bench.file(events);
  std::string flipped = damaged;
  flipped[damaged.size() / 2] ^= 1;
  gradus::write_file_atomically(bench / events, flipped);
  REQUIRE(run("train_gpt", resume + " --steps 250").status == 0);
  const Scalars scalars = read_events(bench.file(events));
  CHECK(scalars.at("step/loss").begin()->first == 1);
  CHECK(scalars.at("step/loss").rbegin()->first == 250);
  CHECK(scalars.at("step/loss").size() < 250);

  // Without the flag, no file.
  REQUIRE(run("train_gpt", flags + " --overwrite --steps 2").status == 0);
  CHECK_FALSE(bench.has(events));
}

TEST_CASE("--tensorboard: records after the checkpoint are replaced") {
  const Bench bench;
  const std::string flags = bench.flags + " --eval-every 2 --eval-batches 2" + bench.out();
  REQUIRE(run("train_gpt", flags + " --steps 4 --tensorboard").status == 0);
  const std::string later = bench.file(events);
  REQUIRE(run("train_gpt", flags + " --overwrite --steps 2 --decay-steps 4 --tensorboard").status ==
          0);
  gradus::write_file_atomically(bench / events, later);
  REQUIRE(run("train_gpt", "--resume --steps 6 --tensorboard" + bench.out()).status == 0);
  check_log(bench);
}

}  // namespace tensorboard_test
