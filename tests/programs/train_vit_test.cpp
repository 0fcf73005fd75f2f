// train_vit and classify: training, files, errors and output; what all image programs share.

#include "examples/pictures/image_pictures.h"
#include "examples/tasks/classifier_task.h"
#include "gradus/core/ops/ops.h"
#include "gradus/models/models.h"
#include "tests/support/compare.h"
#include "tests/support/image_bench.h"

namespace train_vit_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Matchers::Contains;

namespace {

const std::string tiny =
    " --data shapes:50 --layers 1 --heads 2 --dim 8 --patch 8 --batch 8 --eval-batches 2 --warmup 2"
    " --eval-every 5 --seed 5 --noise 0.01";

Result train(const std::string& flags) { return run("train_vit", flags); }

/// A folder with MNIST's files of four easily separable digits.
struct DigitsBench : Bench {
  DigitsBench() {
    const std::string head(3, '\0');
    std::string images = std::string("\0\0\x08\x03\0\0\0\x28\0\0\0\x08\0\0\0\x08", 16),
                labels = std::string("\0\0\x08\x01\0\0\0\x28", 8);
    for (int i = 0; i < 40; ++i) {
      labels += static_cast<char>(i % 4);
      for (int y = 0; y < 8; ++y)
        for (int x = 0; x < 8; ++x) images += (y / 4 * 2 + x / 4) == i % 4 ? '\xf0' : '\x08';
    }
    std::filesystem::create_directory(path / "mnist");
    write_file_atomically(*this / "mnist/train-images-idx3-ubyte", images);
    write_file_atomically(*this / "mnist/train-labels-idx1-ubyte", labels);
    flags = "--data mnist:'" + (*this / "mnist") +
            "' --layers 1 --heads 2 --dim 16 --batch 16 --shift 0 --rotate 0 --zoom 0 --warmup 5"
            " --lr 1e-2 --seed 3";
  }
};

/// Checks that model folders with inconsistent files or of another kind of model are refused.
void check_inconsistent_folders(const DigitsBench& bench) {
  const std::string two = '\'' + (bench / "two.png") + '\'';
  models::save_image_info(bench / "out", {{{0.5}, {0.2}}, {"one", "two"}});
  refused("classify", "--model '" + (bench / "out") + "' " + two,
          "images.json: 2 classes, the model has 10");
  refused("train_vit",
          "--init-from '" + (bench / "out") + "' --data mnist:'" + (bench / "mnist") + "'" +
              bench.out("b"),
          "images.json: its classes differ from those of --data");
  refused("train_vit", "--init-from '" + (bench / "out") + "' --data shapes:50" + bench.out("b"),
          "images.json: images of 1 channels, --data has 3");
  models::save_model(bench / "gpt",
                     models::GPT({.vocab = 3, .context = 2, .layers = 1, .heads = 1, .dim = 2}));
  refused("classify", "--model '" + (bench / "gpt") + "' " + two,
          "expected a classifier of images (vit, cnn_attention), got \"gpt\"");
}

}  // namespace

