#pragma once
// Loops that run on several threads.
//
// parallel_for splits [0, n) into chunks, of a size that the caller passes. Results must not depend
// on the number of threads: either the chunk size is independent of it, or any chunk size gives the
// same bits. Sums over chunks are combined in chunk order. A loop body must not call ops. While a
// loop runs, its threads round to nearest, trap no floating-point exception and flush denormals to
// zero, since arithmetic on one denormal takes as long as on a hundred normal numbers. The caller's
// floating-point mode is restored afterwards.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gradus {

/// Returns the number of threads that gradus uses, at most 1024: the value passed to
/// set_num_threads, or by default OpenMP's setting when gradus first reads it (OMP_NUM_THREADS if
/// set, else the number of processors).
int num_threads();

/// Sets the number of threads that gradus uses in this process. OpenMP's own setting is unchanged.
/// Throws Error unless 1 <= n <= 1024.
void set_num_threads(int n);

/// Returns whether the caller is inside a loop of gradus, or inside an OpenMP parallel region, that
/// runs on several threads.
bool in_parallel_region();

namespace detail {

/// Calls chunk(context, c) for c in [0, chunks) as described at parallel_for.
void run_chunks(int64_t chunks, void (*chunk)(void*, int64_t), void* context);

}  // namespace detail

/// Calls body(begin, end) for each chunk [begin, end) of [0, n), on up to num_threads() threads.
/// Chunks have `grain` elements, or 1 if `grain` is less than 1; the last chunk may have fewer. The
/// calling thread runs all chunks itself if it is already in a parallel region, or if another
/// thread's loop is using the workers. A chunk should take at least 10 microseconds, for example
/// 16,384 additions. If a body throws, skips the chunks not started by then and rethrows the first
/// exception.
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

/// Calls body(i) for each i in [0, n), with parallel_for over chunks of `grain` elements.
template <class Body>
void parallel_for_each(int64_t n, int64_t grain, const Body& body) {
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

/// Returns the sum of chunk_sum(begin, end) over the chunks of [0, n), added in chunk order.
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
