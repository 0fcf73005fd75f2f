// Pictures and pages: how tokens are shown, that no token breaks them, and their data as tables.

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "examples/pictures/attention_page.h"
#include "examples/pictures/image_pictures.h"
#include "examples/pictures/plot.h"
#include "gradus/core/files/file.h"
#include "gradus/models/data/images/png.h"
#include "gradus/models/data/images/shapes.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

namespace pictures_test {

using namespace gradus;
using namespace gradus::testing;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

/// Width and height of a PNG file; 0 if it is not one.
std::pair<int, int> png_size(const std::string& path) {
  const std::string bytes = read_file(path);
  if (bytes.size() < 24 || bytes.substr(0, 8) != "\x89PNG\r\n\x1a\n") return {0, 0};
  const auto number = [&](size_t at) {
    int n = 0;
    for (size_t i = at; i < at + 4; ++i) n = n * 256 + static_cast<unsigned char>(bytes[i]);
    return n;
  };
  return {number(16), number(20)};
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++n;
  return n;
}

/// Tokens with a special meaning to gnuplot, the shell, HTML, JavaScript, CSV or UTF-8.
std::vector<std::string> nasty(const std::string& file) {
  return {" the",
          "\n",
          "it's",
          "'a'''b''",
          "\"q\"",
          "a\\b\\n",
          "$x@_{y}^2",
          "100%d %s",
          "\xff\xfe",
          "",
          std::string(1, '\0'),
          "`touch " + file + "`",
          "';system('touch " + file + "');'",
          "', 0) \nsystem 'touch " + file + "'\n#",
          "</script><script>alert(1)</script>",
          "]]><!--<script>",
          "日本語",
          std::string(400, 'x'),
          "a,b"};
}

using Rgb = std::array<uint8_t, 3>;

Rgb pixel(const models::ImageBytes& image, int64_t x, int64_t y) {
  Rgb rgb;
  for (int64_t c = 0; c < 3; ++c)
    rgb[size_t(c)] = image.bytes[size_t((c * image.height + y) * image.width + x)];
  return rgb;
}

/// How many pixels of a rectangle are `wanted`, and their mean row.
struct Found {
  int64_t count = 0;
  double row = 0;
};
template <class Wanted>
Found find(const models::ImageBytes& image, const Wanted& wanted, int64_t left, int64_t right,
           int64_t top, int64_t bottom) {
  Found found;
  for (int64_t y = top; y < bottom; ++y)
    for (int64_t x = left; x < right; ++x)
      if (wanted(pixel(image, x, y))) ++found.count, found.row += double(y);
  found.row /= double(std::max<int64_t>(found.count, 1));
  return found;
}

/// The pixels of this colour in the plot as it is drawn.
Found find(Picture picture, const std::string& path, const Rgb& colour) {
  picture.path = path;
  REQUIRE(draw_picture(picture) == "");
  const models::ImageBytes image = models::read_png(path);
  return find(
      image, [&](const Rgb& rgb) { return rgb == colour; }, 0, image.width, 0, image.height);
}

bool is_dark(const Rgb& rgb) { return rgb[0] + rgb[1] + rgb[2] < 300; }

struct WithoutPath {
  std::string before = std::getenv("PATH");
  WithoutPath() { setenv("PATH", "/nowhere", 1); }
  ~WithoutPath() { setenv("PATH", before.c_str(), 1); }
};

}  // namespace

TEST_CASE("tokens are shown with printable characters", "[pictures]") {
  CHECK(visible("cat") == "cat");
  CHECK(visible(" the cat") == "␣the␣cat");
  CHECK(visible(" the cat\n", false) == " the cat↵");
  CHECK(visible("\n\t\r") == "↵⇥␍");
  CHECK(visible(std::string(1, '\0')) == "␀");
  CHECK(visible("") == "∅");
  CHECK(visible("", false) == "");
  CHECK(visible("日本 é ∅") == "日本␣é␣∅");
  CHECK(visible("\u00a0\u00ad\u200b\u202e\ufeff\U000e0001") ==
        "<U+00A0><U+00AD><U+200B><U+202E><U+FEFF><U+E0001>");
  CHECK(visible("\x7f") == "<U+007F>");
  CHECK(visible("a\xe2\x82") == "a<E2><82>");        // the first bytes of €
  CHECK(visible("\xed\xa0\x80") == "<ED><A0><80>");  // a surrogate
  CHECK(visible("\xc0\xaf") == "<C0><AF>");          // overlong
  CHECK(visible("\xff"
                "a\xf4\x90\x80\x80") == "<FF>a<F4><90><80><80>");  // above U+10FFFF
  CHECK(columns_of("ab␣日本") == 7);
}

