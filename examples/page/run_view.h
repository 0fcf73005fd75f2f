#pragma once
// What the page shows of a run: its steps, estimates, samples and statistics.

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "examples/logs/loss_log.h"
#include "examples/logs/step_log.h"

namespace gradus {

/// The events of a run, in order, each a JSON object: the row of a step, an estimate of the losses,
/// a sample, or statistics of the layers. One thread adds them, several may read. Of long runs every
/// second row is dropped, then every second of those left, and so on.
class RunView {
 public:
  /// A run in this folder. Reads nothing yet.
  explicit RunView(std::string folder);

  /// Reads the events up to step `last` from steps.csv, loss.csv and page.jsonl, instead of those
  /// present. Missing files and malformed rows are skipped.
  void read(int64_t last);
  /// Reads them if the files have changed since. If they cannot be read any more, keeps the events,
  /// and state() says so.
  void refresh();

  void add(const StepLog::Row& row);
  void add(const LossLog::Row& row);
  /// What the program printed as a sample of what the model can do. Any bytes.
  void add_sample(int64_t step, const std::string& text);
  /// Statistics from Statistics::take(), a JSON array.
  void add_layers(int64_t step, const std::string& layers);
  /// Appends to page.jsonl the samples and statistics added since the last flush.
  void flush();
  /// After read(): leaves no others in page.jsonl.
  void rewrite() const;

  /// JSON {"name", "generation", "next", "events", "note"}: at most `most` events from the cursor
  /// "GENERATION:INDEX" on, from the first with another generation's, and the cursor of the next.
  std::string since(const std::string& cursor, size_t most) const;

 private:
  struct Event {
    bool is_row;
    std::string json;
  };
  void add(bool is_row, std::string json);
  void keep(int64_t step, const char* what, const std::string& json);
  void read_rows(int64_t last);
  std::string changes() const;

  const std::string folder_;
  mutable std::mutex mutex_;  // of all below
  std::vector<Event> events_;
  std::string unsaved_, seen_, note_;
  uint64_t generation_;  // another one for other events under the same indices
  int64_t every_ = 1;    // steps between rows
  size_t rows_ = 0;
};

}  // namespace gradus
