#include "gradus/core/kernels/attention.h"

#include "gradus/core/internal.h"
#include "gradus/core/kernels/attention_tiles.h"
#include "gradus/core/kernels/dropout.h"
#include "gradus/core/kernels/products/product.h"
#include "gradus/core/kernels/products/row_dots.h"
#include "gradus/core/kernels/softmax.h"

// The forward pass; attention_backward.cpp holds the backward pass.

namespace gradus::kernel {

using namespace detail;

namespace {

// Tile sizes, chosen so that the working set of a tile stays in the L2 cache.
constexpr int64_t forward_queries = 64, forward_keys = 128;

// The memory and steps of attention for queries [first, first + count) of a head, over tiles of its
// keys. Each SIMD lane holds one query, so a sum over keys adds whole vectors. A thread uses one
// ForwardTile for all of its tiles. E is the type of the products' operands.
template <class E>
struct ForwardTile {
  using T = Sum<E>;
  const Attention<T>& p;
  const int64_t most = std::min(forward_queries, p.queries), rows = std::max(forward_keys, most);
  const int64_t depth = elements_of<E>(p.dim), packed_dim = padded<E>(depth);
  const int64_t vdim = padded<T>(p.value_dim), packed_keys = elements_of<E>(forward_keys);
  const int64_t drop_size = p.dropout > 0 ? forward_keys* lanes<T> : 0;
  int64_t b = 0, h = 0, first = 0, count = 0;
  int64_t width = padded<T>(most);  // row stride of the scores and of the values per query
  const int64_t weights_size = is_pair<E> ? packed_keys * width : 0;
  Arena<E> operands{packed_dim * (width + rows) + packed_keys * vdim + weights_size};
  E* const queries = operands.take(packed_dim * width);  // (depth, width)
  E* const k_space = operands.take(rows * packed_dim);
  E* const v_space = operands.take(packed_keys * vdim);
  E* const weights_space = operands.take(weights_size);
  Arena<T> arena{(forward_keys + 5) * width + most * vdim + 2 * drop_size};
  T* const scores = arena.take(forward_keys * width);  // (keys of a tile, width)
  // Per query, over the keys so far: the largest score, the shift and the sum of exp(score -
  // shift). `part` is the sum over the current tile of keys.
  T *const largest = arena.take(width), *const shift = arena.take(width);
  T *const total = arena.take(width), *const part = arena.take(width);
  T* const scale = arena.take(width);  // factor for the earlier tiles' sums
  T* const sums_space = arena.take(most * vdim);
  T* const drop_space = arena.take(2 * drop_size);

  // Lanes [first_lane(j), end_lane(j)) see key j.
  int64_t first_lane(int64_t j) const {
    return std::clamp(p.first_to_see(j) - first, int64_t{0}, width);
  }
  int64_t end_lane(int64_t j) const {
    return std::clamp(p.end_to_see(j) - first, int64_t{0}, count);
  }

  // scores[j][i] = k_j q_i for n keys from j0 on
  void multiply(Rows<const E> k, int64_t j0, int64_t n) const {
    const bool all_seen = first_lane(j0 + n - 1) == 0 && end_lane(j0) == count;
    const int64_t step = all_seen ? n : rows_at_once<E>();
    for (int64_t j = 0; j < n; j += step) {
      const int64_t m = std::min(step, n - j), lane = first_lane(j0 + j) / lanes<T> * lanes<T>;
      const int64_t end = padded<T>(end_lane(j0 + j + m - 1));
      multiply_tiles<E, false, false>(m, end - lane, depth, k.at(j), k.stride, queries + lane,
                                      width, scores + j * width + lane, width);
    }
  }

  // scores = exp(scores - shift), and updates each query's largest score and sum. Takes four keys
  // at a time, which keeps the loops in registers, and skips the lanes that see none of the four.
  void softmax(int64_t j0, int64_t n) const {
    T *const shift = this->shift, *const total = this->total, *const part = this->part;
    T* const scale = this->scale;
    std::copy_n(largest, width, scale);
    std::fill(scores + n * width, scores + (n + 3) / 4 * 4 * width, -inf<T>);
    for (int64_t j = 0; j < n; ++j) std::fill_n(scores + j * width, first_lane(j0 + j), -inf<T>);
    for (int64_t j = 0; j < n && end_lane(j0 + j) < count; ++j)
      std::fill(scores + j * width + end_lane(j0 + j), scores + (j + 1) * width, -inf<T>);
    for (int64_t j = 0; j < n; j += 4) {
      const int64_t lane = first_lane(j0 + j) / lanes<T> * lanes<T>;
      simd_for(width - lane,
               [s = scores + j * width + lane, max = largest + lane, w = width](int64_t c) {
                 const T a = std::max(s[c], s[w + c]), b = std::max(s[2 * w + c], s[3 * w + c]);
                 max[c] = std::max(max[c], std::max(a, b));
               });
    }
    simd_for(width, [=, max = largest](int64_t c) {
      shift[c] = max[c] == -inf<T> ? T{0} : max[c];
      scale[c] = exp(scale[c] - shift[c]);
      total[c] *= scale[c];
      part[c] = 0;
    });
    for (int64_t j = 0; j < n; j += 4) {
      const int64_t lane = first_lane(j0 + j) / lanes<T> * lanes<T>;
      for (int64_t r = 0; r < 4; ++r) std::fill_n(scores + (j + r) * width, lane, T{0});
      simd_for(width - lane, [s = scores + j * width + lane, shift = shift + lane,
                              part = part + lane, w = width](int64_t c) {
        const T a = exp(s[c] - shift[c]), b = exp(s[w + c] - shift[c]);
        const T d = exp(s[2 * w + c] - shift[c]), e = exp(s[3 * w + c] - shift[c]);
        s[c] = a, s[w + c] = b, s[2 * w + c] = d, s[3 * w + c] = e;
        part[c] += (a + b) + (d + e);
      });
    }
    simd_for(width, [=](int64_t c) { total[c] += part[c]; });
  }

