#include "gradus/core/internal.h"
#include "gradus/core/kernels/attention.h"
#include "gradus/core/kernels/attention_tiles.h"
#include "gradus/core/kernels/dropout.h"

namespace gradus::kernel {

using namespace detail;

namespace {

// Tile sizes, chosen so that the working set of a tile stays in the L2 cache.
constexpr int64_t backward_queries = 64, backward_keys = 128;

// If there are fewer heads than this, each head's keys are split into parts, for about this many
// parts in total. Each part has its own sum of dq.
constexpr int64_t backward_parts = 16;

//   S = (scale Q) K^T    P = exp(S - shift) factor    delta_i = sum_d dO_id O_id
//   dP = dO V^T          dS = P (dP - delta)
//   dV = P^T dO          dK = dS^T (scale Q)          dQ = dS (scale K)
//
// With dropout, which scales weight ij by z_ij: dV = (z P)^T dO and dS = P (z dP - delta). The
// scores equal the forward pass's bit for bit, because the same operand is scaled and then rounded,
// and products are summed in the same order.
//
// delta_i also equals sum_j P_ij dP_ij. Computed in this way, it would make dS of a one-hot row
// exactly 0, but it would need an earlier pass over all keys: seven products instead of five. The
// dot product of dO and O is rounded differently from dP, so that in float32 dS of a one-hot row is
// 1e-8 of dP. If the products round dO to bfloat16, delta is computed from the rounded dO too;
// otherwise dS of a one-hot row would be 2e-3 of dP.

// The memory and steps of the backward pass for keys [first, first + count) of a head, over tiles
// of its queries. Each SIMD lane holds one key, so a sum over queries adds whole vectors. A thread
// uses one BackwardTile for all of its tiles. E is the type of the products' operands.
template <class E>
struct BackwardTile {
  using T = Sum<E>;
  const Attention<T>& p;
  const int64_t most = std::min(backward_keys, p.keys);  // keys in a tile
  const int64_t m = std::clamp(p.queries, int64_t{1}, backward_queries);
  const int64_t dim = padded<T>(p.dim), vdim = padded<T>(p.value_dim);
  int64_t b = 0, h = 0, first = 0, count = 0, width = padded<T>(most);
  // Sizes in elements E: of an axis that a product sums over, and of a row along it, padded.
  const int64_t depth = elements_of<E>(p.dim), vdepth = elements_of<E>(p.value_dim);
  const int64_t packed_dim = padded<E>(depth), packed_vdim = padded<E>(vdepth);
  const int64_t packed_most = elements_of<E>(most), packed_width = padded<E>(elements_of<E>(width));
  // Rows of which there are packed copies only if E is a Pair.
  const int64_t pair_rows = is_pair<E> ? m : 0, packed_rows = elements_of<E>(pair_rows);
  const int64_t dq_size = dim == p.dim ? 0 : p.queries * dim;
  const int64_t packed_size = std::max((packed_rows * width), (pair_rows * packed_width));
  Arena<E> operands{(packed_dim + packed_vdim) * (width + most + m) + packed_most * dim +
                    packed_rows * (dim + vdim) + packed_size};
  E* const keys = operands.take(packed_dim * width);     // (depth, width)
  E* const values = operands.take(packed_vdim * width);  // (vdepth, width)
  E* const k_space = operands.take(most * packed_dim);
  E* const v_space = operands.take(most * packed_vdim);
  E* const k_down = operands.take(packed_most * dim);
  E *const q_along = operands.take(m * packed_dim), *const d_along = operands.take(m * packed_vdim);
  E* const q_down = operands.take(packed_rows * dim);
  E* const d_down = operands.take(packed_rows * vdim);
  E* const packed = operands.take(packed_size);  // weights or dscores
  Arena<T> arena{(2 * m + 1) * width + most * (dim + vdim) + padded<T>(p.queries) + dq_size};
  T *const weights = arena.take(m * width), *const dscores = arena.take(m * width);
  T* const keep = arena.take(width);
  T *const dk_space = arena.take(most * dim), *const dv_space = arena.take(most * vdim);
  T* const delta = arena.take(p.queries);
  T* const dq_space = arena.take(dq_size);

  // Query i sees lanes [first_lane(i), end_lane(i)).
  int64_t first_lane(int64_t i) const {
    return std::clamp(p.first_seen(i) - first, int64_t{0}, count);
  }
  int64_t end_lane(int64_t i) const { return std::clamp(p.seen_by(i) - first, int64_t{0}, count); }
  // Whether each of the m queries from i0 on sees all lanes.
  bool all_seen(int64_t i0, int64_t m) const {
    return end_lane(i0) == count && first_lane(i0 + m - 1) == 0;
  }

