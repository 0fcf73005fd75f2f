#include "examples/logs/step_log.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "examples/support/folder.h"
#include "examples/support/text.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/folder/fields.h"

namespace gradus {
namespace {
constexpr const char* step_header = "step,loss,lr,grad_norm,seconds";

/// The second cell of a row, NaN if it is not a number.
double loss_of(const std::string& row) {
  const std::string rest = row.substr(std::min(row.find(','), row.size() - 1) + 1);
  return models::parse_number<double>(rest.substr(0, rest.find(','))).value_or(std::nan(""));
}
}  // namespace

void LossCurve::add(int64_t step, double loss) {
  constexpr int64_t most = 2000;
  for (; (step - 1) / size_ >= most; size_ *= 2) {
    for (size_t i = 0; i < groups_.size(); ++i) {
      const Group moved = std::exchange(groups_[i], {});
      Group& to = groups_[i / 2];
      to = {to.steps + moved.steps, to.losses + moved.losses, to.count + moved.count};
    }
    groups_.resize((groups_.size() + 1) / 2);
  }
  const auto at = static_cast<size_t>((step - 1) / size_);
  groups_.resize(std::max(groups_.size(), at + 1));
  Group& group = groups_[at];
  group.steps += static_cast<double>(step), group.losses += loss, ++group.count;
}

Series LossCurve::series() const {
  const std::string of =
      size_ == 1 ? "each step's batch" : "mean of " + std::to_string(size_) + " steps' batches";
  Series series{of + ", as trained on", {}, Stroke::faint};
  for (const Group& group : groups_)
    if (group.count > 0) {
      const auto n = static_cast<double>(group.count);
      series.points.emplace_back(group.steps / n, group.losses / n);
    }
  return series;
}

void StepLog::cut_after(int64_t step) {
  std::ifstream file(path_);
  if (!file) return;
  uintmax_t keep = 0;
  int64_t last = 0;  // the last step with a row
  std::string line;
  while (std::getline(file, line) && !file.eof()) {  // eof() means that the line has no line break
    const auto row = models::parse_number<int64_t>(line.substr(0, line.find(',')));
    const bool good = keep == 0 ? line == step_header : row.value_or(0) >= 1;
    core::check(good || (keep > 0 && last >= step), path_, ": ", shown(line),
                keep == 0 ? " is not its header" : " is not a row of a step",
                "; remove the file to continue without its rows");
    if (good) last = row.value_or(0);
    if (!good || (keep > 0 && last > step)) break;
    if (keep > 0) curve_.add(last, loss_of(line));
    keep += line.size() + 1;
  }
  if (keep == 0)  // an empty file, or a line without a line break
    core::check(std::string(step_header).starts_with(line), path_, ": ", shown(line),
                " is not its header; remove the file to continue without its rows");
  const bool has_no_rows = keep > 0 && last == 0 && line.empty();
  core::check(has_no_rows || last >= step, path_, " ends at step ", last,
              ", before the checkpoint's ", step, "; remove the file to continue without its rows");
  file.close();
  std::error_code error;
  std::filesystem::resize_file(path_, keep, error);
  core::check(!error, "cannot write ", path_, ": ", error.message());
}

void StepLog::add(const Row& row) {
  char text[160];
  std::snprintf(text, sizeof text, "%lld,%.7g,%.7g,%.7g,%.3f\n", static_cast<long long>(row.step),
                row.loss, row.lr, row.grad_norm, row.seconds);
  rows_ += text;
  curve_.add(row.step, loss_of(text));  // rounded: a resumed run draws the same picture
}

void StepLog::flush() { append_to_file(path_, std::string(step_header) + '\n', rows_); }

}  // namespace gradus
