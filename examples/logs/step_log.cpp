#include "examples/logs/step_log.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "examples/support/folder.h"
#include "examples/support/text.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/folder/fields.h"

namespace gradus {
namespace {
constexpr const char* step_header = "step,loss,lr,grad_norm,seconds";
}

void StepLog::cut_after(int64_t step) const {
  std::ifstream file(path_);
  if (!file) return;
  uintmax_t keep = 0;
  int64_t last = 0;  // the last step with a row
  std::string line;
  while (std::getline(file, line) && !file.eof()) {  // eof() means that the line has no line break
    const auto row = models::parse_number<int64_t>(line.substr(0, line.find(',')));
    const bool good = keep == 0 ? line == step_header : row.has_value();
    core::check(good || last >= step, path_, ": ", shown(line),
                keep == 0 ? " is not its header" : " is not a row of a step",
                "; remove the file to continue without its rows");
    if (good) last = row.value_or(0);
    if (!good || (keep > 0 && last > step)) break;
    keep += line.size() + 1;
  }
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
}

void StepLog::flush() { append_to_file(path_, std::string(step_header) + '\n', rows_); }

}  // namespace gradus
