#include "gradus/core/runtime/profiler.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace gradus {

namespace {

double now_ms() {
  using clock = std::chrono::steady_clock;
  return std::chrono::duration<double, std::milli>(clock::now().time_since_epoch()).count();
}

double total_ms(const ProfileRow& row) { return row.forward_ms + row.backward_ms; }

// A count per second in units of 1e9; "-" if nothing was counted.
std::string rate(double count, double ms) {
  if (count == 0 || ms <= 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", count / ms * 1e-6);
  return text;
}

std::string line(const ProfileRow& row, int width, double share) {
  char text[256];
  std::snprintf(text, sizeof text, "%-*.*s %9lld %11.3f %11.3f %9s %8s %6.1f%%\n", width, width,
                row.op.c_str(), static_cast<long long>(row.calls), row.forward_ms, row.backward_ms,
                rate(row.flops, total_ms(row)).c_str(), rate(row.bytes, total_ms(row)).c_str(),
                100 * share);
  return text;
}

}  // namespace

Profile::Profile() : outer_(ProfileScope::current_) { ProfileScope::current_ = this; }

Profile::~Profile() {
  Profile** at = &ProfileScope::current_;
  while (*at && *at != this) at = &(*at)->outer_;
  if (*at) *at = outer_;
}

std::vector<ProfileRow> Profile::rows() const {
  std::vector<ProfileRow> rows;
  for (const auto& [name, row] : rows_) rows.push_back(row);
  std::stable_sort(rows.begin(), rows.end(), [](const ProfileRow& a, const ProfileRow& b) {
    return total_ms(a) > total_ms(b);
  });
  return rows;
}

std::string Profile::table() const {
  const std::vector<ProfileRow> all = rows();
  ProfileRow total{.op = "total"};
  size_t width = total.op.size();
  for (const ProfileRow& row : all) {
    total.calls += row.calls;
    total.forward_ms += row.forward_ms;
    total.backward_ms += row.backward_ms;
    total.flops += row.flops;
    total.bytes += row.bytes;
    width = std::max(width, row.op.size());
  }
  const int columns = static_cast<int>(std::min<size_t>(width, 40));
  char header[256];
  std::snprintf(header, sizeof header, "%-*s %9s %11s %11s %9s %8s %7s\n", columns, "op", "calls",
                "ms forward", "ms backward", "GFLOP/s", "GB/s", "share");
  std::string table = header;
  const double sum = std::max(total_ms(total), 1e-12);
  for (const ProfileRow& row : all) table += line(row, columns, total_ms(row) / sum);
  return table + line(total, columns, all.empty() ? 0 : 1);
}

void ProfileScope::begin(const char* name, bool backward) {
  if (current_->open_scope_) return;  // nested: counts towards the open scope
  auto it = current_->rows_.find(name);
  if (it == current_->rows_.end()) it = current_->rows_.emplace(name, ProfileRow{.op = name}).first;
  current_->open_scope_ = this;
  current_->open_row_ = &it->second;
  open_ = true;
  backward_ = backward;
  start_ms_ = now_ms();
}

void ProfileScope::end() {
  const double ms = now_ms() - start_ms_;
  Profile* profile = current_;  // newer profiles may have started within the scope
  while (profile && profile->open_scope_ != this) profile = profile->outer_;
  if (!profile) return;  // it ended before this scope
  if (backward_) {
    profile->open_row_->backward_ms += ms;
  } else {
    profile->open_row_->forward_ms += ms;
    ++profile->open_row_->calls;
  }
  profile->open_scope_ = nullptr;
}

void ProfileScope::add(double flops, double bytes) {
  if (!current_->open_scope_) return;
  current_->open_row_->flops += flops;
  current_->open_row_->bytes += bytes;
}

}  // namespace gradus
