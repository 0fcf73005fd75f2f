#include "examples/pictures/plot.h"

#include <gnuplot-iostream.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "examples/support/text.h"
#include "gradus/core/files/file.h"
#include "gradus/models/data/images/images.h"

namespace gradus {
namespace {

/// A string for gnuplot's commands, in single quotes, which disable all escapes. A quote and a line
/// break become separate strings: gnuplot misreads some doubled quotes, and a command is one line.
std::string in_quotes(const std::string& text) {
  std::string result = "'";
  for (const char c : text)
    result += c == '\'' ? "'.\"'\".'" : c == '\n' ? "'.\"\\n\".'" : std::string(1, c);
  return result + "'";
}

/// Quotes a text for gnuplot, as one line of valid UTF-8.
std::string printed(const std::string& text) { return in_quotes(visible(text, false)); }

/// The text as label() draws it; if it is wider than `most` columns, shortened and ended by "…".
std::string fitted(const std::string& whole, int64_t most) {
  std::string text = visible(whole, false);
  if (columns_of(text) <= most) return text;
  while (!text.empty() && columns_of(text) >= most) {
    while ((text.back() & 0xc0) == 0x80) text.pop_back();  // continuation bytes
    text.pop_back();
  }
  return text + "…";
}

/// A label on an axis, where gnuplot reads % as printf does. Leading and trailing spaces are made
/// visible.
std::string tic_name(const std::string& token, int64_t most) {
  const size_t begin = token.find_first_not_of(' '), end = token.find_last_not_of(' ') + 1;
  const auto marks = [](size_t n) { return n == 0 ? "" : visible(std::string(n, ' ')); };
  std::string name = begin == std::string::npos
                         ? visible(token)
                         : marks(begin) + visible(token.substr(begin, end - begin), false) +
                               marks(token.size() - end);
  std::string result;
  for (const char c : fitted(name, most)) result += c == '%' ? "%%" : std::string(1, c);
  return in_quotes(result);
}

/// The gnuplot commands that open a picture of this size.
std::string opening(const std::string& path, int64_t width, int64_t height, int font) {
  const std::string size = std::to_string(width) + ',' + std::to_string(height);
  return "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) set terminal pngcairo noenhanced size " + size +
         " font 'sans," + std::to_string(font) + "'; else set terminal png noenhanced size " +
         size + "\nset output " + in_quotes(path) + '\n';
}

// ---- curves ----

/// The commands for a logarithmic y axis that ends at the smallest and the largest value. If they
/// lie less than three powers of ten apart, 2 and 5 times these are labelled too.
std::string log_axis(const Picture& picture) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const Series& s : picture.series)
    for (const auto& [x, y] : s.points)
      if (y > 0 && std::isfinite(y)) low = std::min(low, y), high = std::max(high, y);
  if (high == 0) return "";
  const double margin = 1.05 * std::pow(high / low, 0.03);
  char range[80];
  std::snprintf(range, sizeof range, "set yrange [%.9g:%.9g]\n", low / margin, high * margin);
  const std::string exponents = std::to_string(static_cast<int>(std::floor(std::log10(low)))) +
                                ':' + std::to_string(static_cast<int>(std::log10(high)) + 1);
  return "set logscale y\nset format y '%g'\nset offsets\n" + std::string(range) +
         (high < 1000 * low ? "set ytics 10\nset for [e=" + exponents +
                                  "] ytics add (sprintf('%g', 2 * 10.0**e) 2 * 10.0**e, "
                                  "sprintf('%g', 5 * 10.0**e) 5 * 10.0**e)\n"
                            : "");
}

