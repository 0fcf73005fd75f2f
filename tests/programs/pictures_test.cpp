// Pictures and pages: how tokens are shown, that no token breaks them, and their data as tables.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "examples/pictures/attention_page.h"
#include "examples/pictures/plot.h"
#include "gradus/core/files/file.h"
#include "tests/support/compare.h"
#include "tests/support/temporary_folder.h"

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
  CHECK(size(alignment("", "", softmax(randn({2, n})), tokens, {"a", "b"})).first > 600);
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
  Series series{"", {}, tokens};
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
