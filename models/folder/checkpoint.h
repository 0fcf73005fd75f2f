#pragma once
// Checkpoints: files that hold the state of a training run, except its options and the learning
// rate. A run that has the same options and learning rate and restores a checkpoint continues as if
// it had not been interrupted.

#include <map>
#include <string>

#include "gradus/core/files/safetensors.h"
#include "gradus/core/runtime/random.h"
#include "gradus/nn/module.h"
#include "gradus/optim/optimizer.h"
#include "gradus/optim/weight_average.h"

namespace gradus::models {

/// Writes a checkpoint to a safetensors file, atomically: a crash leaves either the old file or the
/// new one. The checkpoint contains the states of the model and of the optimiser, the random state
/// of the calling thread, `metadata` and, if `average` is not null, the state of the weight
/// average. The random state is stored as the metadata entry "random"; an entry of this name in
/// `metadata` is ignored. Throws Error if the file cannot be written, or while a
/// WeightAverage::Applied puts the means of `average` into the parameters.
void save_checkpoint(const std::string& path, const nn::Module& model,
                     const optim::Optimizer& optimizer,
                     const std::map<std::string, std::string>& metadata,
                     const optim::WeightAverage* average = nullptr);

/// A checkpoint that was read from disk.
class Checkpoint {
 public:
  /// Reads a checkpoint. Throws Error, naming the file, if it is not a checkpoint or is damaged.
  /// The checksum detects any flipped bit. In older checkpoints, which have no checksum, damage to
  /// the elements of tensors is not detected.
  explicit Checkpoint(const std::string& path);
  /// Returns the metadata passed to save_checkpoint(), and the random state as the entry "random".
  const std::map<std::string, std::string>& metadata() const { return file_.metadata; }
  /// Restores the model, the optimiser, the random state of the calling thread and, if `average` is
  /// not null, the weight average. If `average` is null, an average in the file is ignored. Throws
  /// Error, with nothing changed, if the file does not match one of these objects; the message
  /// names the file and the difference. Also throws Error, with nothing changed, while a
  /// WeightAverage::Applied puts the means of `average` into the parameters.
  void restore(nn::Module& model, optim::Optimizer& optimizer,
               optim::WeightAverage* average = nullptr) const;

 private:
  std::string path_;
  SafetensorsFile file_;
  RandomKey random_;
};

}  // namespace gradus::models
