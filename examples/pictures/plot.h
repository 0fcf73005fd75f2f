#pragma once
// Draws curves, heat maps and labelled images as PNG files. Only plot.cpp uses gnuplot.

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/pictures/heat_map.h"
#include "examples/pictures/tiles.h"

namespace gradus {

enum class Stroke {
  solid,
  dashed,  ///< for a curve that may coincide with a solid one
  faint    ///< thin
};

/// A curve or a cloud of points: its name in the legend, and its points (x, y).
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
  Stroke stroke = Stroke::solid;
  std::string colour = {};  ///< "#rrggbb"; default: the next of ten colours
  /// For a cloud: "circle", "square", "triangle", "diamond", "cross", or a character to draw at
  /// each point. Default, by position in Picture::series: a circle for the first ten, a square for
  /// the next ten, then a triangle, a diamond, and a circle again.
  std::string mark = {};
  std::vector<std::string> labels = {};  ///< texts beside the points: one per point, or none
};

/// A plot and the path of its PNG file.
struct Picture {
  std::string path, title, x_label, y_label;
  std::vector<Series> series;
  bool log_y = false;       ///< logarithmic y axis, without values <= 0; linear if all are <= 0
  bool clouds = false;      ///< draw points without lines, and the legend at the side
  std::string ground = {};  ///< "#rrggbb", the background; default: white
};

/// Draws the plot. Returns "" or, on failure, the reason, for example that gnuplot is not
/// installed. On failure an existing file is unchanged.
std::string draw_picture(const Picture& picture);
/// Draws the heat map. Returns "" or, on failure, the reason. Throws the errors of check_heat_map.
std::string draw_picture(const HeatMap& map);

/// Writes the points of the curves as a CSV file with columns name, x, y. Throws Error on failure.
void write_csv(const std::string& path, const Picture& picture);
/// Draws the picture. If that fails, writes its values to NAME.csv instead of NAME.png. Returns a
/// line to print: the file and, for a CSV file, why drawing failed. Throws the errors of
/// check_heat_map, and Error if both fail.
std::string draw_or_write(const Picture& picture);
std::string draw_or_write(const HeatMap& map);
/// Draws the images or, if that fails, writes them without text. Returns a line to print. Throws
/// the errors of check_tiles, and Error if both fail.
std::string draw_or_write(const Tiles& tiles);

/// Draws pictures in the background, one at a time and, until finish(), at most one every ten
/// seconds, so as not to slow down training.
class BackgroundPlot {
 public:
  /// Starts drawing the picture if none is being drawn and the last drawing started at least ten
  /// seconds ago. Otherwise keeps the picture for finish(), and the next call replaces it.
  void draw(Picture picture);
  /// Draws the picture that draw() has kept, if any, and waits until no drawing runs. Returns ""
  /// or, if the last drawing failed, the reason.
  std::string finish();

 private:
  void start();
  std::optional<Picture> next_;
  std::future<std::string> drawing_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace gradus