TEST_CASE("train_vit: trains, draws, evaluates and resumes") {
  const Bench bench;
  const Result result = train(tiny + " --steps 6" + bench.out());
  INFO(result.output);
  REQUIRE(result.status == 0);
  const std::string final = line_of(result.output, "final: ");
  double numbers[4];
  CHECK(std::sscanf(final.c_str(),
                    "final: step 6 train_loss %lf val_loss %lf accuracy %lf seconds %lf",
                    &numbers[0], &numbers[1], &numbers[2], &numbers[3]) == 4);
  CHECK_THAT(result.output,
             Contains("images shapes:50: 40 train, 10 validate; 32 x 32 coloured, 35 classes") &&
                 Contains("1 layers of width 8 with 2 heads, patches of 8 x 8") &&
                 Contains("classify --model "));
  CHECK_THAT(bench.file("out/loss.csv"), Contains("step,train_loss,val_loss,accuracy\n0,"));
  // 32 pixels at three times their size, six pixels apart, two lines of text below each and words
  // above: ten images beside their attention, four per row.
  CHECK(size_of(bench, "out/attention.png").first == 54 + 3 * (102 + 2 * 16));
  CHECK(size_of(bench, "out/mistakes.png").second >= 8 * 102);
  CHECK(size_of(bench, "out/example.png") == std::pair<int64_t, int64_t>(32, 32));
  CHECK((bench.has("out/confusion.png") || bench.has("out/confusion.csv")));
  CHECK(bench.file("out/best/images.json") == bench.file("out/images.json"));

  // Both evaluations cover all validation images, not augmented.
  const Result judged = train("--eval-only" + bench.out());
  INFO(judged.output);
  CHECK(judged.status == 0);
  CHECK_THAT(judged.output,
             Contains(judgement(result.output)) && !Contains("may have been trained on this"));
  CHECK_THAT(train("--eval-only --data shapes:40" + bench.out()).output,
             Contains("it may have been trained on this validation set"));
  const models::ViT model = models::load_model<models::ViT>(bench / "out");
  const models::ImageInfo info = models::load_image_info(bench / "out");
  const models::ImageData held_out = models::read_images("shapes:50").test;
  const NoGrad no_grad;
  const models::ImageBatch all = held_out.range(0, 10, info.stats);
  CHECK(std::abs(cross_entropy(model(all.images), all.labels).item() - numbers[1]) < 1e-4);
  CHECK(info.class_names == held_out.class_names());

  CHECK_THAT(train("--resume --steps 7" + bench.out()).output, Contains("final: step 7 "));
  refused("train_vit", "--resume --data shapes:60 --steps 9" + bench.out(),
          "the data differs from that of the run in");
  refused("train_cnn_attention", "--resume" + bench.out(),
          "config.json: expected a model of kind \"cnn_attention\", got \"vit\"");
  refused("train_vit", "--resume --shift 3 --steps 9" + bench.out(), "--shift contradicts");
  // --init-from brings configuration and statistics, and needs the same classes.
  const Result begun = train("--init-from '" + (bench / "out") +
                             "' --data shapes:60 --steps 1 --warmup 0 --lr 0" + bench.out("begun"));
  INFO(begun.output);
  CHECK(begun.status == 0);
  for (const char* file : {"/model.safetensors", "/config.json", "/images.json"})
    CHECK(bench.file(std::string("begun") + file) == bench.file(std::string("out") + file));
  const Result anew = train(tiny + " --steps 1 --overwrite" + bench.out());
  CHECK(anew.status == 0);
}

TEST_CASE("train_vit: a killed run ends with the bits of an uninterrupted one") {
  ends_with_the_same_bits("train_vit", tiny + " --dropout 0.1",
                          {"/mistakes.png", "/attention.png"});
}

TEST_CASE("train_vit learns four digits; classify recognises them, grey or coloured") {
  const DigitsBench bench;
  const Result result = train(bench.flags + " --steps 150" + bench.out());
  INFO(result.output);
  REQUIRE(result.status == 0);
  CHECK_THAT(result.output, Contains("8 x 8 grey, 10 classes") && Contains("mistakes: none") &&
                                Contains(" accuracy 1.0000 "));
  CHECK(!bench.has("out/mistakes.png"));

  const std::string model = "--model '" + (bench / "out") + "' ";
  const auto named = [&](const std::string& file) { return '\'' + (bench / file) + '\''; };
  models::ImageBytes two = picture(1, 8, 8);
  for (size_t y = 4; y < 8; ++y)
    for (size_t x = 0; x < 4; ++x) two.bytes[y * 8 + x] = 240;
  models::write_png(bench / "two.png", two);
  models::ImageBytes rgb{3, 8, 8, {}};
  for (int c = 0; c < 3; ++c) rgb.bytes.insert(rgb.bytes.end(), two.bytes.begin(), two.bytes.end());
  models::write_png(bench / "rgb.png", rgb);
  const Result said =
      run("classify", model + "--top 3 " + named("two.png") + ' ' + named("rgb.png"));
  INFO(said.output);
  CHECK(said.status == 0);
  double p[3];
  int c[3];
  const std::string first = said.output.substr(said.output.find("two.png\n") + 8);
  REQUIRE(std::sscanf(first.c_str(), "%lf %d %lf %d %lf %d", &p[0], &c[0], &p[1], &c[1], &p[2],
                      &c[2]) == 6);
  CHECK(c[0] == 2);
  CHECK((p[0] >= p[1] && p[1] >= p[2] && p[0] + p[1] + p[2] <= 1.0001));
  const std::string lines = first.substr(0, first.find('/'));
  CHECK_THAT(said.output, Contains("rgb.png: stored in colour but all grey: read as grey") &&
                              Contains("rgb.png\n" + lines));
  std::filesystem::copy_file(bench / "rgb.png", bench / "\x1b[2J.png");
  CHECK_THAT(run("classify", model + named("\x1b[2J.png")).output,
             Contains("\u241b[2J.png: stored in colour") && Contains("\u241b[2J.png\n") &&
                 !Contains("\x1b"));
  const Result all = run("classify", model + "--top 99 " + named("out/example.png"));
  CHECK(std::count(all.output.begin(), all.output.end(), '\n') == 11);

  rgb.bytes[5] = 17;
  models::write_png(bench / "rgb.png", rgb);
  refused("classify", model + named("two.png") + ' ' + named("rgb.png"),
          "rgb.png: expected a grey picture, got a coloured one");
  models::write_png(bench / "large.png", picture(1, 9, 0));
  refused("classify", model + named("large.png"), "large.png: expected 8 x 8 pixels, got 9 x 9");
  refused("classify", model + named("none.png"), "none.png");
  refused("classify", model + named("out/config.json"), "config.json");
  refused("classify", model, "expected PNG files");
  refused("classify", "--model '" + (bench / "none") + "' " + named("two.png"), "none/config.json");
  check_inconsistent_folders(bench);
}

