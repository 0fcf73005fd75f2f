#pragma once
// The data of a run that the page shows: its steps, estimates, samples and statistics.

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "examples/logs/loss_log.h"
#include "examples/logs/step_log.h"

namespace gradus {

/// The events of a run. Each is a JSON object: the row of a step, an estimate of the losses, a
/// sample, or statistics of the layers. One thread adds events; several threads may read them. In
/// long runs every second row is dropped, then every second of the remaining rows, and so on.
class RunView {
 public:
  /// Makes the view of a run in this folder, without reading it yet.
  explicit RunView(std::string folder);

  /// Replaces the events by those up to step `last` in steps.csv, loss.csv and page.jsonl. Skips
  /// missing files, incomplete lines, and lines without a step.
  void read(int64_t last);
  /// Reads the events again if the files have changed. If none of the files can be read any more,
  /// keeps the events, and since() says so in "note".
  void refresh();

  void add(const StepLog::Row& row);
  void add(const LossLog::Row& row);
  /// Adds a sample: text that the program has printed to show what the model can do. The text may
  /// contain any bytes.
  void add_sample(int64_t step, const std::string& text);
  /// Adds statistics from LayerStatistics::take(), a JSON array.
  void add_layers(int64_t step, const std::string& layers);
  /// Appends to page.jsonl the samples and statistics added since the last flush. Throws Error on
  /// failure.
  void flush();
  /// Drops from page.jsonl the samples and statistics that read() left out. Call after read().
  void rewrite() const;

  /// Returns a page of at most `most` events as JSON {"name", "note", "more", "generation", "next",
  /// "events"}. `cursor` is "GENERATION:INDEX", the "next" of the previous page. The generation
  /// changes when events are replaced or renumbered: a cursor of another generation, like "", starts
  /// at the first event. "name" is the folder, "note" a warning from refresh() or "", and "more"
  /// tells whether further events follow.
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
  mutable std::mutex mutex_;  // guards all members below
  std::vector<Event> events_;
  std::string unsaved_, seen_, note_;
  uint64_t generation_;  // changes whenever events are replaced or renumbered
  int64_t every_ = 1;    // number of steps between rows
  size_t rows_ = 0;
};

}  // namespace gradus
