// train_gpt: starting weights, early stopping, validation data, damaged logs.

#include <algorithm>
#include <cstdio>

#include "gradus/core/tensor/autograd.h"
#include "gradus/models/models.h"
#include "tests/support/train_bench.h"

namespace train_options_test {

using namespace gradus;
using namespace gradus::core;
using Catch::Matchers::Contains;

TEST_CASE("train_gpt: the best model is kept, and early stopping ends the run") {
  const Bench bench;
  // Growing steps: the loss falls at first, then rises.
  const std::string flags = bench.flags + " --eval-every 2 --eval-batches 4 --clip 0 --min-lr 5" +
                            " --lr 5 --warmup 200 --steps 60";
  const Result result = run("train_gpt", flags + " --patience 3" + bench.out());
  INFO(result.output);
  REQUIRE(result.status == 0);
  const Rows rows = bench.rows("out/loss.csv");
  const auto best = std::min_element(rows.begin(), rows.end(),
                                     [](const auto& a, const auto& b) { return a[2] < b[2]; });
  REQUIRE(rows.end() - best == 4);  // the best row and three without improvement
  REQUIRE(best != rows.begin());
  CHECK_THAT(result.output, Contains("stopped: 3 evaluations without a better validation loss"));
  // best/ holds the model of that step.
  const std::string step = std::to_string(static_cast<int>((*best)[0]));
  REQUIRE(run("train_gpt", flags + bench.out("again")).status == 0);  // with the same best
  CHECK(bench.file("again/best/model.safetensors") == bench.file("out/best/model.safetensors"));
  CHECK_THAT(result.output, Contains("best: the model of step " + step));
  REQUIRE(run("train_gpt", flags + " --overwrite --steps " + step + bench.out("again")).status ==
          0);
  const auto at_best = models::load_model<models::GPT>(bench / "again"),
             kept = models::load_model<models::GPT>(bench / "out/best");
  CHECK(at_best.config.dim == kept.config.dim);
  // A stopped run stops again, and continues with more patience.
  CHECK_THAT(run("train_gpt", "--resume" + bench.out()).output, Contains("stopped: 3"));
  const int64_t stopped = bench.checkpoint_step();
  CHECK(run("train_gpt", "--resume --patience 4" + bench.out()).status == 0);
  CHECK(bench.checkpoint_step() > stopped);
}

TEST_CASE("train_gpt: --init-from starts from other weights, or evaluates them") {
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + " --steps 3" + bench.out("first")).status == 0);
  const std::string data = "--data '" + (bench / "text.txt") + "'";
  const std::string from = data + " --init-from '" + (bench / "first") + "'";
  const Result begun = run("train_gpt", from + " --steps 1 --lr 0 --min-lr 0" + bench.out());
  INFO(begun.output);
  REQUIRE(begun.status == 0);
  CHECK_THAT(begun.output, Contains("with the weights in " + (bench / "first")));
  CHECK(bench.file("out/model.safetensors") == bench.file("first/model.safetensors"));
  CHECK(bench.file("out/config.json") == bench.file("first/config.json"));
  REQUIRE(run("train_gpt", "--resume --steps 2" + bench.out()).status == 0);

  auto final_loss = [](const std::string& output) {
    const size_t at = output.find(" val_loss ", output.find("final: "));
    return at == std::string::npos ? output : output.substr(at, 16);
  };
  const std::vector<std::string> names = bench.names("first");
  const Result asked = run("train_gpt", "--eval-only" + bench.out("first"));
  CHECK(asked.status == 0);
  CHECK(final_loss(asked.output) == final_loss(begun.output));
  CHECK(bench.names("first") == names);
  const Result elsewhere = run("train_gpt", from + " --eval-only" + bench.out("nowhere"));
  CHECK(final_loss(elsewhere.output) == final_loss(begun.output));
  CHECK(!bench.has("nowhere"));

  auto refused = [&](const std::string& arguments, const std::string& why) {
    const Result result = run("train_gpt", arguments);
    INFO(result.output);
    CHECK(result.status == 1);
    CHECK(one_line(result.output));
    CHECK_THAT(result.output, Contains(why));
  };
  refused(from + " --dim 32" + bench.out("other"), "--dim contradicts");
  refused(from + " --resume" + bench.out(), "--resume and --init-from exclude");
  for (const std::string more : {"--resume", "--overwrite"})
    refused("--eval-only " + more + bench.out("first"), "--eval-only trains nothing");
  refused("--init-from /nowhere" + bench.out("other"), "/nowhere/config.json");
  const std::string before = bench.file("first/model.safetensors");
  std::filesystem::create_directory(bench / "first/ema");
  for (const char* same : {"first", "first/best", "first/ema"})
    refused(
        data + " --init-from '" + (bench / same) + "/.' --overwrite --steps 1" + bench.out("first"),
        "lies in --out, which --overwrite empties");
  CHECK(bench.file("first/model.safetensors") == before);
  CHECK(!bench.has("other"));
  write_file_atomically(bench / "other.txt", sample_text() + "\xc3\xa9");
  refused("--data '" + (bench / "other.txt") + "' --init-from '" + (bench / "first") + "'" +
              bench.out("other"),
          "is not among");
}