TEST_CASE("train_vit refuses bad data and options, and writes nothing") {
  const Bench bench;
  for (const auto& [flags, why] : std::vector<std::pair<std::string, std::string>>{
           {"--data shapes:1", "shapes:N of at least 2 images, got \"shapes:1\""},
           {"--data faces:9", "expected mnist:DIR, cifar10:DIR or shapes:N"},
           {"--data mnist:" + (bench / "none"), "none"},
           {"--data cifar10:" + (bench / "none"), "none"},
           {"--data shapes:50 --patch 5", "patch must divide image: image 32, patch 5"},
           {"--data shapes:50 --heads 3", "heads must divide dim"},
           {"--data shapes:50 --crop-aspect 0.5", "crop_aspect 0 or in [1, 100], got 0.5"},
           {"--rotate 181", "--rotate: expected a number from 0 to 180"},
           {"--classes 3", "--classes"},
           {"--label-smoothing 2", "--label-smoothing"}})
    refused("train_vit", flags + bench.out(), why);
  CHECK(!bench.has("out"));
}

namespace {

/// A classifier whose batches and scores are shown.
struct Classifier : ClassifierTask<models::ViT> {
  explicit Classifier(double label_smoothing, const TrainOptions& training = {})
      : ClassifierTask({.images = {.data = "shapes:60", .batch = 8, .augment = {.noise = 0.1}},
                        .label_smoothing = label_smoothing},
                       training,
                       {.image = 8, .channels = 1, .patch = 8, .layers = 1, .heads = 2, .dim = 8}) {
  }
  using ClassifierTask::model_, ClassifierTask::score, ClassifierTask::views;
  TaskInfo info() const override { return {}; }
};

}  // namespace

TEST_CASE("a classifier's loss has its labels smoothed, its scores have not") {
  manual_seed(4);
  Classifier task(0.3);
  CHECK(task.model_.config.classes == 35);
  CHECK(task.model_.config.image == 32);
  const auto views = task.views(2, 0);
  const Tensor logits = task.model_(views[0].images).detach(), labels = views[0].labels;
  // 0.7 of the target is the label, 0.3 all classes alike.
  const Tensor log_p = log_softmax(logits, 1);
  const double right = -mean(gather(log_p, 1, labels.unsqueeze(1))).item();
  CHECK(task.loss(2, 0).item() == Approx(0.7 * right - 0.3 * mean(log_p).item()));
  CHECK(ClassifierOptions().label_smoothing == 0.1);

  const NoGrad no_grad;
  const Score score = task.score(Split::validation, views);
  CHECK(score.loss == Approx(right));
  CHECK(score.examples == 8);
  REQUIRE(score.more.size() == 1);
  CHECK(score.more[0].name == "accuracy");
  CHECK(score.more[0].value == mean(argmax(logits, 1) == labels).item());
  CHECK(score.more[0].examples == 8);
}

TEST_CASE("image corpus: captions if asked for, and an id per data set") {
  const ImageCorpus few = read_image_corpus({.data = "shapes:20"});
  CHECK(few.part(Split::train).size() == 16);
  CHECK(few.captions(Split::train).empty());
  CHECK(read_image_corpus({.data = "shapes:20"}).id == few.id);
  const ImageCorpus more = read_image_corpus({.data = "shapes:21"});
  CHECK(more.part(Split::train).size() == 16);  // the last fifth, rounded up, validates
  CHECK(more.part(Split::validation).size() == 5);
  CHECK(more.id != few.id);

  const ImageCorpus told = read_image_corpus({.data = "shapes:20", .captioned = true});
  CHECK(told.id != few.id);
  const models::ShapeImages all = models::draw_shapes(0, 20);
  CHECK(told.captions(Split::train).size() == 16);
  CHECK(told.captions(Split::validation).size() == 4);
  CHECK(read_image_corpus({.data = "shapes:21", .captioned = true}).part(Split::train).size() ==
        16);
  CHECK(told.captions(Split::validation)[3] == all.captions[19]);
  CHECK(told.part(Split::validation).image(3) == all.images.image(19));
  CHECK_THROWS_WITH(
      read_image_corpus({.data = "mnist:x", .captioned = true}),
      Contains("expected shapes:N") && Contains("have no captions), got \"mnist:x\""));
}

