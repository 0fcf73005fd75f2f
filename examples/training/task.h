#pragma once
// Task: a model and its data, as the trainer sees them.

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

/// A mean, with the number of examples that it averages.
struct NamedMean {
  std::string name;
  double value = 0;
  double examples = 1;
};

/// A model's scores on some examples.
struct Score {
  double loss = 0;
  double examples = 1;               ///< number of examples that the loss averages
  std::vector<NamedMean> more = {};  ///< other means, such as {"accuracy", 0.97, 500}
};

/// Averages the scores of batches, weighted by their examples. Means over no examples are omitted.
Score mean_score(const std::vector<Score>& batches);

/// Batches to score a model on.
struct Evaluation {
  int64_t batches = 0;
  double examples = 0;                        ///< of all batches together
  std::function<Score(int64_t batch)> score;  ///< called under NoGrad and EvalMode
};

/// The number of batches that n examples make, each of at most `batch` examples.
inline int64_t num_batches(int64_t n, int64_t batch) { return (n + batch - 1) / batch; }

/// Scores a classifier, logits(x), by cross entropy and accuracy on examples x (n, ...) with
/// classes y (n).
Evaluation classification(std::function<Tensor(const Tensor& x)> logits, Tensor x, Tensor y);

using models::Split;

/// Describes a task in logs, plots and checkpoints.
struct TaskInfo {
  std::string model, loss;  ///< the plot's title and y label, such as "GPT", "cross entropy"
  std::string items;        ///< what throughput counts, such as "tokens"
  int64_t batch_items = 1;  ///< number of items in a batch
  std::string data_id;      ///< identifies the data: a resumed run must have the same
  std::string opening;      ///< lines to print, "text   ...\nmodel  ...\n" for example
};

struct TrainOptions;

/// A model and the data it is trained on.
class Task {
 public:
  virtual ~Task() = default;
  virtual nn::Module& model() = 0;
  virtual TaskInfo info() const = 0;

  /// Called once, when the model has the weights of --init-from, and before those of a checkpoint
  /// are loaded.
  virtual void begin() {}
  /// Mean loss of a step's index-th batch. Depends only on step, index, the seed, the weights and
  /// the thread's random state, so that a resumed run repeats the steps of an uninterrupted one.
  virtual Tensor loss(int64_t step, int64_t index) = 0;
  virtual std::unique_ptr<optim::Optimizer> make_optimizer(const TrainOptions& options);
  virtual double learning_rate(const TrainOptions& options, int64_t step) const;

  /// The batches on which the loss on a part of the data is estimated after `step` steps.
  virtual Evaluation estimate(Split part, int64_t step) = 0;
  /// All examples of the validation part.
  virtual Evaluation validation() = 0;

  /// Writes the model to the folder `dir`.
  virtual void save(const std::string& dir) const = 0;
  /// Prints a sample of what the model can do.
  virtual void show() {}
  /// Answers a question of the page's reader, in JSON as examples/page/probes.h describes it. Called
  /// under NoGrad and EvalMode. "": this task answers none.
  virtual std::string probe(const Question&) { return ""; }
  /// The outputs of the model's blocks for some of the data, for the page. Called as probe() is.
  virtual NamedTensors activations() { return {}; }
  /// Lines that say how to use the finished model in `dir`.
  virtual std::string what_next(const std::string& dir) const { return "model in " + dir + '\n'; }
};

}  // namespace gradus
