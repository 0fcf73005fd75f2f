#pragma once
// Pictures of curves and of matrices: the only place that knows gnuplot.

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "examples/pictures/heat_map.h"

namespace gradus {

/// A curve, or a cloud: its name in the legend and its points (x, y).
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

/// What is drawn, and the PNG file that it becomes.
struct Picture {
  std::string path, title, x_label, y_label;
  std::vector<Series> series;
  bool log_y = false;   ///< a logarithmic axis, without what is not above 0
  bool clouds = false;  ///< points that no line joins, the legend beside them
};

/// Draws it. Returns why it could not (gnuplot is not installed, say; what was at the path stays),
/// or nothing.
std::string draw_picture(const Picture& picture);
/// Likewise. Throws Error where check_heat_map does.
std::string draw_picture(const HeatMap& map);

/// The curves' points as a CSV file: name, x, y. Throws Error if it can't be written.
void write_csv(const std::string& path, const Picture& picture);
/// Draws it or, where it can't, writes its numbers as a CSV file, path.csv for path.png. Returns the
/// line to be printed: the file, and why it is no picture. Throws Error if neither can be written.
std::string draw_or_write(const Picture& picture);
std::string draw_or_write(const HeatMap& map);

/// Draws pictures beside whatever else goes on, one at a time and none within ten seconds of the
/// one before, so that training does not notice.
class BackgroundPlot {
 public:
  /// Draws this picture, or a later one in its place.
  void draw(Picture picture);
  /// Waits until the last picture is drawn. Returns why it could not be, or nothing.
  std::string finish();

 private:
  void start();
  std::optional<Picture> next_;
  std::future<std::string> drawing_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace gradus
