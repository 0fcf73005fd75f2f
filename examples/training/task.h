#pragma once
// What a training program says of its model and data. All else is the trainer's.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "examples/training/loss_log.h"
#include "gradus/models/data/text/text_data.h"
#include "gradus/nn/module.h"
#include "gradus/optim/optimizer.h"

namespace gradus {

/// A mean over some examples.
struct NamedMean {
  std::string name;
  double value = 0;
  double examples = 1;
};

/// How good a model is on some examples.
struct Score {
  double loss = 0;
  double examples = 1;               ///< how many the loss is the mean over
  std::vector<NamedMean> more = {};  ///< other means: {"accuracy", 0.97, 500}
};

/// The scores of batches as that of all their examples; a mean that is over none is left out.
Score mean_score(const std::vector<Score>& batches);

/// Batches to score a model on.
struct Evaluation {
  int64_t batches = 0;
  double examples = 0;                        ///< of all batches
  std::function<Score(int64_t batch)> score;  ///< called under NoGrad and EvalMode
};

/// A classifier's cross entropy and accuracy on examples x (n, ...) of classes y (n).
Evaluation classification(std::function<Tensor(const Tensor& x)> logits, Tensor x, Tensor y);

using models::Split;

/// What a task's texts say of it.
struct TaskInfo {
  std::string model, loss;  ///< for the picture's title and axis: "GPT", "cross entropy"
  std::string items;        ///< what a batch is made of: "tokens"
  int64_t batch_items = 1;  ///< how many
  std::string data_id;      ///< tells data from other data: a resumed run must have the same
  std::string opening;      ///< lines on data and model: "text   ...\nmodel  ...\n"
};

struct TrainOptions;

/// A model, and the data that it learns from.
class Task {
 public:
  virtual ~Task() = default;
  virtual nn::Module& model() = 0;
  virtual TaskInfo info() const = 0;

  /// The mean loss of a step's index-th batch: a function of step, index, the seed, the weights and
  /// the thread's random state, so that a resumed run takes the steps of one that never stopped.
  virtual Tensor loss(int64_t step, int64_t index) = 0;
  virtual std::unique_ptr<optim::Optimizer> make_optimizer(const TrainOptions& options);
  virtual double learning_rate(const TrainOptions& options, int64_t step) const;

  /// What an estimate of a part's loss takes after `step` steps.
  virtual Evaluation estimate(Split part, int64_t step) = 0;
  /// All of the validation part.
  virtual Evaluation validation() = 0;

  /// Writes the model's folder.
  virtual void save(const std::string& dir) const = 0;
  /// Prints what the model can do by now.
  virtual void show() {}
  /// What to do with the finished model in `dir`: lines to print.
  virtual std::string what_next(const std::string& dir) const { return "model in " + dir + '\n'; }
};

}  // namespace gradus
