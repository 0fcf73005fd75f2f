#include "examples/support/loss_log.h"

#include <cstdio>
#include <fstream>
#include <sstream>

#include "gradus/core/safetensors.h"

namespace gradus {

namespace {
constexpr const char* header = "step,train_loss,val_loss\n";
}

void LossLog::read_up_to(int64_t step) {
  rows_.clear();
  std::ifstream file(folder_ + "/loss.csv");
  std::string line;
  std::getline(file, line);  // the header
  while (std::getline(file, line)) {
    Row row{};
    char comma;
    std::istringstream in(line);
    if (in >> row.step >> comma >> row.train_loss >> comma >> row.validation_loss &&
        row.step <= step)
      rows_.push_back(row);
  }
}

void LossLog::add(const Row& row) {
  rows_.push_back(row);
  std::ostringstream csv;
  csv.precision(7);
  csv << header;
  for (const Row& r : rows_)
    csv << r.step << ',' << r.train_loss << ',' << r.validation_loss << '\n';
  write_file_atomically(folder_ + "/loss.csv", csv.str());
}

std::string LossLog::last_line() const {
  char text[128];
  std::snprintf(text, sizeof text, "step %lld train %.4f val %.4f",
                static_cast<long long>(rows_.back().step), rows_.back().train_loss,
                rows_.back().validation_loss);
  return text;
}

Picture LossLog::picture(const std::string& title) const {
  Series train{.name = "train", .points = {}}, validation{.name = "validation", .points = {}};
  for (const Row& row : rows_) {
    const auto x = static_cast<double>(row.step);
    train.points.emplace_back(x, row.train_loss);
    validation.points.emplace_back(x, row.validation_loss);
  }
  return {
      folder_ + "/loss.png", title, "step", "cross entropy (nats a token)", {train, validation}};
}

}  // namespace gradus