  // scores *= z, where z is 0 for a dropped weight, else 1 / (1 - p). If E is a Pair, z is 1
  // instead, and forward_tile multiplies the sums by 1 / (1 - p), which no rounding then changes.
  // For one vector of queries at a time, draws z into `rows` and transposes it to `columns`
  // (forward_keys, lanes).
  void drop(int64_t j0, int64_t n) const {
    T *const rows = drop_space, *const columns = drop_space + drop_size;
    for (int64_t i = 0; i < count; i += lanes<T>) {
      const int64_t m = std::min(lanes<T>, count - i);
      const int64_t seen = std::clamp(p.seen_by(first + i + m - 1) - j0, int64_t{0}, n);
      for (int64_t r = 0; r < m; ++r) {
        const int64_t begin = ((b * p.heads + h) * p.queries + first + i + r) * p.keys + j0;
        dropout_scale(p.key, p.dropout, begin, begin + seen, rows + r * forward_keys);
      }
      tile_transpose(m, padded<T>(seen), T{1}, rows, forward_keys, columns, lanes<T>);
      for (int64_t j = 0; j < seen; ++j)
        simd_for(lanes<T>, [s = scores + j * width + i, z = columns + j * lanes<T>](int64_t c) {
          s[c] *= is_pair<E> && z[c] > 0 ? T{1} : z[c];
        });
    }
  }

