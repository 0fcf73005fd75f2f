#include "examples/support/plot.h"

#include <gnuplot-iostream.h>

#include <csignal>
#include <ctime>
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

/// A string as the shell takes it.
std::string shell_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

/// Sends it to a gnuplot that yields to training and outlives a Ctrl-C; whatever it wrote if it
/// failed is removed.
void draw(const Picture& picture, const std::string& path) {
  Gnuplot gnuplot("(trap '' INT TERM; nice gnuplot || rm -f " + shell_quoted(path) +
                  ") >/dev/null 2>&1 || true");
  gnuplot << "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) "
             "set terminal pngcairo noenhanced size 1200,750 font 'sans,15'; "
             "else set terminal png noenhanced size 1200,750\n"
          << "set output " << quoted(path) << "\nset title " << quoted(picture.title)
          << " offset 0,-0.3\nset xlabel " << quoted(picture.x_label) << "\nset ylabel "
          << quoted(picture.y_label)
          << "\nset grid linetype 1 linewidth 1 linecolor rgb '#dddddd'\n"
             "set border 3 linewidth 1.2 linecolor rgb '#444444'\n"
             "set tics nomirror\nset rmargin 5\n"
             "set key top right spacing 1.3\n"
             "set offsets graph 0, 0, 0.03, 0.03\n";
  const char* colors[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"};
  for (size_t i = 0; i < picture.series.size(); ++i) {
    const bool few = picture.series[i].points.size() <= 40;
    gnuplot << (i ? ", " : "plot ") << "'-' with "
            << (few ? "linespoints pointtype 7 pointsize 1" : "lines")
            << " linewidth 2.5 linecolor rgb '" << colors[i % std::size(colors)] << "' title "
            << quoted(picture.series[i].name);
  }
  gnuplot << "\n";
  for (const Series& s : picture.series) gnuplot.send1d(s.points);
  gnuplot << "set output\n";
}

}  // namespace

std::string draw_picture(const Picture& picture) {
  for (const Series& s : picture.series)
    if (s.points.empty()) return "there is nothing to draw for " + s.name;

  const std::string beside = picture.path + ".tmp";
  if (!std::ofstream(beside)) return "cannot write " + beside;

  // gnuplot may end early; then this thread's writing to it must fail and not end the process.
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  draw(picture, beside);
  const timespec at_once{};
  while (sigtimedwait(&pipe, nullptr, &at_once) == SIGPIPE) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);

  std::error_code error;
  const auto size = std::filesystem::file_size(beside, error);
  const bool drawn = !error && size > 0;
  if (drawn) std::filesystem::rename(beside, picture.path, error);
  if (drawn && !error) return "";
  std::filesystem::remove(beside, error);
  return "gnuplot could not draw " + picture.path + " (is it installed?)";
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
