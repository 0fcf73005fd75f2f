#include "gradus/core/files/safetensors.h"

#include <sys/stat.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "gradus/core/files/named_tensors.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/tensor/tensor.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temporary_folder.h"

namespace safetensors_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

TEST_CASE("safetensors: a round trip preserves every bit", "[safetensors]") {
  TemporaryFolder folder;
  const std::string path = folder / "x.safetensors";
  Tensor f = from_data<float>({1, -0.0f, std::numeric_limits<float>::denorm_min(),
                               std::bit_cast<float>(0x7fa12345u), INFINITY, -1e38f},
                              {2, 3});
  Tensor d = from_data<double>({std::bit_cast<double>(0xfff0000000000123u), 5e-324, M_PI}, {3, 1});
  Tensor i = from_data<int64_t>({INT64_MIN, -1, INT64_MAX}, {3});
  Tensor b = eye(3, boolean);
  save_safetensors(path,
                   {{"flag", b},
                    {"a.weight", f},
                    {"double", d},
                    {"ids", i},
                    {"none", zeros({0, 4})},
                    {"rank 0", scalar(7)},
                    {"tied", f},
                    {"\xc3\xa9\"\\\n", f}},
                   {{"step", "12"}, {"", "\"quoted\"\n"}});
  CHECK(folder.files() == 1);

  // Data start at a multiple of 8 bytes and large elements come first, so each tensor is aligned.
  const std::string bytes = read_file(path);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  CHECK(header % 8 == 0);

  SafetensorsFile file = load_safetensors(path);
  CHECK(file.metadata == std::map<std::string, std::string>{{"step", "12"}, {"", "\"quoted\"\n"}});
  std::map<std::string, Tensor> loaded(file.tensors.begin(), file.tensors.end());
  REQUIRE(loaded.size() == 8);
  check_same_bits<bool>(b, loaded["flag"]);
  check_same_bits<float>(f, loaded["a.weight"]);
  check_same_bits<double>(d, loaded["double"]);
  check_same_bits<int64_t>(i, loaded["ids"]);
  CHECK(loaded["none"].shape() == Shape{0, 4});
  CHECK(loaded["rank 0"].shape() == Shape{});
  CHECK(loaded["rank 0"].item() == 7);
  check_same_bits<float>(f, loaded["tied"]);
  check_same_bits<float>(f, loaded["\xc3\xa9\"\\\n"]);
}

TEST_CASE("safetensors: a tensor of many blocks and a part of one", "[safetensors]") {
  TemporaryFolder folder;
  const std::string path = folder / "x.safetensors";
  const Tensor x = arange(100001);
  save_safetensors(path, {{"x", x}});
  CHECK(fs::file_size(path) < 100001 * sizeof(int64_t) + 1000);
  check_same_bits<int64_t>(x, load_safetensors(path).tensors.at(0).second);
}

TEST_CASE("safetensors: views are written in row-major order, same-typed tensors keep their order",
          "[safetensors]") {
  TemporaryFolder folder;
  Tensor x = arange(0, 12, 1, float32).reshape({3, 4});
  save_safetensors(folder / "v",
                   {{"z", x.mT()}, {"y", x.slice(1, 1, 4, 2)}, {"a", x[1].expand({2, 4})}});
  SafetensorsFile file = load_safetensors(folder / "v");
  REQUIRE(file.tensors.size() == 3);
  CHECK(file.tensors[0].first == "z");
  CHECK(file.tensors[1].first == "y");
  CHECK(file.tensors[2].first == "a");
  CHECK(file.tensors[0].second.to_vector<int>() ==
        std::vector<int>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11});
  CHECK(file.tensors[1].second.to_vector<int>() == std::vector<int>{1, 3, 5, 7, 9, 11});
  CHECK(file.tensors[2].second.to_vector<int>() == std::vector<int>{4, 5, 6, 7, 4, 5, 6, 7});
}

TEST_CASE("safetensors: each tensor is aligned to its element size", "[safetensors]") {
  TemporaryFolder folder;
  const std::string path = folder / "x";
  save_safetensors(path, {{"bool", zeros({3}, boolean)},
                          {"float", zeros({3})},
                          {"int", zeros({1}, int64)},
                          {"other bool", zeros({2}, boolean)},
                          {"other float", zeros({1})},
                          {"double", zeros({2}, float64)}});
  const std::string bytes = read_file(path);
  const auto [header, data] = parts_of(bytes);
  CHECK((bytes.size() - data.size()) % 8 == 0);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    CAPTURE(name);
    const std::string dtype = entry.at("dtype");
    const int64_t size = dtype == "BOOL" ? 1 : dtype == "F32" ? 4 : 8;
    CHECK(entry.at("data_offsets").at(0).get<int64_t>() % size == 0);
  }
}

