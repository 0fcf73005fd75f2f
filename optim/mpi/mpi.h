#pragma once
// MPI communication between ranks, each of which is a process. This is a separate library: link
// with -lgradus_mpi -lgradus.

#include <functional>

#include "gradus/optim/parallel/communicator.h"

namespace gradus::optim {

/// Options of mpi_communicator.
struct MpiOptions {
  /// Time limit of every all_to_all(), in seconds. The limit is ten times as long if all other
  /// ranks still respond, but some of them are computing or writing instead of waiting.
  double deadline_seconds = 60;
  /// Time limit for all ranks to start, in seconds. If it is below deadline_seconds,
  /// deadline_seconds applies. If the ranks have different limits, the rank whose limit expires
  /// first reports the failure.
  double start_seconds = 0;
  /// Called repeatedly during a wait, on the thread that waits. `what` describes the data; `ranks`
  /// lists the ranks that have not yet sent or received all of the data.
  std::function<void(const std::string& what, const std::vector<int>& ranks)> while_waiting = {};
};

/// Initialises MPI and returns a communicator of all MPI processes. A process may call this only
/// once. Throws Error if a time limit is above 1e9 s or the deadline is not above 0, if MPI was
/// initialised before, or if not all processes start in time.
///
/// When a wait reaches its time limit, the waiting rank asks every other rank which call of
/// all_to_all() it has reached. If the waiting ranks then give up (see deadline_seconds), one of
/// them throws Error, which names the ranks that do not answer or lag behind, and their hosts.
/// Every other rank throws OtherRankFailed, in its current or next call.
///
/// The destructor finalises MPI. If not all processes finalise in time, it returns and leaves
/// finalising to a detached thread. If the ranks have given up, or after abort(), it does not
/// finalise MPI, because MPI_Finalize would wait for the failed ranks too; the process should then
/// exit with a status other than 0. If the destructor runs because an exception was thrown, it
/// calls abort().
std::unique_ptr<Communicator> mpi_communicator(const MpiOptions& options = {});

}  // namespace gradus::optim

/// Returns mpi_communicator(options), for programs that load the library with dlopen. The caller
/// owns the communicator and must delete it.
extern "C" gradus::optim::Communicator* gradus_mpi_communicator(
    const gradus::optim::MpiOptions& options);