TEST_CASE("train_gpt: --val-data, and samples during training") {
  const Bench bench;
  write_file_atomically(bench / "val.txt", sample_text().substr(0, 500));
  const std::string flags = bench.flags + " --val-data '" + (bench / "val.txt") + "' --steps 4" +
                            " --sample-every 2" + bench.out();
  const Result result = run("train_gpt", flags);
  INFO(result.output);
  REQUIRE(result.status == 0);
  CHECK_THAT(result.output, Contains("at step 2:\n--- a sample ---") && Contains("at step 4:"));
  CHECK_THAT(result.output, Contains("500 validate"));

  const std::string text = bench.file("text.txt"), validation = bench.file("val.txt");
  const models::CharTokenizer tokenizer(text + validation);
  const models::TextData data(tokenizer.encode(text), tokenizer.encode(validation), 16);
  CHECK(data.length(models::Split::train) == std::ssize(text));
  const auto model = models::load_model<models::GPT>(bench / "out");
  const NoGrad no_grad;
  const auto [x, y] = data.windows(models::Split::validation, 0, 1000);
  const auto [u, v] = data.after_windows(models::Split::validation);
  REQUIRE(x.shape() == Shape{31, 16});
  REQUIRE(u.shape() == Shape{1, 3});
  const double whole = (496 * model.loss(x, y).item() + 3 * model.loss(u, v).item()) / 499;
  char expected[32];
  std::snprintf(expected, sizeof expected, " val_loss %.4f", whole);
  CHECK_THAT(result.output, Contains(expected));
  // Sampling does not affect training.
  REQUIRE(run("train_gpt", flags + " --overwrite --sample-every 0").status == 0);
  CHECK(models::load_model<models::GPT>(bench / "out").wte.weight.to_vector<float>() ==
        model.wte.weight.to_vector<float>());
}

TEST_CASE("train programs: missing data are reported, and not the run in the way") {
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + " --steps 1" + bench.out()).status == 0);
  const auto answer = [&](const std::string& program, const std::string& data) {
    const Result result = run(program, data + bench.out());
    CHECK(result.status == 1);
    CHECK(one_line(result.output));
    return result.output;
  };
  const std::string text = bench / "text.txt", none = bench / "none.txt",
                    missing = none + ": no such file or folder";
  CHECK_THAT(answer("train_gpt", "--data '" + none + "'"), Contains("--data: " + missing));
  CHECK_THAT(answer("train_gpt", "--data '" + text + ',' + none + "'"),
             Contains("--data: " + missing));
  CHECK_THAT(answer("train_gpt", "--data '" + text + "' --val-data '" + none + "'"),
             Contains("--val-data: " + missing));
  CHECK_THAT(answer("train_translator", "--pairs '" + none + "'"), Contains("--pairs: " + missing));
  CHECK_THAT(answer("train_vit", "--data 'mnist:" + none + "'"), Contains("--data: " + missing));
  CHECK_THAT(answer("train_vit", "--data mnist:"),
             Contains("--data: expected a folder after mnist:"));
  for (const std::string& there : {std::string(), "--data '" + text + "'", std::string("--data -")})
    CHECK_THAT(answer("train_gpt", there), Contains("holds a run that has done 1 steps"));
  for (const std::string& there : {std::string("shapes:50"), "cifar10:" + bench.path.string()})
    CHECK_THAT(answer("train_vit", "--data '" + there + "'"), Contains("holds a run"));
}

