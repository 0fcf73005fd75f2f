// train_digits, the drawn digits, and a model folder of a custom model.

#include <algorithm>
#include <cmath>
#include <fstream>

#include "examples/support/drawn_digits.h"
#include "gradus/core/ops/ops.h"
#include "gradus/models/models.h"
#include "gradus/nn/nn.h"
#include "tests/support/packed.h"
#include "tests/support/programs.h"

namespace train_digits_test {

using namespace gradus;
using Catch::Matchers::Contains;

namespace {

/// An IDX file of these axes and bytes.
std::string idx(const std::vector<uint32_t>& axes, const std::vector<uint8_t>& bytes) {
  std::string file{'\0', '\0', '\x08', static_cast<char>(axes.size())};
  for (const uint32_t n : axes)
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(n >> shift & 255);
  return file.append(bytes.begin(), bytes.end());
}

/// A folder with 4 x 3 images that are bright in the half given by their label.
struct Halves : TemporaryFolder {
  std::string flags;
  explicit Halves(uint32_t n = 100) {
    std::vector<uint8_t> images, labels;
    for (uint32_t i = 0; i < n; ++i) {
      labels.push_back(i * 7 % 3 % 2);
      for (uint32_t k = 0; k < 12; ++k)
        images.push_back(static_cast<uint8_t>((k < 6) == (labels.back() == 0) ? 200 + i % 50 : 3));
    }
    write_file_atomically(*this / "images", idx({n, 4, 3}, images));
    write_file_atomically(*this / "labels", idx({n}, labels));
    flags = "--images '" + (*this / "images") + "' --labels '" + (*this / "labels") + "' --out '" +
            (*this / "out") + "' --hidden 8 --batch 16 --eval-every 20 --warmup 0";
  }
};

struct OwnConfig {
  int64_t size = 3;
  double scale = 0.5;
  bool fast = false;
  std::string note = "none";
  Activation activation = Activation::tanh;
};
struct Own : nn::Module {
  using Config = OwnConfig;
  static constexpr const char* kind = "own";
  static models::Fields fields(OwnConfig& c) {
    models::Fields fields;
    fields.add("size", c.size, 1, 100, "how large");
    fields.add("scale", c.scale, 0, 1, "how much");
    fields.add("fast", c.fast, "whether");
    fields.add("note", c.note, "what");
    fields.add("activation", c.activation, "which").optional = true;
    return fields;
  }
  const OwnConfig config;
  const Tensor weight;
  explicit Own(const OwnConfig& c)
      : config(c), weight(param("weight", {c.size, c.size}, nn::init::normal())) {}
};

}  // namespace

TEST_CASE("train_digits: learns, evaluates, resumes") {
  const Halves data;
  const Result first = run("train_digits", data.flags + " --steps 40 --lr 0.01");
  INFO(first.output);
  REQUIRE(first.status == 0);
  CHECK_THAT(first.output, Contains("80 train, 20 validate") && Contains("accuracy 1.0000 sec"));
  CHECK_THAT(read_file(data / "out/loss.csv"),
             Contains("step,train_loss,val_loss,accuracy\n0,") && Contains("\n40,"));
  const Result second = run("train_digits", "--resume --steps 60 --out '" + (data / "out") + "'");
  INFO(second.output);
  REQUIRE(second.status == 0);
  CHECK_THAT(read_file(data / "out/loss.csv"), Contains("\n20,") && Contains("\n60,"));
  REQUIRE(run("train_digits", data.flags + " --steps 60 --lr 0.01 --overwrite").status == 0);
}

TEST_CASE("train_digits: reads files of which only the .gz exist") {
  const Halves data;
  for (const std::string name : {"images", "labels"}) {
    write_file_atomically(data / (name + ".gz"), packed(read_file(data / name), 15 + 16));
    std::filesystem::remove(data / name);
  }
  const Result result = run("train_digits", data.flags + " --steps 1");
  INFO(result.output);
  CHECK(result.status == 0);
}

TEST_CASE("train_digits: --init-from brings its configuration") {
  const Halves data;
  REQUIRE(run("train_digits", data.flags + " --steps 5 --activation tanh").status == 0);
  const std::string files = "--images '" + (data / "images") + "' --labels '" + (data / "labels") +
                            "' --warmup 0 --steps 1 --init-from '" + (data / "out") + "' --out '";
  REQUIRE(run("train_digits", files + (data / "next") + "'").status == 0);
  CHECK(read_file(data / "next/config.json") == read_file(data / "out/config.json"));
  CHECK_THAT(run("train_digits", files + (data / "other") + "' --hidden 9").output,
             Contains("--hidden contradicts"));
  // Other labels count as other data.
  const std::string labels = read_file(data / "labels");
  write_file_atomically(data / "labels", labels.substr(0, labels.size() - 2) + '\1' + '\0');
  CHECK_THAT(run("train_digits", "--resume --steps 9 --out '" + (data / "out") + "'").output,
             Contains("the data differs from that of the run in"));
  CHECK_THAT(
      run("train_gpt", "--init-from '" + (data / "out") + "' --out '" + (data / "a") + "'").output,
      Contains("expected a model of kind \"gpt\", got \"digit-net\""));
}

TEST_CASE("train_digits: refuses malformed data") {
  const Halves data;
  auto refused = [](const std::string& flags, const std::string& why) {
    const Result result = run("train_digits", flags);
    INFO(result.output);
    CHECK(result.status == 1);
    CHECK_THAT(result.output, Contains(why));
  };
  refused("--images x --out '" + (data / "a") + "'",
          "--images and --labels: expected both or neither");
  write_file_atomically(data / "labels", idx({99}, std::vector<uint8_t>(99)));
  refused(data.flags, "got (100, 4, 3) and (99,)");
  write_file_atomically(data / "labels", "no IDX file");
  refused(data.flags, data / "labels");
  CHECK(!data.has("out"));
}

TEST_CASE("drawn digits depend only on seed and index") {
  const Digits few = drawn_digits(20, 3), more = drawn_digits(50, 3), others = drawn_digits(20, 4);
  CHECK(few.images.shape() == Shape{20, 28, 28});
  CHECK(more.images.slice(0, 0, 20).to_vector<float>() == few.images.to_vector<float>());
  CHECK(more.labels.slice(0, 0, 20).to_vector<int>() == few.labels.to_vector<int>());
  CHECK(others.images.to_vector<float>() != few.images.to_vector<float>());
  CHECK(min(few.images).item() == 0);
  CHECK(max(few.images).item() <= 1);
  const Tensor counts = scatter_sum({10}, 0, drawn_digits(2000, 1).labels, ones({2000}));
  CHECK(min(counts).item() > 150);
}

TEST_CASE("a model folder takes any model that describes its configuration", "[fields]") {
  const TemporaryFolder folder;
  const std::string dir = folder / "own", path = models::config_path(dir);
  const Own model({.size = 7,
                   .scale = 1e-5,
                   .fast = true,
                   .note = "a \"b\"\n",
                   .activation = Activation::silu});
  models::save_model(dir, model);
  const Own loaded = models::load_model<Own>(dir);
  CHECK(loaded.config.size == 7);
  CHECK(loaded.config.scale == 1e-5);
  CHECK(loaded.config.fast);
  CHECK(loaded.config.note == "a \"b\"\n");
  CHECK(loaded.config.activation == Activation::silu);
  CHECK(loaded.weight.to_vector<float>() == model.weight.to_vector<float>());
  CHECK_THROWS_WITH(models::load_model<models::GPT>(dir),
                    Contains(path + ": expected a model of kind \"gpt\", got \"own\""));

  const std::string good = read_file(path);
  auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write_file_atomically(path, text);
    return models::load_config<Own>(dir);
  };
  CHECK(with(",\n  \"activation\": \"silu\"", "").activation == Activation::tanh);  // the default
  auto refused = [&](const std::string& from, const std::string& to, const std::string& why) {
    CHECK_THROWS_WITH(with(from, to), Contains(path) && Contains(why));
  };
  refused("\"size\": 7,", "", "size is missing: expected a whole number from 1 to 100");
  refused("7", "0", "size: expected a whole number from 1 to 100, got 0");
  refused("7", "7.5", "got 7.5");
  refused("7", "\"7\"", "got \"7\"");
  refused("true", "1", "fast: expected true or false, got 1");
  refused("silu", "swish", "activation: expected one of none, relu");
  refused("\"size\"", "\"sizes\"", "\"sizes\" is not a known entry");
  // The configuration asks for more elements than the weight file holds.
  write_file_atomically(path, good);
  with("7", "8");
  CHECK_THROWS_WITH(models::load_model<Own>(dir), Contains("(8, 8) exceeds the 49 elements"));

  OwnConfig config{.size = 0};
  CHECK_THROWS_WITH(Own::fields(config).check("Own"),
                    "Own: size: expected a whole number from 1 to "
                    "100, got 0");
  config = {.scale = std::nan("")};
  CHECK_THROWS_WITH(Own::fields(config).check("Own"), Contains("scale"));
}

}  // namespace train_digits_test
