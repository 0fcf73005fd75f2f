// Image data sets, and pictures of tensors.

#include "gradus/models/data/images/images.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "gradus/core/ops/ops.h"
#include "tests/support/compare.h"

namespace images_test {

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

}  // namespace

TEST_CASE("image data: batches, slices and labels", "[images]") {
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
  // Normalisation follows its formula, and denormalize inverts it.
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

TEST_CASE("image data: with drop_last, batches stay within their epochs", "[images]") {
  const ImageData data = counting(10);
  const auto ids = [&](int64_t step) {
    return data.shuffled(4, 3, step, {}, true).ids.to_vector<int64_t>();
  };
  // Two batches per epoch: those of epoch e are the first eight images of its order.
  for (int64_t step = 0; step < 8; ++step) {
    Ids order;
    for (int64_t i = 0; i < 10; ++i)
      order.push_back(data.shuffled(1, 3, step / 2 * 10 + i).ids.item<int64_t>());
    const auto begin = order.begin() + step % 2 * 4;
    CHECK(ids(step) == Ids(begin, begin + 4));
  }
  CHECK(data.shuffled(10, 3, 1, {}, true).ids.to_vector<int64_t>() ==
        data.shuffled(10, 3, 1).ids.to_vector<int64_t>());
  CHECK_THROWS_WITH(data.shuffled(11, 3, 0, {}, true),
                    "ImageData: expected a batch of at most 10 images, got 11");
}

TEST_CASE("image data: one that was moved from keeps its images", "[images]") {
  ImageData data = counting(3);
  const ImageData moved = std::move(data);
  CHECK(moved.label(2) == 2);
  CHECK(data.size() == 3);
  CHECK(data.label(2) == 2);
  ImageData other = counting(1);
  other = std::move(data);
  CHECK(other.image(1) == moved.image(1));
  CHECK(data.shape() == moved.shape());
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
  CHECK_THROWS_WITH(data.part(2, 4), "ImageData: images [2, 2 + 4) are outside [0, 5)");
  CHECK_THROWS_AS(data.part(-1, 2), Error);
  CHECK_THROWS_WITH(data.range(5, 0),
                    "ImageData: expected 0 <= first < 5 and count >= 1, got 5 and 0");
  CHECK_THROWS_AS(data.range(5, 1), Error);
  CHECK_THROWS_AS(data.shuffled(0, 1, 0), Error);
  CHECK_THROWS_AS(data.shuffled(2, 1, -1), Error);
  CHECK_THROWS_AS(data.part(1, 0).shuffled(2, 1, 0), Error);
  CHECK_THROWS_AS(models::split_images(data, 5), Error);
  CHECK_THROWS_AS(models::split_images(data, 0), Error);
  CHECK_THROWS_WITH(data.range(0, 2, {{0.5}, {0.5}}), Contains("expected 2 means and deviations"));
  CHECK_THROWS_WITH(data.range(0, 2, {{0, 0}, {1, 0}}),
                    Contains("deviations above 0, got 0 and 0"));
  CHECK_THROWS_WITH(data.range(0, 2, {{}, {1, 1}}), Contains("got 0 and 2"));
  CHECK_THROWS_WITH(data.range(0, 2, {{0, 0}, {}}), Contains("got 2 and 0"));
  CHECK_THROWS_AS(data.range(0, 0), Error);
  CHECK(data.range(4, 1).ids.to_vector<int64_t>() == Ids{4});
  const ImageData one = counting(1);
  constexpr int64_t rows = 1 << 20, steps = int64_t{1} << 40;
  CHECK(one.shuffled(rows, 1, steps - 1).ids.numel() == rows);
  CHECK_THROWS_WITH(one.shuffled(rows + 1, 1, 0), Contains("a batch of 1 to 2^20 images"));
  CHECK_THROWS_WITH(one.shuffled(1, 1, steps), Contains("a step in [0, 2^40)"));
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
  // Batches of every size follow the same sequence; each seed has its own.
  const ImageData data = counting(10);
  Ids row, sevens;
  for (int64_t step = 0; step < 21; ++step)
    row.push_back(data.shuffled(1, 4, step).ids.item<int64_t>());
  for (int64_t step = 0; step < 3; ++step)
    for (const int64_t id : data.shuffled(7, 4, step).ids.to_vector<int64_t>())
      sevens.push_back(id);
  CHECK(row == sevens);
  CHECK(data.shuffled(10, 5, 0).ids.to_vector<int64_t>() != Ids(row.begin(), row.begin() + 10));
  // Each image is equally often at each position: 1000 times within 5 standard deviations.
  std::map<std::pair<int64_t, int64_t>, int> counts;
  for (int64_t epoch = 0; epoch < 10000; ++epoch) {
    const auto ids = data.shuffled(10, 9, epoch).ids.to_vector<int64_t>();
    for (int64_t place = 0; place < 10; ++place) ++counts[{place, ids[static_cast<size_t>(place)]}];
  }
  for (const auto& [pair, count] : counts) CHECK(std::abs(count - 1000) < 150);
  CHECK(counts.size() == 100);
}

TEST_CASE("image_grid: pixels are at the right positions", "[images]") {
  const Tensor x = from_data(Values{0, 1, 0.5, 2, -1, std::nan("")}, {3, 1, 1, 2});
  // Images of 1 x 2 pixels, two per row, with a gap of 2.
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
  CHECK(models::image_grid(x, 1 << 26).width == 3 * 2 + 2 * 2);
  // Three colour images of 2 x 3 pixels, two per row, each pixel twice as large.
  manual_seed(3);
  const Tensor images = rand({3, 3, 2, 3});
  grid = models::image_grid(images, 2, 2);
  REQUIRE((grid.channels == 3 && grid.height == 4 + 2 + 4 && grid.width == 6 + 2 + 6));
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t row = 0; row < grid.height; ++row)
      for (int64_t column = 0; column < grid.width; ++column) {
        const int64_t image = row / 6 * 2 + column / 8, y = row % 6 / 2, k = column % 8 / 2;
        const bool is_gap = image > 2 || y > 1 || k > 2;
        const double value = is_gap ? 128 : images[image][c][y][k].item() * 255;
        const int byte = grid.bytes[static_cast<size_t>((c * grid.height + row) * 14 + column)];
        CHECK(std::abs(byte - value) < 0.501);
      }
  // Row i holds image i of each tensor.
  const Tensor a = zeros({2, 1, 1, 1}), b = ones({2, 1, 1, 1});
  grid = models::image_grid({a, b}, 1);
  CHECK(grid.bytes == models::image_grid(tensor({0, 1, 0, 1}).reshape({4, 1, 1, 1}), 2).bytes);
  CHECK_THROWS_AS(models::image_grid(zeros({1, 2, 3, 3}), 1), Error);
  CHECK_THROWS_AS(models::image_grid(zeros({0, 1, 3, 3}), 1), Error);
  CHECK_THROWS_AS(models::image_grid(zeros({1, 3, 3}), 1), Error);
  CHECK_THROWS_AS(models::image_grid(zeros({1, 1, 3, 3}, int64), 1), Error);
  CHECK_THROWS_AS(models::image_grid(x, 0), Error);
  CHECK_THROWS_WITH(models::image_grid(x, 100'000'000),
                    "image_grid: expected columns and scale from 1 to 2^26, got 100000000 and 1");
  CHECK_THROWS_WITH(models::image_grid(x, 1, 1 << 20), Contains("more than 2^26"));
  CHECK_THROWS_AS(models::image_grid({a, zeros({1, 1, 1, 1})}, 1), Error);
  CHECK_THROWS_AS(models::image_grid(std::vector<Tensor>{}, 1), Error);
}

}  // namespace images_test