/// gnuplot's style of a cloud of points or a line.
std::string style_of(const Series& s, bool cloud, size_t index) {
  if (cloud) {
    static const std::map<std::string, std::string> marks{
        {"circle", "7"}, {"square", "5"}, {"triangle", "9"}, {"diamond", "13"}, {"cross", "1"}};
    const char* in_turn[] = {"7", "5", "9", "13"};
    std::string type = in_turn[index / 10 % std::size(in_turn)];
    if (const auto known = marks.find(s.mark); known != marks.end())
      type = known->second;
    else if (!s.mark.empty())
      type = printed(s.mark);
    const char* size = s.mark == "cross" ? "1.5" : "0.9";  // a cross is thin
    return "points linewidth 2.5 pointsize " + std::string(size) + " pointtype " + type;
  }
  if (s.stroke == Stroke::faint) return "lines linewidth 1";
  const bool dashed = s.stroke == Stroke::dashed;
  const std::string style = dashed ? "linewidth 2.5 dashtype '-'" : "linewidth 2.5";
  if (s.points.size() > 40) return "lines " + style;
  // An open square remains visible around a circle.
  return "linespoints " + style + " pointtype " + (dashed ? "4 pointsize 1.7" : "7 pointsize 1");
}

void send(const Picture& picture, const std::string& path, Gnuplot& gnuplot) {
  gnuplot << opening(path, 1200, 750, 15) << "set title " << printed(picture.title)
          << "\nset xlabel " << printed(picture.x_label) << "\nset ylabel "
          << printed(picture.y_label)
          << "\nset grid linetype 1 linewidth 1 linecolor rgb '#dddddd'\n"
             "set border 3 linewidth 1.2 linecolor rgb '#444444'\n"
             "set tics nomirror\nset rmargin 5\n"
             "set key outside top center horizontal samplen 3\n"
             "set offsets graph 0, 0, 0.03, 0.03\n";
  if (picture.log_y) gnuplot << log_axis(picture);
  if (picture.clouds)
    gnuplot << "set key outside right top vertical samplen 1 spacing 1.1 font ',11'\n"
               "set border 15\nunset grid\nunset rmargin\n";
  for (const Series& s : picture.series)
    for (size_t i = 0; i < s.labels.size(); ++i)
      gnuplot << "set label " << printed(s.labels[i]) << " at " << s.points[i].first << ','
              << s.points[i].second << " offset 0.5,0.2 font ',12'\n";
  if (!picture.ground.empty())
    gnuplot << "set object 1 rectangle from screen 0,0 to screen 1,1 behind fillcolor rgb "
            << in_quotes(picture.ground) << " fillstyle solid noborder\n";
  const char* colours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e",
                           "#17becf", "#e377c2", "#8c564b", "#bcbd22", "#444444"};
  for (size_t i = 0; i < picture.series.size(); ++i) {
    const Series& s = picture.series[i];
    gnuplot << (i ? ", " : "plot ") << "'-' with " << style_of(s, picture.clouds, i)
            << " linecolor rgb "
            << in_quotes(s.colour.empty() ? colours[i % std::size(colours)] : s.colour) << " title "
            << printed(s.name);
  }
  gnuplot << "\n";
  for (const Series& s : picture.series) gnuplot.send1d(s.points);
}

// ---- matrices ----

/// The layout of a heat map, in pixels from the upper left corner.
struct Layout : Canvas {
  int64_t rows = 0, columns = 0;  // of the largest panel
  bool shared = true;             // all panels have the same names: only the outer ones show them
  int font = 11, line = 20;
  int64_t most = 44;                                 // maximum characters per name
  int64_t cell = 1, step_right = 0, step_down = 0;   // pixels per value; from panel to panel
  int64_t left = 0, right = 0, top = 0, bottom = 0;  // edges around all panels
  int64_t column_names = 0, bar = 0;                 // heights of the names and the colour scale
};