TEST_CASE("train_gpt: a warmup that outlasts the run or --stable's share is pointed out") {
  const Bench bench;
  const auto output = [&](const std::string& flags) {
    const Result result =
        run("train_gpt", bench.flags + " --overwrite --steps 3" + flags + bench.out());
    CHECK(result.status == 0);
    return result.output;
  };
  const std::string low =
      "\n--warmup 4 is longer than --steps 3: the learning rate does not reach its peak\n";
  CHECK_THAT(output(" --stable 0 --warmup 4"), Contains(low));
  CHECK_THAT(output(" --stable 0.5 --decay-steps 100 --warmup 4"), Contains(low));
  CHECK_THAT(output(" --stable 0.5 --warmup 3"),
             Contains("\n--warmup 3 is longer than --stable's share, 2: the learning rate rises "
                      "faster\n"));
  CHECK_THAT(output(" --stable 0.5 --warmup 2"), !Contains("--warmup"));
  CHECK_THAT(output(" --warmup 3"), !Contains("--warmup"));
}

TEST_CASE("train_gpt: Muon's flags need Muon, which needs a learning rate above 0") {
  const Bench bench;
  const auto message = [&](const std::string& flags) {
    const Result result = run("train_gpt", bench.flags + ' ' + flags + bench.out());
    CHECK(result.status == 1);
    CHECK(one_line(result.output));
    return result.output;
  };
  for (const std::string flag : {"--muon-lr 0.1", "--muon-steps 3", "--muon-per-head"})
    CHECK_THAT(message(flag),
               Contains(flag.substr(0, flag.find(' ')) + " has no effect with --optimizer adamw"));
  CHECK_THAT(message("--recipe fast --optimizer adamw --no-muon-per-head"),
             Contains("--no-muon-per-head has no effect with --optimizer adamw"));
  CHECK_THAT(message("--optimizer muon --lr 0"),
             Contains("--lr: expected a number above 0 with --optimizer muon, got 0"));
  CHECK(!bench.has("out"));
}

TEST_CASE("train_gpt: damaged logs are reported, not truncated") {
  const Bench bench;
  REQUIRE(run("train_gpt", bench.flags + " --eval-every 2 --steps 6" + bench.out()).status == 0);
  auto refused = [&](const std::string& name, const std::string& from, const std::string& to) {
    const std::string good = bench.file(name);
    std::string bad = good;
    REQUIRE(bad.find(from) != std::string::npos);
    write_file_atomically(bench / name, bad.replace(bad.find(from), from.size(), to));
    const Result result = run("train_gpt", "--resume --steps 8" + bench.out());
    INFO(result.output);
    CHECK(result.status == 1);
    CHECK(one_line(result.output));
    CHECK_THAT(result.output, Contains(name));
    write_file_atomically(bench / name, good);
  };
  refused("out/loss.csv", "\n2,", "\n2;");
  refused("out/loss.csv", "val_loss", "val_loss,more");
  refused("out/steps.csv", "step,", "Step,");
  refused("out/steps.csv", "\n3,", "\nx,");
  refused("out/steps.csv",
          bench.file("out/steps.csv").substr(bench.file("out/steps.csv").find("\n6,") + 1), "");
  refused("out/loss.csv", bench.file("out/loss.csv"), "");
  CHECK(run("train_gpt", "--resume --steps 8" + bench.out()).status == 0);
}

TEST_CASE("train_gpt: best/ is restored if a run was killed before writing it") {
  const Bench bench;
  const std::string flags = bench.flags + " --eval-every 2 --steps 4 --lr 0.01" + bench.out();
  REQUIRE(run("train_gpt", flags).status == 0);
  const Rows rows = bench.rows("out/loss.csv");
  REQUIRE(rows.back()[2] < rows.front()[2]);
  const std::string best = bench.file("out/best/model.safetensors");
  CHECK(best == bench.file("out/model.safetensors"));
  std::filesystem::remove_all(bench.path / "out/best");
  REQUIRE(run("train_gpt", "--resume" + bench.out()).status == 0);
  CHECK(bench.file("out/best/model.safetensors") == best);
}

