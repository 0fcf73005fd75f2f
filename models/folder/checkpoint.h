#pragma once
// All that a training run needs to go on as if it had never stopped, in one file.

#include <map>
#include <string>

#include "gradus/core/files/safetensors.h"
#include "gradus/core/runtime/random.h"
#include "gradus/nn/module.h"
#include "gradus/optim/optimizer.h"

namespace gradus::models {

/// Writes the model's and the optimiser's state, the thread's random state and `metadata` to one
/// safetensors file, in such a way that a crash leaves the old file or the new one.
void save_checkpoint(const std::string& path, const nn::Module& model,
                     const optim::Optimizer& optimizer,
                     const std::map<std::string, std::string>& metadata);

/// A checkpoint read from disk.
class Checkpoint {
 public:
  /// Throws Error, naming the file, if it is no checkpoint or damaged: the checksum in it shows any
  /// flipped bit. A checkpoint from before there were checksums is taken as it is.
  explicit Checkpoint(const std::string& path);
  /// What save_checkpoint was given.
  const std::map<std::string, std::string>& metadata() const { return file_.metadata; }
  /// Puts model, optimiser and the thread's random state back to where they were. Throws Error,
  /// naming the file and what does not fit; then nothing has been changed.
  void restore(nn::Module& model, optim::Optimizer& optimizer) const;

 private:
  std::string path_;
  SafetensorsFile file_;
  RandomKey random_;
};

}  // namespace gradus::models
