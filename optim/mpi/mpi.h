#pragma once
// MPI communication between ranks, each of which is a process. This is a separate library: link
// with -lgradus_mpi -lgradus.

#include <functional>

#include "gradus/optim/parallel/communicator.h"

namespace gradus::optim {

/// Options of mpi_communicator.
struct MpiOptions {
  /// Time limit of every all_to_all(), in seconds. The limit is ten times as long if all other
  /// ranks respond and at least one of them is not waiting in all_to_all(), for example because it
  /// is still computing.
  double deadline_seconds = 60;
  /// Time limit for all ranks to start, in seconds. If it is below deadline_seconds,
  /// deadline_seconds applies. If the ranks have different limits, the rank whose limit expires
  /// first reports the failure.
  double start_seconds = 0;
  /// Called repeatedly while all_to_all() waits, on the thread that called all_to_all(). `what`
  /// describes the data; `ranks` lists the ranks that have not yet sent or received all of the
  /// data.
  std::function<void(const std::string& what, const std::vector<int>& ranks)> while_waiting = {};
};

/// Initialises MPI and returns a communicator of all MPI processes. A process may call this
/// function only once. Throws Error unless deadline_seconds > 0 and both time limits are at most
/// 1e9. Also throws Error if MPI was initialised before, if MPI does not support
/// MPI_THREAD_SERIALIZED, or if not all processes start in time.
///
/// A rank whose wait reaches deadline_seconds asks every other rank for the number of its last
/// all_to_all() call. Unless the answers extend the limit (see MpiOptions::deadline_seconds), one
/// of the waiting ranks throws Error. The message names the ranks that do not answer or are in an
/// earlier call, and their hosts. Every other rank throws OtherRankFailed, in its current or next
/// call.
///
/// The destructor calls MPI_Finalize on another thread. If not all processes finalise in time, the
/// destructor detaches this thread and returns. After abort() or a timeout on any rank, the
/// destructor does not call MPI_Finalize, which would wait for the failed ranks too. The process
/// should then exit with a status other than 0. If the destructor runs because an exception was
/// thrown, it first calls abort().
std::unique_ptr<Communicator> mpi_communicator(const MpiOptions& options = {});

}  // namespace gradus::optim

/// Returns mpi_communicator(options), for programs that load the library with dlopen. The caller
/// owns the communicator and must delete it.
extern "C" gradus::optim::Communicator* gradus_mpi_communicator(
    const gradus::optim::MpiOptions& options);
