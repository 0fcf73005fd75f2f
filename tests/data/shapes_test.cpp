// Synthetic shapes with captions.

#include "gradus/models/data/images/shapes.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "gradus/core/runtime/threads.h"

namespace shapes_test {

using namespace gradus;
using Catch::Contains;
using models::ImageBytes;

namespace {

struct Threads {
  const int before = num_threads();
  ~Threads() { set_num_threads(before); }
};

/// Position of a colour in a picture: the mean position of pixels of similar colour.
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

TEST_CASE("shapes: what a class looks like, by its name", "[shapes]") {
  const std::map<std::string, std::array<double, 3>> colours{
      {"red", {0.9, 0.12, 0.12}},    {"green", {0.12, 0.75, 0.2}}, {"blue", {0.15, 0.3, 0.95}},
      {"yellow", {0.95, 0.9, 0.15}}, {"purple", {0.65, 0.2, 0.8}}, {"cyan", {0.2, 0.85, 0.9}},
      {"white", {0.95, 0.95, 0.95}}};
  for (const auto& [colour, rgb] : colours)
    for (const char* form : {"circle", "square", "triangle", "cross", "diamond"}) {
      const std::optional<models::ShapeLook> look = models::shape_of_class(colour + ' ' + form);
      REQUIRE(look);
      CHECK(look->form == form);
      CHECK(look->rgb == rgb);
    }
  const models::ShapeImages one = models::draw_shapes(0, 1);
  for (const std::string& name : one.images.class_names()) CHECK(models::shape_of_class(name));
  for (const char* name : {"", "red", "circle", "a red circle", "red  circle", "red hexagon", "7"})
    CHECK(!models::shape_of_class(name));
}

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
    CHECK(std::abs(along) > 1.5 * std::abs(across) - 1);  // mean positions are not exact
    named_first += first < second;
  }
  CHECK(relations.size() == 4);
  for (const auto& [relation, count] : relations) CHECK(std::abs(count - 500) < 100);
  CHECK(named_first > 600);
}

TEST_CASE("draw_shapes: every pixel is drawn, the darkest background is 0.02", "[images]") {
  const auto pictures = models::draw_shapes(0, 40, {.noise = 0});
  for (int64_t i = 0; i < 40; ++i) {
    const auto bytes = pictures.images.image(i).bytes;
    CHECK(*std::min_element(bytes.begin(), bytes.end()) >= 5);
  }
}

namespace {

/// A shape without noise: how much of each pixel it covers.
struct Coverage {
  std::vector<double> rows, columns;  // sums over each row and column
  double area = 0;
  int64_t height = 0, width = 0;              // rows and columns that it touches
  std::array<double, 3> background{}, ink{};  // from 0 to 1

  explicit Coverage(const ImageBytes& image)
      : rows(static_cast<size_t>(image.height)), columns(static_cast<size_t>(image.width)) {
    auto at = [&](int64_t c, int64_t y, int64_t x) {
      return image.bytes[static_cast<size_t>((c * image.height + y) * image.width + x)] / 255.0;
    };
    for (int64_t c = 0; c < 3; ++c) background[static_cast<size_t>(c)] = at(c, 0, 0);
    // Where the channels' differences from the background have the largest sum, the shape covers
    // the whole pixel.
    auto distance = [&](int64_t y, int64_t x) {
      double sum = 0;
      for (int64_t c = 0; c < 3; ++c) sum += std::abs(at(c, y, x) - at(c, 0, 0));
      return sum;
    };
    double most = 0;
    for (int64_t y = 0; y < image.height; ++y)
      for (int64_t x = 0; x < image.width; ++x)
        if (distance(y, x) > most) {
          most = distance(y, x);
          for (int64_t c = 0; c < 3; ++c) ink[static_cast<size_t>(c)] = at(c, y, x);
        }
    for (int64_t y = 0; y < image.height; ++y)
      for (int64_t x = 0; x < image.width; ++x) {
        const double covered = distance(y, x) / most;
        rows[static_cast<size_t>(y)] += covered;
        columns[static_cast<size_t>(x)] += covered;
        area += covered;
      }
    height = std::count_if(rows.begin(), rows.end(), [](double sum) { return sum > 0; });
    width = std::count_if(columns.begin(), columns.end(), [](double sum) { return sum > 0; });
  }
  double widest() const { return *std::max_element(rows.begin(), rows.end()); }
  double highest() const { return *std::max_element(columns.begin(), columns.end()); }
};

}  // namespace