  // weights = q keys and dscores = d_out values, for m queries from i0 on
  void multiply(Rows<const E> q, Rows<const E> d_out, int64_t i0, int64_t m) const {
    const int64_t step = all_seen(i0, m) ? m : rows_at_once<E>();
    for (int64_t i = 0; i < m; i += step) {
      const int64_t r = std::min(step, m - i), lane = first_lane(i0 + i) / lanes<T> * lanes<T>;
      const int64_t n = padded<T>(end_lane(i0 + i + r - 1)) - lane, at = i * width + lane;
      multiply_tiles<E, false, false>(r, n, depth, q.at(i), q.stride, keys + lane, width,
                                      weights + at, width);
      multiply_tiles<E, false, false>(r, n, vdepth, d_out.at(i), d_out.stride, values + lane, width,
                                      dscores + at, width);
    }
  }

  // Turns scores into weights, and gradients of weights into gradients of scores.
  void softmax(int64_t i0, int64_t m, const RowSoftmax<T>* rows, const T* delta) const {
    for (int64_t i = 0; i < m; ++i) {
      T *const w = weights + i * width, *const d = dscores + i * width, *const z = keep;
      const int64_t n = end_lane(i0 + i);
      if (p.dropout > 0) {
        const int64_t begin = ((b * p.heads + h) * p.queries + i0 + i) * p.keys + first;
        dropout_scale(p.key, p.dropout, begin, begin + n, z);
        simd_for(padded<T>(n), [=, row = rows[i], delta = delta[i]](int64_t c) {
          const T weight = exp(w[c] - row.shift) * row.factor;
          d[c] = weight * (z[c] * d[c] - delta);
          w[c] = z[c] * weight;
        });
      } else {
        simd_for(padded<T>(n), [=, row = rows[i], delta = delta[i]](int64_t c) {
          w[c] = exp(w[c] - row.shift) * row.factor;
          d[c] = w[c] * (d[c] - delta);
        });
      }
      std::fill(w + n, w + width, T{0});
      std::fill(d + n, d + width, T{0});
    }
    for (int64_t i = m - 1; i >= 0 && first_lane(i0 + i) > 0; --i) {
      std::fill_n(weights + i * width, first_lane(i0 + i), T{0});
      std::fill_n(dscores + i * width, first_lane(i0 + i), T{0});
    }
  }

  // sums[j] += sum_i from[i][j] rows_i, over the queries that see key j
  void add_to_keys(Rows<const E> from, Rows<const E> rows, int64_t i0, int64_t m, int64_t n,
                   Rows<T> sums) const {
    const int64_t step = all_seen(i0, m) ? count : rows_at_once<E>();
    for (int64_t j = 0; j < count; j += step) {
      const int64_t r = std::min(step, count - j);
      const int64_t begin = std::clamp(p.first_to_see(first + j) - i0, int64_t{0}, m);
      const int64_t end = std::clamp(p.end_to_see(first + j + r - 1) - i0, int64_t{0}, m);
      const int64_t i = begin / scalars<E>;
      multiply_tiles<E, true, true>(r, n, elements_of<E>(end) - i, from.at(i) + j, from.stride,
                                    rows.at(i), rows.stride, sums.at(j), sums.stride);
    }
  }

