// Image data sets, pictures of tensors, and synthetic shapes with captions.

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/threads.h"
#include "gradus/models/data/images/images.h"
#include "gradus/models/data/images/shapes.h"
#include "gradus/models/data/prefetch.h"
#include "tests/support/compare.h"

using namespace gradus;
using namespace gradus::testing;
using Catch::Contains;
using models::ImageBytes;
using models::ImageData;

namespace {

using Ids = std::vector<int64_t>;

/// n images of 2 channels, 1 x 2, whose bytes count up from 0.
ImageData counting(int64_t n) {
  std::vector<uint8_t> bytes;
  Ids labels;
  for (int64_t i = 0; i < 4 * n; ++i) bytes.push_back(static_cast<uint8_t>(i));
  for (int64_t i = 0; i < n; ++i) labels.push_back(i % 3);
  return ImageData({n, 2, 1, 2}, bytes, labels, {"a", "b", "c"});
}

struct Threads {
  const int before = num_threads();
  ~Threads() { set_num_threads(before); }
};

}  // namespace

TEST_CASE("image data: batches, parts and labels", "[images]") {
  const ImageData data = counting(10);
  CHECK(data.shape() == Shape{10, 2, 1, 2});
  CHECK(data.label(4) == 1);
  CHECK(data.classes() == 3);
  CHECK(data.image(9) == ImageBytes{2, 1, 2, {36, 37, 38, 39}});
  CHECK(difference(models::to_tensor(data.image(9)),
                   from_data(Values{36, 37, 38, 39}, {2, 1, 2}).to(float32) / 255) == 0);
  auto batch = data.batch(tensor({7, 0, 7}, int64));
  CHECK(batch.images.shape() == Shape{3, 2, 1, 2});
  CHECK(batch.labels.to_vector<int64_t>() == Ids{1, 0, 1});
  CHECK(batch.ids.to_vector<int64_t>() == Ids{7, 0, 7});
  const Tensor raw = tensor({28, 29, 30, 31, 0, 1, 2, 3, 28, 29, 30, 31}).reshape({3, 2, 1, 2});
  CHECK(difference(batch.images, raw / 255) == 0);
  // The formula, and its inverse.
  const models::ChannelStats stats{{0.1, 0.2}, {0.5, 0.25}};
  batch = data.batch(tensor({7, 0, 7}, int64), stats);
  CHECK(batch.images.to_vector<float>() == models::normalize(raw / 255, stats).to_vector<float>());
  CHECK(batch.images.to_vector<float>()[2] == Approx((30.0 / 255 - 0.2) / 0.25));
  CHECK(difference(models::denormalize(batch.images, stats), raw / 255) < 1e-6);
  CHECK(difference(models::normalize(raw, {}), raw) == 0);

  const ImageData part = data.part(4, 5);
  CHECK(part.size() == 5);
  CHECK(part.image(0) == data.image(4));
  CHECK(part.range(3, 100).images.to_vector<float>() == data.range(7, 2).images.to_vector<float>());
  CHECK(part.part(1, 2).label(0) == data.label(5));
  CHECK(part.part(5, 0).size() == 0);
  const auto [train, test] = models::split_images(data, 8);
  CHECK(train.size() == 8);
  CHECK(test.image(0) == data.image(8));
  const auto every = Ids{9, 5, 1};  // strided ids
  CHECK(
      data.batch(from_data(Ids{9, 0, 5, 0, 1, 0}, {3, 2}).select(1, 0)).ids.to_vector<int64_t>() ==
      every);
}

TEST_CASE("image data: mean and deviation", "[images]") {
  const ImageData data({2, 2, 1, 2}, {0, 255, 7, 7, 255, 255, 7, 7}, {0, 0}, {"a"});
  const models::ChannelStats stats = data.stats();
  CHECK(stats.mean[0] == Approx(0.75));
  CHECK(stats.std[0] == Approx(std::sqrt(3.0) / 4));
  CHECK(stats.mean[1] == Approx(7 / 255.0));
  CHECK(stats.std[1] == 1);  // a constant channel
  CHECK(data.part(1, 1).stats().mean[0] == Approx(1));
}

