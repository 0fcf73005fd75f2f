#include "examples/logs/event_log.h"

#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "examples/support/folder.h"
#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"

// The file is a sequence of TFRecords, integers little-endian:
//   length (8 bytes), checksum of the length (4), data (length), checksum of the data (4)
// The data is a protocol buffer of TensorFlow's message Event:
//   1: wall_time (double)   2: step (int64)   3: file_version (string, in the first record alone)
//   5: summary, whose field 1 is repeated: { 1: tag (string)   2: simple_value (float) }

namespace gradus {
namespace {

/// CRC-32C (Castagnoli) of the bytes, masked as TFRecords store it.
uint32_t checksum(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = (t[i] >> 1) ^ (t[i] & 1 ? 0x82f63b78 : 0);
    }
    return t;
  }();
  uint32_t crc = ~0U;
  for (const char c : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return std::rotr(~crc, 15) + 0xa282ead8;
}

/// The bytes of a number, which are little-endian on every processor that the library supports.
template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <class T>
T number_at(const std::string& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// A number in groups of 7 bits, the lowest first.
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// The ways a protocol buffer stores a field.
enum Wire { as_varint = 0, as_8_bytes = 1, with_length = 2, as_4_bytes = 5 };

std::string key(int field, Wire wire) { return varint(static_cast<uint64_t>(field << 3 | wire)); }

std::string text_field(int field, const std::string& bytes) {
  return key(field, with_length) + varint(bytes.size()) + bytes;
}

/// The beginning of every Event: its time and its step.
std::string event(int64_t step) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return key(1, as_8_bytes) + bytes_of(now.count()) + key(2, as_varint) +
         varint(static_cast<uint64_t>(step));
}

std::string record(const std::string& data) {
  const std::string length = bytes_of(uint64_t{data.size()});
  return length + bytes_of(checksum(length)) + data + bytes_of(checksum(data));
}

/// The step of an Event that event() began; nullopt if `data` is not such an Event.
std::optional<int64_t> step_of(std::string_view data) {
  constexpr size_t begin = 1 + sizeof(double) + 1;  // of the step: after the time and two keys
  uint64_t step = 0;
  for (size_t i = begin; i < data.size() && i < begin + 9; ++i) {
    step |= static_cast<uint64_t>(data[i] & 0x7f) << (7 * (i - begin));
    if (!(data[i] & 0x80)) return static_cast<int64_t>(step);
  }
  return {};
}

/// The end of the record at this position and its step; nullopt if it is cut or damaged.
std::optional<std::pair<size_t, int64_t>> read_record(const std::string& file, size_t at) {
  constexpr size_t head = 12, around = 16;
  const std::string_view bytes(file);
  if (file.size() - at < around ||
      number_at<uint32_t>(file, at + 8) != checksum(bytes.substr(at, 8)))
    return {};
  const auto length = number_at<uint64_t>(file, at);
  if (length > file.size() - at - around) return {};
  const std::string_view data = bytes.substr(at + head, length);
  const std::optional<int64_t> step = step_of(data);
  if (!step || number_at<uint32_t>(file, at + head + length) != checksum(data)) return {};
  return std::pair{at + around + length, *step};
}

}  // namespace

void EventLog::cut_after(int64_t step) const {
  std::error_code error;
  if (!std::filesystem::exists(path_, error)) return;
  const std::string file = read_file(path_);
  size_t keep = 0;
  while (const auto next = read_record(file, keep)) {
    if (next->second > step) break;
    keep = next->first;
  }
  std::filesystem::resize_file(path_, keep, error);
  core::check(!error, "cannot write ", path_, ": ", error.message());
}

void EventLog::add(const StepLog::Row& row) {
  add(row.step, {{"step/loss", row.loss}, {"step/lr", row.lr}, {"step/grad_norm", row.grad_norm}});
}

void EventLog::add(const LossLog::Row& row) {
  NamedNumbers values{{"estimate/train", row.train_loss},
                      {"estimate/validation", row.validation_loss}};
  for (const auto& [name, value] : row.more) values.emplace_back("estimate/" + name, value);
  add(row.step, values);
}

void EventLog::add(int64_t step, const NamedNumbers& values) {
  std::string summary;
  for (const auto& [tag, value] : values)
    summary += text_field(
        1, text_field(1, tag) + key(2, as_4_bytes) + bytes_of(static_cast<float>(value)));
  records_ += record(event(step) + text_field(5, summary));
}

void EventLog::flush() {
  append_to_file(path_, record(event(0) + text_field(3, "brain.Event:2")), records_);
}

}  // namespace gradus