TEST_CASE("one matrix is written as a table, several as one line per value", "[pictures]") {
  const TemporaryFolder scratch;
  const Tensor x = tensor({{0.5, 0.25}, {1, NAN}, {-3e-8, INFINITY}});
  HeatMap map = heat_map("", "title", {"one", x, {" a", "b,\"", "\n"}, {"x", "y"}});
  write_csv(scratch / "one.csv", map);
  CHECK(read_file(scratch / "one.csv") ==
        ",x,y\n␣a,0.5,0.25\n\"b,\"\"\",1,nan\n↵,-2.99999989e-08,inf\n");
  map.panels = {{"first, one", x.slice(0, 0, 1)}, {"second", x.slice(0, 1, 2), {"r"}, {"s", "t"}}};
  write_csv(scratch / "two.csv", map);
  CHECK(read_file(scratch / "two.csv") ==
        "panel,row,column,value\n\"first, one\",0,0,0.5\n\"first, one\",0,1,0.25\n"
        "second,r,s,1\nsecond,r,t,nan\n");
  write_csv(scratch / "curve.csv", Picture{"", "", "", "", {{"a,b", {{0, 1}, {2, 0.5}}}}});
  CHECK(read_file(scratch / "curve.csv") == "name,x,y\n\"a,b\",0,1\n\"a,b\",2,0.5\n");
}

TEST_CASE("heat maps are drawn with any names and values", "[pictures]") {
  const TemporaryFolder scratch;
  const std::vector<std::string> tokens = nasty(scratch / "harm");
  const int64_t n = std::ssize(tokens);
  manual_seed(1);
  const auto size = [&](HeatMap map) {
    map.path = scratch / "map.png";
    CHECK(draw_picture(map) == "");
    const std::pair<int, int> result = png_size(map.path);
    std::filesystem::remove(map.path);
    return result;
  };
  const HeatMap one =
      heat_map("", tokens[12], {tokens[10], softmax(randn({n, n})), tokens, tokens});
  const std::pair<int, int> alone = size(one);
  CHECK(alone.first > 600);
  CHECK(alone.second > 600);
  const HeatMap grid = attention_grid("", tokens[11], softmax(randn({3, 4, n, n})), tokens, tokens);
  CHECK(grid.panels.size() == 12);
  CHECK(grid.panels[5].title == "layer 2, head 2");
  CHECK(values(grid.panels[5].values) != values(grid.panels[4].values));
  CHECK(size(grid).first > alone.first);
  const HeatMap aligned = alignment("", "", softmax(randn({2, n})), tokens, {"a", "b"});
  CHECK(aligned.x_label == "source tokens");
  CHECK(aligned.y_label == "written tokens");
  CHECK(size(aligned).first > 600);
  for (const Shape& shape : {Shape{1, 1}, Shape{1, 7}, Shape{7, 1}, Shape{300, 2}, Shape{500, 500}})
    for (const Shades shades : {Shades::grey, Shades::diverging}) {
      HeatMap map = heat_map("", "", {"", randn(shape)});
      map.shades = shades;
      INFO(shape);
      CHECK(size(map).first > 100);
    }
  HeatMap odd = heat_map("", "", {"", tensor({{NAN, INFINITY}, {-INFINITY, 1e300}}, float64)});
  CHECK(size(odd).first > 100);
  odd.panels[0].values.fill_(NAN);
  odd.shades = Shades::diverging;
  CHECK(size(odd).first > 100);
  CHECK(!scratch.has("harm"));
  CHECK(scratch.files() == 0);
}

