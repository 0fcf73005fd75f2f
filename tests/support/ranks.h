#pragma once
// Runs the ranks of data-parallel training as threads of one process.

#include <exception>
#include <functional>
#include <thread>

#include "gradus/optim/parallel/communicator.h"
#include "tests/support/same_bits.h"

/// Runs f(communicator) on one thread per rank. Returns one string per rank: the message of the
/// exception that f threw, "another rank" if another rank failed first, or "" if f did not throw.
/// `deadline` is the longest time, in seconds, that a rank waits for other ranks.
inline std::vector<std::string> on_ranks(int ranks,
                                         const std::function<void(gradus::optim::Communicator&)>& f,
                                         double deadline = 30) {
  const auto communicators = gradus::optim::local_communicators(ranks, deadline);
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  const auto failed = [&](size_t r, const char* message) {
    const bool first = communicators[r]->abort();
    errors[r] = first ? message : "another rank";
  };
  for (size_t r = 0; r < errors.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        f(*communicators[r]);
      } catch (const gradus::optim::OtherRankFailed&) {
        errors[r] = "another rank";
      } catch (const std::exception& e) {
        failed(r, e.what());
      } catch (...) {
        failed(r, "an exception of an unknown type");
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}
