#include "examples/support/plot.h"

#include <gnuplot-iostream.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace gradus {
namespace {

/// A string as gnuplot's commands take it: in single quotes, a quote inside doubled.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "''" : c == '\n' ? " " : std::string(1, c);
  return result + "'";
}

void draw(const std::string& path, const std::string& title, const std::string& x_label,
          const std::string& y_label, const std::vector<Series>& series) {
  Gnuplot gnuplot("gnuplot >/dev/null 2>&1 || true");
  gnuplot << "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) "
             "set terminal pngcairo noenhanced size 1200,750 font 'sans,15'; "
             "else set terminal png noenhanced size 1200,750\n"
          << "set output " << quoted(path) << "\nset title " << quoted(title)
          << " offset 0,-0.3\nset xlabel " << quoted(x_label) << "\nset ylabel " << quoted(y_label)
          << "\nset grid linetype 1 linewidth 1 linecolor rgb '#dddddd'\n"
             "set border 3 linewidth 1.2 linecolor rgb '#444444'\n"
             "set tics nomirror\nset rmargin 5\n"
             "set key top right spacing 1.3\n"
             "set offsets graph 0, 0, 0.03, 0.03\n";
  const char* colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"};
  for (size_t i = 0; i < series.size(); ++i) {
    const bool few = series[i].points.size() <= 40;
    gnuplot << (i ? ", " : "plot ") << "'-' with "
            << (few ? "linespoints pointtype 7 pointsize 1" : "lines")
            << " linewidth 2.5 linecolor rgb '" << colors[i % std::size(colors)] << "' title "
            << quoted(series[i].name);
  }
  gnuplot << "\n";
  for (const Series& s : series) gnuplot.send1d(s.points);
  gnuplot << "set output\n";
}

}  // namespace

std::string plot_curves(const std::string& png_path, const std::string& title,
                        const std::string& x_label, const std::string& y_label,
                        const std::vector<Series>& series) {
  if (std::system("command -v gnuplot >/dev/null 2>&1") != 0) return "gnuplot is not installed";
  for (const Series& s : series)
    if (s.points.empty()) return "there is nothing to draw for " + s.name;

  const std::string beside = png_path + ".tmp";
  if (!std::ofstream(beside)) return "cannot write " + beside;

  // gnuplot may end early; then writing to it must fail and not end us.
  auto* const before = std::signal(SIGPIPE, SIG_IGN);
  draw(beside, title, x_label, y_label, series);
  std::signal(SIGPIPE, before);

  std::error_code error;
  const bool drawn = std::filesystem::file_size(beside, error) > 0;
  if (drawn) std::filesystem::rename(beside, png_path, error);
  if (drawn && !error) return "";
  std::filesystem::remove(beside, error);
  return "gnuplot could not draw " + png_path;
}

}  // namespace gradus
