#pragma once
// Pictures of curves: the only place that knows gnuplot.

#include <string>
#include <utility>
#include <vector>

namespace gradus {

/// A curve: its name in the legend and its points (x, y).
struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

/// Draws the curves into a PNG file. Returns why it could not (gnuplot is not installed, say; what
/// was at the path stays), or nothing.
std::string plot_curves(const std::string& png_path, const std::string& title,
                        const std::string& x_label, const std::string& y_label,
                        const std::vector<Series>& series);

}  // namespace gradus
