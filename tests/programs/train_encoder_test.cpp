// train_mae and train_contrastive: training without labels, files, errors and output.

#include <algorithm>

#include "examples/pictures/image_pictures.h"
#include "examples/tasks/image_task.h"
#include "gradus/core/ops/ops.h"
#include "gradus/models/models.h"
#include "tests/support/compare.h"
#include "tests/support/image_bench.h"

namespace train_encoder_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

const std::string tiny =
    " --data shapes:90 --layers 1 --heads 2 --dim 8 --patch 8 --batch 8 --eval-batches 2 --warmup 2"
    " --eval-every 5 --seed 5 --probe-images 60";
const std::vector<std::string> programs{"train_mae", "train_contrastive"};

/// A task that shows the ids of its batches.
struct Batches : ImageTask {
  nn::Linear net{1, 1};
  mutable std::vector<Views> scored;
  explicit Batches(int64_t views) : Batches({.data = "shapes:90", .batch = 50}, {}, views) {}
  Batches(const ImageOptions& images, const TrainOptions& training, int64_t views = 1)
      : ImageTask(images, training, views) {}
  using ImageTask::fitted, ImageTask::over, ImageTask::views;
  std::vector<int64_t> ids(int64_t step, int64_t index = 0) {
    return views(step, index)[0].ids.to_vector<int64_t>();
  }
  /// The ids of the batches of an evaluation.
  std::vector<std::vector<int64_t>> ids(const Evaluation& evaluation) const {
    scored.clear();
    for (int64_t i = 0; i < evaluation.batches; ++i) evaluation.score(i);
    std::vector<std::vector<int64_t>> all;
    for (const Views& batch : scored) all.push_back(batch[0].ids.to_vector<int64_t>());
    return all;
  }
  nn::Module& model() override { return net; }
  TaskInfo info() const override { return {}; }
  Tensor loss(int64_t, int64_t) override { return {}; }
  Score score(Split, const Views& views) const override {
    scored.push_back(views);
    return {};
  }
  void save(const std::string&) const override {}
};

}  // namespace

namespace {

/// Compares the probes that a program with the flags above has printed with those of its encoder.
void check_probes(const models::ViT& encoder, double probe, double random_probe,
                  double neighbours) {
  const models::ImageSplit data = models::read_images("shapes:90");
  const auto features = [&](const models::ViT& of, const models::ImageData& part, int64_t count) {
    const NoGrad no_grad;
    const models::ImageBatch all = part.range(0, count, data.train.stats());
    return models::LabelledFeatures{of.features(all.images), all.labels};
  };
  const auto known = [&](const models::ViT& of) { return features(of, data.train, 60); };
  const auto test = [&](const models::ViT& of) {
    return features(of, data.test, data.test.size());
  };
  manual_seed(5);
  const models::ViT untrained(encoder.config);
  CHECK(std::abs(models::linear_probe(known(encoder), test(encoder)) - probe) < 1e-4);
  CHECK(std::abs(models::linear_probe(known(untrained), test(untrained)) - random_probe) < 1e-4);
  CHECK(std::abs(models::neighbour_accuracy(known(encoder), test(encoder)) - neighbours) < 1e-4);
}

}  // namespace

TEST_CASE("train_mae and train_contrastive: train, draw, evaluate and resume") {
  for (const std::string& program : programs) {
    const Bench bench;
    const Result result = run(program, tiny + " --steps 6" + bench.out());
    INFO(result.output);
    REQUIRE(result.status == 0);
    double train_loss, loss, said_probe, random_probe, neighbours, seconds;
    REQUIRE(std::sscanf(line_of(result.output, "final: ").c_str(),
                        "final: step 6 train_loss %lf val_loss %lf probe %lf random_probe %lf"
                        " neighbours %lf seconds %lf",
                        &train_loss, &loss, &said_probe, &random_probe, &neighbours,
                        &seconds) == 6);
    CHECK((bench.has("out/embeddings.png") || bench.has("out/embeddings.csv")));
    if (program == "train_mae") {
      // 32 pixels at three times their size, six pixels apart, and words above: four rows of two
      // images, their patches and reconstructions.
      CHECK(size_of(bench, "out/painted.png").first == 54 + 4 * 102);
      CHECK(size_of(bench, "out/painted.png").second >= 6 * 102);
    }
    // The probes equal those of the saved model.
    const models::ViT encoder =
        program == "train_mae"
            ? models::load_model<models::MAE>(bench / "out").encoder
            : models::load_model<models::SimCLR<models::ViT>>(bench / "out").encoder;
    check_probes(encoder, said_probe, random_probe, neighbours);

    const Result judged = run(program, "--eval-only" + bench.out());
    CHECK_THAT(judged.output, Contains(judgement(result.output)));
    CHECK_THAT(run(program, "--resume --steps 7" + bench.out()).output, Contains("final: step 7 "));
    CHECK(run(program, tiny + " --steps 1 --overwrite" + bench.out()).status == 0);
  }
}

