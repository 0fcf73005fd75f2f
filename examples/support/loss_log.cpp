#include "examples/support/loss_log.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "gradus/core/safetensors.h"

namespace gradus {

namespace {
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> parts;
  std::istringstream in(line);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

/// The line's cells as a row, if they are as many numbers as there are names.
bool read_row(const std::string& line, const std::vector<std::string>& names, LossLog::Row& row) {
  const std::vector<std::string> parts = cells(line);
  if (parts.size() != names.size() || parts.size() < 3) return false;
  std::istringstream in(line);
  char comma;
  in >> row.step >> comma >> row.train_loss >> comma >> row.validation_loss;
  for (size_t i = 3; i < parts.size(); ++i) {
    row.more.emplace_back(names[i], 0);
    in >> comma >> row.more.back().second;
  }
  return !in.fail();
}
}  // namespace

void LossLog::read_up_to(int64_t step) {
  rows_.clear();
  std::ifstream file(folder_ + "/loss.csv");
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = cells(line);
  while (std::getline(file, line)) {
    Row row{};
    if (read_row(line, names, row) && row.step <= step) rows_.push_back(std::move(row));
  }
}

void LossLog::add(const Row& row) {
  rows_.push_back(row);
  std::ostringstream csv;
  csv.precision(7);
  csv << "step,train_loss,val_loss";
  for (const auto& [name, number] : row.more) csv << ',' << name;
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

Picture LossLog::picture(const std::string& title, const std::string& loss_name) const {
  Series train{.name = "train", .points = {}}, validation{.name = "validation", .points = {}};
  for (const Row& row : rows_) {
    const auto x = static_cast<double>(row.step);
    train.points.emplace_back(x, row.train_loss);
    validation.points.emplace_back(x, row.validation_loss);
  }
  return {folder_ + "/loss.png", title, "step", loss_name, {train, validation}};
}

}  // namespace gradus