TEST_CASE("image data: bad arguments are refused", "[images]") {
  const auto make = [](const Shape& shape, size_t bytes, const Ids& labels) {
    return ImageData(shape, std::vector<uint8_t>(bytes), labels, {"a", "b"});
  };
  CHECK_THROWS_WITH(make({2, 1, 2, 2}, 7, {0, 0}), "ImageData: 7 bytes for shape (2, 1, 2, 2)");
  CHECK_THROWS_WITH(make({2, 1, 2, 2}, 8, {0}), "ImageData: 2 images and 1 labels");
  CHECK_THROWS_WITH(make({2, 1, 1, 1}, 2, {0, 2}),
                    "ImageData: label 2 of image 1 is outside [0, 2)");
  CHECK_THROWS_WITH(make({2, 1, 1, 1}, 2, {-1, 0}), Contains("label -1 of image 0"));
  CHECK_THROWS_AS(make({2, 1, 1}, 2, {0, 0}), Error);
  CHECK_THROWS_AS(make({2, 0, 1, 1}, 0, {0, 0}), Error);
  CHECK_THROWS_AS(make({-1, 1, 1, -1}, 1, {}), Error);
  CHECK_THROWS_AS(make({int64_t{1} << 40, 1, int64_t{1} << 40, 1}, 1, {}), Error);
  CHECK(make({0, 1, 1, 1}, 0, {}).size() == 0);
  const ImageData data = counting(5);
  CHECK_THROWS_WITH(data.batch(tensor({1, 5}, int64)), "ImageData: image 5 is outside [0, 5)");
  CHECK_THROWS_AS(data.batch(tensor({1, -1}, int64)), Error);
  CHECK_THROWS_WITH(data.batch(tensor({1, 2})), Contains("ids (B) of int64, got float32 (2,)"));
  CHECK_THROWS_AS(data.image(5), Error);
  CHECK_THROWS_AS(data.part(2, 4), Error);
  CHECK_THROWS_AS(data.part(-1, 2), Error);
  CHECK_THROWS_AS(data.range(5, 1), Error);
  CHECK_THROWS_AS(data.shuffled(0, 1, 0), Error);
  CHECK_THROWS_AS(data.shuffled(2, 1, -1), Error);
  CHECK_THROWS_AS(data.part(1, 0).shuffled(2, 1, 0), Error);
  CHECK_THROWS_AS(models::split_images(data, 5), Error);
  CHECK_THROWS_AS(models::split_images(data, 0), Error);
  CHECK_THROWS_WITH(data.range(0, 2, {{0.5}, {0.5}}), Contains("expected 2 means and deviations"));
  CHECK_THROWS_WITH(data.range(0, 2, {{0, 0}, {1, 0}}),
                    Contains("deviations above 0, got 0 and 0"));
  CHECK_THROWS_AS(models::normalize(zeros({2, 2}), {}), Error);
}

TEST_CASE("image data: shuffled batches hold each image once per epoch", "[images]") {
  std::set<Ids> orders;
  for (const int64_t n : {1, 2, 3, 5, 16, 17, 60}) {
    const ImageData data = counting(n);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      Ids seen;
      for (int64_t step = epoch * n; step < (epoch + 1) * n; ++step)
        for (const int64_t id : data.shuffled(1, 4, step).ids.to_vector<int64_t>())
          seen.push_back(id);
      orders.insert(seen);
      std::sort(seen.begin(), seen.end());
      CHECK(seen == arange(n).to_vector<int64_t>());
    }
  }
  CHECK(orders.size() > 15);
  // Batches of any size cut the same sequence; each seed has its own.
  const ImageData data = counting(10);
  Ids row, sevens;
  for (int64_t step = 0; step < 21; ++step)
    row.push_back(data.shuffled(1, 4, step).ids.item<int64_t>());
  for (int64_t step = 0; step < 3; ++step)
    for (const int64_t id : data.shuffled(7, 4, step).ids.to_vector<int64_t>())
      sevens.push_back(id);
  CHECK(row == sevens);
  CHECK(data.shuffled(10, 5, 0).ids.to_vector<int64_t>() != Ids(row.begin(), row.begin() + 10));
  // Each image is equally often at each position: 1000 times, 5 deviations.
  std::map<std::pair<int64_t, int64_t>, int> counts;
  for (int64_t epoch = 0; epoch < 10000; ++epoch) {
    const auto ids = data.shuffled(10, 9, epoch).ids.to_vector<int64_t>();
    for (int64_t place = 0; place < 10; ++place) ++counts[{place, ids[static_cast<size_t>(place)]}];
  }
  for (const auto& [pair, count] : counts) CHECK(std::abs(count - 1000) < 150);
  CHECK(counts.size() == 100);
}

