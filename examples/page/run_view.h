#pragma once
// The data of a run that its web page shows: a row for each step, estimates of the losses, samples
// of the model's output, and statistics of the layers.

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "examples/logs/loss_log.h"
#include "examples/logs/step_log.h"

namespace gradus {

/// The events of a run, as JSON objects. An event is the row of a step, an estimate of the losses,
/// a sample of the model's output, or statistics of the layers. One thread adds events; several
/// threads may read them. Whenever there are more than 60,000 rows, every second one is dropped.
class RunView {
 public:
  /// Makes the view of the run in `folder`, without reading its files yet.
  explicit RunView(std::string folder);

  /// Replaces the events by those up to step `last` in steps.csv, loss.csv and page.jsonl. Skips
  /// missing files, incomplete lines, and lines without a step.
  void read(int64_t last);
  /// Reads the events again if the files have changed. If none of the files can be read any more,
  /// keeps the events; the result of since() then contains a warning.
  void refresh();

  void add(const StepLog::Row& row);
  void add(const LossLog::Row& row);
  /// Adds a sample: text that the program has printed to show what the model can do. The text may
  /// contain any bytes.
  void add_sample(int64_t step, const std::string& text);
  /// Adds `layers`, statistics from LayerStatistics::take() in JSON.
  void add_layers(int64_t step, const std::string& layers);
  /// Appends to page.jsonl the samples and statistics added since the last flush. Throws Error on
  /// failure.
  void flush();
  /// Removes from page.jsonl the samples and statistics that the last read() skipped, such as those
  /// after the step at which a run resumes. Must be called after read(). Throws Error on failure.
  void rewrite() const;

  /// Returns up to `most` events as JSON: {"name", "note", "more", "generation", "next", "events"}.
  /// "name" is the folder, "note" is a warning from refresh() or "", and "more" tells whether more
  /// events follow. If `cursor` is "", begins at the first event. To continue after an earlier
  /// call, pass its "next" as `cursor`. A cursor is "GENERATION:INDEX". The generation changes when
  /// events are replaced or renumbered. For a cursor of another generation, begins at the first.
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
