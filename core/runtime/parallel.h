#pragma once
// Vector loops, the floating-point mode of kernels, and OpenMP's thread setting. threads.h declares
// parallel_for. Only this file and parallel.cpp use OpenMP.
//
// The threads of parallel_for are a pool, not an OpenMP team. The thread that calls parallel_for
// runs chunks too. When no chunk is left, it waits only for threads that are still running a chunk.
// The barrier of an OpenMP team would wait until every thread has been scheduled. This wait was
// measured to take up to 30 ms per loop when other programs use the processors.

#include <omp.h>

#include <limits>
#include <utility>

#include "gradus/core/runtime/threads.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradus {

/// While a FlushDenormals object exists, its thread rounds to nearest, traps no floating-point
/// exception and flushes denormals to zero (FTZ and DAZ on x86, FZ on aarch64). Every thread of a
/// parallel loop creates such an object. The destructor restores the previous mode and, on x86, the
/// previous exception flags.
class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : mode_(_mm_getcsr()) {
    // The low 6 bits of MXCSR are the flags of past exceptions. This class sets mode 0x9fc0.
    if ((mode_ & ~0x3fu) != 0x9fc0u) _mm_setcsr(0x9fc0u);
  }
  ~FlushDenormals() {
    if (_mm_getcsr() != mode_) _mm_setcsr(mode_);
  }
#elif defined(__aarch64__)
  FlushDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(mode_));
    asm volatile("msr fpcr, %0" ::"r"(1ull << 24));  // FZ only
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
/// Counts the chunks of all parallel_for loops that have run on several threads in this process.
/// `run` counts all chunks. `moved` counts the chunks that ran on another thread than planned, for
/// example because the planned thread was busy. The data of a moved chunk may be in another core's
/// cache.
struct ChunkCounts {
  int64_t run = 0, moved = 0;
};
ChunkCounts chunk_counts();
}  // namespace internal

/// Calls f(i) for each i in [0, n), in one vectorised loop. The calls must be independent. f is
/// passed by value: if it were a reference, each iteration would reload the pointers in f.
template <class F>
[[gnu::always_inline]] inline void simd_for(int64_t n, F f) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) f(i);
}

/// Returns the sum of f(i) for i in [0, n), computed in one vectorised loop and accumulated in T. A
/// long sum of floats loses precision: for more than a few thousand elements, use blocked_sum.
template <class T, class F>
[[gnu::always_inline]] inline T simd_sum(int64_t n, F f) {
  T s{};
#pragma omp simd reduction(+ : s)
  for (int64_t i = 0; i < n; ++i) s += f(i);
  return s;
}

/// Returns the sum of f(i) for i in [0, n). Each block of 1024 values is summed in T in a
/// vectorised loop, and the sums of the blocks are added in double, so that a long sum stays
/// precise.
template <class T, class F>
[[gnu::always_inline]] inline double blocked_sum(int64_t n, F f) {
  constexpr int64_t block = 1024;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += block)
    total += static_cast<double>(simd_sum<T>(n - begin < block ? n - begin : block,
                                             [=](int64_t i) { return f(begin + i); }));
  return total;
}

/// Returns the sum of f(i).first and the sum of f(i).second for i in [0, n). Each block of 1024
/// values is summed in T, and the sums of the blocks are added in double.
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

/// Returns the maximum of `start` and of all f(i) for i in [0, n), computed in one vectorised loop.
/// Ignores values f(i) that are NaN.
template <class T, class F>
[[gnu::always_inline]] inline T simd_max(int64_t n, T start, F f) {
  T m = start;
#pragma omp simd reduction(max : m)
  for (int64_t i = 0; i < n; ++i) {
    const T v = f(i);
    m = v > m ? v : m;
  }
  // With clang, an OpenMP max reduction starts from the lowest finite number instead of -infinity.
  // If m equals that number, m may be wrong and is computed again without OpenMP.
  if (m == std::numeric_limits<T>::lowest()) {
    m = start;
    for (int64_t i = 0; i < n; ++i) m = f(i) > m ? f(i) : m;
  }
  return m;
}

/// Calls f() while OpenMP's number of threads is set to 1 for the calling thread, so that a BLAS
/// built on OpenMP uses no other threads. Then restores the setting. f must not throw.
template <class F>
void with_single_openmp_thread(F&& f) {
  const int before = omp_get_max_threads();
  if (before != 1) omp_set_num_threads(1);
  f();
  if (before != 1) omp_set_num_threads(before);
}

}  // namespace gradus
