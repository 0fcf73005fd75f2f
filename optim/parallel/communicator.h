#pragma once
// Communicator: how the ranks of a training run exchange data. Ranks are processes (optim/mpi), or
// threads of one process, for tests.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gradus/core/runtime/error.h"

namespace gradus::optim {

/// Thrown when another rank has failed and already reported it: no message is needed.
class OtherRankFailed : public Error {
 public:
  using Error::Error;
};

/// The data for one rank: pieces that are sent one after another.
using SentPieces = std::vector<std::span<const std::byte>>;
/// Where the pieces from one rank go.
using ReceivedPieces = std::vector<std::span<std::byte>>;

/// Connects the ranks of a run, which train copies of one model. All ranks call the same functions
/// in the same order; a rank calls them from one thread at a time. After an Error no more calls are
/// possible.
class Communicator {
 public:
  Communicator() = default;
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;  ///< this rank's number, from 0
  virtual int size() const = 0;  ///< the number of ranks
  /// The number of threads that this rank may use, so that the ranks on one machine share its
  /// processors.
  virtual int threads() const = 0;

  /// Sends the pieces send[i] to each other rank i, and fills the pieces receive[i] with what rank i
  /// sends to this one. Both sides must agree on the number of bytes of each piece; empty ones are
  /// left out. `what` names the data in messages: "the gradients of step 7". Throws Error, naming
  /// the ranks at fault, if another rank has not sent its data within the deadline; OtherRankFailed
  /// if another rank reports an error first.
  virtual void all_to_all(const std::vector<SentPieces>& send,
                          const std::vector<ReceivedPieces>& receive, const std::string& what) = 0;
  /// Makes the other ranks' calls throw OtherRankFailed, now and from now on. Returns false if
  /// another rank has failed before: this one's error need not be reported.
  virtual bool abort() noexcept = 0;
};

/// What each rank gives as `own`, by rank.
std::vector<std::string> all_gather(Communicator& communicator, const std::string& own,
                                    const std::string& what);
/// Fills `data` on all ranks with rank 0's. It has the same size on all.
void broadcast(Communicator& communicator, std::span<std::byte> data, const std::string& what);

/// Called by all ranks at once: throws Error on rank 0 and OtherRankFailed on the others, so that
/// the message is reported once.
[[noreturn]] void fail_on_all(const Communicator& communicator, const std::string& message);

/// Communicators of `size` ranks in this process, each for a thread of its own, with a deadline for
/// every call.
std::vector<std::unique_ptr<Communicator>> local_communicators(int size,
                                                               double deadline_seconds = 60);

}  // namespace gradus::optim
