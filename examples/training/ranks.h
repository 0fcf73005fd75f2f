#pragma once
// The ranks of a training run: one process, or those that mpirun has started together.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/training/task.h"
#include "gradus/core/runtime/random.h"
#include "gradus/optim/parallel/communicator.h"

namespace gradus {

/// Number of this process among those that mpirun (Open MPI's or MPICH's) has started; 0
/// if it was started alone.
int launched_rank();

/// What all ranks know after a step.
struct StepReport {
  double loss = 0;           ///< of all batches
  RandomKey next = {};       ///< the random state of the next step
  bool interrupted = false;  ///< whether a rank has been interrupted
};

/// Connects this process with the others of the run. Rank 0 alone writes files and prints: the
/// others' standard output is discarded.
class Ranks {
 public:
  /// Waits for all ranks. Every later wait for another rank ends after `deadline` seconds with an
  /// Error. Throws Error if mpirun has started several processes but libgradus_mpi.so, which
  /// connects them, is missing.
  explicit Ranks(double deadline);

  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }
  bool is_first() const { return rank() == 0; }
  bool several() const { return size() > 1; }
  /// The number of threads for this rank, if there are several.
  int threads() const { return communicator_->threads(); }
  optim::Communicator& communicator() const { return *communicator_; }

  /// What each rank gives as `own`, by rank.
  std::vector<std::string> gather(const std::string& own, const std::string& what) const;
  /// Throws Error, naming the rank and what differs, unless all ranks have the same values.
  void expect_same(const std::vector<std::pair<std::string, std::string>>& values) const;

  /// Adds up the losses of all ranks' batches, in the order of the batches, and passes on rank 0's
  /// `next` and whether a rank is interrupted(). `step` is for messages.
  StepReport share_step(const std::vector<double>& losses, const RandomKey& next,
                        int64_t step) const;
  /// All ranks' scores, in the order of the batches, where `own` are those of batches rank(),
  /// rank() + size(), ...; nothing unless they are complete on all ranks.
  std::vector<Score> gather_scores(const std::vector<Score>& own, bool complete, int64_t batches,
                                   const std::string& what) const;
  /// Throws Error, naming the ranks that differ, unless all have the same weights after `step`.
  void expect_same_weights(const std::vector<Tensor>& weights, int64_t step) const;

 private:
  std::unique_ptr<optim::Communicator> communicator_;
};

}  // namespace gradus
