// Fields: the limits of values, their texts, and files of earlier versions.

#include "gradus/models/folder/fields.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "gradus/core/files/file.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/models/gpt.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

namespace fields_test {

using namespace gradus;
using gradus::testing::error_of;
using models::Field, models::Fields;

namespace {

enum class Colour { red, green };

struct Options {
  int64_t count = 3;
  double rate = 0.5;
  uint64_t seed = 1;
  bool fast = false;
  std::string name = "\u00e9";
  Colour colour = Colour::red;
  Fields fields() {
    Fields all;
    all.add("count", count, 1, 10, "");
    all.add("rate", rate, 0, 0.75, "");
    all.add("seed", seed, "");
    all.add("fast", fast, "");
    all.add("name", name, "");
    all.add("colour", colour, {"red", "green"}, "");
    return all;
  }
};

}  // namespace

template <class T>
concept AddsWithoutLimits = requires(Fields fields, T value) {
  fields.add("", value, "");
};
static_assert(AddsWithoutLimits<uint64_t> && AddsWithoutLimits<bool> &&
              AddsWithoutLimits<std::string>);
static_assert(!AddsWithoutLimits<int64_t> && !AddsWithoutLimits<double>);

TEST_CASE("fields: both limits belong to the valid values", "[folder]") {
  Options o;
  const Fields fields = o.fields();
  const auto set = [&](const char* name, const char* text) {
    return error_of([&] { fields.find(name)->set("F", text); });
  };
  CHECK(set("count", "10") == "");
  CHECK(o.count == 10);
  CHECK(set("count", "1") == "");
  CHECK(set("count", "0") == "F: expected a whole number from 1 to 10, got \"0\"");
  CHECK(set("count", "11") == "F: expected a whole number from 1 to 10, got \"11\"");
  CHECK(set("rate", "0.75") == "");
  CHECK(set("rate", "0") == "");
  CHECK(set("rate", "0.76") == "F: expected a number from 0 to 0.75, got \"0.76\"");
  CHECK((o.count == 1 && o.rate == 0));
  o.count = 10, o.rate = 0.75;
  CHECK_NOTHROW(fields.check("op"));
  o.count = 11;
  CHECK(error_of([&] { fields.check("op"); }) ==
        "op: count: expected a whole number from 1 to 10, got 11");
}

TEST_CASE("fields: values that no file can hold are refused by name", "[folder]") {
  Options o;
  const Fields fields = o.fields();
  o.rate = NAN;
  CHECK(error_of([&] { fields.check("op"); }) ==
        "op: rate: expected a number from 0 to 0.75, got nan");
  o.rate = 0.5;
  o.colour = static_cast<Colour>(2);  // one after the last
  CHECK(error_of([&] { fields.check("op"); }) ==
        "op: colour: expected one of red, green, got number 2");
}

TEST_CASE("fields: an upper limit of 1e15 or more is only a safeguard", "[folder]") {
  int64_t n = 4;
  Fields fields;
  CHECK(fields.add("a", n, 2, 1e15, "").expected() == "a whole number of at least 2");
  CHECK(fields.add("b", n, 2, 1e14, "").expected() == "a whole number from 2 to 100000000000000");
}

TEST_CASE("fields: JSON on one line or one line per field, in UTF-8", "[folder]") {
  Options o;
  CHECK(o.fields().to_json() ==
        "{\"count\":3,\"rate\":0.5,\"seed\":1,\"fast\":false,\"name\":\"\u00e9\",\"colour\":"
        "\"red\"}");
  CHECK(o.fields().to_json(true) ==
        "{\n  \"count\": 3,\n  \"rate\": 0.5,\n  \"seed\": 1,\n  \"fast\": false,\n"
        "  \"name\": \"\u00e9\",\n  \"colour\": \"red\"\n}");
  const TemporaryFolder folder;
  models::save_config(folder / "", "kind", o.fields());
  CHECK(read_file(folder / "config.json") ==
        "{\n  \"model\": \"kind\"," + o.fields().to_json(true).substr(1) + '\n');
}

TEST_CASE("fields: JSON with one wrong entry changes nothing", "[folder]") {
  Options o;
  const Fields fields = o.fields();
  CHECK(error_of([&] {
          fields.read_json("F", R"({"count": 7, "rate": 0.25, "seed": 2, "fast": true, "name": "x",
                                    "colour": "blue"})");
        }) == "F: colour: expected one of red, green, got \"blue\"");
  CHECK((o.count == 3 && o.rate == 0.5 && o.seed == 1 && !o.fast && o.name == "\u00e9"));
  fields.read_json("F", R"({"count": 10, "rate": 0.75, "seed": 2, "fast": true, "name": "x",
                            "colour": "green"})");
  CHECK((o.count == 10 && o.rate == 0.75 && o.seed == 2 && o.fast && o.name == "x"));
  CHECK(o.colour == Colour::green);
}

TEST_CASE("a GPT's config.json of the first version lacks all later fields", "[folder][gpt]") {
  const TemporaryFolder folder;
  write_file_atomically(folder / "config.json",
                        R"({"model": "gpt", "vocab": 9, "context": 8, "layers": 2, "heads": 2,
                            "dim": 4, "dropout": 0.25, "bias": true, "tie": false,
                            "activation": "relu"})");
  auto got = models::load_config<models::GPT>(folder / "");
  models::GPTConfig want{.vocab = 9,
                         .context = 8,
                         .layers = 2,
                         .heads = 2,
                         .dim = 4,
                         .dropout = 0.25,
                         .bias = true,
                         .tie = false,
                         .activation = Activation::relu};
  CHECK(models::GPT::fields(got).to_json() == models::GPT::fields(want).to_json());
}

}  // namespace fields_test