TEST_CASE("pictures of a classifier: each image has its class and the class it is taken for") {
  const models::ImageData data({4, 1, 1, 1}, {0, 51, 102, 255}, {0, 1, 1, 2}, {"x", "y", "z"});
  // Images 0 and 3 are taken for y, the latter with more confidence; 1 and 2 are right.
  const models::LabelledFeatures logits{
      tensor({{0.0, 1.0, 0.0}, {0.0, 9.0, 0.0}, {0.0, 9.0, 0.0}, {0.0, 3.0, 0.0}}),
      from_data(std::vector<int64_t>{0, 1, 1, 2}, {4})};
  const std::optional<Tiles> wrong = mistake_tiles("m.png", data, logits);
  REQUIRE(wrong);
  CHECK(wrong->images.to_vector<float>() == std::vector<float>{1, 0});
  CHECK_THAT(wrong->title, Contains("2 of 2"));
  REQUIRE(wrong->lines.size() == 2);
  CHECK(wrong->lines[0].name == "is");
  CHECK(wrong->lines[0].texts == std::vector<std::string>{"z", "x"});
  CHECK(wrong->lines[1].name == "taken for");
  CHECK(wrong->lines[1].texts == std::vector<std::string>{"y", "y"});
  const models::LabelledFeatures right{one_hot(logits.labels, 3, float32), logits.labels};
  CHECK(!mistake_tiles("m.png", data, right));

  const Tiles looks = attention_tiles("a.png", data.range(2, 2), ones({2, 1, 1}),
                                      from_data(std::vector<int64_t>{1, 0}, {2}), {"x", "y", "z"});
  CHECK(looks.images.shape() == Shape{4, 3, 1, 1});
  CHECK(looks.images[0].to_vector<float>() == std::vector<float>(3, 0.4f));
  CHECK(looks.images[1][0].item() > looks.images[1][1].item());
  CHECK(looks.headings[0] == "image");
  CHECK(looks.headings[1] == "attention");
  CHECK(looks.lines[0].texts == std::vector<std::string>{"y", "", "z", ""});
  CHECK(looks.lines[1].texts == std::vector<std::string>{"y", "", "x", ""});
}

TEST_CASE("pictures of a classifier: counts, shades and attention overlays") {
  const Tensor counts = confusion_matrix(from_data(std::vector<int64_t>{0, 0, 2, 2, 2}, {5}),
                                         from_data(std::vector<int64_t>{0, 2, 2, 2, 1}, {5}), 3);
  CHECK(counts.to_vector<float>() == std::vector<float>{1, 0, 1, 0, 0, 0, 0, 1, 2});
  const HeatMap map = confusion_map("a.png", counts, {"x", "y", "z"});
  CHECK(map.largest == 0.5);  // fraction of the first class predicted as the third
  CHECK(map.panels[0].values[1].to_vector<float>() == std::vector<float>{0, 0, 0});
  CHECK(!confusion_map("a.png", confusion_matrix(zeros({2}, int64), zeros({2}, int64), 2), {})
             .largest);

  // The patch with the largest weight is reddest; one with weight 0 is unchanged.
  const Tensor images = ones({1, 1, 2, 4}) * 0.5,
               overlay = attention_overlay(images, tensor({{{0.0, 0.2}}}));
  CHECK(overlay.shape() == Shape{1, 3, 2, 4});
  CHECK(overlay.slice(3, 0, 2).to_vector<float>() == std::vector<float>(12, 0.5f));
  const std::vector<float> red = overlay.slice(3, 2).flatten().to_vector<float>();
  CHECK(red[0] == Approx(0.15 + 0.7));
  CHECK(red[11] == Approx(0.15 + 0.7 * 0.1));
  CHECK_THROWS_WITH(attention_overlay(images, ones({1, 1, 3})), Contains("whose sides divide"));
  // An image without attention is shown without red.
  CHECK(attention_overlay(images, zeros({1, 1, 2})).to_vector<float>() ==
        std::vector<float>(24, 0.5f));
}

}  // namespace train_vit_test