TEST_CASE("safetensors: a file may hold no tensors", "[safetensors]") {
  TemporaryFolder folder;
  save_safetensors(folder / "empty", {});
  CHECK(load_safetensors(folder / "empty").tensors.empty());
}

TEST_CASE("safetensors: a tensor may have as many axes as any tensor", "[safetensors]") {
  TemporaryFolder folder;
  const Tensor x = arange(6).reshape(Shape::filled(max_rank, 1).with(2, 3).with(-1, 2));
  save_safetensors(folder / "deep", {{"x", x}});
  check_same_bits<int64_t>(x, load_safetensors(folder / "deep").tensors.at(0).second);
}

TEST_CASE("safetensors: reads a file that Python wrote", "[safetensors]") {
  // Made by struct.pack("<Q", len(header)) + header + data, with json.dumps for the header and
  // struct.pack for the numbers.
  const std::string header =
      R"({"__metadata__": {"format": "pt"}, )"
      R"("w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, )"
      R"("half": {"dtype": "F16", "shape": [4], "data_offsets": [24, 32]}, )"
      R"("brain": {"dtype": "BF16", "shape": [2], "data_offsets": [32, 36]}, )"
      R"("ids": {"dtype": "I32", "shape": [1, 2], "data_offsets": [36, 44]}, )"
      R"("mask": {"dtype": "BOOL", "shape": [3], "data_offsets": [44, 47]}, )"
      R"("scalar": {"dtype": "U8", "shape": [], "data_offsets": [47, 48]}}       )";
  const unsigned char data[] = {0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x20, 0xc0, 0x00, 0x00,
                                0x40, 0x40, 0x00, 0x00, 0x80, 0x40, 0x00, 0x00, 0xa0, 0x40,
                                0x60, 0x42, 0xa2, 0x0d, 0x00, 0x3e, 0xff, 0xfb, 0x01, 0x00,
                                0x00, 0x7c, 0x80, 0x3f, 0x49, 0xc0, 0xf9, 0xff, 0xff, 0xff,
                                0xff, 0xff, 0xff, 0x7f, 0x01, 0x00, 0x01, 0xc8};
  TemporaryFolder folder;
  const std::string path = folder / "python";
  write_file_atomically(path, file_of(header, std::string(data, data + sizeof data)));

  SafetensorsFile file = load_safetensors(path);
  CHECK(file.metadata == std::map<std::string, std::string>{{"format", "pt"}});
  REQUIRE(file.tensors.size() == 6);
  auto expect = [&](size_t at, const char* name, Dtype dtype, const Shape& shape,
                    const std::vector<double>& values) {
    INFO(name);
    const auto& [actual_name, tensor] = file.tensors[at];
    CHECK(actual_name == name);
    CHECK(tensor.dtype() == dtype);
    CHECK(tensor.shape() == shape);
    CHECK(tensor.to_vector<double>() == values);
  };
  expect(0, "w", float32, {2, 3}, {1, -2.5, 3, 4, 5, 1e-30f});
  expect(1, "half", float32, {4}, {1.5, -65504, 0x1p-24, INFINITY});
  expect(2, "brain", float32, {2}, {1, -3.140625});
  expect(3, "ids", int64, {1, 2}, {-7, 2147483647});
  expect(4, "mask", boolean, {3}, {1, 0, 1});
  expect(5, "scalar", int64, {}, {200});
}

