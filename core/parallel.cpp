#include "gradus/core/parallel.h"

#include "gradus/core/error.h"

namespace gradus {

namespace {

// Starts at OpenMP's own number on first use.
std::atomic<int>& thread_count() {
  static std::atomic<int> count{omp_get_max_threads()};
  return count;
}

}  // namespace

int num_threads() { return thread_count().load(std::memory_order_relaxed); }

void set_num_threads(int n) {
  check(n >= 1 && n <= 1024, "set_num_threads: expected 1 to 1024 threads, got ", n);
  thread_count().store(n, std::memory_order_relaxed);
}

const char* openmp_runtime() {
#if defined(__clang__)
  return "libomp";
#else
  return "libgomp";
#endif
}

}  // namespace gradus
