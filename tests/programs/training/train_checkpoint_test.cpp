// train_gpt: what a checkpoint stores, and checkpoints of earlier versions.

#include "gradus/core/debug/build_info.h"
#include "gradus/core/files/safetensors.h"
#include "gradus/core/ops/ops.h"
#include "tests/support/compare.h"
#include "tests/support/train_bench.h"

namespace train_checkpoint_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

namespace {

/// A run of 2 steps, whose checkpoint is changed and must be refused.
struct CheckpointBench : Bench {
  const std::string path = *this / "out/checkpoint.safetensors";
  std::string good;
  Json options;

  CheckpointBench() {
    REQUIRE(run("train_gpt", flags + " --steps 2" + out()).status == 0);
    good = read_file(path);
    options = Json::parse(load_safetensors(path).metadata.at("options"));
  }
  void refused(const std::string& key, const std::string& value, const std::string& why) {
    change_metadata([&](auto& metadata) {
      if (value.empty())
        metadata.erase(key);
      else
        metadata[key] = value;
    });
    const Result result = run("train_gpt", "--resume" + out());
    INFO(key << ' ' << value.substr(0, 300) << '\n' << result.output);
    CHECK(result.status == 1);
    CHECK(one_line(result.output));
    CHECK_THAT(result.output, Contains(why) && Contains("checkpoint.safetensors"));
    CHECK(result.output.size() < 400);
    write_file_atomically(path, good);
  }
  void refused_option(const std::string& key, const Json& value) {
    Json changed = options;
    changed[key] = value;
    refused("options", changed.dump(), key);
  }
};

}  // namespace

TEST_CASE("train_gpt: what a checkpoint stores is checked") {
  CheckpointBench bench;
  bench.refused_option("heads", 0);
  bench.refused_option("accumulate", 0);
  bench.refused_option("batch", 65537);
  bench.refused_option("layers", -1);
  bench.refused_option("layers", 1e30);
  bench.refused_option("layers", 1.0);
  bench.refused_option("layers", "1");
  bench.refused_option("dropout", 1.5);
  bench.refused_option("lr", nullptr);
  bench.refused_option("lr", std::string(1000, 'x'));
  bench.refused_option("bias", 1);
  bench.refused_option("data", 7);
  bench.refused_option("seed", -1);
  bench.refused_option("unheard_of", 1);
  Json missing = bench.options;
  missing.erase("context");
  bench.refused("options", missing.dump(), "context");
  bench.refused("options", "{", "JSON");
  bench.refused("options", "[1]", "options");
  bench.refused("options", "7", "options");
  bench.refused_option("heads", {1, 2});
  bench.refused("options",
                "{\"heads\":" + std::string(100000, '[') + std::string(100000, ']') + "}", "deep");
  bench.refused("options", "", "options");
  for (const char* step : {"", "two", "-1", "2x", "99999999999999999999", " 2"})
    bench.refused("step", step, "step");
  for (const char* seconds : {"", "soon", "nan", "-1", "1e999", "1,5"})
    bench.refused("seconds", seconds, "seconds");
  bench.refused("data", "", "data");
  for (const char* step : {"two", "-1"}) bench.refused("best_step", step, "best_step");
  for (const char* loss : {"", "nan", "low"}) bench.refused("best_loss", loss, "best_loss");
  for (const char* rates : {"7", "0:1", "7:-1"})
    bench.refused("rate_by_hand", rates, "rate_by_hand");
  CHECK(run("train_gpt", "--resume" + bench.out()).status == 0);
}

TEST_CASE("train_gpt: a resumed run keeps its model") {
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + " --steps 2" + bench.out()).status == 0);
  const Result other = run("train_gpt", "--resume --heads 1" + bench.out());
  CHECK(other.status == 1);
  CHECK_THAT(other.output, Contains("--heads"));
  CHECK(run("train_gpt", "--resume --heads 2" + bench.out()).status == 0);
  const std::vector<std::string> before = bench.run_files();
  const Result fewer = run("train_gpt", "--resume --steps 1" + bench.out());
  CHECK(fewer.status == 1);
  CHECK_THAT(fewer.output, Contains("has done 2 steps, more than --steps 1"));
  CHECK(bench.run_files() == before);
}

