#pragma once
// The page of a run that is training.

#include <optional>
#include <string>

#include "examples/page/rate_by_hand.h"
#include "examples/page/run_page.h"
#include "examples/page/statistics.h"
#include "examples/training/progress.h"
#include "examples/training/ranks.h"
#include "examples/training/training.h"

namespace gradus {

/// What a Trainer's page shows and does, with --page; without it the functions do nothing. None
/// changes the random state or the weights.
class TrainingPage {
 public:
  /// All must outlive this.
  TrainingPage(Task& task, const TrainOptions& options, const TaskInfo& info)
      : task_(task), o_(options), info_(info), view_(options.out) {}

  /// Opens the page of the run, which has done `step` steps, and prints its address, or why there is
  /// none.
  void open(int64_t step, const Ranks& ranks);
  /// Between steps: answers the page's reader, and does what it asks for. Returns how long the run
  /// was paused.
  std::chrono::steady_clock::duration serve(int64_t step, Progress& progress);
  ///@{
  /// Before and after an update: the step's row, and sometimes statistics of the layers.
  void before_update(int64_t step);
  void after_update(const StepLog::Row& row);
  ///@}
  /// Calls the task's show(). What that prints also becomes a sample on the page.
  void show(int64_t step);
  /// Saves the page in the run's folder, as one file.
  void save();

  RunView& view() { return view_; }
  const RateByHand& rates() const { return rates_; }  ///< changes of the learning rate by hand
  void set_rates(RateByHand rates) { rates_ = std::move(rates); }  ///< those of a resumed run

 private:
  std::string probe(const Question& question) const;

  Task& task_;
  const TrainOptions& o_;
  const TaskInfo& info_;
  RateByHand rates_;
  RunView view_;
  std::optional<RunPage> page_;
  std::optional<LayerStatistics> statistics_;  // of the coming update
  int64_t statistics_at_ = 0;                  // the step of the next ones, if affordable then
};

}  // namespace gradus