TEST_CASE("image_grid: pixels where they belong", "[images]") {
  const Tensor x = from_data(Values{0, 1, 0.5, 2, -1, std::nan("")}, {3, 1, 1, 2});
  // 1 x 2 pixels each, two in a row, a gap of 2.
  ImageBytes grid = models::image_grid(x, 2);
  CHECK(grid == ImageBytes{1, 4, 6, {0,   255, 128, 128, 128, 255, 128, 128, 128, 128, 128, 128,  //
                                     128, 128, 128, 128, 128, 128, 0,   0,   128, 128, 128, 128}});
  grid = models::image_grid(x, 99, 2);
  CHECK(grid.width == 3 * 4 + 2 * 2);
  CHECK(grid.height == 2);
  CHECK(std::vector<uint8_t>(grid.bytes.begin(), grid.bytes.begin() + 7) ==
        std::vector<uint8_t>{0, 0, 255, 255, 128, 128, 128});
  const Tensor rgb = from_data(Values{0.2, 0.4, 0.6}, {1, 3, 1, 1});
  CHECK(models::image_grid(rgb, 1) == ImageBytes{3, 1, 1, {51, 102, 153}});
  // Row i holds image i of each tensor.
  const Tensor a = zeros({2, 1, 1, 1}), b = ones({2, 1, 1, 1});
  grid = models::image_grid({a, b}, 1);
  CHECK(grid.bytes == models::image_grid(tensor({0, 1, 0, 1}).reshape({4, 1, 1, 1}), 2).bytes);
  CHECK_THROWS_AS(models::image_grid(zeros({1, 2, 3, 3}), 1), Error);
  CHECK_THROWS_AS(models::image_grid(zeros({0, 1, 3, 3}), 1), Error);
  CHECK_THROWS_AS(models::image_grid(zeros({1, 3, 3}), 1), Error);
  CHECK_THROWS_AS(models::image_grid(zeros({1, 1, 3, 3}, int64), 1), Error);
  CHECK_THROWS_AS(models::image_grid(x, 0), Error);
  CHECK_THROWS_WITH(models::image_grid(x, 1, 1 << 20), Contains("more than 2^26"));
  CHECK_THROWS_AS(models::image_grid({a, zeros({1, 1, 1, 1})}, 1), Error);
  CHECK_THROWS_AS(models::image_grid(std::vector<Tensor>{}, 1), Error);
}

// ---- shapes ----

namespace {

/// Position of a colour in a picture: the mean of the pixels close to it.
std::pair<double, double> place_of(const ImageBytes& image, const std::string& colour) {
  const std::map<std::string, std::array<double, 3>> colours{
      {"red", {230, 31, 31}},     {"green", {31, 191, 51}},   {"blue", {38, 77, 242}},
      {"yellow", {242, 230, 38}}, {"purple", {166, 51, 204}}, {"cyan", {51, 217, 230}},
      {"white", {242, 242, 242}}};
  double x_sum = 0, y_sum = 0, count = 0;
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x) {
      double distance = 0;
      for (int64_t c = 0; c < 3; ++c)
        distance +=
            std::pow(image.bytes[static_cast<size_t>((c * image.height + y) * image.width + x)] -
                         colours.at(colour)[static_cast<size_t>(c)],
                     2);
      if (std::sqrt(distance) > 60) continue;
      x_sum += static_cast<double>(x);
      y_sum += static_cast<double>(y);
      ++count;
    }
  REQUIRE(count >= 8);
  return {x_sum / count, y_sum / count};
}

}  // namespace

