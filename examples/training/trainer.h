#pragma once
// The training loop: steps, evaluation, checkpoints, logs, plots, progress, interrupts and early
// stopping. A step whose loss is not finite ends the run with an Error, before the weights are
// updated.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "examples/logs/event_log.h"
#include "examples/pictures/plot.h"
#include "examples/training/progress.h"
#include "examples/training/ranks.h"
#include "examples/training/run_folder.h"
#include "examples/training/training.h"
#include "examples/training/training_page.h"
#include "gradus/models/folder/checkpoint.h"
#include "gradus/optim/parallel/data_parallel.h"
#include "gradus/optim/parallel/sharded.h"

namespace gradus {

/// Trains a task. Each save writes two things to the folder of the run: the model, and the file
/// checkpoint.safetensors, from which the run can be resumed. The subfolder best/ contains the
/// model with the lowest estimated validation loss. With --ema, the subfolder ema/ contains the
/// model with averaged weights.
class Trainer {
 public:
  /// Prepares the training. `options_json` contains the flags that checkpoints store. `task`,
  /// `folder` and `ranks` must outlive this object.
  Trainer(Task& task, const TrainOptions& options, std::string options_json, RunFolder& folder,
          const Ranks& ranks);

  /// Restores the state of the run that wrote the checkpoint, and removes later steps from the
  /// logs. Throws Error if that run used other data or has done more than --steps steps. With
  /// --eval-only, leaves the logs unchanged, accepts any number of steps, and only prints a note if
  /// the run used other data.
  void resume(const models::Checkpoint& checkpoint);
  void print_opening() const;
  /// Trains to the last step, or until --patience ends the run, and prints the final scores. If
  /// interrupted, saves the run and returns false.
  bool train();
  /// Prints the scores of the model and writes no files. Returns false if interrupted.
  bool evaluate();

 private:
  using Clock = std::chrono::steady_clock;
  double accumulate_gradient(int64_t pass);
  double step();
  bool stopping() const;
  std::optional<Score> score(const Evaluation& evaluation, const std::string& what,
                             Progress& progress, bool may_stop) const;
  void log_and_save(Progress& progress);
  void save(const std::optional<LossLog::Row>& row = {});
  Metadata metadata() const;
  void writing(const std::function<void()>& f) const;
  void expect_finite(const std::string& what, bool finite, int64_t step) const;
  std::string saved() const;
  bool is_best() const;
  bool out_of_patience() const;
  double seconds_besides_steps() const;
  void show(Progress& progress);
  Picture picture() const;
  void print_final(const Score& validation, double seconds) const;
  void print_average(Progress& progress);
  double seconds() const;

  Task& task_;
  TrainOptions o_;
  std::string options_json_;
  RunFolder& folder_;
  const Ranks& ranks_;
  const TaskInfo info_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  optim::ShardedOptimizer* sharded_ = nullptr;   // optimizer_ if it is sharded, else null
  std::optional<optim::WeightAverage> average_;  // only with --ema
  LossLog losses_;
  StepLog steps_;
  std::optional<EventLog> events_;  // only with --tensorboard, on the first rank
  BackgroundPlot plot_;
  std::optional<optim::DataParallel> parallel_;  // only with several batches per step
  bool stopping_ = false;                        // a rank was interrupted during the latest step
  int64_t step_ = 0, saved_step_ = -1;           // steps done; steps at the last save, or -1
  const double validation_examples_;             // number of examples in the validation split
  // The last estimate of the losses: its duration in seconds, including saving, and the number of
  // examples it scored.
  double estimate_seconds_ = 0, estimate_examples_ = 1;
  Clock::time_point start_ = Clock::now();
  double seconds_before_ = 0;  // duration of the run before it was resumed
  TrainingPage page_;
};

}  // namespace gradus
