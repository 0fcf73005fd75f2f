#pragma once
// Loops that run on several threads.
//
// parallel_for splits [0, n) into chunks whose size the caller passes. Results must not depend on
// the number of threads. The caller must therefore not derive the chunk size from the number of
// threads, unless the result is bit for bit the same for every chunk size. parallel_sum adds the
// sums of the chunks in the order of the chunks. A loop body must not call ops.
//
// While a loop runs, its threads round to nearest, trap no floating-point exception and flush
// denormals to zero, because arithmetic on denormals is about a hundred times as slow. The caller's
// floating-point mode is restored afterwards.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gradus {

/// Returns the number of threads that gradus uses: the value passed to set_num_threads(). The
/// default is OpenMP's setting when gradus first reads it (OMP_NUM_THREADS if set, else the number
/// of processors), but at most 1024.
int num_threads();

/// Sets the number of threads that gradus uses in this process. OpenMP's own setting is unchanged.
/// Throws Error unless 1 <= n <= 1024.
void set_num_threads(int n);

/// Returns whether the calling thread is running the body of a parallel_for or of an OpenMP
/// parallel region. Loops and regions that use only one thread do not count.
bool in_parallel_region();

namespace detail {

/// Calls chunk(context, c) for each c in [0, chunks), on up to num_threads() threads. Implements
/// parallel_for.
void run_chunks(int64_t chunks, void (*chunk)(void*, int64_t), void* context);

}  // namespace detail

/// Calls body(begin, end) for each chunk [begin, end) of [0, n), on up to num_threads() threads.
/// Chunks have `grain` elements, or 1 if `grain` is less than 1; the last chunk may have fewer. A
/// chunk should take at least 10 microseconds, as 16,384 additions do. The calling thread runs all
/// chunks itself if in_parallel_region() is true, or if another thread's loop is using the worker
/// threads. If a call of body throws, the chunks that have not started are skipped, and
/// parallel_for rethrows the first exception.
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

/// Calls body(i) for each i in [0, n). parallel_for distributes chunks of `grain` calls among the
/// threads.
template <class Body>
void parallel_for_each(int64_t n, int64_t grain, const Body& body) {
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

/// Returns the sum of chunk_sum(begin, end) over the chunks [begin, end) of [0, n), each of `grain`
/// elements. parallel_for computes the chunk sums, and the calling thread adds them in order.
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