TEST_CASE("draw_shapes: forms, sizes and colours", "[images]") {
  // Area, width and height of each form of radius 1.
  const double bar = 0.64;
  const std::map<std::string, std::array<double, 3>> forms{{"circle", {M_PI, 2, 2}},
                                                           {"square", {1.7 * 1.7, 1.7, 1.7}},
                                                           {"triangle", {1.85, 2, 1.85}},
                                                           {"cross", {4 * bar - bar * bar, 2, 2}},
                                                           {"diamond", {2, 2, 2}}};
  constexpr int64_t size = 100, n = 200;
  const auto pictures = models::draw_shapes(0, n, {.size = size, .max_shapes = 1, .noise = 0});
  double smallest = 1, largest = 0, darkest = 1, brightest = 0, least = 2, most = 0;
  for (int64_t i = 0; i < n; ++i) {
    const std::string& name =
        pictures.images.class_names()[static_cast<size_t>(pictures.images.label(i))];
    CAPTURE(i, name);
    const Coverage shape(pictures.images.image(i));
    const models::ShapeLook look = models::shape_of_class(name).value();
    const auto& [area, width, height] = forms.at(look.form);
    // Width and height agree, up to the pixels at the edges, with the radius that follows from the
    // area.
    const double radius = std::sqrt(shape.area / area) / size;
    CHECK(std::abs(static_cast<double>(shape.width) / size - width * radius) < 0.023);
    CHECK(std::abs(static_cast<double>(shape.height) / size - height * radius) < 0.023);
    if (look.form == "circle" || look.form == "cross")
      CHECK(std::abs(shape.widest() - shape.highest()) < 0.3);  // pixels
    smallest = std::min(smallest, radius);
    largest = std::max(largest, radius);
    for (size_t c = 0; c < 3; ++c) {
      darkest = std::min(darkest, shape.background[c]);
      brightest = std::max(brightest, shape.background[c]);
      const double shade = shape.ink[c] / look.rgb[c];
      CHECK(std::abs(shape.ink[c] - 0.95 * look.rgb[c]) < 0.05 * look.rgb[c] + 0.003);
      if (look.rgb[c] < 0.7) continue;
      least = std::min(least, shade);
      most = std::max(most, shade);
    }
  }
  CHECK((smallest > 0.122 && smallest < 0.128));
  CHECK((largest > 0.195 && largest < 0.203));
  CHECK((darkest > 0.018 && darkest < 0.026));
  CHECK((brightest > 0.29 && brightest < 0.302));
  CHECK((least < 0.905 && most > 0.995));
}

TEST_CASE("draw_shapes: shapes keep off the border", "[images]") {
  constexpr int64_t size = 20, n = 1000;
  for (const int64_t shapes : {1, 2}) {
    const auto pictures = models::draw_shapes(
        0, n, {.size = size, .min_shapes = shapes, .max_shapes = shapes, .noise = 0});
    for (int64_t i = 0; i < n; ++i) {
      const Coverage all(pictures.images.image(i));
      CHECK(all.rows.front() + all.rows.back() == 0);
      CHECK(all.columns.front() + all.columns.back() == 0);
    }
  }
}

TEST_CASE("draw_shapes: noise changes values by up to its size", "[images]") {
  const auto clean = models::draw_shapes(0, 3, {.noise = 0}), usual = models::draw_shapes(0, 3),
             noisy = models::draw_shapes(0, 3, {.noise = 0.1});
  auto extremes = [&](const models::ShapeImages& changed) {
    std::pair<int, int> seen{0, 0};
    for (int64_t i = 0; i < 3; ++i) {
      const auto before = clean.images.image(i).bytes, after = changed.images.image(i).bytes;
      for (size_t k = 0; k < before.size(); ++k) {
        seen.first = std::min(seen.first, after[k] - before[k]);
        seen.second = std::max(seen.second, after[k] - before[k]);
      }
    }
    return seen;
  };
  CHECK(extremes(usual) == std::pair(-8, 8));    // 0.03 * 255 = 7.65
  CHECK(extremes(noisy) == std::pair(-26, 26));  // 0.1 * 255 = 25.5
  // Beyond the range values are clamped: v + noise in [-1, 1] exceeds 1 with probability v / 2.
  const auto loud = models::draw_shapes(0, 3, {.noise = 1});
  double white = 0, black = 0, expected_white = 0, expected_black = 0;
  for (int64_t i = 0; i < 3; ++i) {
    const auto before = clean.images.image(i).bytes, after = loud.images.image(i).bytes;
    for (size_t k = 0; k < before.size(); ++k) {
      white += after[k] == 255, expected_white += before[k] / 510.0;
      black += after[k] == 0, expected_black += (255 - before[k]) / 510.0;
    }
  }
  CHECK(white == Approx(expected_white).epsilon(0.1));
  CHECK(black == Approx(expected_black).epsilon(0.1));
  CHECK(usual.images.image(0) == models::draw_shapes(0, 1, {.seed = 0}).images.image(0));
}

TEST_CASE("draw_shapes: a picture depends only on its index", "[images]") {
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
  CHECK(models::draw_shapes(0, 0, {.size = 1024, .noise = 1}).images.size() == 0);
  CHECK_THROWS_AS(models::draw_shapes(0, 0, {.size = 1025}), Error);
  CHECK_THROWS_AS(models::draw_shapes(0, 0, {.noise = 1.01}), Error);
  CHECK(models::draw_shapes(int64_t{1} << 40, 1).images.size() == 1);
  CHECK_THROWS_AS(models::draw_shapes((int64_t{1} << 40) + 1, 1), Error);
  CHECK_THROWS_AS(models::draw_shapes(-1, 1), Error);
  CHECK_THROWS_AS(models::draw_shapes(0, int64_t{1} << 50), Error);
  CHECK_THROWS_AS(models::shape_captions({.size = 0}), Error);
}

}  // namespace shapes_test