Layout layout_of(const HeatMap& map) {
  Layout l;
  const Panel& first = map.panels[0];
  const int64_t count = std::ssize(map.panels), across = std::min(map.across, count);
  if (count > 1) l.font = 9, l.line = 17, l.most = 14;
  int64_t beside = 4, under = 2;  // lengths of the longest names, at least those of indices
  for (const Panel& panel : map.panels) {
    l.rows = std::max(l.rows, panel.values.size(0));
    l.columns = std::max(l.columns, panel.values.size(1));
    l.shared = l.shared && panel.rows == first.rows && panel.columns == first.columns &&
               panel.values.shape() == first.values.shape();
    for (const std::string& name : panel.rows) beside = std::max(beside, columns_of(visible(name)));
    for (const std::string& name : panel.columns)
      under = std::max(under, columns_of(visible(name)));
  }
  // The picture's size is about 900 pixels for one panel, 1500 for several; a value takes 1 to 44.
  const int64_t longest = std::max(l.rows, l.columns);
  const int64_t side = count == 1 ? 900 : std::clamp<int64_t>(1500 / across, 130, 450);
  l.cell = std::clamp<int64_t>(side / longest, 1, count == 1 ? 44 : 30);
  if (longest * l.cell < 130) l.cell = (129 + longest) / longest;

  const double letter = 0.92 * l.font;  // pixels per character, an upper estimate
  const auto pixels = [&](int64_t n) {
    return 14 + static_cast<int64_t>(letter * static_cast<double>(std::min(n, l.most)));
  };
  const int64_t row_names = pixels(beside);
  l.column_names = first.columns.empty() ? l.line + 6 : pixels(under);
  const int64_t gap = l.shared ? 14 : row_names, titled = l.line + 6;
  l.step_right = l.columns * l.cell + gap;
  l.step_down = l.rows * l.cell + titled + (l.shared ? 4 : l.column_names);
  const int64_t down = (count + across - 1) / across;
  l.left = 12 + row_names + (map.y_label.empty() ? 0 : l.line + 6);
  const int64_t x_label = map.x_label.empty() ? 0 : l.line;
  l.top = (map.title.empty() ? 10 : 2 * l.line + 4) +
          (map.names_on_top ? l.column_names + x_label + 4 : titled);
  l.bottom = l.top + (down - 1) * l.step_down + l.rows * l.cell;
  l.bar = std::clamp<int64_t>(l.bottom - l.top, 110, 320);
  l.right = l.left + across * l.step_right - gap;
  const double title = letter * static_cast<double>(columns_of(visible(map.title, false)));
  l.width = std::max(l.right + 110, static_cast<int64_t>(title) + 30);  // with the colour scale
  l.height = std::max(l.bottom + 12 + (map.names_on_top ? 0 : l.column_names + x_label),
                      l.top + l.bar + 16);
  return l;
}

/// The command that labels an axis with as many names as fit.
std::string tics(const char* axis, const std::vector<std::string>& names, bool shown,
                 const Layout& l) {
  if (!shown) return "unset " + std::string(axis) + '\n';
  if (names.empty()) {
    int64_t apart = 1;  // 1, 2, 5, 10, 20, ... so that the labels fit
    for (int64_t i = 0; apart * l.cell < 4 * l.font; ++i) apart = apart * (i % 3 == 1 ? 5 : 4) / 2;
    return "set " + std::string(axis) + " scale 0.4 norotate textcolor rgb '#222222' 0," +
           std::to_string(apart) + '\n';
  }
  std::string text = "set " + std::string(axis) + " textcolor rgb '#222222' (";
  const int64_t step = (l.line - 4 + l.cell) / l.cell;
  for (int64_t i = 0; i < std::ssize(names); i += std::max<int64_t>(step, 1))
    text +=
        (i ? ", " : "") + tic_name(names[static_cast<size_t>(i)], l.most) + ' ' + std::to_string(i);
  return text + ") scale 0" + (axis[0] == 'y' ? "" : " rotate by 90") +
         (axis == std::string("xtics") ? " right" : "") + '\n';
}