TEST_CASE("train_gpt: a checkpoint of an earlier version resumes") {
  const Bench bench;
  const std::string flags = bench.flags + " --steps 2" + bench.out();
  REQUIRE(run("train_gpt", flags + " --bias --lr 1e-5").status == 0);
  const Json now =
      Json::parse(load_safetensors(bench / "out/checkpoint.safetensors").metadata.at("options"));
  CHECK(now["min_lr"].get<double>() == Approx(1e-6));  // a tenth of --lr

  // The format of version 0.1.0.
  Json earlier = Json::parse(R"({"accumulate":1,"batch":4,"beta2":0.99,"bias":true,"clip":1.0,
    "context":16,"data":"","dim":16,"dropout":0.0,"eval_batches":2,"eval_every":250,"heads":2,
    "layers":1,"lr":1e-05,"min_lr":1e-06,"seed":5,"steps":2,"warmup":2,"weight_decay":0.1})");
  earlier["data"] = bench / "text.txt";
  bench.change_metadata([&](auto& metadata) {
    metadata["options"] = earlier.dump();
    metadata["text"] = metadata["data"];
    for (const char* later : {"data", "best_step", "best_loss"}) metadata.erase(later);
    metadata["seconds"] = "5000.5";
  });
  std::filesystem::remove(bench.path / "out/steps.csv");
  const Result result = run("train_gpt", "--resume --bias --steps 4" + bench.out());
  INFO(result.output);
  CHECK(result.status == 0);
  const Rows rows = bench.rows("out/steps.csv");
  REQUIRE(rows.size() == 2);  // of the later steps
  for (const auto& row : rows) CHECK(row.back() == Approx(5000.5).margin(60));
  CHECK_THAT(result.output, Contains("seconds 50"));
}

TEST_CASE("train_gpt: a run with Muon and a mean of weights resumes to the same bits") {
  const Bench bench;
  const std::string flags =
      bench.flags + " --optimizer muon --muon-decay 0.1 --stable 0.5 --warmup 2 --ema 0.9";
  REQUIRE(run("train_gpt", flags + " --steps 6" + bench.out("whole")).status == 0);
  REQUIRE(run("train_gpt", flags + " --steps 6 --eval-every 3" + bench.out("also")).status == 0);
  // The learning rate depends on the number of steps, so the first part is killed, not shortened.
  REQUIRE(run("train_gpt", flags + " --steps 3 --decay-steps 6" + bench.out()).status == 0);
  const Result resumed = run("train_gpt", "--resume --steps 6" + bench.out());
  INFO(resumed.output);
  REQUIRE(resumed.status == 0);
  CHECK_THAT(resumed.output, Contains("changed --steps from 3 to 6") &&
                                 Contains("ema: the running mean of the weights"));
  for (const char* model : {"/model.safetensors", "/ema/model.safetensors"})
    for (const char* other : {"also", "out"})
      CHECK(bench.file(std::string(other) + model) == bench.file(std::string("whole") + model));
  CHECK(bench.file("out/model.safetensors") != bench.file("out/ema/model.safetensors"));
  CHECK(run("generate", "--model '" + (bench / "out/ema") + "' --tokens 3").status == 0);

  const Result other = run("train_gpt", "--resume --optimizer adamw" + bench.out());
  CHECK(other.status == 1);
  CHECK_THAT(other.output, Contains("--optimizer contradicts"));
}

TEST_CASE("train_gpt: --ema is the decay of the weights' mean, and --overwrite removes the mean") {
  const Bench bench;
  const std::string flags = bench.flags + " --lr 0.01 --min-lr 0.01 --warmup 0";
  REQUIRE(run("train_gpt", flags + " --ema 0.05 --steps 1" + bench.out("one")).status == 0);
  const Result trained = run("train_gpt", flags + " --ema 0.05 --steps 2" + bench.out());
  REQUIRE(trained.status == 0);
  // What is printed about the mean is the loss of the model in ema/, and not of the other one.
  const auto number_after = [](const std::string& text, const std::string& label) {
    return text.substr(text.rfind(label) + label.size(), 6);
  };
  const std::string from = "--eval-only --data '" + (bench / "text.txt") + "' --init-from '";
  CHECK(number_after(trained.output, "weights, with validation loss ") ==
        number_after(run("train_gpt", from + (bench / "out/ema'")).output, " val_loss "));
  CHECK(number_after(trained.output, " val_loss ") ==
        number_after(run("train_gpt", from + (bench / "out'")).output, " val_loss "));
  CHECK(number_after(trained.output, " val_loss ") !=
        number_after(trained.output, "weights, with validation loss "));
  const auto tensors = [&](const std::string& folder) {
    return load_safetensors(bench / (folder + "/model.safetensors")).tensors;
  };
  const NamedTensors before = tensors("one/ema"), weights = tensors("out"),
                     mean = tensors("out/ema");
  REQUIRE(mean.size() == weights.size());
  for (size_t i = 0; i < mean.size(); ++i) {
    CAPTURE(mean[i].first);
    REQUIRE(mean[i].first == weights[i].first);
    const Tensor expected = 0.05 * before[i].second + 0.95 * weights[i].second;
    CHECK(testing::difference(mean[i].second, expected) < 1e-6);
  }
  REQUIRE(run("train_gpt", flags + " --steps 1 --overwrite" + bench.out()).status == 0);
  CHECK_FALSE(bench.has("out/ema/model.safetensors"));
}