TEST_CASE("draw_shapes: captions are true", "[images]") {
  const auto pictures = models::draw_shapes(0, 2000, {.min_shapes = 2, .seed = 3});
  std::map<std::string, int> relations;
  int named_first = 0;
  for (int64_t i = 0; i < 2000; ++i) {
    const std::string& caption = pictures.captions[static_cast<size_t>(i)];
    std::istringstream words(caption);
    std::string a, first, first_shape, relation, second;
    words >> a >> first >> first_shape >> relation;
    words >> a;
    if (a == "of") words >> a;
    words >> second;
    ++relations[relation];
    CHECK(pictures.images.class_names()[static_cast<size_t>(pictures.images.label(i))] ==
          first + ' ' + first_shape);
    if (first == second) continue;
    INFO(caption);
    const ImageBytes image = pictures.images.image(i);
    const auto [x1, y1] = place_of(image, first);
    const auto [x2, y2] = place_of(image, second);
    const double right = x1 - x2, down = y1 - y2;
    const bool upright = relation == "above" || relation == "below";
    const double along = upright ? down : right, across = upright ? right : down;
    CHECK((relation == "above" || relation == "left" ? along < 0 : along > 0));
    CHECK(std::abs(along) > 1.5 * std::abs(across) - 1);  // means of pixels are not exact
    named_first += first < second;
  }
  CHECK(relations.size() == 4);
  for (const auto& [relation, count] : relations) CHECK(std::abs(count - 500) < 100);
  CHECK(named_first > 600);
}

TEST_CASE("draw_shapes: a picture is a function of its number", "[images]") {
  const Threads threads;
  const models::ShapesOptions options{.size = 24, .seed = 7};
  set_num_threads(1);
  const auto all = models::draw_shapes(5, 40, options);
  for (const int n : {2, 3}) {
    set_num_threads(n);
    const auto again = models::draw_shapes(5, 40, options),
               part = models::draw_shapes(25, 3, options);
    CHECK(again.captions == all.captions);
    for (int64_t i = 0; i < 40; ++i) CHECK(again.images.image(i) == all.images.image(i));
    for (int64_t i = 0; i < 3; ++i) CHECK(part.images.image(i) == all.images.image(20 + i));
    CHECK(part.captions[1] == all.captions[21]);
  }
  CHECK(
      !(models::draw_shapes(5, 1, {.size = 24, .seed = 8}).images.image(0) == all.images.image(0)));
  std::set<std::vector<uint8_t>> different;
  for (int64_t i = 0; i < 40; ++i) different.insert(all.images.image(i).bytes);
  CHECK(different.size() == 40);
}

TEST_CASE("draw_shapes: classes, captions and sizes", "[images]") {
  const auto captions = models::shape_captions();
  const std::set<std::string> known(captions.begin(), captions.end());
  CHECK(captions.size() == 35 + 4760);
  CHECK(known.size() == captions.size());
  CHECK(models::shape_captions({.max_shapes = 1}).size() == 35);
  CHECK(models::shape_captions({.min_shapes = 2}).size() == 4760);
  std::map<int64_t, int> labels;
  const auto one = models::draw_shapes(0, 3500, {.size = 20, .max_shapes = 1});
  for (int64_t i = 0; i < 3500; ++i) {
    ++labels[one.images.label(i)];
    CHECK(one.captions[static_cast<size_t>(i)] ==
          "a " + one.images.class_names()[static_cast<size_t>(one.images.label(i))]);
  }
  CHECK(labels.size() == 35);
  for (const auto& [label, count] : labels) CHECK(std::abs(count - 100) < 50);
  const auto both = models::draw_shapes(0, 300, {.size = 37});
  int longer = 0;
  for (const std::string& caption : both.captions) {
    CHECK(known.count(caption) == 1);
    longer += caption.size() > 20;
  }
  CHECK(std::abs(longer - 150) < 50);
  CHECK(both.images.shape() == Shape{300, 3, 37, 37});
  CHECK(models::draw_shapes(0, 0).images.size() == 0);
  CHECK(models::draw_shapes(0, 1, {.size = 500}).images.shape() == Shape{1, 3, 500, 500});
  CHECK_THROWS_WITH(models::draw_shapes(0, 1, {.size = 19}), Contains("size of 20 to 1024"));
  CHECK_THROWS_WITH(models::draw_shapes(0, 1, {.min_shapes = 2, .max_shapes = 1}),
                    "draw_shapes: expected 1 or 2 shapes, got 2 to 1");
  CHECK_THROWS_AS(models::draw_shapes(0, 1, {.max_shapes = 3}), Error);
  CHECK_THROWS_AS(models::draw_shapes(0, 1, {.min_shapes = 0}), Error);
  CHECK_THROWS_AS(models::draw_shapes(0, 1, {.noise = std::nan("")}), Error);
  CHECK_THROWS_AS(models::draw_shapes(-1, 1), Error);
  CHECK_THROWS_AS(models::draw_shapes(0, int64_t{1} << 50), Error);
  CHECK_THROWS_AS(models::shape_captions({.size = 0}), Error);
}