/// Values as gnuplot's matrix. gnuplot draws no image of a single row or column, so such a row or
/// column is sent twice, the second time outside the axes.
void send_matrix(const Tensor& values, Gnuplot& gnuplot) {
  const int64_t rows = values.size(0), columns = values.size(1);
  const std::vector<double> numbers = values.to_vector<double>();
  std::string text;
  for (int64_t i = 0; i < std::max<int64_t>(rows, 2); ++i) {
    for (int64_t j = 0; j < std::max<int64_t>(columns, 2); ++j) {
      const int64_t at = std::min(i, rows - 1) * columns + std::min(j, columns - 1);
      const double x = numbers[static_cast<size_t>(at)];
      char number[40];
      std::snprintf(number, sizeof number, "%.5g ", x);
      text += std::isfinite(x) ? number : "nan ";
    }
    text += '\n';
  }
  gnuplot << text << "e\n";
}

/// The command that writes a text at (x, y), in pixels from the upper left corner.
std::string label(const std::string& text, double x, double y, const Canvas& l,
                  const char* how = "center") {
  if (text.empty()) return "";
  return "set label " + printed(text) + " at screen " +
         std::to_string(x / static_cast<double>(l.width)) + ',' +
         std::to_string(1 - y / static_cast<double>(l.height)) + ' ' + how + '\n';
}

/// Sends panel i with its names and axes.
void send_panel(const HeatMap& map, size_t i, const Layout& l, Gnuplot& gnuplot) {
  const Panel& panel = map.panels[i];
  const int64_t index = static_cast<int64_t>(i), across = map.across;
  const int64_t x = l.left + index % across * l.step_right,
                y = l.top + index / across * l.step_down;
  const int64_t rows = panel.values.size(0), columns = panel.values.size(1);
  const auto right = [&](int64_t p) { return std::to_string(double(p) / double(l.width)); };
  const auto up = [&](int64_t p) { return std::to_string(1 - double(p) / double(l.height)); };
  const bool bottom = i + static_cast<size_t>(across) >= map.panels.size();
  const bool named_left = !l.shared || index % across == 0;
  const bool named = !l.shared || (map.names_on_top ? index < across : bottom);
  const auto bare = [&](const auto& names) { return names.empty() && !map.numbered; };
  const std::string x_range = " [-0.5:" + std::to_string(columns - 1) + ".5]\n";
  gnuplot << "set lmargin at screen " << right(x) << "\nset rmargin at screen "
          << right(x + columns * l.cell) << "\nset tmargin at screen " << up(y)
          << "\nset bmargin at screen " << up(y + rows * l.cell) << "\nset xrange" << x_range
          << "set x2range" << x_range << "set yrange [" << rows - 1 << ".5:-0.5]\n"
          << tics("xtics", panel.columns, named && !map.names_on_top && !bare(panel.columns), l)
          << tics("x2tics", panel.columns, named && map.names_on_top, l)
          << tics("ytics", panel.rows, named_left && !bare(panel.rows), l);
  const int64_t above = map.names_on_top && named ? 0 : l.line / 2 + 2;
  if (above)
    gnuplot << label(panel.title, double(x) + double(columns * l.cell) / 2, double(y - above), l);
  gnuplot << "plot '-' matrix with image notitle\n";
  send_matrix(panel.values, gnuplot);
  gnuplot << "unset label\nunset colorbox\n";
}

/// The largest magnitude of all finite values.
double largest_magnitude(const HeatMap& map) {
  double largest = 0;
  for (const Panel& panel : map.panels)
    for (const double x : panel.values.to_vector<double>())
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  return largest > 0 ? largest : 1;
}