TEST_CASE("train_gpt: each option of Muon changes the run, and a resumed run keeps it") {
  const Bench bench;
  const std::string flags = bench.flags + " --optimizer muon --steps 3";
  REQUIRE(run("train_gpt", flags + bench.out("plain")).status == 0);
  std::vector<std::string> options{"--muon-lr 0.3",  "--muon-momentum 0.5",  "--muon-decay 3",
                                   "--muon-steps 4", "--muon-polar-express", "--muon-per-head"};
  if (has_bfloat16_products()) options.emplace_back("--muon-precision bf16");
  for (const std::string& option : options) {
    CAPTURE(option);
    REQUIRE(run("train_gpt", flags + ' ' + option + " --overwrite" + bench.out()).status == 0);
    CHECK(bench.file("out/model.safetensors") != bench.file("plain/model.safetensors"));
    CHECK(run("train_gpt", "--resume --steps 4" + bench.out()).status == 0);
  }
  const Result other = run("train_gpt", "--resume --muon-steps 6" + bench.out());
  CHECK(other.status == 1);
  CHECK_THAT(other.output, Contains("--muon-steps contradicts"));
}

TEST_CASE("train_gpt: the learning rate and its schedule may change on resume") {
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + " --steps 2" + bench.out()).status == 0);
  const Result resumed =
      run("train_gpt",
          "--resume --steps 4 --lr 0.25 --min-lr 0.125 --warmup 0 --stable 0.75" + bench.out());
  INFO(resumed.output);
  REQUIRE(resumed.status == 0);
  CHECK_THAT(resumed.output, Contains("changed --lr from") && Contains(" to 0.25\n"));
  const Rows rows = bench.rows("out/steps.csv");
  REQUIRE(rows.size() == 4);
  CHECK(rows[2][2] == 0.25);  // step 3, of 4: the last quarter falls to min_lr after the last step
  CHECK(rows[3][2] == 0.25);
  // The change is kept.
  const Result again = run("train_gpt", "--resume --steps 8" + bench.out());
  CHECK_FALSE(again.output.find("--lr") != std::string::npos);
  CHECK(bench.rows("out/steps.csv").back()[2] == 0.1875);  // halfway from lr to min_lr
}

TEST_CASE("train_gpt: a --lr below the checkpoint's --min-lr is refused") {
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + " --lr 0.01 --steps 1" + bench.out()).status == 0);
  const std::string lower = "--resume --steps 2 --lr 1e-4" + bench.out();
  const Result refused = run("train_gpt", lower);
  CHECK(refused.status == 1);
  CHECK_THAT(refused.output, Contains("--min-lr 0.001 of the checkpoint is above --lr 0.0001"));
  CHECK(run("train_gpt", lower + " --min-lr 1e-5").status == 0);
  CHECK_THAT(run("train_gpt", lower + " --min-lr 1").output, Contains("--min-lr 1 is above --lr"));
}

TEST_CASE("train_gpt: Muon's learning rate and the end of the schedule may change on resume") {
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + " --optimizer muon --steps 2" + bench.out()).status == 0);
  const Result resumed =
      run("train_gpt", "--resume --steps 4 --muon-lr 0.125 --decay-steps 9" + bench.out());
  CHECK(resumed.status == 0);
  CHECK_THAT(resumed.output, Contains("changed --muon-lr from ") && Contains(" to 0.125\n") &&
                                 Contains("changed --decay-steps from 0 to 9\n"));
}

}  // namespace train_checkpoint_test
