#pragma once
// The complete state of a training run in one file, so that it can resume as if never interrupted.

#include <map>
#include <string>

#include "gradus/core/files/safetensors.h"
#include "gradus/core/runtime/random.h"
#include "gradus/nn/module.h"
#include "gradus/optim/optimizer.h"
#include "gradus/optim/weight_average.h"

namespace gradus::models {

/// Writes the state of the model, the optimiser and, unless null, the average of weights, the
/// calling thread's random state and `metadata` to one safetensors file, atomically: a crash leaves
/// either the old file or the new one.
void save_checkpoint(const std::string& path, const nn::Module& model,
                     const optim::Optimizer& optimizer,
                     const std::map<std::string, std::string>& metadata,
                     const optim::WeightAverage* average = nullptr);

/// A checkpoint read from disk.
class Checkpoint {
 public:
  /// Throws Error, naming the file, if it is not a checkpoint or is damaged: its checksum detects
  /// any flipped bit. Older checkpoints, without a checksum, are read unchecked.
  explicit Checkpoint(const std::string& path);
  /// The metadata given to save_checkpoint.
  const std::map<std::string, std::string>& metadata() const { return file_.metadata; }
  /// Restores the model, the optimiser, the average of weights unless null, and the calling thread's
  /// random state. Throws Error, naming the file and what does not fit, with nothing changed.
  void restore(nn::Module& model, optim::Optimizer& optimizer,
               optim::WeightAverage* average = nullptr) const;

 private:
  std::string path_;
  SafetensorsFile file_;
  RandomKey random_;
};

}  // namespace gradus::models