TEST_CASE("points take any text as their label, and images need no numbers", "[pictures]") {
  const TemporaryFolder scratch;
  const std::vector<std::string> tokens = nasty(scratch / "harm");
  Series series{.name = "", .points = {}, .labels = tokens};
  for (size_t i = 0; i < tokens.size(); ++i) series.points.emplace_back(i % 5, i);
  const auto drawn = [&](const auto& picture) {
    CHECK(draw_picture(picture) == "");
    return read_file(picture.path);
  };
  Picture picture{scratch / "a.png", "", "", "", {series}, false, true};
  const std::string with = drawn(picture);
  picture.series[0].labels.clear();
  CHECK(drawn(picture) != with);
  HeatMap map = heat_map(scratch / "a.png", "", {"", ones({4, 4})});
  const std::string numbered = drawn(map);
  map.numbered = false;
  CHECK(drawn(map) != numbered);
  CHECK(!scratch.has("harm"));
}

TEST_CASE("pictures are drawn into their own folder, whatever its name", "[pictures]") {
  const TemporaryFolder scratch;
  for (const char* name : {"a b", "a\nb", "it's", "a\"b`c\\n"}) {
    CAPTURE(name);
    std::filesystem::create_directory(scratch / name);
    CHECK(draw_picture(Picture{
              scratch / (name + std::string("/x.png")), "", "", "", {{"s", {{0, 1}}}}}) == "");
    CHECK(std::filesystem::file_size(scratch / (name + std::string("/x.png"))) > 0);
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(scratch / name))
      files += entry.path().filename() == "x.png" ? 1 : 100;
    CHECK(files == 1);
  }
}

TEST_CASE("pictures that cannot be drawn are written as tables", "[pictures]") {
  const TemporaryFolder scratch;
  const HeatMap map = heat_map(scratch / "map.png", "", {"", ones({2, 2})});
  const Picture curve{scratch / "curve.png", "", "", "", {{"a", {{0, 1}, {1, 2}}}}};
  {
    const WithoutPath no_gnuplot;
    CHECK_THAT(draw_or_write(map), StartsWith(scratch / "map.csv") && Contains("gnuplot"));
    CHECK_THAT(draw_or_write(curve), StartsWith(scratch / "curve.csv") && Contains("gnuplot"));
  }
  CHECK(read_file(scratch / "map.csv") == ",0,1\n0,1,1\n1,1,1\n");
  CHECK(scratch.files() == 2);
  CHECK(draw_or_write(map) == scratch / "map.png");
  CHECK(draw_or_write(curve) == scratch / "curve.png");
  const HeatMap huge = heat_map(scratch / "huge.png", "", {"", ones({1, 20000})});
  CHECK_THAT(draw_or_write(huge), StartsWith(scratch / "huge.csv") && Contains("too large"));
  CHECK_THROWS_AS(draw_or_write(heat_map("/proc/nowhere/a.png", "", {"", ones({2, 2})})), Error);

  // These pictures cannot be drawn although gnuplot is installed.
  std::filesystem::create_directories(scratch / "folder.png/x");
  CHECK_THAT(draw_picture(heat_map(scratch / "folder.png", "", {"", ones({2, 2})})),
             Contains("cannot write " + (scratch / "folder.png")));
  CHECK_THROWS_WITH(draw_picture(HeatMap{}), Contains("heat map: expected panels"));
  HeatMap no_scale = map;
  no_scale.largest = 0;
  CHECK_THROWS_WITH(draw_picture(no_scale), Contains("largest number > 0, got 0"));
  CHECK_THROWS_WITH(draw_picture(heat_map("", "", {"", ones({2})})), Contains("matrix"));
  CHECK_THROWS_WITH(draw_picture(heat_map("", "", {"", ones({2, 0})})), Contains("empty"));
  CHECK_THROWS_WITH(draw_picture(heat_map("", "", {"", ones({2, 2}), {"a"}})),
                    Contains("1 names for 2 rows"));
  CHECK_THROWS_WITH(alignment("", "", ones({2, 3}), {"a", "b"}, {"c", "d"}),
                    Contains("2 names for 3 columns"));
  CHECK_THROWS_WITH(attention_grid("", "", ones({2, 3}), {}, {}),
                    Contains("(layers, heads, Tq, Tk)"));
}

