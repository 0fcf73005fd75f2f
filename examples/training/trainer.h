#pragma once
// The one training loop: steps, estimates, checkpoints, logs, pictures, progress; interrupts, early
// stopping, and no step from a loss that is not finite.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "examples/pictures/plot.h"
#include "examples/training/loss_log.h"
#include "examples/training/progress.h"
#include "examples/training/run_folder.h"
#include "examples/training/step_log.h"
#include "examples/training/training.h"
#include "gradus/models/folder/checkpoint.h"

namespace gradus {

/// Trains a task, and keeps in its folder all that the run needs to go on: checkpoint.safetensors,
/// the model as of the last checkpoint, and in best/ the model whose estimated validation loss was
/// lowest.
class Trainer {
 public:
  /// `options_json`: the stored flags, for the checkpoint.
  Trainer(Task& task, const TrainOptions& options, std::string options_json, RunFolder& folder);

  /// Goes on where the checkpoint stands. Throws Error if it is another task's.
  void resume(const models::Checkpoint& checkpoint);
  void introduce() const;
  /// Trains to the last step, and says how good the model is. False if interrupted; then all is
  /// saved.
  bool train();
  /// Says how good the model is, and writes nothing. False if interrupted.
  bool evaluate();

 private:
  using Clock = std::chrono::steady_clock;
  double learn_from(int64_t batch);
  double step();
  std::optional<Score> score(const Evaluation& evaluation, const std::string& what,
                             Progress& progress, bool may_stop) const;
  void log_and_save(Progress& progress);
  void save(const std::optional<LossLog::Row>& row = {});
  Metadata metadata() const;
  template <class F>
  void writing(F&& f) const;
  void expect_finite(const std::string& what, bool finite, int64_t step) const;
  std::string saved() const;
  bool is_best() const;
  bool gives_up() const;
  double seconds_besides_steps() const;
  void show(Progress& progress) const;
  Picture picture() const;
  void print_final(const Score& validation, double seconds) const;
  double seconds() const;

  Task& task_;
  TrainOptions o_;
  std::string options_json_;
  RunFolder& folder_;
  const TaskInfo info_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  LossLog losses_;
  StepLog steps_;
  BackgroundPlot plot_;
  int64_t step_ = 0, saved_step_ = -1;                   // steps done
  const double validation_examples_;                     // of the whole validation part
  double estimate_seconds_ = 0, estimate_examples_ = 1;  // of the last one, with saving
  Clock::time_point start_ = Clock::now();
  double seconds_before_ = 0;  // of the run before it was resumed
};

}  // namespace gradus