void send(const HeatMap& map, const std::string& path, Gnuplot& gnuplot) {
  const Layout l = layout_of(map);
  const bool grey = map.shades == Shades::grey;
  const double largest = map.largest.value_or(grey ? 1 : largest_magnitude(map));
  const double w = static_cast<double>(l.width), h = static_cast<double>(l.height);
  gnuplot << opening(path, l.width, l.height, l.font)
          << "set multiplot\nset border linewidth 0.8 linecolor rgb '#555555'\n"
             "set tics nomirror\n"
          << "set cbrange [" << (grey ? 0 : -largest) << ':' << largest << "]\nset palette defined "
          << (grey ? "(0 'white', 1 'black')"
                   : "(-2 '#2166ac', -1 '#92c5de', 0 '#ffffff', 1 '#f4a582', 2 '#b2182b')")
          << "\nset colorbox user origin " << double(l.right + 24) / w << ','
          << 1 - double(l.top + l.bar) / h << " size " << 16 / w << ','
          << double(l.bar) / h
          // NaN shows this background.
          << "\nset object 1 rectangle from graph 0,0 to graph 1,1 behind fillcolor rgb '#f6e7a8' "
             "fillstyle solid noborder\n"
          << label(map.title, w / 2, l.line, l)
          << label(map.x_label, double(l.left + l.right) / 2,
                   map.names_on_top ? double(l.top - l.column_names) - 0.6 * l.line
                                    : double(l.bottom + l.column_names) + 0.6 * l.line,
                   l)
          << label(map.y_label, l.line, double(l.top + l.bottom) / 2, l, "center rotate by 90");
  for (size_t i = 0; i < map.panels.size(); ++i) send_panel(map, i, l, gnuplot);
  gnuplot << "unset multiplot\n";
}

// ---- images ----

/// Sends an image's pixels, red, green and blue of each, magnified.
void send_pixels(const Tensor& image, int64_t scale, Gnuplot& gnuplot) {
  const models::ImageBytes bytes = models::image_grid(image, 1, scale);
  const size_t plane = bytes.bytes.size() / static_cast<size_t>(bytes.channels);
  for (size_t i = 0; i < plane; ++i)
    for (size_t c = 0; c < 3; ++c)
      gnuplot.put(static_cast<char>(bytes.bytes[bytes.channels == 3 ? c * plane + i : i]));
}

void send(const Tiles& tiles, const std::string& path, Gnuplot& gnuplot) {
  const TileLayout l = layout_of(tiles);
  const int64_t n = tiles.images.size(0);
  gnuplot << opening(path, l.width, l.height, l.font)
          << "unset border\nunset tics\nunset key\nset lmargin at screen 0\nset rmargin at screen "
             "1\nset tmargin at screen 1\nset bmargin at screen 0\nset xrange [-0.5:"
          << l.width - 1 << ".5]\nset yrange [" << l.height - 1 << ".5:-0.5]\n"
          << label(tiles.title, double(l.width) / 2, double(l.line), l);
  const auto middle = [&](int64_t i) { return double(l.left(i) + l.image_width / 2); };
  for (int64_t i = 0; i < std::min(std::ssize(tiles.headings), n); ++i)
    gnuplot << label(fitted(tiles.headings[static_cast<size_t>(i)], l.most), middle(i),
                     double(l.first_top) - 0.6 * double(l.line), l);
  for (int64_t i = 0; i < n; ++i) {
    double y = double(l.top(i) + l.image_height) + 0.6 * double(l.line);
    for (const TileLine& line : tiles.lines) {
      if (i % l.across == 0) gnuplot << label(line.name, double(l.names), y, l, "right");
      gnuplot << label(fitted(line.texts[static_cast<size_t>(i)], l.most), middle(i), y, l);
      y += double(l.line);
    }
  }
  for (int64_t i = 0; i < n; ++i)
    gnuplot << (i ? ", " : "plot ") << "'-' binary array=(" << l.image_width << ','
            << l.image_height << ") format='%uchar' origin=(" << l.left(i) << ',' << l.top(i)
            << ") with rgbimage";
  gnuplot << '\n';
  for (int64_t i = 0; i < n; ++i) send_pixels(tiles.images.slice(0, i, i + 1), l.scale, gnuplot);
}

// ---- all ----

