// train_caption and caption: training, files, errors and output.

#include "examples/tasks/caption_task.h"
#include "gradus/core/ops/ops.h"
#include "gradus/models/data/images/shapes.h"
#include "gradus/models/models.h"
#include "tests/support/compare.h"
#include "tests/support/image_bench.h"

namespace train_caption_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

const std::string caption_flags =
    " --data shapes:60 --batch 8 --eval-batches 2 --warmup 2 --eval-every 5 --seed 5 --noise 0.01"
    " --filters 4 --convolutions 2 --dim 8 --hidden 16 --dropout 0.1";
/// The validation pictures of --data shapes:N: the last fifth.
double exact_of(const models::Captioner& model, const models::Tokenizer& tokenizer,
                const models::ImageInfo& info, int64_t first, int64_t n) {
  const models::ShapeImages data = models::draw_shapes(first, n);
  const auto said = model.captions(
      data.images.range(0, n, info.stats).images,
      {.start = tokenizer.special("[START]"), .stop = tokenizer.special("[END]"), .tokens = 15});
  double right = 0;
  for (size_t i = 0; i < said.size(); ++i) {
    const std::string text = tokenizer.decode(said[i].tokens);
    right += text == data.captions[i] || text == models::swapped_caption(data.captions[i]);
  }
  return right / static_cast<double>(n);
}

}  // namespace

TEST_CASE("train_caption learns and draws; caption captions pictures") {
  const Bench bench;
  // This training suffices to caption every picture, and some of them right.
  const Result result =
      run("train_caption",
          " --data shapes:200 --batch 32 --filters 8 --dim 16 --hidden 32 --shift 0 --warmup 5"
          " --lr 1e-2 --seed 3 --steps 120" +
              bench.out());
  INFO(result.output);
  REQUIRE(result.status == 0);
  double numbers[5];
  const std::string final = line_of(result.output, "final: ");
  REQUIRE(std::sscanf(final.c_str(),
                      "final: step %lf train_loss %lf val_loss %lf exact %lf seconds %lf",
                      &numbers[0], &numbers[1], &numbers[2], &numbers[3], &numbers[4]) == 5);
  CHECK(numbers[1] < 1);
  CHECK_THAT(result.output, Contains("160 train, 40 validate") &&
                                Contains("4 convolutions, 4 x 4 positions of 32 features") &&
                                Contains("caption --model "));
  CHECK_THAT(bench.file("out/loss.csv"), Contains("step,train_loss,val_loss,exact\n0,"));
  // Eight images at three times their size, six pixels apart, a word below each and words above.
  CHECK(size_of(bench, "out/attention.png").first == 54 + 8 * (102 + 16));
  CHECK(size_of(bench, "out/example.png") == std::pair<int64_t, int64_t>(32, 32));

  // The final score equals that of the loaded model, one picture at a time or all at once.
  const auto model = models::load_model<models::Captioner>(bench / "out");
  const auto tokenizer = models::load_tokenizer(models::tokenizer_path(bench / "out"));
  const models::ImageInfo info = models::load_image_info(bench / "out");
  CHECK(exact_of(model, *tokenizer, info, 160, 40) == Approx(numbers[3]).margin(1e-4));
  const std::string flags = "--model '" + (bench / "out") + "' ", image = bench / "out/example.png";
  const Result said = run("caption", flags + '\'' + image + "' --beams 1");
  const auto best = model.captions(
      models::normalize(models::to_tensor(models::read_png(image)).unsqueeze(0), info.stats),
      {.start = tokenizer->special("[START]"), .stop = tokenizer->special("[END]"), .tokens = 15});
  CHECK(said.status == 0);
  CHECK(said.output == image + ": " + tokenizer->decode(best[0].tokens) + '\n');

  models::write_png(bench / "grey.png", picture(1, 32, 9));
  CHECK_THAT(run("caption", flags + '\'' + (bench / "grey.png") + '\'').output,
             Contains("grey.png: grey: read as three equal channels"));
  models::write_png(bench / "large.png", picture(3, 33, 0));
  refused("caption", flags + '\'' + (bench / "large.png") + '\'',
          "large.png: expected 32 x 32 pixels, got 33 x 33");
  refused("caption", flags + '\'' + (bench / "none.png") + '\'', "none.png");
  refused("caption", flags + '\'' + (bench / "out/config.json") + '\'', "config.json");
  refused("caption", flags, "expected PNG files");
  refused("caption", flags + "--beams 0 x.png", "--beams");
  refused("caption", "--model '" + (bench / "none") + "' x.png", "none/config.json");
  models::save_image_info(bench / "out", {{{0.5}, {0.2}}});
  refused("caption", flags + '\'' + image + '\'', "images.json: 1 channels, the model has 3");
  models::WordTokenizer("a b").save(models::tokenizer_path(bench / "out"));
  refused("caption", flags + '\'' + image + '\'', "tokenizer.json: 6 tokens, the model has 22");
}

TEST_CASE("train_caption: a killed run ends with the bits of an uninterrupted one") {
  ends_with_the_same_bits("train_caption", caption_flags, {"/tokenizer.json", "/attention.png"});
}

