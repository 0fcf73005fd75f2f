#pragma once
// Task: a model and its data, with the interface that the trainer uses.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "examples/logs/loss_log.h"
#include "examples/page/question.h"
#include "gradus/models/data/text/text_data.h"
#include "gradus/nn/module.h"
#include "gradus/optim/optimizer.h"

namespace gradus {

/// A named mean, with the number of examples over which it was computed.
struct NamedMean {
  std::string name;
  double value = 0;
  double examples = 1;
};

/// The scores of a model on some examples.
struct Score {
  double loss = 0;
  double examples = 1;               ///< number of examples over which the loss was computed
  std::vector<NamedMean> more = {};  ///< other means, for example {"accuracy", 0.97, 500}
};

/// Returns the mean of the scores of several batches, weighted by their numbers of examples. Leaves
/// out means in Score::more to which no example contributes. Throws Error if the batches have no
/// examples.
Score mean_score(const std::vector<Score>& batches);

/// Batches on which a model is scored.
struct Evaluation {
  int64_t batches = 0;
  double examples = 0;                        ///< number of examples in all batches
  std::function<Score(int64_t batch)> score;  ///< scores a batch; called under NoGrad and EvalMode
};

/// Returns the number of batches for n examples, with at most `batch` examples each.
inline int64_t num_batches(int64_t n, int64_t batch) { return (n + batch - 1) / batch; }

/// Returns an evaluation of the classifier logits(x) on examples x (n, ...) with classes y (n). The
/// scores are the cross entropy and the accuracy.
Evaluation classification(std::function<Tensor(const Tensor& x)> logits, Tensor x, Tensor y);

using models::Split;

/// Describes a task in logs, plots and checkpoints.
struct TaskInfo {
  std::string model, loss;  ///< names shown in the plot, for example "GPT", "cross entropy"
  std::string items;        ///< what throughput counts, for example "tokens"
  int64_t batch_items = 1;  ///< number of items per batch
  std::string data_id;      ///< identifies the data; a resumed run must have the same id
  std::string opening;  ///< lines to print before training, for example "text   ...\nmodel  ...\n"
};

struct TrainOptions;

/// A model, and the data on which it is trained.
class Task {
 public:
  virtual ~Task() = default;
  virtual nn::Module& model() = 0;
  virtual TaskInfo info() const = 0;

  /// Prepares the model for training, for example by adding low-rank updates. Called once, after
  /// the weights of --init-from are loaded and before the weights of a checkpoint are loaded.
  virtual void begin() {}
  /// Returns the mean loss of batch number `index` of a step, both counted from 0. The loss depends
  /// only on step, index, the seed, the weights and the thread's random state. A resumed run
  /// therefore continues with the same steps as an uninterrupted run.
  virtual Tensor loss(int64_t step, int64_t index) = 0;
  /// Returns the optimiser that the options specify.
  virtual std::unique_ptr<optim::Optimizer> make_optimizer(const TrainOptions& options);
  /// Returns the learning rate of a step, counted from 0, by the schedule in the options.
  virtual double learning_rate(const TrainOptions& options, int64_t step) const;

  /// Returns an evaluation that estimates the loss on the split `part`, usually from some of its
  /// batches. `step` is the number of steps done.
  virtual Evaluation estimate(Split part, int64_t step) = 0;
  /// Returns an evaluation on the whole validation split. (The task of CLIP leaves out some images,
  /// see CaptionTask::all_different().)
  virtual Evaluation validation() = 0;

  /// Writes the model to the folder `dir`.
  virtual void save(const std::string& dir) const = 0;
  /// Prints a sample that shows what the model can do. Called under NoGrad and EvalMode.
  virtual void show() {}
  /// Returns the answer to a question that a reader of the run's web page asks, as JSON (see
  /// examples/page/probes.h). Returns "" if this task answers no questions. Called under NoGrad and
  /// EvalMode.
  virtual std::string probe(const Question&) { return ""; }
  /// Returns outputs of the model's blocks for some of the data, for the statistics on the run's
  /// web page. Called under NoGrad and EvalMode.
  virtual NamedTensors activations() { return {}; }
  /// Returns lines that tell how to use the finished model in `dir`.
  virtual std::string what_next(const std::string& dir) const { return "model in " + dir + '\n'; }
};

}  // namespace gradus
