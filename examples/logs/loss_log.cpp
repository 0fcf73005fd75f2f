#include "examples/logs/loss_log.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "gradus/core/files/safetensors.h"

namespace gradus {

namespace {
constexpr int digits = 7;
constexpr const char* loss_header = "step,train_loss,val_loss";  // further columns may follow

/// Rounds to the precision of loss.csv, so that a resumed run continues with the same value.
double rounded(double number) { return std::strtod(LossLog::number(number).c_str(), nullptr); }

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> parts;
  std::istringstream in(line + ',');  // getline() would drop an empty last cell
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

/// Parses a line into a row. Returns false unless it has one number per name, the first whole.
bool read_row(const std::string& line, const std::vector<std::string>& names, LossLog::Row& row) {
  const std::vector<std::string> parts = cells(line);
  if (parts.size() != names.size() || parts.size() < 3) return false;
  std::vector<double> numbers;
  for (const std::string& part : parts) {
    char* end = nullptr;
    numbers.push_back(std::strtod(part.c_str(), &end));
    if (part.empty() || *end != '\0') return false;
  }
  row = {0, numbers[1], numbers[2]};
  for (size_t i = 3; i < parts.size(); ++i) row.more.emplace_back(names[i], numbers[i]);
  const char *begin = parts[0].data(), *end = begin + parts[0].size();
  const std::from_chars_result read = std::from_chars(begin, end, row.step);
  return read.ptr == end && read.ec == std::errc();
}

/// The row's score of a column, or NaN if it has none: an earlier version may not have logged it,
/// and the mean of nothing is not logged.
double score_of(const LossLog::Row& row, const std::string& column) {
  for (const auto& [name, number] : row.more)
    if (name == column) return number;
  return std::numeric_limits<double>::quiet_NaN();
}
}  // namespace

std::string LossLog::number(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, number);
  return text;
}

void LossLog::read_up_to(int64_t step) {
  rows_.clear();
  best_.reset();
  std::ifstream file(folder_ + "/loss.csv");
  if (!file) return;
  std::string line;
  std::getline(file, line);
  core::check((line + ',').starts_with(std::string(loss_header) + ','), folder_,
              "/loss.csv: line 1 is not its header; remove the file to continue without its rows");
  const std::vector<std::string> names = cells(line);
  for (int number = 2; std::getline(file, line); ++number) {
    Row row{};
    core::check(read_row(line, names, row), folder_, "/loss.csv: line ", number,
                " is not a row of losses; remove the file to continue without its rows");
    if (row.step <= step) append(row);
  }
}

void LossLog::append(const Row& row) {
  rows_.push_back(row);
  const bool is_first_number =
      best_ && std::isnan(best_->validation_loss) && !std::isnan(row.validation_loss);
  if (!best_ || is_first_number || row.validation_loss < best_->validation_loss)
    best_ = {row.step, row.validation_loss};
}

void LossLog::add(Row row) {
  row.train_loss = rounded(row.train_loss);
  row.validation_loss = rounded(row.validation_loss);
  // All rows get the columns of the earlier ones, then those that are new.
  NamedNumbers columns;
  if (!rows_.empty()) columns = rows_.back().more;
  for (const auto& score : row.more) {
    const auto same = [&](const auto& column) { return column.first == score.first; };
    if (std::none_of(columns.begin(), columns.end(), same)) columns.push_back(score);
  }
  append(row);
  for (Row& r : rows_) {
    NamedNumbers scores;
    for (const auto& [name, number] : columns)
      scores.emplace_back(name, rounded(score_of(r, name)));
    r.more = scores;
  }
  if (!writes_) return;
  std::ostringstream csv;
  csv.precision(digits);
  csv << loss_header;
  for (const auto& [name, number] : columns) csv << ',' << name;
  for (const Row& r : rows_) {
    csv << '\n' << r.step << ',' << r.train_loss << ',' << r.validation_loss;
    for (const auto& [name, number] : r.more) csv << ',' << number;
  }
  csv << '\n';
  write_file_atomically(folder_ + "/loss.csv", csv.str());
}

int64_t LossLog::rows_after(int64_t step) const {
  return std::count_if(rows_.begin(), rows_.end(), [=](const Row& row) { return row.step > step; });
}

std::string LossLog::last_line() const {
  std::ostringstream text;
  text.precision(4);
  text << std::fixed << "step " << last().step << " train " << last().train_loss << " val "
       << last().validation_loss;
  for (const auto& [name, number] : last().more) text << ' ' << name << ' ' << number;
  return text.str();
}

Picture LossLog::picture(const std::string& title, const std::string& loss_name,
                         const LossCurve& steps) const {
  Series train{.name = "training, estimated", .points = {}, .colour = "#1f77b4"},
      validation{.name = "validation, estimated",
                 .points = {},
                 .stroke = Stroke::dashed,
                 .colour = "#d62728"};
  double smallest = std::numeric_limits<double>::infinity(), largest = -smallest;
  for (const Row& row : rows_) {
    const auto x = static_cast<double>(row.step);
    train.points.emplace_back(x, row.train_loss);
    validation.points.emplace_back(x, row.validation_loss);
    smallest = std::min({smallest, row.train_loss, row.validation_loss});
    largest = std::max({largest, row.train_loss, row.validation_loss});
  }
  Picture picture{folder_ + "/loss.png", title, "step", loss_name, {train, validation}};
  picture.log_y = smallest > 0 && largest > 5 * smallest;
  Series each = steps.series();
  each.colour = "#a6cbe6";  // that of `train`, lighter
  if (!each.points.empty()) picture.series.insert(picture.series.begin(), each);
  return picture;
}

}  // namespace gradus