/// Sends the commands to gnuplot, which runs at low priority and, like the shell that waits for it,
/// survives Ctrl-C and a closed terminal. If it fails, its partial output is removed.
template <class Drawing>
void draw(const Drawing& drawing, const std::string& path) {
  Gnuplot gnuplot("trap '' HUP INT TERM; (nice gnuplot || rm -f " + in_shell(path) +
                  ") >/dev/null 2>&1 || true");
  send(drawing, path, gnuplot);
  gnuplot << "set output\n";
}

template <class Drawing>
std::string draw_beside(const Drawing& drawing) {
  const std::string beside = drawing.path + ".tmp";
  if (!std::ofstream(beside)) return "cannot write " + beside;

  // If gnuplot ends early, writing to it must fail rather than end the process.
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  draw(drawing, beside);
  const timespec at_once{};
  while (sigtimedwait(&pipe, nullptr, &at_once) == SIGPIPE) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);

  std::error_code error;
  const auto size = std::filesystem::file_size(beside, error);
  const bool drawn = !error && size > 0;
  if (drawn) std::filesystem::rename(beside, drawing.path, error);
  if (drawn && !error) return "";
  const std::string why = drawn ? "cannot write " + drawing.path + ": " + error.message()
                                : "gnuplot could not draw " + drawing.path + " (is it installed?)";
  std::filesystem::remove(beside, error);
  return why;
}

template <class Drawing>
std::string draw_or_write_csv(const Drawing& drawing) {
  const std::string why = draw_picture(drawing);
  if (why.empty()) return drawing.path;
  const std::string csv = std::filesystem::path(drawing.path).replace_extension(".csv").string();
  write_csv(csv, drawing);
  return csv + " (" + why + ")";
}

}  // namespace

std::string draw_picture(const Picture& picture) {
  for (const Series& s : picture.series)
    if (s.points.empty()) return "there is nothing to draw for " + s.name;
  return draw_beside(picture);
}

std::string draw_picture(const HeatMap& map) {
  check_heat_map(map);
  const Layout l = layout_of(map);
  constexpr int64_t most = 16000;  // pixels in either direction
  if (l.width > most || l.height > most)
    return "a picture of " + std::to_string(l.width) + " x " + std::to_string(l.height) +
           " pixels is too large to draw";
  return draw_beside(map);
}

void write_csv(const std::string& path, const Picture& picture) {
  std::string text = "name,x,y\n";
  for (const Series& s : picture.series)
    for (const auto& [x, y] : s.points) {
      char numbers[80];
      std::snprintf(numbers, sizeof numbers, ",%.9g,%.9g\n", x, y);
      text += csv_field(visible(s.name, false)) + numbers;
    }
  write_file_atomically(path, text);
}

std::string draw_or_write(const Picture& picture) { return draw_or_write_csv(picture); }
std::string draw_or_write(const HeatMap& map) { return draw_or_write_csv(map); }
std::string draw_or_write(const Tiles& tiles) {
  check_tiles(tiles);
  const std::string why = draw_beside(tiles);
  if (why.empty()) return tiles.path;
  write_without_words(tiles);
  return tiles.path + " without words (" + why + ")";
}

// ---- in the background ----

void BackgroundPlot::start() {
  started_ = std::chrono::steady_clock::now();
  drawing_ = std::async(std::launch::async,
                        [picture = *std::exchange(next_, {})] { return draw_picture(picture); });
}

void BackgroundPlot::draw(Picture picture) {
  using namespace std::chrono_literals;
  next_ = std::move(picture);
  const bool first = !drawing_.valid();
  if (first || (drawing_.wait_for(0s) == std::future_status::ready &&
                std::chrono::steady_clock::now() - started_ >= 10s))
    start();
}

std::string BackgroundPlot::finish() {
  if (drawing_.valid()) drawing_.wait();
  if (next_) start();
  return drawing_.valid() ? drawing_.get() : "";
}

}  // namespace gradus
