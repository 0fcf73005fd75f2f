#pragma once
// Plots of curves and matrices. Only plot.cpp uses gnuplot.

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/pictures/heat_map.h"

namespace gradus {

/// A curve or point cloud: its name in the legend and its points (x, y).
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
  std::vector<std::string> labels = {};  ///< texts beside the points: none, or one each
};

/// A plot and its PNG file.
struct Picture {
  std::string path, title, x_label, y_label;
  std::vector<Series> series;
  bool log_y = false;   ///< logarithmic axis; values that are not positive are left out
  bool clouds = false;  ///< points without lines, legend at the side
};

/// Draws the plot. Returns "" or, on failure, the reason, for example that gnuplot is not
/// installed; an existing file then stays.
std::string draw_picture(const Picture& picture);
/// Draws the heat map. Returns "" or, on failure, the reason. Throws Error as check_heat_map does.
std::string draw_picture(const HeatMap& map);

/// Writes the curves' points as a CSV file: name, x, y. Throws Error if that fails.
void write_csv(const std::string& path, const Picture& picture);
/// Draws the picture or, if that fails, writes its values to NAME.csv instead of NAME.png. Returns
/// a line to print: the file and, for a CSV file, why it is not a picture. Throws Error if both
/// fail.
std::string draw_or_write(const Picture& picture);
std::string draw_or_write(const HeatMap& map);

/// Draws pictures in the background, one at a time and at most one every ten seconds, so that
/// training is not slowed down.
class BackgroundPlot {
 public:
  /// Draws this picture unless a later call replaces it first.
  void draw(Picture picture);
  /// Waits for the last picture. Returns "" or, if it could not be drawn, the reason.
  std::string finish();

 private:
  void start();
  std::optional<Picture> next_;
  std::future<std::string> drawing_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace gradus
