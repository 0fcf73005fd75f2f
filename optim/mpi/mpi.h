#pragma once
// Communication between ranks that are processes, by MPI. This is a separate library: link with
// -lgradus_mpi -lgradus.

#include <functional>

#include "gradus/optim/parallel/communicator.h"

namespace gradus::optim {

/// Options of mpi_communicator.
struct MpiOptions {
  /// Time limit of every call. A rank that is alive but computing or writing gets ten times as
  /// long.
  double deadline_seconds = 60;
  /// Time limit for all ranks to start, if longer than deadline_seconds. If the ranks have
  /// different limits, the first one to expire reports the failure.
  double start_seconds = 0;
  /// Called now and then during a wait, with a description of what is waited for and the ranks that
  /// have not sent it.
  std::function<void(const std::string& what, const std::vector<int>& ranks)> while_waiting = {};
};

/// Initialises MPI and returns a communicator of all its processes. The destructor finalises MPI. A
/// process may call this only once. When a wait reaches its time limit, the waiting ranks ask each
/// other which ranks have not arrived. One of them throws Error, which names these ranks and their
/// hosts; the others throw OtherRankFailed. After such a failure, or after abort(), MPI is not
/// finalised, because that would wait too: the process should end with a status other than 0.
/// Throws Error if not all processes start in time. If not all processes finalise in time, the
/// destructor leaves finalising to a thread.
std::unique_ptr<Communicator> mpi_communicator(const MpiOptions& options = {});

}  // namespace gradus::optim

/// Does the same as mpi_communicator, for programs that load the library with dlopen.
extern "C" gradus::optim::Communicator* gradus_mpi_communicator(
    const gradus::optim::MpiOptions& options);
