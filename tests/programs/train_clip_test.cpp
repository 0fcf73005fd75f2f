// train_clip: training, files, errors and output.

#include <set>

#include "gradus/core/ops/ops.h"
#include "gradus/models/data/images/shapes.h"
#include "gradus/models/models.h"
#include "tests/support/compare.h"
#include "tests/support/image_bench.h"

namespace train_clip_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

const std::string clip_flags =
    " --data shapes:60 --batch 8 --eval-batches 2 --warmup 2 --eval-every 5 --seed 5 --noise 0.01"
    " --layers 1 --heads 2 --dim 8 --patch 8 --text-layers 1 --text-heads 2 --text-dim 8 --shared "
    "8";

}  // namespace

TEST_CASE("train_clip: trains, draws, evaluates and resumes") {
  const Bench bench;
  const Result result = run("train_clip", clip_flags + " --steps 6" + bench.out());
  INFO(result.output);
  REQUIRE(result.status == 0);
  const std::string final = line_of(result.output, "final: ");
  double numbers[5];
  REQUIRE(std::sscanf(final.c_str(),
                      "final: step 6 train_loss %lf val_loss %lf retrieval %lf zero_shot %lf "
                      "seconds %lf",
                      &numbers[0], &numbers[1], &numbers[2], &numbers[3], &numbers[4]) == 5);
  CHECK_THAT(result.output,
             Contains("images 1 layers of width 8, texts 1 of 8, a joint embedding of 8"));
  CHECK(size_of(bench, "out/pictures.png").second >= 8 * 102);  // eight per row, magnified to 96
  CHECK((bench.has("out/similarity.png") || bench.has("out/similarity.csv")));
  CHECK(bench.file("out/best/tokenizer.json") == bench.file("out/tokenizer.json"));
  const Result judged = run("train_clip", "--eval-only" + bench.out());
  CHECK_THAT(judged.output, Contains(judgement(result.output)));

  // The mean validation loss, recomputed from the folder.
  const auto model = models::load_model<models::CLIP>(bench / "out");
  const auto tokenizer = models::load_tokenizer(models::tokenizer_path(bench / "out"));
  const models::ShapeImages data = models::draw_shapes(48, 12);
  std::vector<int64_t> ids;
  std::vector<std::string> captions;
  std::set<std::string> seen;
  for (int64_t i = 0; i < 12; ++i) {
    const std::string& caption = data.captions[static_cast<size_t>(i)];
    if (seen.count(caption) + seen.count(models::swapped_caption(caption))) continue;
    seen.insert(caption), ids.push_back(i), captions.push_back(caption);
  }
  const NoGrad no_grad;
  const EvalMode eval;
  const double loss = model
                          .loss(data.images
                                    .batch(from_data(ids, {std::ssize(ids)}),
                                           models::load_image_info(bench / "out").stats)
                                    .images,
                                models::text_batch(*tokenizer, captions))
                          .item();
  CHECK(std::abs(loss - numbers[1]) < 1e-3);
}

TEST_CASE("train_clip: a killed run ends with the bits of an uninterrupted one") {
  ends_with_the_same_bits("train_clip", clip_flags, {"/tokenizer.json", "/pictures.png"});
}

TEST_CASE("train_clip refuses bad data and options, and writes nothing") {
  const Bench bench;
  refused("train_clip", "--data mnist:x" + bench.out(),
          "(other images have no captions), got \"mnist:x\"");
  refused("train_clip", "--data shapes:4" + bench.out(),
          "expected at least 2 pictures without a caption in common");
  refused("train_clip", "--data shapes:50 --batch 1" + bench.out(),
          "--batch: expected at least 2 pictures");
  refused("train_clip", "--data shapes:50 --patch 5" + bench.out(), "patch must divide image");
  refused("train_clip", "--data shapes:50 --context 5" + bench.out(),
          "--context 5: the longest caption has 10 tokens");
  CHECK(!bench.has("out"));
}

}  // namespace train_clip_test