  // dq[i] += sum_j from[i][j] k_j, over the keys that query i sees
  void add_to_queries(Rows<const E> from, Rows<const E> k, int64_t i0, int64_t m,
                      Rows<T> dq) const {
    const int64_t step = all_seen(i0, m) ? m : rows_at_once<E>();
    for (int64_t i = 0; i < m; i += step) {
      const int64_t r = std::min(step, m - i), j = first_lane(i0 + i) / scalars<E>;
      multiply_tiles<E, false, true>(r, dim, elements_of<E>(end_lane(i0 + i + r - 1)) - j,
                                     from.at(i) + j, from.stride, k.at(j), k.stride, dq.at(i0 + i),
                                     dq.stride);
    }
  }
};

// Computes the gradients from query head tile.h and its key tiles part, part + parts, and so on.
// For the first query head of a group, writes the dk and dv of these keys; for the others, adds to
// them. Adds to the head's `dq` unless its data is null.
template <class E>
void backward_part(BackwardTile<E>& tile, const AttentionBackward<Sum<E>>& x, int64_t part,
                   int64_t parts, Rows<Sum<E>> dq) {
  using T = Sum<E>;
  const Attention<T>& p = tile.p;
  const int64_t b = tile.b, h = tile.h, kv = h / p.group();
  const int64_t m = tile.m, dim = tile.dim, vdim = tile.vdim;
  const bool fresh = h % p.group() == 0;
  T* const delta = tile.delta;
  const T scale = static_cast<T>(p.scale);

  for (int64_t i = 0; i < p.queries; ++i)
    delta[i] = packed_dot<E>(p.value_dim, x.d_out.row(b, h, i), x.out.row(b, h, i));
  const RowSoftmax<T>* const rows = x.rows + (b * p.heads + h) * p.queries;

  for (int64_t j = part * backward_keys; j < p.keys; j += parts * backward_keys) {
    const int64_t n = std::min(backward_keys, p.keys - j);
    tile.first = j, tile.count = n, tile.width = padded<T>(n);
    pack_transposed(T{1}, x.k.row(b, kv, j), x.k.time, n, p.dim, tile.k_space, tile.keys);
    pack_transposed(T{1}, x.v.row(b, kv, j), x.v.time, n, p.value_dim, tile.v_space, tile.values);
    const Rows<const E> k = pack_down(scale, x.k.row(b, kv, j), x.k.time, n, p.dim, tile.k_down);
    T *const dk = x.dk.row(b, kv, j), *const dv = x.dv.row(b, kv, j);
    const Rows<T> dk_sums = open_sums(dk, x.dk.time, n, p.dim, fresh, tile.dk_space);
    const Rows<T> dv_sums = open_sums(dv, x.dv.time, n, p.value_dim, fresh, tile.dv_space);
    const int64_t end = p.end_to_see(j + n - 1);
    for (int64_t i = p.first_to_see(j) / m * m; i < end; i += m) {
      const int64_t r = std::min(m, end - i);
      const auto q =
          pack_both(scale, x.q.row(b, h, i), x.q.time, r, p.dim, tile.q_along, tile.q_down);
      const auto dy = pack_both(T{1}, x.d_out.row(b, h, i), x.d_out.time, r, p.value_dim,
                                tile.d_along, tile.d_down);
      tile.multiply(q.along, dy.along, i, r);
      apply_mask(p, {b, h, i, j, false, r, n, tile.weights, tile.width});
      tile.softmax(i, r, rows + i, delta + i);
      const int64_t width = tile.width;
      if (dv)
        tile.add_to_keys(pack_down(T{1}, tile.weights, width, r, width, tile.packed), dy.down, i, r,
                         vdim, dv_sums);
      if (dk)
        tile.add_to_keys(pack_down(T{1}, tile.dscores, width, r, width, tile.packed), q.down, i, r,
                         dim, dk_sums);
      if (dq.data)
        tile.add_to_queries(pack_along(T{1}, tile.dscores, width, r, width, tile.packed), k, i, r,
                            dq);
    }
    close_sums(dk_sums, dk, x.dk.time, n, p.dim);
    close_sums(dv_sums, dv, x.dv.time, n, p.value_dim);
  }
}

// Computes the gradients by tiles of keys whose products have operands E.
template <class E, class T>
void backward_tiles(const Attention<T>& p, const AttentionBackward<T>& x) {
  const Heads<T>& dq = x.dq;
  const int64_t heads = p.batch * p.kv_heads, dim = padded<T>(p.dim), size = p.queries * dim;
  if (heads == 0) return;
  const int64_t tiles = std::max(ceil_div(p.keys, backward_keys), int64_t{1});
  const int64_t parts = std::min(ceil_div(backward_parts, heads), tiles);
  const int64_t seen = std::min(p.keys, p.window + backward_keys);  // keys per query, about
  const int64_t work = p.queries * seen / parts * (p.dim + p.value_dim) * 2 + 1;
  const Scratch<T> partial(parts > 1 && dq.data ? heads * parts * size : 0);
  for (int64_t member = 0; member < p.group(); ++member) {
    parallel_for(heads * parts, min_tile_work / work + 1, [&](int64_t begin, int64_t end) {
      BackwardTile<E> tile{p};
      for (int64_t n = begin; n < end; ++n) {
        const int64_t b = n / parts / p.kv_heads, h = n / parts % p.kv_heads * p.group() + member;
        T* const result = parts == 1 || !dq.data ? dq.row(b, h, 0) : partial.data() + n * size;
        const int64_t stride = parts == 1 ? dq.time : dim, width = parts == 1 ? p.dim : dim;
        const Rows<T> sums = open_sums(result, stride, p.queries, width, true, tile.dq_space);
        tile.b = b, tile.h = h;
        backward_part(tile, x, n % parts, parts, sums);
        close_sums(sums, result, stride, p.queries, width);
      }
    });
    if (parts == 1 || !dq.data) continue;
    parallel_for_each(heads * p.queries, min_query_work / (parts * dim + 1) + 1, [&](int64_t row) {
      const int64_t head = row / p.queries, i = row % p.queries;
      const T* const from = partial.data() + head * parts * size + i * dim;
      T* const to = dq.row(head / p.kv_heads, head % p.kv_heads * p.group() + member, i);
      std::copy_n(from, p.dim, to);
      for (int64_t part = 1; part < parts; ++part)
        simd_for(p.dim, [=](int64_t d) { to[d] += from[part * size + d]; });
    });
  }
}

}  // namespace

template <class T>
void attention_backward(const Attention<T>& p, const AttentionBackward<T>& x) {
  with_elements<T>(p.rounded, [&]<class E>(TypeTag<E>) { backward_tiles<E>(p, x); });
}

template void attention_backward(const Attention<float>&, const AttentionBackward<float>&);
template void attention_backward(const Attention<double>&, const AttentionBackward<double>&);

}  // namespace gradus::kernel
