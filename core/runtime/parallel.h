#pragma once
// Threads and vector loops: the only file in gradus that starts threads or uses OpenMP. The public
// part is threads.h.
//
// The threads are a pool instead of an OpenMP team: the thread that calls a loop works through the
// chunks itself and does not wait for threads that have not started. So a loop is never slower than
// on one thread, while a team's barrier waits until every thread has been scheduled: up to 30 ms
// per loop, measured, when other programs use the processors.

#include <omp.h>

#include <limits>
#include <utility>

#include "gradus/core/runtime/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradus {

/// For its lifetime, this thread rounds to nearest, traps nothing and flushes denormals to zero
/// (x86: FTZ and DAZ; aarch64: FZ), as every thread of a parallel loop does. Restores the previous
/// mode afterwards and, on x86, the previous record of floating-point exceptions.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : mode_(_mm_getcsr()) {
    // The low 6 bits only record past exceptions; 0x9fc0 is the mode described above.
    if ((mode_ & ~0x3fu) != 0x9fc0u) _mm_setcsr(0x9fc0u);
  }
  ~FlushDenormals() {
    if (_mm_getcsr() != mode_) _mm_setcsr(mode_);
  }
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(mode_));
    asm volatile("msr fpcr, %0" ::"r"(1ull << 24));  // FZ alone
  }
  ~FlushDenormals() { asm volatile("msr fpcr, %0" ::"r"(mode_)); }
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__aarch64__)
  uint64_t mode_;
#else
  unsigned mode_ = 0;
#endif
};

namespace internal {
/// How many chunks the parallel loops of this process have run, and how many of them by another
/// thread than the one in whose share they lay: their data may have had to move between cores.
struct ChunkCounts {
  int64_t run = 0, moved = 0;
};
ChunkCounts chunk_counts();
}  // namespace internal

/// Calls f(i) for i in [0, n) in one vector loop; iterations must be independent. simd_for is
/// always inlined and takes f by value: through a reference, the loop would reload the pointers
/// that f captures for each element.
template <class F>
[[gnu::always_inline]] inline void simd_for(int64_t n, F f) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) f(i);
}

/// The sum of f(i) for i in [0, n) in one vector loop. A flat float32 sum loses digits as n grows:
/// for more than a few thousand elements use blocked_sum.
template <class T, class F>
[[gnu::always_inline]] inline T simd_sum(int64_t n, F f) {
  T s{};
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) s += f(i);
  return s;
}

/// The sum of f(i) for i in [0, n), for any n: vector loops over blocks, whose sums are added in
/// double.
template <class T, class F>
[[gnu::always_inline]] inline double blocked_sum(int64_t n, F f) {
  constexpr int64_t block = 1024;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += block)
    total += static_cast<double>(simd_sum<T>(n - begin < block ? n - begin : block,
                                             [=](int64_t i) { return f(begin + i); }));
  return total;
}

/// blocked_sum for pairs f(i): the sums of the first and of the second members.
template <class T, class F>
[[gnu::always_inline]] inline std::pair<double, double> blocked_sums(int64_t n, F f) {
  constexpr int64_t block = 1024;
  double firsts = 0, seconds = 0;
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = n - begin < block ? n : begin + block;
    T a{}, b{};
#pragma omp simd reduction(+ : a, b)
    for (int64_t i = begin; i < end; ++i) {
      const std::pair<T, T> v = f(i);
      a += v.first;
      b += v.second;
    }
    firsts += static_cast<double>(a), seconds += static_cast<double>(b);
  }
  return {firsts, seconds};
}

/// The maximum of `start` and f(i) for i in [0, n), in one vector loop. Ignores NaN.
template <class T, class F>
[[gnu::always_inline]] inline T simd_max(int64_t n, T start, F f) {
  T m = start;
#pragma omp simd reduction(max : m)
  for (int64_t i = 0; i < n; ++i) {
    const T v = f(i);
    m = v > m ? v : m;
  }
  // OpenMP may initialise a max reduction with the lowest finite number (clang's does).
  if (m == std::numeric_limits<T>::lowest()) {
    m = start;
    for (int64_t i = 0; i < n; ++i) m = f(i) > m ? f(i) : m;
  }
  return m;
}

/// Runs f with OpenMP limited to one thread on this thread, so that an OpenMP BLAS starts no team;
/// restores the setting afterwards.
template <class F>
void with_single_openmp_thread(F&& f) {
  const int before = omp_get_max_threads();
  if (before != 1) omp_set_num_threads(1);
  f();
  if (before != 1) omp_set_num_threads(before);
}

}  // namespace gradus