TEST_CASE("safetensors: signed and unsigned integers of every width are read", "[safetensors]") {
  TemporaryFolder folder;
  for (int64_t bytes : {1, 2, 4})
    for (bool has_sign : {true, false}) {
      const std::string type = (has_sign ? "I" : "U") + std::to_string(8 * bytes);
      INFO(type);
      const auto width = static_cast<size_t>(bytes);
      // Three little-endian values: all bits set, only the highest bit, all but the highest bit.
      std::string data(3 * width, '\xff');
      std::fill_n(data.begin() + static_cast<std::ptrdiff_t>(width), width, '\0');
      data[2 * width - 1] = '\x80';
      data[3 * width - 1] = '\x7f';
      const std::string header = R"({"x": {"dtype": ")" + type +
                                 R"(", "shape": [3], "data_offsets": [0, )" +
                                 std::to_string(data.size()) + "]}}";
      write_file_atomically(folder / type.c_str(), file_of(header, data));
      const int64_t highest = int64_t{1} << (8 * bytes - 1);
      const Tensor x = load_safetensors(folder / type.c_str()).tensors.at(0).second;
      CHECK(x.to_vector<int64_t>() ==
            (has_sign ? std::vector<int64_t>{-1, -highest, highest - 1}
                      : std::vector<int64_t>{2 * highest - 1, highest, highest - 1}));
    }
}

TEST_CASE("safetensors: every byte of a BOOL but 0 is true", "[safetensors]") {
  TemporaryFolder folder;
  write_file_atomically(folder / "x",
                        file_of(R"({"x": {"dtype": "BOOL", "shape": [4], "data_offsets": [0, 4]}})",
                                std::string("\0\1\2\xff", 4)));
  CHECK(load_safetensors(folder / "x").tensors.at(0).second.to_vector<int>() ==
        std::vector<int>{0, 1, 1, 1});
}

TEST_CASE("safetensors: int8 matrices are stored as values and scales, bfloat16 as it is",
          "[safetensors][compression]") {
  manual_seed(1);
  const Tensor x = randn({3, 70}), q = x.to(int8), h = x.to(bfloat16);
  TemporaryFolder folder;
  const std::string path = folder / "compressed";
  save_safetensors(path, {{"q", q}, {"x", x}, {"h", h}});
  const auto header = parts_of(read_file(path)).first;
  CHECK(header["q"]["dtype"] == "I8");
  CHECK(header["q"]["shape"] == std::vector<int64_t>{3, 70});
  CHECK(header["q.scales"]["dtype"] == "BF16");
  CHECK(header["q.scales"]["shape"] == std::vector<int64_t>{3, 3});
  CHECK(header["h"]["dtype"] == "BF16");
  const auto loaded = load_safetensors(path).tensors;
  REQUIRE(loaded.size() == 3);
  const std::map<std::string, Tensor> named(loaded.begin(), loaded.end());
  REQUIRE(named.at("q").dtype() == int8);
  check_same_bits<float>(named.at("q").to(float32), q.to(float32));
  check_same_bits<float>(named.at("h"), h.to(float32));
  CHECK_THROWS_WITH(save_safetensors(path, {{"q", q}, {"q.scales", x}}),
                    Contains("two tensors are named \"q.scales\""));
  CHECK_THROWS_WITH(save_safetensors(path, {{"w", q.transpose(0, 1)}}),
                    "save_safetensors: \"w\" is a view of an int8 matrix; save the whole one");
  CHECK_THROWS_WITH(save_safetensors(path, {{"w", h.transpose(0, 1)}}),
                    "save_safetensors: \"w\": expected a contiguous bfloat16 tensor");
}

TEST_CASE("safetensors: I8 with scales from another program is an int8 matrix if its scales fit",
          "[safetensors][compression]") {
  // Rows of 33 values, so two scales per row: 1 (0x3f80), 0.5, -2 and 0.25.
  const std::string scales = std::string("\x80\x3f\x00\x3f\x00\xc0\x80\x3e", 8);
  const std::string data = std::string(32, '\3') + '\xfe' + std::string(32, '\1') + '\x7f' + scales;
  TemporaryFolder folder;
  auto load = [&](const std::string& scales_entry, const std::string& shape = "[2, 33]",
                  const std::string& type = "I8") {
    const std::string header = R"({"w": {"dtype": ")" + type + R"(", "shape": )" + shape +
                               R"(, "data_offsets": [0, 66]}, "w.scales": )" + scales_entry + "}";
    write_file_atomically(folder / "foreign", file_of(header, data));
    return load_safetensors(folder / "foreign").tensors;
  };
  const char* const fitting = R"({"dtype": "BF16", "shape": [2, 2], "data_offsets": [66, 74]})";
  const auto fits = load(fitting);
  REQUIRE(fits.size() == 1);
  std::vector<double> expected(66, 3);
  expected[32] = -1;
  std::fill(expected.begin() + 33, expected.end(), -2);
  expected[65] = 127 * 0.25;
  CHECK(fits[0].second.to(float32).to_vector<double>() == expected);
  for (const char* other : {R"({"dtype": "BF16", "shape": [4], "data_offsets": [66, 74]})",
                            R"({"dtype": "BF16", "shape": [4, 1], "data_offsets": [66, 74]})",
                            R"({"dtype": "F16", "shape": [2, 2], "data_offsets": [66, 74]})",
                            R"({"dtype": "F32", "shape": [2, 1], "data_offsets": [66, 74]})"}) {
    CAPTURE(other);
    const auto apart = load(other);
    REQUIRE(apart.size() == 2);
    CHECK(apart[0].second.dtype() == int64);
  }
  const auto without_sign = load(fitting, "[2, 33]", "U8");
  REQUIRE(without_sign.size() == 2);
  CHECK(without_sign[0].second.dtype() == int64);
  const auto no_matrix = load(fitting, "[2, 33, 1]");
  REQUIRE(no_matrix.size() == 2);
  CHECK(no_matrix[0].second.dtype() == int64);
  CHECK(no_matrix[0].second.shape() == Shape{2, 33, 1});
}

