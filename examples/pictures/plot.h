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

/// A curve or, with Picture::clouds, a cloud of points (x, y). The legend shows `name`.
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
  Stroke stroke = Stroke::solid;
  std::string colour = {};  ///< "#rrggbb"; default: the next of ten colours
  /// The symbol for the points of a cloud: "circle", "square", "triangle", "diamond", "cross", or a
  /// character. The default depends on the position in Picture::series: a circle for the first ten
  /// series, a square for the next ten, then a triangle, a diamond, and a circle again.
  std::string mark = {};
  std::vector<std::string> labels = {};  ///< texts beside the points: one per point, or none
};

/// A plot and the path of its PNG file.
struct Picture {
  std::string path, title, x_label, y_label;
  std::vector<Series> series;
  bool log_y = false;       ///< logarithmic y axis that omits values <= 0; linear if all are <= 0
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
/// line to print: the path of the file and, for a CSV file, the reason why drawing failed. Throws
/// the errors of check_heat_map, and Error if writing fails too.
std::string draw_or_write(const Picture& picture);
std::string draw_or_write(const HeatMap& map);
/// Draws the images with their text. If that fails, writes the images without text. Returns a line
/// to print: the path of the file and, if drawing failed, the reason. Throws the errors of
/// check_tiles, and Error if writing fails too.
std::string draw_or_write(const Tiles& tiles);

/// Draws pictures in the background, so that training does not wait. Draws one picture at a time
/// and, until finish(), starts at most one every ten seconds.
class BackgroundPlot {
 public:
  /// Discards the picture that an earlier call kept, if any. Starts drawing the new picture if none
  /// is being drawn and the last drawing started at least ten seconds ago. Otherwise keeps the new
  /// picture for finish().
  void draw(Picture picture);
  /// Draws the picture that draw() has kept, if any, and waits until all drawing has ended. Returns
  /// "" or, if the last drawing failed, the reason.
  std::string finish();

 private:
  void start();
  std::optional<Picture> next_;
  std::future<std::string> drawing_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace gradus