TEST_CASE("train_mae and train_contrastive: killed runs end with the bits of uninterrupted ones") {
  ends_with_the_same_bits("train_mae", tiny + " --dropout 0.1", {"/painted.png"});
  ends_with_the_same_bits("train_contrastive", tiny + " --dropout 0.1", {});
}

TEST_CASE("train_mae and train_contrastive refuse bad data and options, and write nothing") {
  const Bench bench;
  for (const auto& [command, why] : std::vector<std::pair<std::string, std::string>>{
           {"train_mae --data shapes:50 --mask-ratio 0", "a mask_ratio of 0 hides 0 of 64"},
           {"train_mae --data shapes:50 --decoder-heads 3", "decoder_heads must divide"},
           {"train_mae --probe-images 1", "--probe-images: expected"},
           {"train_contrastive --data shapes:50 --batch 2", "expected batches of at least 3"},
           {"train_contrastive --data shapes:5 --batch 4", "at least 2 for validation"},
           {"train_contrastive --data shapes:50 --batch 64", "at most the 40 training images"},
           {"train_contrastive --data shapes:50 --patch 5", "patch must divide image"},
           {"train_contrastive --data shapes:50 --temperature 0", "--temperature"}}) {
    const size_t space = command.find(' ');
    refused(command.substr(0, space), command.substr(space) + bench.out(), why);
  }
  CHECK(!bench.has("out"));
}

TEST_CASE("batches with several views per image contain no image twice") {
  const auto repeats = [](int64_t views) {
    Batches task(views);
    int64_t count = 0;
    for (int64_t step = 0; step < 6; ++step) {
      std::vector<int64_t> ids = task.ids(step);
      std::sort(ids.begin(), ids.end());
      count += std::adjacent_find(ids.begin(), ids.end()) != ids.end();
    }
    return count;
  };
  CHECK(repeats(2) == 0);
  CHECK(repeats(1) > 0);  // batches of 50 of 72 images span epochs
}

TEST_CASE("images: an evaluation takes all of a split in order, or the same share at every call") {
  using Ids = std::vector<std::vector<int64_t>>;
  // 72 training images and 18 for validation.
  Batches task({.data = "shapes:90", .batch = 5}, {.eval_batches = 3});
  const Evaluation whole = task.validation();
  CHECK(whole.examples == 18);
  CHECK(task.ids(whole) ==
        Ids{{0, 1, 2, 3}, {4, 5, 6, 7, 8}, {9, 10, 11, 12}, {13, 14, 15, 16, 17}});
  const Evaluation share = task.estimate(Split::train, 7);
  CHECK(share.batches == 3);
  CHECK(share.examples == 15);
  const Ids some = task.ids(share);
  for (const std::vector<int64_t>& batch : some) CHECK(batch.size() == 5);
  CHECK(task.ids(task.estimate(Split::train, 8)) == some);
  CHECK(some[0] != task.ids(0));  // another order than that of training
  CHECK(some[0] != some[1]);
  CHECK(Batches({.data = "shapes:90", .batch = 5}, {.eval_batches = 4})
            .estimate(Split::validation, 0)
            .examples == 18);

  std::vector<int64_t> sizes;
  const auto count = [&](const Tensor& x) {
    sizes.push_back(x.size(0));
    return x.flatten(1);
  };
  const auto [features, labels] = task.over(Split::validation, count, 12);
  CHECK(sizes == std::vector<int64_t>{5, 5, 2});
  CHECK(features.shape() == Shape{12, 3 * 32 * 32});
  CHECK(labels.shape() == Shape{12});
  CHECK(task.over(Split::validation, count).labels.numel() == 18);
}

TEST_CASE("images: batches and views by their numbers, augmented in training alone") {
  const ImageOptions plain{.data = "shapes:90", .batch = 4},
      noisy{.data = "shapes:90", .batch = 4, .augment = {.noise = 0.1}};
  const auto image = [](const std::vector<models::ImageBatch>& views, size_t view) {
    return values(views[view].images);
  };
  Batches one(plain, {}), two(plain, {.accumulate = 2});
  CHECK(two.ids(0, 1) == one.ids(1));
  CHECK(two.ids(3, 0) == one.ids(6));
  Batches single(noisy, {}), twice(noisy, {}, 2);
  CHECK(image(single.views(0, 0), 0) != image(one.views(0, 0), 0));
  const auto views = twice.views(1, 0);
  REQUIRE(views.size() == 2);
  CHECK(image(views, 0) != image(views, 1));
  CHECK(values(views[0].ids) == values(views[1].ids));
  single.ids(single.validation());
  one.ids(one.validation());
  twice.ids(twice.validation());
  CHECK(image(single.scored[0], 0) == image(one.scored[0], 0));
  CHECK(image(twice.scored[0], 0) != image(one.scored[0], 0));  // contrasts need different views
  const auto first = image(twice.scored[0], 0);
  twice.ids(twice.validation());
  CHECK(image(twice.scored[0], 0) == first);
}

