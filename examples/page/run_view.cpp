#include "examples/page/run_view.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "examples/pictures/html.h"
#include "gradus/core/files/file.h"
#include "gradus/models/folder/fields.h"

namespace gradus {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {
constexpr size_t most_rows = 60000;
constexpr const char *steps_file = "/steps.csv", *losses_file = "/loss.csv",
                     *page_file = "/page.jsonl";

/// The lines of a file; none if it cannot be read. A last line without a line break is left out: it
/// is being written.
std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line) && !file.eof();) lines.push_back(line);
  return lines;
}

/// The numbers of a line of a CSV file; NaN for what is not a number.
std::vector<double> numbers_of(const std::string& line) {
  std::vector<double> numbers;
  std::istringstream cells(line);
  for (std::string cell; std::getline(cells, cell, ',');)
    numbers.push_back(models::parse_number<double>(cell).value_or(std::nan("")));
  return numbers;
}

int64_t first_generation() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::microseconds(1);
}
}  // namespace

RunView::RunView(std::string folder)
    : folder_(std::move(folder)), generation_(static_cast<uint64_t>(first_generation())) {}

/// mutex_ is held.
void RunView::add(bool is_row, std::string json) {
  events_.push_back({is_row, std::move(json)});
  rows_ += is_row;
  if (rows_ <= most_rows) return;
  bool keep = false;
  std::erase_if(events_, [&](const Event& event) { return event.is_row && !(keep = !keep); });
  rows_ = (rows_ + 1) / 2, every_ *= 2, ++generation_;
}

void RunView::add(const StepLog::Row& row) {
  const std::lock_guard lock(mutex_);
  if (row.step % every_ != 0) return;
  add(true, ascii_json({{"row", {row.step, row.loss, row.lr, row.grad_norm, row.seconds}}}));
}

void RunView::add(const LossLog::Row& row) {
  json more = json::object();
  for (const auto& [name, value] : row.more) more[name] = value;
  const std::lock_guard lock(mutex_);
  add(false, ascii_json({{"estimate", {row.step, row.train_loss, row.validation_loss}},
                         {"more", std::move(more)}}));
}

void RunView::keep(int64_t step, const char* what, const std::string& json) {
  const std::lock_guard lock(mutex_);
  const std::string event = "{\"step\":" + std::to_string(step) + ",\"" + what + "\":" + json + '}';
  unsaved_ += event + '\n';
  add(false, event);
}

void RunView::add_sample(int64_t step, const std::string& text) {
  keep(step, "sample", ascii_json(text));
}

void RunView::add_layers(int64_t step, const std::string& layers) { keep(step, "layers", layers); }

void RunView::flush() {
  const std::lock_guard lock(mutex_);
  if (unsaved_.empty()) return;
  std::ofstream file(folder_ + page_file, std::ios::app | std::ios::binary);
  file << unsaved_ << std::flush;
  core::check(file.good(), "cannot write ", folder_, page_file);
  unsaved_.clear();
}

void RunView::rewrite() const {
  const std::lock_guard lock(mutex_);
  std::string kept;
  for (const Event& event : events_)
    if (event.json.starts_with("{\"step\":")) kept += event.json + '\n';
  if (fs::exists(folder_ + page_file) || !kept.empty())
    write_file_atomically(folder_ + page_file, kept);
}

/// mutex_ is held.
void RunView::read_rows(int64_t last) {
  const std::vector<std::string> steps = lines_of(folder_ + steps_file);
  int64_t every = 1;
  while (steps.size() / static_cast<size_t>(every) > most_rows / 2) every *= 2;
  every_ = every;
  for (const std::string& line : steps) {
    const std::vector<double> row = numbers_of(line);
    if (row.size() != 5 || !(row[0] <= static_cast<double>(last))) continue;
    const auto step = static_cast<int64_t>(row[0]);
    if (step % every == 0) add(true, ascii_json({{"row", {step, row[1], row[2], row[3], row[4]}}}));
  }
}

void RunView::read(int64_t last) {
  const std::lock_guard lock(mutex_);
  events_.clear();
  rows_ = 0, ++generation_;
  read_rows(last);
  std::vector<std::string> names;
  for (const std::string& line : lines_of(folder_ + losses_file)) {
    const std::vector<double> row = numbers_of(line);
    if (row.size() < 3 || !(row[0] <= static_cast<double>(last))) {
      std::istringstream cells(line);
      for (std::string name; std::getline(cells, name, ',');) names.push_back(name);
      continue;
    }
    json more = json::object();
    for (size_t i = 3; i < std::min(row.size(), names.size()); ++i) more[names[i]] = row[i];
    add(false, ascii_json({{"estimate", {static_cast<int64_t>(row[0]), row[1], row[2]}},
                           {"more", std::move(more)}}));
  }
  for (const std::string& line : lines_of(folder_ + page_file)) {
    const json event = json::parse(line, nullptr, false);
    if (!event.is_object() || !event.contains("step") || !event["step"].is_number_integer())
      continue;
    const auto step = event["step"].get<int64_t>();
    for (const char* what : {"sample", "layers"})
      if (step <= last && event.contains(what))
        add(false, "{\"step\":" + std::to_string(step) + ",\"" + what +
                       "\":" + ascii_json(event[what]) + '}');
  }
}

/// The files' sizes and times; "" if the folder cannot be read.
std::string RunView::changes() const {
  std::string all;
  std::error_code error;
  for (const char* file : {steps_file, losses_file, page_file}) {
    const auto size = fs::file_size(folder_ + file, error);
    if (error) continue;
    const auto time = fs::last_write_time(folder_ + file, error);
    all += std::to_string(size) + ' ' + std::to_string(time.time_since_epoch().count()) + ' ';
  }
  return all;
}

void RunView::refresh() {
  const std::string now = changes();
  {
    const std::lock_guard lock(mutex_);
    note_ = now.empty() ? folder_ + ": cannot be read any more" : "";
    if (now.empty() || now == seen_) return;
    seen_ = now;
  }
  read(std::numeric_limits<int64_t>::max());
}

std::string RunView::since(const std::string& cursor, size_t most) const {
  const std::lock_guard lock(mutex_);
  const size_t colon = std::min(cursor.find(':'), cursor.size());
  size_t begin = 0;
  if (cursor.substr(0, colon) == std::to_string(generation_))
    begin = static_cast<size_t>(
        models::parse_number<int64_t>(cursor.substr(std::min(colon + 1, cursor.size())))
            .value_or(0));
  begin = std::min(begin, events_.size());
  const size_t end = begin + std::min(most, events_.size() - begin);
  const std::string generation = std::to_string(generation_);
  std::string result = "{\"name\":" + ascii_json(folder_) + ",\"note\":" + ascii_json(note_) +
                       ",\"more\":" + (end < events_.size() ? "true" : "false") +
                       ",\"generation\":\"" + generation + "\",\"next\":\"" + generation + ':' +
                       std::to_string(end) + "\",\"events\":[";
  for (size_t i = begin; i < end; ++i) result += (i > begin ? "," : "") + events_[i].json;
  return result + "]}";
}

}  // namespace gradus
