#pragma once
// The ranks of a training run: one process, or those that mpirun has started together.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "examples/training/task.h"
#include "gradus/optim/communicator.h"

namespace gradus {

/// Number of this process among those that mpirun (Open MPI's or MPICH's) has started; 0
/// if it was started alone.
int launched_rank();

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

 private:
  std::unique_ptr<optim::Communicator> communicator_;
};

///@{
/// A batch's score as bytes, for another rank of the same program.
std::string to_bytes(const Score& score);
/// Reads a score at bytes[at], and moves `at` past it.
Score score_from(const std::string& bytes, size_t& at);
///@}

}  // namespace gradus