TEST_CASE("images: a model's sizes are those of the data, and a patch of 0 is a quarter") {
  const Batches task(1);
  const models::ViTConfig c = task.fitted(models::ViTConfig{.image = 7, .channels = 1, .patch = 0});
  CHECK(c.image == 32);
  CHECK(c.channels == 3);
  CHECK(c.patch == 8);
  CHECK(task.fitted(models::ViTConfig{.patch = 16}).patch == 16);
}

TEST_CASE("embedding plane: the two directions of largest variance") {
  // x = 3 a u + b v + 7 with orthonormal u, v and uncorrelated a, b of variance 1.
  const Tensor a = tensor({1.0, 1.0, -1.0, -1.0}).to(float64).unsqueeze(1),
               b = tensor({1.0, -1.0, 1.0, -1.0}).to(float64).unsqueeze(1),
               u = tensor({{0.6, 0.8, 0.0}}).to(float64), v = tensor({{0.0, 0.0, 1.0}}).to(float64);
  const Tensor plane = principal_plane(3.0 * matmul(a, u) + matmul(b, v) + 7.0);
  CHECK(plane.shape() == Shape{4, 2});
  const std::vector<double> at = plane.to_vector<double>();
  for (size_t i = 0; i < 4; ++i) {
    CHECK(std::abs(at[2 * i]) == Approx(3));
    CHECK(std::abs(at[2 * i + 1]) == Approx(1));
  }
  CHECK(at[0] == Approx(at[2]));
  CHECK(at[0] == Approx(-at[4]));
  CHECK(at[1] == Approx(at[5]));
  CHECK(at[1] == Approx(-at[3]));
  CHECK(principal_plane(ones({3, 5})).to_vector<double>() == std::vector<double>(6, 0.0));
  // Features on a line have no second coordinate, however large they are.
  const Tensor line =
      matmul(arange(10).to(float64).unsqueeze(1), 1.0 + arange(4).to(float64).unsqueeze(0));
  const Tensor on_line = principal_plane(1e4 * line);
  CHECK(max(abs(on_line.slice(1, 1, 2))).item() < 1e-6);
  CHECK(max(abs(on_line.slice(1, 0, 1))).item() > 1e5);
  CHECK(principal_plane(ones({1, 1})).shape() == Shape{1, 2});
  CHECK_THROWS_WITH(principal_plane(ones({0, 4})), Contains("expected features (N, D)"));

  const Picture picture = embedding_plane(
      "e.png", ones({3, 2}), from_data(std::vector<int64_t>{2, 0, 2}, {3}), {"x", "y", "z"});
  REQUIRE(picture.series.size() == 2);  // no image is of class y
  CHECK(picture.series[0].name == "x");
  CHECK(picture.series[1].points.size() == 2);
}

TEST_CASE("embedding plane: shapes in their colour, digits as themselves, other classes in turn") {
  const auto plane = [](const std::vector<std::string>& names) {
    const auto n = static_cast<int64_t>(names.size());
    return embedding_plane("e.png", ones({n, 2}), arange(n), names);
  };
  const Picture shapes = plane({"red circle", "white cross", "a red circle"});
  CHECK(shapes.series[0].mark == "circle");
  CHECK(shapes.series[0].colour == "#e61f1f");  // (0.9, 0.12, 0.12)
  CHECK(shapes.series[1].mark == "cross");
  CHECK(shapes.series[1].colour == "#f2f2f2");
  CHECK(shapes.series[2].mark.empty());
  CHECK(shapes.series[2].colour.empty());
  CHECK(!shapes.ground.empty());
  const Picture digits = plane({"0", "7", "é"});
  CHECK(digits.series[1].mark == "7");
  CHECK(digits.series[2].mark == "é");
  CHECK(digits.series[1].colour.empty());
  CHECK(digits.ground.empty());
  CHECK(plane({"frog"}).series[0].mark.empty());
}

TEST_CASE("train_cnn_attention: trains, draws attention maps, resumes; classify reads it") {
  const Bench bench;
  const std::string flags =
      " --data shapes:50 --filters 4 --batch 8 --eval-batches 2 --warmup 2 --eval-every 5 --seed 5"
      " --decay-steps 100";
  const Result whole = run("train_cnn_attention", flags + " --steps 9" + bench.out("whole"));
  INFO(whole.output);
  REQUIRE(whole.status == 0);
  CHECK_THAT(whole.output, Contains("\nfinal: step 9 ") && Contains(" accuracy "));
  // Ten images beside their attention, four per row, two lines of text below each.
  CHECK(size_of(bench, "whole/attention.png").first == 54 + 3 * (102 + 2 * 16));
  REQUIRE(run("train_cnn_attention", flags + " --steps 5" + bench.out("part")).status == 0);
  REQUIRE(run("train_cnn_attention", "--resume --steps 9" + bench.out("part")).status == 0);
  CHECK(bench.file("part/model.safetensors") == bench.file("whole/model.safetensors"));
  const Result said = run(
      "classify", "--model '" + (bench / "whole") + "' '" + (bench / "whole/example.png") + "'");
  INFO(said.output);
  CHECK(said.status == 0);
}

}  // namespace train_encoder_test
