// The format of GGUF files: files made here byte by byte, as other programs may write them, and
// what our own files hold.

#include "gradus/models/folder/gguf/gguf_file.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "gradus/core/core.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

using Catch::Matchers::Contains;

namespace gradus::testing::gguf_file_test {
namespace {

using namespace models;
using models::internal::GgufFile;
using nlohmann::ordered_json;

template <class T>
std::string bytes(T x) {
  std::string all(sizeof x, '\0');
  std::memcpy(all.data(), &x, sizeof x);
  return all;
}
std::string text(const std::string& content) { return bytes<uint64_t>(content.size()) + content; }
std::string floats(const std::vector<float>& values) {
  std::string all;
  for (const float value : values) all += bytes(value);
  return all;
}
std::string padded(std::string all, size_t multiple = 32) {
  while (all.size() % multiple != 0) all += '\0';
  return all;
}

std::string opening(uint64_t tensors, uint64_t entries) {
  return "GGUF" + bytes<uint32_t>(3) + bytes(tensors) + bytes(entries);
}
template <class T>
std::string entry(const std::string& key, uint32_t type, T value) {
  return text(key) + bytes(type) + bytes(value);
}
/// The index's entry of an f32 tensor; the format has the last axis first.
std::string tensor_entry(const std::string& name, const std::vector<uint64_t>& sizes,
                         uint64_t offset) {
  std::string all = text(name) + bytes(static_cast<uint32_t>(sizes.size()));
  for (const uint64_t size : sizes) all += bytes(size);
  return all + bytes<uint32_t>(0) + bytes(offset);
}

GgufFile read(const std::string& content) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "x.gguf", content);
  return models::internal::read_gguf(folder / "x.gguf");
}

std::string refusal(const std::string& content) {
  return error_of([&] { read(content); });
}

/// Writes the file with `type`, except for the matrix "wide", and reads it.
GgufFile written(const GgufFile& file, GgufType type) {
  const TemporaryFolder folder;
  models::internal::write_gguf(folder / "x.gguf", file, type,
                               [](const std::string& name) { return name == "wide"; });
  return models::internal::read_gguf(folder / "x.gguf");
}

}  // namespace

TEST_CASE("GGUF: metadata of every type of number, and an array of booleans", "[gguf]") {
  const std::string flags = text("flags") + bytes<uint32_t>(9) + bytes<uint32_t>(7) +
                            bytes<uint64_t>(2) + std::string{'\0', '\1'};
  // The last value is the end of the file.
  const ordered_json got =
      read(opening(0, 13) + entry<uint8_t>("u8", 0, 200) + entry<int8_t>("i8", 1, -3) +
           entry<uint16_t>("u16", 2, 60000) + entry<int16_t>("i16", 3, -300) +
           entry<uint32_t>("u32", 4, 4000000000) + entry<int32_t>("i32", 5, -70000) +
           entry<float>("f32", 6, 1e-5f) + entry<uint8_t>("yes", 7, 1) +
           entry<uint8_t>("no", 7, 0) + flags + entry<uint64_t>("u64", 10, 1ull << 40) +
           entry<double>("f64", 12, 0.1) + entry<int64_t>("i64", 11, -(1ll << 40)))
          .metadata;
  CHECK(got == ordered_json{{"u8", 200},
                            {"i8", -3},
                            {"u16", 60000},
                            {"i16", -300},
                            {"u32", 4000000000},
                            {"i32", -70000},
                            {"f32", 1e-5},
                            {"yes", true},
                            {"no", false},
                            {"flags", {false, true}},
                            {"u64", 1ll << 40},
                            {"f64", 0.1},
                            {"i64", -(1ll << 40)}});
}

TEST_CASE("GGUF: floating-point metadata that are not finite are read as they are", "[gguf]") {
  const ordered_json got =
      read(opening(0, 4) + entry<float>("a", 6, -INFINITY) + entry<float>("b", 6, NAN) +
           entry<double>("c", 12, NAN) + entry<double>("d", 12, INFINITY))
          .metadata;
  CHECK(got["a"] == -INFINITY);
  CHECK(std::isnan(got["b"].get<double>()));
  CHECK(std::isnan(got["c"].get<double>()));
  CHECK(got["d"] == INFINITY);
}

TEST_CASE("GGUF: the limits of a file's opening", "[gguf]") {
  CHECK_THAT(refusal("GGUF"), Contains("a number at byte 4 takes 4 bytes, but only 0 follow"));
  CHECK_THAT(refusal("GGU"), Contains("expected a GGUF file"));
  CHECK_THAT(refusal(opening(0, 10000)), Contains("metadata 0: a number at byte 24"));
  CHECK_THAT(refusal(opening(0, 10001)), Contains("expected at most 10000 entries of metadata"));
  const auto aligned = [](uint32_t alignment) {
    return refusal(opening(0, 1) + entry<uint32_t>("general.alignment", 4, alignment));
  };
  CHECK(aligned(1 << 20) == "");
  CHECK_THAT(aligned(1 << 21), Contains("expected a power of 2 up to 2^20, got 2097152"));
  CHECK_THAT(aligned(0), Contains("expected a power of 2 up to 2^20, got 0"));
}