TEST_CASE("curves and clouds: strokes, colours, marks, ground", "[pictures]") {
  const TemporaryFolder scratch;
  const std::string path = scratch / "a.png";
  const Rgb magenta{255, 0, 255};
  Picture picture{"", "", "", "", {{"s", {{0, 1}, {1, 2}, {2, 1}}}}};
  Series& s = picture.series[0];
  s.colour = "#ff00ff";
  for (double x = 3; x < 50; ++x) s.points.emplace_back(x, x);  // too many for marks
  const int64_t solid = find(picture, path, magenta).count;
  s.stroke = Stroke::dashed;
  const int64_t dashed = find(picture, path, magenta).count;
  s.stroke = Stroke::faint;
  const int64_t faint = find(picture, path, magenta).count;
  CHECK(dashed < solid);
  CHECK(faint < dashed);
  CHECK(dashed > solid / 3);
  s.colour = "";
  CHECK(find(picture, path, magenta).count == 0);

  picture.clouds = true;
  picture.series = {{"s", {{1, 1}, {2, 3}}, Stroke::solid, "#ff00ff"}};
  std::map<std::string, std::string> drawings;  // by their bytes
  for (const char* mark : {"circle", "square", "triangle", "diamond", "cross", "7", "8"}) {
    picture.series[0].mark = mark;
    INFO(mark);
    CHECK(find(picture, path, magenta).count > 5);
    drawings[read_file(path)] = mark;
  }
  CHECK(drawings.size() == 7);
  CHECK(pixel(models::read_png(path), 3, 3) == Rgb{255, 255, 255});
  picture.ground = "#102030";
  CHECK(find(picture, path, magenta).count > 5);
  CHECK(pixel(models::read_png(path), 3, 3) == Rgb{16, 32, 48});
}

TEST_CASE("curves: equal ratios take equal lengths of a logarithmic axis", "[pictures]") {
  const TemporaryFolder scratch;
  for (const double high : {100.0, 1e6}) {  // with and without labels at 2 and 5
    Picture picture{"", "", "", "", {}, true, true};
    picture.series = {{"low", {{1, 1}, {1.5, 1}, {2, 1}, {3, -1}}, Stroke::solid, "#ff0000"},
                      {"middle", {{1, std::sqrt(high)}}, Stroke::solid, "#00ff00"},
                      {"high", {{1, high}}, Stroke::solid, "#0000ff"}};
    // Marks at the left; the legend is at the right.
    const auto row = [&](const Rgb& colour) {
      REQUIRE(find(picture, scratch / "a.png", colour).count > 0);
      const models::ImageBytes image = models::read_png(scratch / "a.png");
      return find(
                 image, [&](const Rgb& rgb) { return rgb == colour; }, 0, image.width * 3 / 4, 0,
                 image.height)
          .row;
    };
    const auto uneven = [&] {
      const double low = row({255, 0, 0}), middle = row({0, 255, 0}), top = row({0, 0, 255});
      CHECK(low > top + 300);
      return std::abs((low + top) / 2 - middle);
    };
    CHECK(uneven() < 2);
    picture.log_y = false;
    picture.series[0].points.pop_back();
    CHECK(uneven() > 100);
  }
}

