#pragma once
// Ranks that are processes, connected by MPI. A library of its own: link with -lgradus_mpi -lgradus.

#include <functional>

#include "gradus/optim/parallel/communicator.h"

namespace gradus::optim {

/// Options of mpi_communicator.
struct MpiOptions {
  /// For every call. A rank that is alive, but computing or writing, is given ten times as long.
  double deadline_seconds = 60;
  /// For all ranks to start, if longer. If ranks have different ones, the first reports the failure.
  double start_seconds = 0;
  /// Called now and then during a wait, with what is waited for and the ranks that have not sent it.
  std::function<void(const std::string& what, const std::vector<int>& ranks)> while_waiting = {};
};

/// Initialises MPI and returns a communicator of all its processes; its destructor finalises MPI.
/// At most one may be made in a process. When a wait reaches its deadline, the waiting ranks ask
/// each other who has not come: one of them throws Error, naming those ranks and their hosts, and
/// the others OtherRankFailed. Then, or after abort(), MPI is not finalised, since that would wait
/// too: the process should end, with a status other than 0. Throws Error if not all processes have
/// started in time; if not all finalise in time, the destructor leaves that to a thread.
std::unique_ptr<Communicator> mpi_communicator(const MpiOptions& options = {});

}  // namespace gradus::optim

/// The same for programs that load the library with dlopen.
extern "C" gradus::optim::Communicator* gradus_mpi_communicator(
    const gradus::optim::MpiOptions& options);