TEST_CASE("safetensors: a failed save changes nothing", "[safetensors]") {
  TemporaryFolder folder;
  const Tensor x = ones({2});
  CHECK_THROWS_WITH(save_safetensors(folder / "no/such", {{"x", x}}),
                    "save_safetensors: " + (folder / "no/such") + ": cannot write " +
                        (folder / "no/such.tmp") + ": No such file or directory");
  CHECK_THROWS_WITH(save_safetensors(folder / "a", {{"x", x}, {"x", x}}),
                    Contains("are named \"x\""));
  CHECK_THROWS_WITH(save_safetensors(folder / "a", {{"x", Tensor()}}),
                    Contains("\"x\" is undefined"));
  CHECK_THROWS_WITH(save_safetensors(folder / "a", {{"__metadata__", x}}),
                    Contains("can't be named"));
  CHECK_THROWS_WITH(save_safetensors(folder / "a", {{"\xff", x}}), Contains("must be UTF-8"));
  CHECK(folder.files() == 0);

  fs::create_directory(folder / "taken");
  CHECK_THROWS_WITH(save_safetensors(folder / "taken", {{"x", x}}), Contains("Is a directory"));
  CHECK_THROWS_WITH(load_safetensors(folder / "taken"), Contains("not a regular file"));
  CHECK_THROWS_WITH(load_safetensors(folder / "none"), Contains("No such file or directory"));
  CHECK(folder.files() == 1);
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0666) == 0);
  CHECK_THROWS_WITH(load_safetensors(folder / "pipe"), Contains("not a regular file"));
}

TEST_CASE("safetensors: the checksum is in the header only", "[safetensors]") {
  TemporaryFolder folder;
  const std::string path = folder / "x";
  save_safetensors(path, {{"w", tensor({1, 2, 3, 4, 5, 6, 7, 8, -9})}, {"flags", eye(3, boolean)}},
                   {{"step", "12"}});
  CHECK(load_safetensors(path).metadata == std::map<std::string, std::string>{{"step", "12"}});

  auto [header, data] = parts_of(read_file(path));
  const nlohmann::json metadata = header["__metadata__"];
  // Computed by tests/golden/scripts/checksum.py.
  CHECK(metadata == nlohmann::json{{"gradus.checksum", "a9697406dde37a74"},
                                   {"gradus.format", "1"},
                                   {"step", "12"}});

  auto refused = [&](const nlohmann::json& changed, const std::string& bytes,
                     const std::string& reason) {
    write_file_atomically(path, file_of(changed.dump(), bytes));
    CHECK_THROWS_WITH(load_safetensors(path),
                      Contains("load_safetensors: " + path + ": ") && Contains(reason));
  };
  auto with = [original = header](const char* key, const nlohmann::json& value) {
    nlohmann::json changed = original;
    changed["__metadata__"][key] = value;
    return changed;
  };
  const std::string mismatch = "the content does not match its checksum";
  std::string flipped = data;
  flipped[17] ^= 1;
  refused(header, flipped, mismatch);
  refused(with("step", "13"), data, mismatch);
  refused(with("more", ""), data, mismatch);
  refused(with("gradus.format", "2"), data, mismatch);
  refused(with("gradus.checksum", "0000000000000000"), data, mismatch);
  refused(with("gradus.checksum", ""), data, mismatch);
  nlohmann::json changed = header;
  changed["v"] = changed["w"];
  changed.erase("w");
  refused(changed, data, mismatch);
  changed = header;
  changed["w"]["shape"] = {3, 3};
  refused(changed, data, mismatch);
  changed = header;
  changed["__metadata__"].erase("gradus.checksum");
  refused(changed, data, "gradus.format without gradus.checksum");
  changed = header;
  changed["__metadata__"].erase("gradus.format");
  refused(changed, data, mismatch);

  // A file of another program, or from before checksums were added, has no checksum.
  changed["__metadata__"].erase("gradus.checksum");
  write_file_atomically(path, file_of(changed.dump(), flipped));
  CHECK(load_safetensors(path).tensors.size() == 2);
  // Another program may rewrite the header in a different format.
  write_file_atomically(path, file_of(header.dump(2), data));
  CHECK(load_safetensors(path).tensors.size() == 2);
}

