#pragma once
// The web page that shows a run during training.

#include <optional>
#include <string>

#include "examples/page/rate_by_hand.h"
#include "examples/page/run_page.h"
#include "examples/page/statistics.h"
#include "examples/training/progress.h"
#include "examples/training/ranks.h"
#include "examples/training/training.h"

namespace gradus {

/// The web page of a training run. If the page is not open (for example, without --page), serve(),
/// before_update(), after_update() and save() do nothing. No function changes the random state or
/// the weights, unless the task's own show() does.
class TrainingPage {
 public:
  /// Makes the page without opening it. The arguments must outlive this object.
  TrainingPage(Task& task, const TrainOptions& options, const TaskInfo& info)
      : task_(task), o_(options), info_(info), view_(options.out) {}

  /// Opens the page on the first rank if the run has --page. `step` is the number of steps done.
  /// Prints the address of the page, or the reason if the page cannot be opened.
  void open(int64_t step, const Ranks& ranks);
  /// Answers the questions of the page's reader, changes the learning rate as the reader requests,
  /// and waits while the reader has paused the run. Called between steps. Returns how long the run
  /// was paused.
  std::chrono::steady_clock::duration serve(int64_t step, Progress& progress);
  ///@{
  /// Record data for the page: `row` and, at intervals, statistics of the layers. before_update()
  /// must be called before each update of the weights, and after_update() after it. `step` is the
  /// number of steps done before the update.
  void before_update(int64_t step);
  void after_update(const StepLog::Row& row);
  ///@}
  /// Calls the task's show(). The text that it prints also becomes a sample on the page.
  void show(int64_t step);
  /// Saves the page as one file, page.html, in the folder of the run, and prints the file's path.
  /// Throws Error on failure.
  void save();

  RunView& view() { return view_; }
  const RateByHand& rates() const { return rates_; }  ///< the user's changes of the learning rate
  /// Restores the changes of the learning rate of a resumed run.
  void set_rates(RateByHand rates) { rates_ = std::move(rates); }

 private:
  std::string probe(const Question& question) const;

  Task& task_;
  const TrainOptions& o_;
  const TaskInfo& info_;
  RateByHand rates_;
  RunView view_;
  std::optional<RunPage> page_;
  std::optional<LayerStatistics> statistics_;  // statistics of the current update, if recorded
  int64_t statistics_at_ = 0;                  // record no statistics before this step
};

}  // namespace gradus
