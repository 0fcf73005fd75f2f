#pragma once
// Runs ranks as threads of one process, and compares tensors bit for bit.

#include <cstring>
#include <functional>
#include <thread>

#include "gradus/core/tensor/tensor.h"
#include "gradus/optim/parallel/communicator.h"

/// Runs f(communicator) on one thread per rank. Returns one text per rank: the message of its
/// Error, "another rank" if another rank had failed before, or "" if it threw none. `deadline` is
/// the most seconds that a rank waits for other ranks.
inline std::vector<std::string> on_ranks(int ranks,
                                         const std::function<void(gradus::optim::Communicator&)>& f,
                                         double deadline = 30) {
  const auto communicators = gradus::optim::local_communicators(ranks, deadline);
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (size_t r = 0; r < errors.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        f(*communicators[r]);
      } catch (const gradus::optim::OtherRankFailed&) {
        errors[r] = "another rank";
      } catch (const gradus::Error& e) {
        const bool first = communicators[r]->abort();
        errors[r] = first ? e.what() : "another rank";
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// Returns whether two tensors have the same shape and dtype and, converted to double, the same
/// bits, or are both undefined.
inline bool same_bits(const gradus::Tensor& a, const gradus::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const std::vector<double> x = a.to(gradus::float64).to_vector<double>(),
                            y = b.to(gradus::float64).to_vector<double>();
  return std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}