TEST_CASE("train_gpt: best/ stays the best if the log of losses is lost") {
  const Bench bench;
  // Growing steps: the loss falls at first, then rises.
  const std::string flags =
      bench.flags + " --eval-every 2 --eval-batches 4 --clip 0 --min-lr 5" + " --lr 5 --warmup 200";
  REQUIRE(run("train_gpt", flags + " --steps 60" + bench.out("whole")).status == 0);
  const Rows rows = bench.rows("whole/loss.csv");
  const auto best = std::min_element(rows.begin(), rows.end(),
                                     [](const auto& a, const auto& b) { return a[2] < b[2]; });
  REQUIRE(best != rows.begin());
  REQUIRE(rows.end() - best > 4);
  const auto step = static_cast<int64_t>((*best)[0]);
  REQUIRE(run("train_gpt", flags + " --steps " + std::to_string(step + 2) + bench.out()).status ==
          0);
  const std::string model = bench.file("out/best/model.safetensors");
  CHECK(model == bench.file("whole/best/model.safetensors"));
  CHECK(bench.metadata().at("best_step") == std::to_string(step));
  for (const char* log : {"out/loss.csv", "out/steps.csv"}) std::filesystem::remove(bench / log);
  const Result resumed = run("train_gpt", "--resume --steps 60" + bench.out());
  INFO(resumed.output);
  CHECK(resumed.status == 0);
  CHECK(bench.file("out/best/model.safetensors") == model);
  CHECK_THAT(resumed.output, Contains("best: the model of step " + std::to_string(step)));
  CHECK(bench.metadata()["best_loss"] == bench.metadata("whole")["best_loss"]);
  CHECK_THAT(run("train_gpt", "--resume --steps 61 --patience 2" + bench.out()).output,
             Contains("stopped: 2 evaluations"));
}

TEST_CASE("train_gpt: a run resumes with its own flags given again") {
  const Bench bench;
  const std::string own = " --warmup 2 --decay-steps 5 --steps 2";
  REQUIRE(run("train_gpt", bench.flags + own + bench.out()).status == 0);
  const Result resumed = run("train_gpt", "--resume --decay-steps 5 --steps 3" + bench.out());
  INFO(resumed.output);
  CHECK(resumed.status == 0);
}

TEST_CASE("train_gpt: foreign files are not overwritten, and an empty validation text is refused") {
  const Bench bench;
  std::filesystem::create_directory(bench.path / "out");
  write_file_atomically(bench / "out/config.json", "{\"mine\": 1}");
  const Result result = run("train_gpt", bench.flags + " --steps 1" + bench.out());
  CHECK(result.status == 1);
  CHECK_THAT(result.output, Contains("holds config.json"));
  CHECK(bench.file("out/config.json") == "{\"mine\": 1}");

  write_file_atomically(bench / "empty.txt", "");
  const Result empty = run("train_gpt", bench.flags + " --val-data '" + (bench / "empty.txt") +
                                            "'" + bench.out("other"));
  CHECK(empty.status == 1);
  CHECK_THAT(empty.output, Contains("too few to validate"));
  CHECK(run("train_gpt", bench.flags + " --warmup 9 --decay-steps 5" + bench.out("other")).status ==
        1);
  CHECK(!bench.has("other"));
}

TEST_CASE("train_gpt: --overwrite removes what a run of any program has left, and nothing else") {
  const Bench bench;
  std::vector<std::string> stale{"loss.png",   "page.html",
                                 "page.jsonl", "events.out.tfevents.gradus",
                                 "text.json",  "images.json"};
  for (const std::string folder : {"", "best/", "ema/"})
    for (const char* file :
         {"adapter_config.json", "adapter_model.safetensors", "images.json", "text.json"})
      stale.push_back(folder + file);
  for (const std::string picture :
       {"alignment", "attention", "confusion", "embeddings", "example", "mistakes", "painted",
        "pictures", "similarity"})  // as the programs name them, tables in place of some
    for (const char* kind : {".png", ".csv"}) stale.push_back(picture + kind);
  const std::vector<std::string> kept{"mine.png", "train.tokens", "best/mine", "example.jpg"};
  for (const char* folder : {"out/best", "out/ema"})
    std::filesystem::create_directories(bench.path / folder);
  for (const std::vector<std::string>& files : {stale, kept})
    for (const std::string& file : files) write_file_atomically(bench / ("out/" + file), "stale");
  const std::string flags = bench.flags + " --steps 1" + bench.out();
  const Result refused = run("train_gpt", flags);
  CHECK(refused.status == 1);
  CHECK_THAT(refused.output, Contains("--overwrite replaces it"));
  REQUIRE(run("train_gpt", flags + " --overwrite").status == 0);
  for (const std::string& file : stale) {
    CAPTURE(file);
    CHECK((!bench.has("out/" + file) || bench.file("out/" + file) != "stale"));
  }
  for (const std::string& file : kept) {
    CAPTURE(file);
    CHECK(bench.file("out/" + file) == "stale");
  }
  CHECK(!bench.has("out/ema"));
}