  // sums[i] = scale[i] sums[i] + sum_j scores[j][i] v_j; `fresh`: sums are uninitialised
  void accumulate(Rows<const E> v, int64_t j0, int64_t n, bool fresh, Rows<T> sums) const {
    const Rows<const E> packed = pack_down(T{1}, scores, width, n, width, weights_space);
    const bool all_seen = p.seen_by(first) >= j0 + n && p.first_seen(first + count - 1) <= j0;
    const int64_t step = all_seen ? count : rows_at_once<E>();
    for (int64_t i = 0; i < count; i += step) {
      const int64_t m = std::min(step, count - i);
      const int64_t begin = std::clamp(p.first_seen(first + i) - j0, int64_t{0}, n);
      const int64_t end = std::clamp(p.seen_by(first + i + m - 1) - j0, int64_t{0}, n);
      const int64_t from = begin / scalars<E>, seen = elements_of<E>(end) - from;
      const E* const weights = packed.at(from) + i;
      if (fresh) {
        multiply_tiles<E, true, false>(m, vdim, seen, weights, width, v.at(from), v.stride,
                                       sums.at(i), sums.stride);
        continue;
      }
      for (int64_t r = i; r < i + m; ++r)
        if (const T factor = scale[r]; factor != T{1})
          simd_for(vdim, [factor, sum = sums.at(r)](int64_t d) { sum[d] *= factor; });
      multiply_tiles<E, true, true>(m, vdim, seen, weights, width, v.at(from), v.stride, sums.at(i),
                                    sums.stride);
    }
  }
};

// Computes output rows [first, first + count) of a head.
template <class E>
void forward_tile(ForwardTile<E>& tile, const AttentionForward<Sum<E>>& x, int64_t b, int64_t h,
                  int64_t first, int64_t count) {
  using T = Sum<E>;
  const Attention<T>& p = tile.p;
  const int64_t width = padded<T>(count), vdim = tile.vdim;
  tile.b = b, tile.h = h, tile.first = first, tile.count = count, tile.width = width;
  const Rows<T> sums{tile.sums_space, vdim};
  pack_transposed(static_cast<T>(p.scale), x.q.row(b, h, first), x.q.time, count, p.dim,
                  tile.k_space, tile.queries);
  std::fill_n(tile.largest, width, -inf<T>);
  std::fill_n(tile.shift, width, T{0});
  std::fill_n(tile.total, width, T{0});

  const int64_t begin = p.first_seen(first), end = p.seen_by(first + count - 1);
  const int64_t kv = h / p.group();
  if (end == 0) std::fill_n(sums.data, count * vdim, T{0});
  for (int64_t j = begin; j < end; j += forward_keys) {
    const int64_t n = std::min(forward_keys, end - j);
    tile.multiply(pack_along(T{1}, x.k.row(b, kv, j), x.k.time, n, p.dim, tile.k_space), j, n);
    apply_mask(p, {b, h, first, j, true, n, count, tile.scores, width});
    tile.softmax(j, n);
    if (p.dropout > 0) tile.drop(j, n);
    tile.accumulate(pack_down(T{1}, x.v.row(b, kv, j), x.v.time, n, p.value_dim, tile.v_space), j,
                    n, j == begin, sums);
  }
  const T kept = is_pair<E> ? kept_scale<T>(p.dropout) : T{1};
  for (int64_t i = 0; i < count; ++i) {
    const T total = tile.total[i], factor = total == 0 ? T{0} : 1 / total;
    if (x.rows) x.rows[(b * p.heads + h) * p.queries + first + i] = {tile.shift[i], factor};
    simd_for(p.value_dim,
             [factor = factor * kept, from = sums.at(i),
              to = x.out.row(b, h, first + i)](int64_t d) { to[d] = factor * from[d]; });
  }
}

// Computes one query's output row, key by key. Its scores differ from the scores of the tiles in
// the last bits. No backward pass may follow, because it would recompute the scores by tiles.
template <class T>
void forward_query(const Attention<T>& p, const AttentionForward<T>& x, int64_t b, int64_t h,
                   int64_t i) {
  int64_t first = p.first_seen(i), n = p.seen_by(i) - first;
  const int64_t kv = h / p.group();
  const Scratch<T> scratch(n);
  T *w = scratch.data(), *const y = x.out.row(b, h, i);
  const RowDots<T> dots{1, n, p.dim, x.q.row(b, h, i), 0, x.k.row(b, kv, first), x.k.time, false,
                        w, 0, 1};
  dots.run(0, n);
  simd_for(n, [w, scale = static_cast<T>(p.scale)](int64_t j) { w[j] *= scale; });
  apply_mask(p, {b, h, i, first, false, 1, n, w, n});
  // Without the hidden keys at both ends, a sequence that is shorter than others in its batch gets
  // the same bits as alone.
  for (; n > 0 && w[n - 1] == -inf<T>; --n) continue;
  for (; n > 0 && *w == -inf<T>; --n) ++w, ++first;
  softmax_row(w, n, w);
  if (p.dropout > 0) {
    const Scratch<T> keep(n);
    const int64_t begin = ((b * p.heads + h) * p.queries + i) * p.keys + first;
    dropout_scale(p.key, p.dropout, begin, begin + n, keep.data());
    simd_for(n, [=, keep = keep.data()](int64_t j) { w[j] *= keep[j]; });
  }
  std::fill_n(y, p.value_dim, T{0});
  for (int64_t j = 0; j < n; ++j)
    simd_for(p.value_dim, [=, weight = w[j], value = x.v.row(b, kv, first + j)](int64_t d) {
      y[d] += weight * value[d];
    });
}

// Computes the output by tiles of queries whose products have operands E.
template <class E, class T>
void forward_tiles(const Attention<T>& p, const AttentionForward<T>& x) {
  const int64_t heads = p.batch * p.heads, tiles = ceil_div(p.queries, forward_queries);
  const int64_t rows = std::min(forward_queries, p.queries);
  const int64_t work = rows * std::min(p.keys, p.window + rows) * (p.dim + p.value_dim) + 1;
  parallel_for(tiles * heads, min_tile_work / work + 1, [&](int64_t begin, int64_t end) {
    ForwardTile<E> tile{p};
    for (int64_t n = begin; n < end; ++n) {
      const int64_t head = n / tiles;
      const int64_t first = (tiles - 1 - n % tiles) * forward_queries;  // most keys first
      forward_tile(tile, x, head / p.heads, head % p.heads, first,
                   std::min(forward_queries, p.queries - first));
    }
  });
}

}  // namespace

template <class T>
void attention_forward(const Attention<T>& p, const AttentionForward<T>& x) {
  const ProductKernel choice = choose_product({.operands = ProductOperands::tiles,
                                               .m = p.queries,
                                               .n = p.keys,
                                               .k = p.dim,
                                               .recomputed = x.rows != nullptr},
                                              dtype_of<T>);
  if (choice == ProductKernel::row_dots) {
    const int64_t work = p.window * (p.dim + p.value_dim) + 1;
    parallel_for_each(p.batch * p.heads * p.queries, min_query_work / work + 1, [&](int64_t row) {
      forward_query(p, x, row / p.queries / p.heads, row / p.queries % p.heads, row % p.queries);
    });
    return;
  }
  with_elements<T>(p.rounded, [&]<class E>(TypeTag<E>) { forward_tiles<E>(p, x); });
}

template void attention_forward(const Attention<float>&, const AttentionForward<float>&);
template void attention_forward(const Attention<double>&, const AttentionForward<double>&);

}  // namespace gradus::kernel
