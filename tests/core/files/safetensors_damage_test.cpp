// Damaged safetensors files: each is refused with its name and the reason.

#include <catch2/catch.hpp>
#include <cstring>

#include "gradus/core/files/safetensors.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temporary_folder.h"

namespace safetensors_damage_test {

using namespace gradus;
using Catch::Matchers::Contains;

namespace {

/// A header with one tensor "x", float32 by default.
std::string one(const std::string& shape, const std::string& offsets,
                const std::string& dtype = "\"F32\"") {
  return "{\"x\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
         "}}";
}

/// A header with two tensors of one float each.
std::string two(const std::string& a, const std::string& b) {
  return "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" + a +
         "},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" + b + "}}";
}

void refused(const std::string& bytes, const std::string& reason) {
  TemporaryFolder folder;
  const std::string path = folder / "damaged";
  INFO(bytes.substr(0, 200));
  write_file_atomically(path, bytes);
  CHECK_THROWS_WITH(load_safetensors(path),
                    Contains("load_safetensors: " + path + ": ") && Contains(reason));
}

const std::string eight(8, 'd');

}  // namespace

TEST_CASE("safetensors refuses a file that is shorter than it says", "[safetensors]") {
  refused("", "expected at least 8 bytes, got 0");
  refused("1234567", "expected at least 8 bytes, got 7");
  refused(std::string("\x01\xe1\xf5\x05\0\0\0\0", 8), "header of 100000001 bytes is longer");
  refused(std::string("\0\xe1\xf5\x05\0\0\0\0", 8),
          "a header of 100000000 bytes, but only 0 follow");
  refused(std::string(8, '\xff') + eight, "header of 18446744073709551615 bytes is longer");
  refused(std::string("\x09\0\0\0\0\0\0\0", 8) + "{}      ",
          "expected a header of 9 bytes, but only 8 follow");
}

TEST_CASE("safetensors refuses a bad header", "[safetensors]") {
  refused(file_of("", ""), "not a JSON object");
  refused(file_of("[]", ""), "not a JSON object");
  refused(file_of(" {}", ""), "not a JSON object");
  refused(file_of("{\"x\":", ""), "not JSON at its byte 6");
  refused(file_of("{}{}", ""), "not JSON at its byte 3");
  refused(file_of("{\"\xff\":1}", ""), "not JSON at its byte 3");
  refused(file_of("{\"x\":1e999}", ""), "a number out of range");
  refused(file_of(std::string("{}\0x", 4), ""), "a zero byte");
  refused(file_of("{\"x\":" + std::string(100000, '['), ""), "nested too deep");
  const std::string deepest = std::string(15, '[') + std::string(15, ']');
  refused(file_of("{\"x\":" + deepest + "}", ""), "expected a JSON object, got [[");
  refused(file_of("{\"x\":[" + deepest + "]}", ""), "nested too deep");
  refused(file_of("{\"x\":3}", ""), "tensor \"x\": expected a JSON object, got 3");
  refused(file_of("{\"x\\n\":3}", ""), "tensor \"x\\n\": expected a JSON object");
  refused(file_of("{\"__metadata__\":3}", ""), "__metadata__: expected an object of strings");
  refused(file_of("{\"__metadata__\":{\"a\":3}}", ""), "expected a string for \"a\"");
  const std::string x = "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}";
  refused(file_of("{" + x + "," + x + "}", "dddd"), "names \"x\" twice");
  refused(file_of("{\"x\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", ""), "names \"dtype\" twice");
}

TEST_CASE("safetensors refuses a bad entry of a tensor", "[safetensors]") {
  refused(file_of("{\"x\":{}}", ""), "expected a string for dtype");
  refused(file_of(one("[2]", "[0,8]", "32"), eight), "expected a string for dtype");
  refused(file_of(one("[2]", "[0,8]", "\"F31\""), eight), "unknown dtype \"F31\"");
  refused(file_of("{\"x\":{\"dtype\":\"F32\"}}", eight), "expected an array 'shape'");
  refused(file_of(one("2", "[0,8]"), eight), "expected an array 'shape'");
  refused(file_of(one("[-2]", "[0,8]"), eight), "whole numbers from 0 to 2^63 - 1, got -2");
  refused(file_of(one("[2.0]", "[0,8]"), eight), "whole numbers from 0 to 2^63 - 1, got 2.0");
  refused(file_of(one("[9223372036854775808]", "[0,8]"), eight), "got 9223372036854775808");
  refused(file_of(one("[18446744073709551618]", "[0,8]"), eight), "got 1.8446744073709552e+19");
  refused(file_of(one("[1,1,1,1,1,1,1,1,2]", "[0,8]"), eight), "expected at most 8 axes, got 9");
  refused(file_of(one("[4611686018427387904,4]", "[0,0]"), ""), "overflows");
  refused(file_of(one("[0,4294967296,4294967296]", "[0,0]"), ""), "overflows");
  refused(file_of(one("[2]", "[0]"), eight), "data_offsets: expected 2 numbers, got 1");
  refused(file_of(one("[2]", "[8,0]"), eight), "do not lie within the 8 bytes");
  refused(file_of(one("[4]", "[0,16]"), eight), "do not lie within the 8 bytes");
  refused(file_of(one("[2]", "[9223372036854775800,9223372036854775807]"), eight), "do not lie");
  refused(file_of(one("[1]", "[0,8]"), eight), "takes 4 bytes, data_offsets 0 to 8 give 8");
  refused(file_of(one("[1]", "[0,8]", "\"U64\""), std::string(8, '\xff')),
          "tensor \"x\": value 18446744073709551615 does not fit into int64");
}

TEST_CASE("safetensors refuses data that do not match the entries", "[safetensors]") {
  refused(file_of(two("[0,4]", "[0,4]"), "dddd"), "tensor \"b\" overlaps another at byte 0");
  refused(file_of(two("[0,4]", "[2,6]"), "dddddd"), "tensor \"b\" overlaps another at byte 2");
  refused(file_of(two("[0,4]", "[5,9]"), eight + "d"),
          "bytes 4 to 5 of the data belong to no tensor");
  refused(file_of(two("[4,8]", "[8,12]"), eight + "dddd"), "bytes 0 to 4 of the data belong");
  refused(file_of(two("[0,4]", "[4,8]"), eight + "d"), "expected 8 bytes of data, got 9");
  refused(file_of(two("[0,4]", "[4,8]"), "ddddddd"), "do not lie within the 7 bytes");
}

}  // namespace safetensors_damage_test