TEST_CASE("GGUF: tensors of one to four axes, of sizes from 1 on", "[gguf]") {
  const std::string values = floats({1, 2, 3, 4, 5, 6});
  const auto of_sizes = [&](const std::vector<uint64_t>& sizes) {
    return padded(opening(1, 0) + tensor_entry("x", sizes, 0)) + values;
  };
  const Tensor x = read(of_sizes({2, 1, 1, 3})).tensors.at(0).second;
  CHECK(x.shape() == Shape{3, 1, 1, 2});
  CHECK(x.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(read(of_sizes({6})).tensors.at(0).second.shape() == Shape{6});
  CHECK_THAT(refusal(of_sizes({})), Contains("tensor \"x\": expected 1 to 4 axes, got 0"));
  CHECK_THAT(refusal(of_sizes({6, 1, 1, 1, 1})), Contains("expected 1 to 4 axes, got 5"));
  CHECK_THAT(refusal(of_sizes({2, 0})), Contains("expected sizes of at least 1"));
}

TEST_CASE("GGUF: tensors need no alignment if the file says so", "[gguf]") {
  for (const std::string name : {"x", "xx", "xxx", "xxxx"}) {  // at four successive addresses
    const GgufFile file = read(opening(1, 1) + entry<uint32_t>("general.alignment", 4, 1) +
                               tensor_entry(name, {3}, 0) + floats({0.5f, -2, 3e38f}));
    CHECK(file.tensors.at(0).second.to_vector<float>() == std::vector<float>{0.5f, -2, 3e38f});
  }
}

TEST_CASE("GGUF: tensors follow each other; zeros after the last may lack", "[gguf]") {
  const auto file = [](uint64_t first_offset, uint64_t second_offset) {
    const std::string index =
        tensor_entry("a", {3}, first_offset) + tensor_entry("b", {2}, second_offset);
    return padded(padded(opening(2, 0) + index) + floats({1, 2, 3})) + floats({4, 5});
  };
  const std::string whole = file(0, 32);
  for (const size_t zeros : {0, 1, 23, 24}) {
    CAPTURE(zeros);
    const NamedTensors tensors = read(whole + std::string(zeros, '\0')).tensors;
    CHECK(tensors.at(0).second.to_vector<float>() == std::vector<float>{1, 2, 3});
    CHECK(tensors.at(1).second.to_vector<float>() == std::vector<float>{4, 5});
  }
  CHECK_THAT(refusal(whole + std::string(25, '\0')),
             Contains("expected " + std::to_string(whole.size() + 24) + " bytes, got " +
                      std::to_string(whole.size() + 25)));
  CHECK_THAT(refusal(whole.substr(0, whole.size() - 1)),
             Contains("tensor \"b\": f32 (2,) takes 8 bytes"));
  CHECK_THAT(refusal(file(0, 64)), Contains("tensor \"b\": expected the offset 32, got 64"));
  CHECK_THAT(refusal(file(0, 0)), Contains("tensor \"b\": expected the offset 32, got 0"));
  CHECK_THAT(refusal(file(32, 32)), Contains("tensor \"a\": expected the offset 0, got 32"));
}

TEST_CASE("GGUF: our files hold what was written, however long their opening is", "[gguf]") {
  const Tensor x = tensor({1, 2, 3, 4, 5});
  for (size_t length = 0; length < 32; ++length) {
    CAPTURE(length);
    const ordered_json metadata{{"key", std::string(length, 'x')}};
    const GgufFile got = written({metadata, {{"x", x}}}, GgufType::f32);
    CHECK(got.metadata == metadata);  // without format and checksum
    REQUIRE(got.tensors.size() == 1);
    CHECK(golden::same(got.tensors[0].second, x));
  }
}

TEST_CASE("GGUF: q8_0 by hand, and what it leaves to wider types", "[gguf]") {
  std::vector<float> q(64), rounded(64);
  // Scales 63.5 / 127 and 508 / 127.
  q[0] = rounded[0] = 63.5f;
  q[1] = 0.3f, rounded[1] = 0.5f;
  q[2] = rounded[2] = -63.5f;
  q[31] = -0.7f, rounded[31] = -0.5f;
  q[32] = rounded[32] = 508;
  q[33] = 5, rounded[33] = 4;
  q[63] = -7, rounded[63] = -8;
  const GgufFile file{{},
                      {{"q", from_data<float>(q, {2, 32})},
                       {"odd", full({32, 33}, 0.3)},
                       {"vector", full({32}, 0.3)},
                       {"wide", full({1, 32}, 0.3)}}};
  const NamedTensors got = written(file, GgufType::q8_0).tensors;
  CHECK(got[0].second.to_vector<float>() == rounded);
  CHECK(got[1].second.to_vector<float>() == std::vector<float>(32 * 33, 0.300048828125f));  // f16
  CHECK(golden::same(got[2].second, file.tensors[2].second));
  CHECK(golden::same(got[3].second, file.tensors[3].second));
}

TEST_CASE("GGUF: tensors that are written in several pieces", "[gguf]") {
  // Whole numbers up to 127 in each block of 32: exact in every type.
  std::vector<float> values(3 << 15);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i % 32 == 0 ? 127 : static_cast<float>(i % 251) - 125;
  const GgufFile file{{}, {{"x", from_data<float>(values, {3, 1 << 15})}, {"y", ones({4})}}};
  for (const GgufType type : {GgufType::f32, GgufType::f16, GgufType::bf16, GgufType::q8_0}) {
    CAPTURE(static_cast<int>(type));
    const NamedTensors got = written(file, type).tensors;
    CHECK(got[0].second.to_vector<float>() == values);
    CHECK(golden::same(got[1].second, file.tensors[1].second));
  }
}

}  // namespace gradus::testing::gguf_file_test