TEST_CASE("train_gpt: a picture of an earlier run alone is not overwritten") {
  const Bench bench;
  std::filesystem::create_directory(bench.path / "out");
  for (const std::string file : {"similarity.csv", "mistakes.png", "page.jsonl"}) {
    write_file_atomically(bench / ("out/" + file), "mine");
    CHECK_THAT(run("train_gpt", bench.flags + " --steps 1" + bench.out()).output,
               Contains("holds " + file + ": --overwrite replaces it"));
    std::filesystem::remove(bench / ("out/" + file));
  }
}

TEST_CASE("train_gpt: an empty path is refused, and one with spaces quoted in what to do next") {
  const Bench bench;
  for (const char* flag : {"--data", "--val-data", "--out", "--init-from"}) {
    const Result result = run("train_gpt", bench.flags + " --steps 1 " + flag + " ''");
    CHECK(result.status == 1);
    CHECK(one_line(result.output));
    CHECK_THAT(result.output, Contains(std::string(flag) + ": expected a path, got \"\""));
  }
  const Result next = run("train_gpt", bench.flags + " --steps 1" + bench.out("a run"));
  CHECK_THAT(next.output, Contains(" --model '" + (bench / "a run") + "' --prompt"));
}

TEST_CASE("train_gpt: --recipe sets the defaults of other flags, and the command line decides") {
  const Bench bench;
  const std::string data = "--data '" + (bench / "text.txt") + "'", tiny = " --layers 1 --dim 16";
  const auto optimizer = [&](const std::string& out) {
    const auto metadata = load_safetensors(bench / (out + "/checkpoint.safetensors")).metadata;
    return Json::parse(metadata.at("options"))["optimizer"].get<std::string>();
  };
  REQUIRE(run("train_gpt", data + tiny + " --steps 4 --norm layer" + bench.out()).status == 0);
  const Json config = Json::parse(bench.file("out/config.json"));
  CHECK(config["positions"] == "rotary");
  CHECK(config["token_shift"] == true);
  CHECK(config["norm"] == "layer");  // given
  const Json options =
      Json::parse(load_safetensors(bench / "out/checkpoint.safetensors").metadata.at("options"));
  CHECK(options["optimizer"] == "muon");
  CHECK(options["min_lr"] == 0);
  CHECK(options["muon_steps"] == 3);
  CHECK(options["muon_polar_express"] == true);
  CHECK(options["muon_per_head"] == true);
  // A resumed run has the flags of its checkpoint, whatever the recipe.
  CHECK(run("train_gpt", "--resume --steps 5" + bench.out()).status == 0);
  CHECK(run("train_gpt", "--resume --steps 6 --recipe nanogpt" + bench.out()).status == 0);
  CHECK(run("train_gpt", "--resume --steps 7 --recipe fast" + bench.out()).status == 0);

  const std::string published = data + tiny + " --recipe nanogpt --steps 1";
  REQUIRE(run("train_gpt", published + bench.out("plain")).status == 0);
  CHECK(Json::parse(bench.file("plain/config.json"))["positions"] == "learned");
  CHECK(optimizer("plain") == "adamw");
  // A trained model is tuned gently, unless told otherwise.
  const std::string tune = data + " --init-from '" + (bench / "out") + "' --steps 1";
  REQUIRE(run("train_gpt", tune + bench.out("tuned")).status == 0);
  CHECK(optimizer("tuned") == "adamw");
  CHECK(Json::parse(bench.file("tuned/config.json"))["positions"] == "rotary");
  REQUIRE(run("train_gpt", tune + " --recipe fast" + bench.out("again")).status == 0);
  CHECK(optimizer("again") == "muon");
  CHECK_THAT(run("train_gpt", bench.flags + " --recipe slow" + bench.out("none")).output,
             Contains("--recipe"));
}

}  // namespace train_options_test
