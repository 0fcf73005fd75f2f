#pragma once
// The ranks of a training run: one process, or several processes started together by mpirun.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/training/task.h"
#include "gradus/core/runtime/random.h"
#include "gradus/optim/parallel/communicator.h"

namespace gradus {

/// Returns the rank of this process among those that mpirun (of Open MPI or MPICH) has started, or
/// 0 if it was started alone.
int launched_rank();

/// The information about a step that all ranks share.
struct StepReport {
  double loss = 0;           ///< sum of the losses of all batches
  RandomKey next = {};       ///< random state of the next step
  bool interrupted = false;  ///< whether any rank has been interrupted
};

/// Connects this process with the other processes of the run. Only rank 0 writes models,
/// checkpoints and logs, and prints to stdout. What the other ranks print to stdout is discarded.
/// With --on-disk, which keeps the tokens of the training text in files, any rank that does not
/// find these files writes them. gather(), expect_same(), share_step(), gather_scores() and
/// expect_same_weights() exchange data, so all ranks must call them, in the same order. If
/// expect_same() or expect_same_weights() fails, rank 0 throws Error and the other ranks throw
/// optim::OtherRankFailed, so that the message is printed once.
class Ranks {
 public:
  /// Connects to all ranks. Throws Error if not all of them start within about `deadline` seconds.
  /// Also throws Error if mpirun has started several processes but libgradus_mpi.so, which connects
  /// them, is missing or of another version. Other functions of this object throw Error after they
  /// have waited for another rank for `deadline` seconds. The limit is ten times as long if all
  /// ranks respond but some are busy.
  explicit Ranks(double deadline);

  int rank() const { return communicator_->rank(); }
  int size() const { return communicator_->size(); }
  bool is_first() const { return rank() == 0; }
  bool several() const { return size() > 1; }
  /// With several ranks, returns the number of threads that this rank should use: its share of the
  /// processors of its machine. With one rank, returns 1, which callers should ignore, because a
  /// single rank may use all processors.
  int threads() const { return communicator_->threads(); }
  optim::Communicator& communicator() const { return *communicator_; }

  /// Returns the strings that the ranks pass as `own`, in the order of the ranks. `what` names the
  /// strings in error messages.
  std::vector<std::string> gather(const std::string& own, const std::string& what) const;
  /// Throws Error, naming the rank and the value that differs, if the ranks pass different values.
  /// `values` are pairs (name, value).
  void expect_same(const std::vector<std::pair<std::string, std::string>>& values) const;

  /// Shares information about a step with all ranks. `losses` are the losses of this rank's
  /// batches, and `next` is the random state of the next step. Returns the sum of the losses of all
  /// batches (added in the order of the batches), rank 0's `next`, and whether any rank is
  /// interrupted(). `step` is only used in messages.
  StepReport share_step(const std::vector<double>& losses, const RandomKey& next,
                        int64_t step) const;
  /// Returns the scores of all batches, in order. `own` contains the scores of this rank's batches:
  /// those with index rank(), rank() + size(), and so on. `complete` tells whether this rank has
  /// scored all its batches. If `complete` is false on any rank, returns an empty vector. `what`
  /// names the scores in error messages.
  std::vector<Score> gather_scores(const std::vector<Score>& own, bool complete, int64_t batches,
                                   const std::string& what) const;
  /// Throws Error, naming the ranks that differ from rank 0, if the ranks have different weights
  /// after `step` steps.
  void expect_same_weights(const std::vector<Tensor>& weights, int64_t step) const;

 private:
  std::unique_ptr<optim::Communicator> communicator_;
};

}  // namespace gradus