TEST_CASE("safetensors: metadata must not use the names of the checksum's entries",
          "[safetensors]") {
  TemporaryFolder folder;
  for (const char* key : {"gradus.checksum", "gradus.format"})
    CHECK_THROWS_WITH(save_safetensors(folder / "x", {}, {{key, "1"}}),
                      "save_safetensors: the metadata can't hold \"" + std::string(key) + "\"");
}

TEST_CASE("safetensors: the checksum depends on the order of words", "[safetensors]") {
  TemporaryFolder folder;
  const std::string path = folder / "x";
  std::vector<int64_t> values(40);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i);
  save_safetensors(path, {{"x", from_data(values, {40})}});
  const std::string good = read_file(path);
  const size_t data = good.size() - 320;
  for (size_t i = 0; i < 40; ++i)
    for (size_t j = 0; j < i; ++j) {
      std::string bytes = good;
      std::swap_ranges(bytes.begin() + static_cast<long>(data + 8 * i),
                       bytes.begin() + static_cast<long>(data + 8 * i + 8),
                       bytes.begin() + static_cast<long>(data + 8 * j));
      std::ofstream(path, std::ios::binary) << bytes;
      CHECK_THROWS_WITH(load_safetensors(path), Contains("checksum"));
    }
}

TEST_CASE("safetensors: loading takes time linear in the number of tensors", "[safetensors]") {
  TemporaryFolder folder;
  const std::string path = folder / "x";
  NamedTensors tensors;
  for (int i = 0; i < 100'000; ++i)
    tensors.emplace_back("tensor." + std::to_string(i), scalar(i, float64));
  save_safetensors(path, tensors);
  const NamedTensors loaded = load_safetensors(path).tensors;
  REQUIRE(loaded.size() == tensors.size());
  CHECK(loaded[54'321].first == "tensor.54321");
  CHECK(loaded[54'321].second.item() == 54'321);
  for (auto& [name, tensor] : tensors) tensor = scalar(-1, float64);
  load_named("load", tensors, loaded);
  CHECK(tensors[99'999].second.item() == 99'999);
}

TEST_CASE("safetensors: loaded tensors map the file, and writing to them does not change it",
          "[safetensors]") {
  const TemporaryFolder dir;
  const std::string path = dir / "x.safetensors";
  save_safetensors(path, {{"x", tensor({1, 2, 3})}});
  const std::string before = read_file(path);
  CHECK((before.size() - 3 * sizeof(float)) % 64 == 0);
  const Tensor x = load_safetensors(path).tensors.at(0).second;
  x.mul_(2);
  CHECK(read_file(path) == before);
  save_safetensors(path, {{"x", tensor({7, 8, 9})}});
  std::filesystem::remove(path);
  CHECK(x.to_vector<float>() == std::vector<float>{2, 4, 6});
  // The data may be at an offset that is not aligned for floats.
  const std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} )";
  REQUIRE((8 + header.size()) % 4 != 0);
  const uint64_t length = header.size();
  const float values[] = {1.5f, -2};
  std::string bytes(reinterpret_cast<const char*>(&length), 8);
  bytes += header + std::string(reinterpret_cast<const char*>(values), sizeof values);
  write_file_atomically(path, bytes);
  CHECK(load_safetensors(path).tensors.at(0).second.to_vector<float>() ==
        std::vector<float>{1.5f, -2});
}

}  // namespace safetensors_test
