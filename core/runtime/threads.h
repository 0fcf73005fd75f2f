#pragma once
// Loops over several threads.
//
// parallel_for splits [0, n) into chunks whose size the caller fixes and the number of threads does
// not change, so a chunk always computes the same bits. Sums over chunks are combined in chunk
// order. Bodies work on raw pointers. While a loop runs, each of its threads rounds to nearest, traps
// no exception and flushes denormal numbers to zero (one denormal gradient costs as much as a hundred
// normal ones), whatever the caller's floating-point mode is, which is restored after.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gradus {

/// The number of threads that gradus uses: set_num_threads' value, or at first OpenMP's own
/// (OMP_NUM_THREADS, else the number of processors), but at most 1024.
int num_threads();

/// Sets the number of threads that gradus uses from now on; OpenMP's own number stays.
/// Throws Error unless 1 <= n <= 1024.
void set_num_threads(int n);

/// True inside a loop that gradus runs on several threads, or a parallel region of the caller's own
/// OpenMP.
bool in_parallel_region();

namespace detail {

/// Calls chunk(context, c) for c in [0, chunks), as parallel_for says.
void run_chunks(int64_t chunks, void (*chunk)(void*, int64_t), void* context);

}  // namespace detail

/// Calls body(begin, end) for each chunk [begin, end) of [0, n), `grain` long but for the last, on
/// up to num_threads() threads; on this thread alone where there is one chunk, where this thread is
/// already in a parallel region, or while another thread's loop has the others. A chunk is worth
/// its while from some 10 microseconds of work on: 16,384 additions, say. An exception thrown by a
/// body is thrown again here.
template <class Body>
void parallel_for(int64_t n, int64_t grain, Body&& body) {
  if (n <= 0) return;
  grain = grain < 1 ? 1 : grain;
  const int64_t chunks = (n - 1) / grain + 1;
  auto chunk = [&](int64_t c) { body(c * grain, c == chunks - 1 ? n : (c + 1) * grain); };
  detail::run_chunks(
      chunks, [](void* context, int64_t c) { (*static_cast<decltype(chunk)*>(context))(c); },
      &chunk);
}

/// As parallel_for, but body(i) for each i in [0, n).
template <class Body>
void parallel_for_each(int64_t n, int64_t grain, const Body& body) {
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

/// The sum of chunk_sum(begin, end) over the chunks of [0, n), added in chunk order.
template <class T, class ChunkSum>
T parallel_sum(int64_t n, int64_t grain, ChunkSum&& chunk_sum) {
  grain = grain < 1 ? 1 : grain;
  T total{};
  if (n <= grain) {
    parallel_for(n, n, [&](int64_t begin, int64_t end) { total = chunk_sum(begin, end); });
    return total;
  }
  std::vector<T> partial(static_cast<size_t>((n - 1) / grain + 1));
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    partial[static_cast<size_t>(begin / grain)] = chunk_sum(begin, end);
  });
  for (const T& p : partial) total += p;
  return total;
}

}  // namespace gradus