TEST_CASE("tiles: images in their places, words under and above the right ones", "[pictures]") {
  const TemporaryFolder scratch;
  Tiles tiles{.path = scratch / "tiles.png", .images = zeros({3, 3, 4, 5}), .across = 2};
  for (int64_t i = 0; i < 3; ++i) tiles.images[i][i].fill_(1);  // red, green, blue
  const auto drawn = [&] {
    CHECK(draw_or_write(tiles) == tiles.path);
    return models::read_png(tiles.path);
  };
  const auto check_images = [&](const models::ImageBytes& image, const TileLayout& l) {
    CHECK(image.width == l.width);
    CHECK(image.height == l.height);
    for (int64_t i = 0; i < 3; ++i) {
      Rgb colour{};
      colour[size_t(i)] = 255;
      for (const int64_t x : {int64_t{2}, l.image_width - 3})
        for (const int64_t y : {int64_t{2}, l.image_height - 3})
          CHECK(pixel(image, l.left(i) + x, l.top(i) + y) == colour);
      CHECK(pixel(image, l.left(i) + l.image_width + 2, l.top(i) + 2) == Rgb{255, 255, 255});
    }
    CHECK(l.top(2) > l.top(0) + l.image_height);
  };
  // Dark pixels between the images i and those below them, `line` lines down.
  const auto words = [&](const models::ImageBytes& image, int64_t i, int64_t line) {
    const TileLayout l = layout_of(tiles);
    const int64_t top = l.top(i) + l.image_height + 1 + line * l.line, middle = l.left(i);
    return find(image, is_dark, middle, middle + l.image_width, top, top + l.line - 2).count;
  };
  const TileLayout plain = layout_of(tiles);
  CHECK(plain.image_width == 5 * 24);
  check_images(drawn(), plain);

  tiles.lines = {{"is", {"ab", "", "ab"}}, {"", {"", std::string(400, 'x'), "é%d"}}};
  const models::ImageBytes told = drawn();
  const TileLayout l = layout_of(tiles);
  check_images(told, l);
  const std::vector<std::vector<bool>> expected{{true, false}, {false, true}, {true, true}};
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t line = 0; line < 2; ++line)
      CHECK((words(told, i, line) > 5) == expected[size_t(i)][size_t(line)]);
  CHECK(find(told, is_dark, 0, l.names + 1, l.top(2) + l.image_height, l.height).count > 5);
  CHECK(find(told, is_dark, 0, l.width, 0, l.first_top).count == 0);

  tiles.headings = {"", "two"};
  tiles.title = "title";
  const models::ImageBytes headed = drawn();
  const TileLayout h = layout_of(tiles);
  check_images(headed, h);
  const auto above = [&](int64_t i) {
    return find(headed, is_dark, h.left(i), h.left(i) + h.image_width, h.first_top - h.line,
                h.first_top)
        .count;
  };
  CHECK(above(0) == 0);
  CHECK(above(1) > 5);
  CHECK(find(headed, is_dark, 0, h.width, 0, 2 * h.line).count > 5);
}

TEST_CASE("tiles: grey images, images without gnuplot, bad tiles", "[pictures]") {
  const TemporaryFolder scratch;
  Tiles tiles{.path = scratch / "tiles.png", .images = full({1, 1, 2, 2}, 0.2), .across = 3};
  CHECK(draw_or_write(tiles) == tiles.path);
  const TileLayout l = layout_of(tiles);
  CHECK(pixel(models::read_png(tiles.path), l.left(0) + 9, l.top(0) + 9) == Rgb{51, 51, 51});
  tiles.lines = {{"is", {"grey"}}};
  {
    const WithoutPath no_gnuplot;
    CHECK_THAT(draw_or_write(tiles), StartsWith(tiles.path + " without words (gnuplot"));
  }
  CHECK(models::read_png(tiles.path) == models::image_grid(tiles.images, 3, 48));

  const auto refused = [](Tiles bad, const std::string& why) {
    CHECK_THROWS_WITH(draw_or_write(bad), Contains(why));
  };
  refused({}, "expected images (N, 1 or 3, H, W)");
  refused({.images = ones({2, 2, 5, 5})}, "got (2, 2, 5, 5)");
  refused({.images = ones({0, 3, 5, 5})}, "got (0, 3, 5, 5)");
  refused({.images = ones({1, 3, 5, 5}), .across = 0}, "across > 0, got 0");
  refused({.images = ones({1, 3, 5, 5}), .across = 2, .headings = {"a"}}, "1 headings for 2");
  refused({.images = ones({2, 3, 5, 5}), .lines = {{"is", {"a"}}}}, "1 texts for 2 images");
  CHECK(scratch.files() == 1);
}

TEST_CASE("tiles: room for the texts as they are drawn, with what is invisible spelt out",
          "[pictures]") {
  const std::string raw = "\xe2\x80\x8b\xff", drawn = "<U+200B><FF>";
  const auto widths = [](const std::string& text) {
    const Tensor images = zeros({1, 1, 100, 9});
    std::vector<int64_t> all;
    for (const Tiles& tiles : {Tiles{.images = images, .headings = {text}},
                               Tiles{.images = images, .lines = {{"is", {text}}}},
                               Tiles{.images = images, .lines = {{text, {"a"}}}},
                               Tiles{.title = text + text, .images = images}}) {
      const TileLayout l = layout_of(tiles);
      all.insert(all.end(), {l.most, l.names, l.width});
    }
    return all;
  };
  CHECK(widths(raw) == widths(drawn));
  CHECK(widths(raw) != widths("ab"));
}

