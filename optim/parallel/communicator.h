#pragma once
// Communicator: data exchange between the ranks of a training run. Ranks are processes (optim/mpi)
// or, for tests, threads of one process.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gradus/core/runtime/error.h"

namespace gradus::optim {

/// Thrown if another rank has failed. That rank reports the error, so this rank need not.
class OtherRankFailed : public Error {
 public:
  using Error::Error;
};

/// The data for one rank: pieces that are sent one after another.
using SentPieces = std::vector<std::span<const std::byte>>;
/// The memory that receives the pieces sent by one rank.
using ReceivedPieces = std::vector<std::span<std::byte>>;

/// Connects the ranks of a run, which train copies of one model. All ranks must make the same calls
/// of all_to_all(), or of functions that use all_to_all(), in the same order. On each rank, only
/// one thread at a time may make these calls; abort() may be called at any time, on any thread.
/// After an Error, all_to_all() must not be called again.
class Communicator {
 public:
  Communicator() = default;
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;  ///< number of this rank, from 0
  virtual int size() const = 0;  ///< number of ranks
  /// Returns the number of threads that this rank may use. The ranks on one machine share its
  /// processors.
  virtual int threads() const = 0;

  /// Sends the pieces send[i] to each other rank i, and fills the pieces receive[i] with the data
  /// that rank i sends to this rank. `send` and `receive` have one entry per rank; this rank's own
  /// entries are ignored. Sender and receiver must agree on the number of pieces and on the number
  /// of bytes of each piece, which may be 0. `what` names the data in messages, for example "the
  /// gradients of step 7".
  ///
  /// Throws Error if `send` or `receive` has the wrong number of entries. Also throws Error if
  /// another rank has not sent its data within the communicator's time limit; the message names at
  /// least one rank at fault. Throws OtherRankFailed if another rank reports an error first.
  virtual void all_to_all(const std::vector<SentPieces>& send,
                          const std::vector<ReceivedPieces>& receive, const std::string& what) = 0;
  /// Makes the current and all later all_to_all() calls of other ranks throw OtherRankFailed. A
  /// call whose data has already arrived may return instead. Returns true if this rank must report
  /// its error, false if another rank has failed first.
  virtual bool abort() noexcept = 0;
};

/// Returns the strings `own` of all ranks, in the order of the ranks. All ranks must call
/// all_gather(). `what` and the errors are those of Communicator::all_to_all.
std::vector<std::string> all_gather(Communicator& communicator, const std::string& own,
                                    const std::string& what);
/// Copies `data` of rank 0 to `data` on all other ranks. All ranks must call broadcast() with
/// `data` of the same size. `what` and the errors are those of Communicator::all_to_all.
void broadcast(Communicator& communicator, std::span<std::byte> data, const std::string& what);

/// Throws Error on rank 0 and OtherRankFailed on the other ranks, so that the message is reported
/// once. All ranks must call fail_on_all().
[[noreturn]] void fail_on_all(const Communicator& communicator, const std::string& message);

/// Returns `size` communicators, for ranks that are threads of this process. Every wait for other
/// ranks has the time limit `deadline_seconds`. Throws Error unless size >= 1 and
/// 0 < deadline_seconds <= 1e9.
std::vector<std::unique_ptr<Communicator>> local_communicators(int size,
                                                               double deadline_seconds = 60);

}  // namespace gradus::optim