TEST_CASE("captions: augmentation that makes them untrue is refused, and nothing written") {
  const Bench bench;
  for (const char* program : {"train_caption"})
    for (const auto& [flags, why] : std::vector<std::pair<std::string, std::string>>{
             {"--data mnist:x", "(other images have no captions), got \"mnist:x\""},
             {"--data shapes:1", "expected shapes:N with N >= 2"},
             {"--data shapes:20 --flip 0.5",
              "--flip: expected 0, captions name left and right, got 0.5"},
             {"--data shapes:20 --grey 0.1", "--grey: expected 0, captions name colours, got 0.1"},
             {"--data shapes:20 --rotate 16", "--rotate: expected at most 15 degrees"},
             {"--data shapes:20 --shear 80", "--shear: expected at most 30 degrees"},
             {"--data shapes:20 --crop-scale 0.02", "--crop-scale: expected 0 or at least 0.8"},
             {"--data shapes:20 --context 5", "--context 5: the longest caption has 9 tokens"},
             {"--vocab 3", "--vocab"}})
      refused(program, flags + bench.out(), why);
  CHECK(!bench.has("out"));
}

namespace {

/// A task that shows its captions.
struct Captions : CaptionTask {
  nn::Linear net{1, 1};
  explicit Captions(ImageOptions images = {}) : CaptionTask(told(std::move(images)), {}) {}
  static ImageOptions told(ImageOptions images) {
    images.data = "shapes:400", images.captioned = true;
    return images;
  }
  using CaptionTask::all_different, CaptionTask::captions, CaptionTask::texts,
      CaptionTask::tokenizer_, CaptionTask::with_words;
  nn::Module& model() override { return net; }
  TaskInfo info() const override { return {}; }
  Tensor loss(int64_t, int64_t) override { return {}; }
  Score score(Split, const Views&) const override { return {}; }
  void save(const std::string&) const override {}
};

/// The ids of images in batches of `count`, in which no caption or its swapped form is repeated.
std::vector<std::vector<int64_t>> batches_by_hand(const std::vector<std::string>& captions,
                                                  size_t count) {
  std::vector<std::vector<int64_t>> all(1);
  std::vector<std::string> taken;
  for (size_t i = 0; i < captions.size(); ++i) {
    if (std::count(taken.begin(), taken.end(), captions[i]) > 0) continue;
    taken.push_back(captions[i]), taken.push_back(models::swapped_caption(captions[i]));
    all.back().push_back(static_cast<int64_t>(i));
    if (all.back().size() == count) all.emplace_back(), taken.clear();
  }
  if (all.size() > 1) all.pop_back();  // incomplete
  return all;
}

}  // namespace

TEST_CASE("captions: batches without a repeated caption, whole ones unless there is but one") {
  const Captions task;
  const std::vector<std::string> all = task.captions(Split::train, arange(320));
  for (const size_t count : {2, 60, 100, 1000}) {
    CAPTURE(count);
    std::vector<std::vector<int64_t>> got;
    for (const Tensor& ids : task.all_different(Split::train, static_cast<int64_t>(count)))
      got.push_back(ids.to_vector<int64_t>());
    CHECK(got == batches_by_hand(all, count));
  }
  CHECK(batches_by_hand(all, 60).size() > 1);
  CHECK(batches_by_hand(all, 1000).size() == 1);
  // The first caption of the validation part, with [START] and [END].
  const models::TextBatch text = task.texts(Split::validation, zeros({1}, int64));
  const std::string caption = models::draw_shapes(320, 1).captions[0];
  CHECK(task.captions(Split::validation, zeros({1}, int64))[0] == caption);
  CHECK(text.lengths.item<int64_t>() == std::ssize(task.tokenizer_->encode(caption)) + 2);
}

TEST_CASE("captions: the options at the limits of what keeps them true and fits") {
  CHECK_NOTHROW(Captions({.augment = {.rotate = 15}}));
  CHECK_THROWS_WITH(Captions({.augment = {.rotate = 15.5}}),
                    Contains("expected at most 15 degrees"));
  CHECK_NOTHROW(Captions({.augment = {.crop_scale = 0.8, .shear = 30}}));
  CHECK_THROWS_WITH(Captions({.augment = {.shear = 30.5}}),
                    Contains("expected at most 30 degrees"));
  CHECK_THROWS_WITH(Captions({.augment = {.crop_scale = 0.79}}), Contains("at least 0.8"));
  const Captions task;
  const models::CaptionerConfig fits = task.with_words(models::CaptionerConfig{.context = 10});
  CHECK(fits.vocab == 22);  // the words of all captions, and four special tokens
  CHECK_THROWS_WITH(task.with_words(models::CaptionerConfig{.context = 9}),
                    "--context 9: the longest caption has 10 tokens");
  // Without [END]:
  CHECK(task.with_words(models::CaptionerConfig{.context = 9}, 1).context == 9);
  CHECK_THROWS_WITH(task.with_words(models::CaptionerConfig{.context = 8}, 1),
                    "--context 8: the longest caption has 9 tokens");
  const ImageOptions options = captioned_images();
  CHECK(options.data == "shapes:20000");
  CHECK(options.captioned);
  CHECK(options.augment.shift == 2);
}

TEST_CASE("swapping a caption's shapes keeps its meaning") {
  CHECK(models::swapped_caption("a red circle above a blue square") ==
        "a blue square below a red circle");
  CHECK(models::swapped_caption("a red circle right of a blue square") ==
        "a blue square left of a red circle");
  CHECK(models::swapped_caption("a red circle") == "a red circle");
  for (const std::string& caption : models::shape_captions()) {
    const std::string swapped = models::swapped_caption(caption);
    CHECK(models::swapped_caption(swapped) == caption);
    CHECK((swapped == caption) == (caption.size() < 20));
  }
}

}  // namespace train_caption_test