TEST_CASE("an attention page holds its weights, and tokens only as text", "[pictures]") {
  const std::vector<std::string> tokens = nasty("/nowhere/harm");
  const int64_t n = std::ssize(tokens);
  Tensor weights = zeros({2, 3, 2, n});
  weights[1][2][1].slice(0, 4, 5).fill_(0.98765);
  weights[1][2][1].slice(0, 5, 6).fill_(NAN);
  const std::string page =
      attention_page("A </title> & <b>", {{"self", tokens, tokens, ones({1, 1, n, n})},
                                          {"cross </script>", {"a", "b"}, tokens, weights}});
  // The page has only its own two scripts, none from a token or from elsewhere.
  CHECK(count(page, "<script") == 2);
  CHECK(count(page, "</script") == 2);
  CHECK(count(page, "<!--") == 0);
  CHECK(count(page, "A &lt;/title> &amp; &lt;b>") == 2);
  CHECK_THAT(page, !Contains("http:") && !Contains("https:") && !Contains("src=") &&
                       Contains("default-src 'none'"));

  const std::string mark = "id=\"data\">";
  const size_t begin = page.find(mark) + mark.size();
  const auto data = nlohmann::json::parse(page.substr(begin, page.find("</script", begin) - begin));
  REQUIRE(data.size() == 2);
  CHECK(data[1]["name"] == "cross </script>");
  for (size_t i = 0; i < tokens.size(); ++i) CHECK(data[1]["keys"][i] == visible(tokens[i]));
  CHECK(data[1]["queries"].size() == 2);
  CHECK(data[0]["weights"][0][0].size() == static_cast<size_t>(n * n));
  const auto& head = data[1]["weights"][1][2];
  CHECK(head.size() == static_cast<size_t>(2 * n));
  CHECK(head[static_cast<size_t>(n + 4)] == 988);
  CHECK(head[static_cast<size_t>(n + 5)].is_null());
  CHECK(head[static_cast<size_t>(n + 6)] == 0);

  const auto refused = [](const AttentionGroup& group) { attention_page("", {group}); };
  CHECK_THROWS_WITH(attention_page("", {}), Contains("at least one group"));
  CHECK_THROWS_WITH(refused({"x", {"a"}, {"b"}, ones({1, 1, 2, 1})}),
                    Contains("1 query and 1 key tokens"));
  CHECK_THROWS_WITH(refused({"x", {"a"}, {"b"}, ones({1, 1})}),
                    Contains("(layers, heads, Tq, Tk)"));
  CHECK_THROWS_WITH(refused({"x", {"a"}, {"b"}, full({1, 1, 1, 1}, 1.5)}),
                    Contains("from 0 to 1, got 1.5"));
  CHECK_THROWS_WITH(refused({"x", {"a"}, {"b"}, full({1, 1, 1, 1}, INFINITY)}),
                    Contains("from 0 to 1"));
}

TEST_CASE("the layers of a trace are stacked into one tensor", "[pictures]") {
  manual_seed(2);
  const Tensor a = rand({2, 3, 4, 5}), b = rand({2, 3, 4, 5});
  const Tensor both = stacked_layers({a, b}, 1);
  CHECK(both.shape() == Shape{2, 3, 4, 5});
  CHECK(values(both[0]) == values(a[1]));
  CHECK(values(both[1]) == values(b[1]));
  CHECK_THROWS_AS(stacked_layers({}), Error);
  CHECK_THROWS_AS(stacked_layers({a}, 2), Error);
  CHECK_THROWS_AS(stacked_layers({a, rand({2, 1, 4, 5})}), Error);
}

TEST_CASE("a picture of earlier mistakes that cannot be removed is an error", "[pictures]") {
  const TemporaryFolder scratch;
  std::filesystem::create_directories(scratch / "mistakes.png/full");
  const models::ImageData data = models::draw_shapes(0, 4).images;
  const Tensor labels = data.range(0, 4).labels;
  CHECK_THROWS_WITH(show_mistakes(scratch.path.string(), data,
                                  {one_hot(labels, data.classes(), float32), labels}),
                    Contains("cannot remove " + (scratch / "mistakes.png")));
}

}  // namespace pictures_test
