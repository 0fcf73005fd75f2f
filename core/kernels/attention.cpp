#include "gradus/core/kernels/attention.h"

#include "gradus/core/internal.h"
#include "gradus/core/kernels/dropout.h"
#include "gradus/core/kernels/math.h"
#include "gradus/core/kernels/softmax.h"
#include "gradus/core/kernels/tile_gemm.h"
#include "gradus/core/runtime/allocator.h"

namespace gradus::kernel {

namespace {

// The tiles' sizes: what is computed of one stays in the second-level cache.
constexpr int64_t forward_queries = 64, forward_keys = 128;
constexpr int64_t backward_queries = 64, backward_keys = 128;

// With fewer queries than this their scores are computed key by key, for lanes would stay empty.
constexpr int64_t few_queries = 4;

// Parts that a backward pass over few heads is split into, each with a sum of dq of its own.
constexpr int64_t backward_parts = 16;

// Multiplications that are worth a thread's while: of single queries, of tiles.
constexpr int64_t least_work = int64_t{1} << 16, least_tile_work = int64_t{1} << 19;

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Hands out one piece of scratch memory in aligned parts.
template <class T>
class Arena {
 public:
  explicit Arena(int64_t n) : scratch_(n), next_(scratch_.data()) {}
  T* take(int64_t n) { return std::exchange(next_, next_ + padded<T>(n)); }

 private:
  Scratch<T> scratch_;
  T* next_;
};

// Some rows of whole vectors, the last filled up with zeros where need be.
template <class T>
struct Rows {
  T* data;
  int64_t stride;
  T* at(int64_t i) const { return data + i * stride; }
};

// n rows times `factor`, copied into `space` as whole vectors.
template <class T>
Rows<const T> scaled_rows(T factor, const T* first, int64_t stride, int64_t n, int64_t dim,
                          T* space) {
  const int64_t width = padded<T>(dim);
  for (int64_t i = 0; i < n; ++i) {
    simd_for(dim, [=, from = first + i * stride, to = space + i * width](int64_t d) {
      to[d] = factor * from[d];
    });
    std::fill(space + i * width + dim, space + (i + 1) * width, T{0});
  }
  return {space, width};
}

// n rows where they lie or, if they are not whole vectors long, copied into `space`.
template <class T>
Rows<const T> whole_vectors(const T* first, int64_t stride, int64_t n, int64_t dim, T* space) {
  if (padded<T>(dim) == dim) return {first, stride};
  return scaled_rows(T{1}, first, stride, n, dim, space);
}

// What a copy of n rows as whole vectors needs of space.
template <class T>
int64_t copy_size(int64_t n, int64_t dim) {
  return padded<T>(dim) == dim ? 0 : n * padded<T>(dim);
}

// The sums of n rows of a result: the rows themselves, or `space` if they are not whole vectors
// long. They start at 0 or, if not `fresh`, at what the result holds. A result that is null has
// none.
template <class T>
Rows<T> open_sums(T* result, int64_t stride, int64_t n, int64_t dim, bool fresh, T* space) {
  const int64_t width = padded<T>(dim);
  const Rows<T> sums = width == dim || !result ? Rows<T>{result, stride} : Rows<T>{space, width};
  for (int64_t i = 0; i < n && result; ++i) {
    if (fresh || sums.data != result) std::fill_n(sums.at(i), width, T{0});
    if (!fresh && sums.data != result) std::copy_n(result + i * stride, dim, sums.at(i));
  }
  return sums;
}

template <class T>
void close_sums(Rows<T> sums, T* result, int64_t stride, int64_t n, int64_t dim) {
  for (int64_t i = 0; i < n && sums.data != result; ++i)
    std::copy_n(sums.at(i), dim, result + i * stride);
}

// The scores s (rows, cols) of a tile with the bias added, or -infinity where the mask hides a key.
// The first is of query i and key j; rows are keys if `keys_down`, else queries.
template <class T>
void apply_mask(const Attention<T>& p, int64_t b, int64_t h, int64_t i, int64_t j, bool keys_down,
                int64_t rows, int64_t cols, T* s, int64_t ld) {
  if (!p.visible && !p.bias) return;
  const auto [mb, mh, mq, mk] = p.mask_strides;
  const int64_t down = keys_down ? mk : mq, across = keys_down ? mq : mk;
  int64_t at = b * mb + h * mh + i * mq + j * mk;
  for (int64_t r = 0; r < rows; ++r, at += down, s += ld) {
    if (p.visible) {
      simd_for(cols, [=, mask = p.visible + at](int64_t c) {
        s[c] = mask[c * across] ? s[c] : -infinity<T>;
      });
    } else {
      simd_for(cols, [=, bias = p.bias + at](int64_t c) { s[c] += bias[c * across]; });
    }
  }
}

// ---- forward: lanes are queries, so that every sum over keys runs down the lanes ----

// Queries [first, first + count) of a head against the keys of a tile at a time. A thread's tiles
// share their memory.
template <class T>
struct ForwardTile {
  const Attention<T>& p;
  const int64_t most = std::min(forward_queries, p.queries), rows = std::max(forward_keys, most);
  const int64_t dim = padded<T>(p.dim), vdim = padded<T>(p.value_dim);
  const int64_t drop_size = p.dropout > 0 ? forward_keys* lanes<T> : 0;
  int64_t b = 0, h = 0, first = 0, count = 0;
  int64_t width = padded<T>(most);  // row stride of scores and of what is kept for each query
  Arena<T> arena{(dim + forward_keys + 5) * width + most * vdim + rows * (dim + vdim) +
                 2 * drop_size};
  T* const queries = arena.take(dim * width);          // (dim, width)
  T* const scores = arena.take(forward_keys * width);  // (keys of a tile, width)
  // Of each query so far: the largest score, and the sum of exp(score - shift); and of a tile
  // alone.
  T *const largest = arena.take(width), *const shift = arena.take(width);
  T *const total = arena.take(width), *const part = arena.take(width);
  T* const scale = arena.take(width);  // what earlier sums must be multiplied by
  T* const sums_space = arena.take(most * vdim);
  T *const k_copy = arena.take(rows * dim), *const v_copy = arena.take(rows * vdim);
  T* const drop_space = arena.take(2 * drop_size);

  // Lanes of key j before this one do not see it.
  int64_t first_lane(int64_t j) const {
    return std::clamp(p.first_to_see(j) - first, int64_t{0}, width);
  }

  // scores[j][i] = k_j q_i for n keys from key j0 on
  void multiply(Rows<const T> k, int64_t j0, int64_t n) const {
    const int64_t step = first_lane(j0 + n - 1) > 0 ? gemm_rows : n;
    for (int64_t j = 0; j < n; j += step) {
      const int64_t lane = first_lane(j0 + j) / lanes<T> * lanes<T>;
      tile_gemm<T, false, false>(std::min(step, n - j), width - lane, dim, k.at(j), k.stride,
                                 queries + lane, width, scores + j * width + lane, width);
    }
  }

  // scores = exp(scores - shift); the largest and the sum of each query are kept. Keys are taken
  // four at a time, which keeps the loops in registers; lanes before the first that sees any of the
  // four are left out.
  void softmax(int64_t j0, int64_t n) const {
    T *const shift = this->shift, *const total = this->total, *const part = this->part;
    T* const scale = this->scale;
    std::copy_n(largest, width, scale);
    std::fill(scores + n * width, scores + (n + 3) / 4 * 4 * width, -infinity<T>);
    for (int64_t j = 0; j < n; ++j)
      std::fill_n(scores + j * width, first_lane(j0 + j), -infinity<T>);
    for (int64_t j = 0; j < n; j += 4) {
      const int64_t lane = first_lane(j0 + j) / lanes<T> * lanes<T>;
      simd_for(width - lane,
               [s = scores + j * width + lane, max = largest + lane, w = width](int64_t c) {
                 const T a = std::max(s[c], s[w + c]), b = std::max(s[2 * w + c], s[3 * w + c]);
                 max[c] = std::max(max[c], std::max(a, b));
               });
    }
    simd_for(width, [=, max = largest](int64_t c) {
      shift[c] = max[c] == -infinity<T> ? T{0} : max[c];
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

  // scores = scores z, where z is 0 for what dropout drops, else 1 / (1 - p). The queries of a
  // vector at a time: `rows` and `columns` (forward_keys, lanes) take their z.
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
          s[c] *= z[c];
        });
    }
  }

  // sums[i] = scale[i] sums[i] + sum_j scores[j][i] v_j; `fresh`: sums are not there yet
  void accumulate(Rows<const T> v, int64_t j0, int64_t n, bool fresh, Rows<T> sums) const {
    const int64_t step = p.seen_by(first) < j0 + n ? gemm_rows : count;
    for (int64_t i = 0; i < count; i += step) {
      const int64_t m = std::min(step, count - i);
      const int64_t seen = std::clamp(p.seen_by(first + i + m - 1) - j0, int64_t{0}, n);
      if (fresh) {
        tile_gemm<T, true, false>(m, vdim, seen, scores + i, width, v.data, v.stride, sums.at(i),
                                  sums.stride);
        continue;
      }
      for (int64_t r = i; r < i + m; ++r)
        if (const T factor = scale[r]; factor != T{1})
          simd_for(vdim, [factor, sum = sums.at(r)](int64_t d) { sum[d] *= factor; });
      tile_gemm<T, true, true>(m, vdim, seen, scores + i, width, v.data, v.stride, sums.at(i),
                               sums.stride);
    }
  }
};

template <class T>
void forward_tile(ForwardTile<T>& tile, const AttentionForward<T>& x, int64_t b, int64_t h,
                  int64_t first, int64_t count) {
  const Attention<T>& p = tile.p;
  const int64_t width = padded<T>(count), vdim = tile.vdim;
  tile.b = b, tile.h = h, tile.first = first, tile.count = count, tile.width = width;
  const Rows<T> sums{tile.sums_space, vdim};
  const Rows<const T> own =
      whole_vectors(x.q.row(b, h, first), x.q.time, count, p.dim, tile.k_copy);
  tile_transpose(count, tile.dim, static_cast<T>(p.scale), own.data, own.stride, tile.queries,
                 width);
  std::fill_n(tile.largest, width, -infinity<T>);
  std::fill_n(tile.shift, width, T{0});
  std::fill_n(tile.total, width, T{0});

  const int64_t seen = p.seen_by(first + count - 1), kv = h / p.group();
  if (seen == 0) std::fill_n(sums.data, count * vdim, T{0});
  for (int64_t j = 0; j < seen; j += forward_keys) {
    const int64_t n = std::min(forward_keys, seen - j);
    tile.multiply(whole_vectors(x.k.row(b, kv, j), x.k.time, n, p.dim, tile.k_copy), j, n);
    apply_mask(p, b, h, first, j, true, n, count, tile.scores, width);
    tile.softmax(j, n);
    if (p.dropout > 0) tile.drop(j, n);
    tile.accumulate(whole_vectors(x.v.row(b, kv, j), x.v.time, n, p.value_dim, tile.v_copy), j, n,
                    j == 0, sums);
  }
  for (int64_t i = 0; i < count; ++i) {
    const T total = tile.total[i], factor = total == 0 ? T{0} : 1 / total;
    if (x.rows) x.rows[(b * p.heads + h) * p.queries + first + i] = {tile.shift[i], factor};
    simd_for(p.value_dim, [factor, from = sums.at(i), to = x.out.row(b, h, first + i)](int64_t d) {
      to[d] = factor * from[d];
    });
  }
}

// One query against its keys, one after the other; for no backward pass, whose scores would differ
// from these in the last bits.
template <class T>
void forward_query(const Attention<T>& p, const AttentionForward<T>& x, int64_t b, int64_t h,
                   int64_t i) {
  const int64_t n = p.seen_by(i), kv = h / p.group();
  const Scratch<T> scratch(n);
  T *const w = scratch.data(), *const y = x.out.row(b, h, i);
  const T* const query = x.q.row(b, h, i);
  for (int64_t j = 0; j < n; ++j)
    w[j] = static_cast<T>(p.scale) * dot(p.dim, query, x.k.row(b, kv, j));
  apply_mask(p, b, h, i, 0, false, 1, n, w, n);
  softmax_row(w, n, w);
  if (p.dropout > 0) {
    const Scratch<T> keep(n);
    const int64_t row = (b * p.heads + h) * p.queries + i;
    dropout_scale(p.key, p.dropout, row * p.keys, row * p.keys + n, keep.data());
    simd_for(n, [=, keep = keep.data()](int64_t j) { w[j] *= keep[j]; });
  }
  std::fill_n(y, p.value_dim, T{0});
  for (int64_t j = 0; j < n; ++j)
    simd_for(p.value_dim, [=, weight = w[j], value = x.v.row(b, kv, j)](int64_t d) {
      y[d] += weight * value[d];
    });
}

// ---- backward: lanes are keys, so that the sums over queries run down the lanes ----
//
//   S = (scale Q) K^T    P = exp(S - shift) factor    delta_i = sum_d dO_id O_id
//   dP = dO V^T          dS = P (dP - delta)
//   dV = P^T dO          dK = dS^T (scale Q)          dQ = dS (scale K)
//
// and where dropout scales weight ij by z_ij: dV = (z P)^T dO and dS = P (z dP - delta). The scores
// have the forward pass's bits: the same operand is scaled, and products are added in one order.

// Keys [first, first + count) of a head against the queries of a tile at a time. A thread's tiles
// share their memory.
template <class T>
struct BackwardTile {
  const Attention<T>& p;
  const int64_t most = std::min(backward_keys, p.keys);  // keys of a tile
  const int64_t m = std::clamp(p.queries, int64_t{1}, backward_queries);
  const int64_t dim = padded<T>(p.dim), vdim = padded<T>(p.value_dim);
  const int64_t dq_size = copy_size<T>(p.queries, p.dim);
  int64_t b = 0, h = 0, first = 0, count = 0, width = padded<T>(most);
  Arena<T> arena{(dim + vdim + 2 * m + 1) * width + (2 * most + m) * (dim + vdim) +
                 padded<T>(p.queries) + dq_size};
  T *const keys = arena.take(dim * width), *const values = arena.take(vdim * width);
  T *const weights = arena.take(m * width), *const dscores = arena.take(m * width);
  T* const keep = arena.take(width);
  T *const dk_space = arena.take(most * dim), *const dv_space = arena.take(most * vdim);
  T *const k_scaled = arena.take(most * dim), *const v_copy = arena.take(most * vdim);
  T *const q_scaled = arena.take(m * dim), *const d_copy = arena.take(m * vdim);
  T* const delta = arena.take(p.queries);
  T* const dq_space = arena.take(dq_size);

  // Lanes that query i sees.
  int64_t seen_lanes(int64_t i) const {
    return std::clamp(p.seen_by(i) - first, int64_t{0}, count);
  }

  // weights = q keys and dscores = d_out values, for m queries from query i0 on
  void multiply(Rows<const T> q, Rows<const T> d_out, int64_t i0, int64_t m) const {
    const int64_t step = seen_lanes(i0) < count ? gemm_rows : m;
    for (int64_t i = 0; i < m; i += step) {
      const int64_t r = std::min(step, m - i), n = padded<T>(seen_lanes(i0 + i + r - 1));
      tile_gemm<T, false, false>(r, n, dim, q.at(i), q.stride, keys, width, weights + i * width,
                                 width);
      tile_gemm<T, false, false>(r, n, vdim, d_out.at(i), d_out.stride, values, width,
                                 dscores + i * width, width);
    }
  }

  // From scores and gradients of weights to weights and gradients of scores.
  void softmax(int64_t i0, int64_t m, const RowSoftmax<T>* rows, const T* delta) const {
    for (int64_t i = 0; i < m; ++i) {
      T *const w = weights + i * width, *const d = dscores + i * width, *const z = keep;
      const int64_t n = seen_lanes(i0 + i);
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
  }

  // sums[j] += sum_i from[i][j] rows_i, over the queries that see key j
  void add_to_keys(const T* from, Rows<const T> rows, int64_t i0, int64_t m, int64_t n,
                   Rows<T> sums) const {
    const int64_t step = seen_lanes(i0) < count ? gemm_rows : count;
    for (int64_t j = 0; j < count; j += step) {
      const int64_t i = std::clamp(p.first_to_see(first + j) - i0, int64_t{0}, m);
      tile_gemm<T, true, true>(std::min(step, count - j), n, m - i, from + i * width + j, width,
                               rows.at(i), rows.stride, sums.at(j), sums.stride);
    }
  }

  // dq[i] += sum_j dscores[i][j] k_j, over the keys that query i sees
  void add_to_queries(Rows<const T> k, int64_t i0, int64_t m, Rows<T> dq) const {
    const int64_t step = seen_lanes(i0) < count ? gemm_rows : m;
    for (int64_t i = 0; i < m; i += step) {
      const int64_t r = std::min(step, m - i);
      tile_gemm<T, false, true>(r, dim, seen_lanes(i0 + i + r - 1), dscores + i * width, width,
                                k.data, k.stride, dq.at(i0 + i), dq.stride);
    }
  }
};

// One query head against every parts-th tile of its keys, from the part-th on: their dk and dv are
// written (or added, where an earlier query head of the group has written), and what they give to
// the head's dq is added to `dq`, unless that is null.
template <class T>
void backward_part(BackwardTile<T>& tile, const AttentionBackward<T>& x, int64_t b, int64_t h,
                   int64_t part, int64_t parts, Rows<T> dq) {
  const Attention<T>& p = tile.p;
  const int64_t m = tile.m, dim = tile.dim, vdim = tile.vdim, kv = h / p.group();
  const bool fresh = h % p.group() == 0;
  T* const delta = tile.delta;
  tile.b = b, tile.h = h;
  const T scale = static_cast<T>(p.scale);

  for (int64_t i = 0; i < p.queries; ++i)
    delta[i] = dot(p.value_dim, x.out.row(b, h, i), x.d_out.row(b, h, i));
  const RowSoftmax<T>* const rows = x.rows + (b * p.heads + h) * p.queries;

  for (int64_t j = part * backward_keys; j < p.keys; j += parts * backward_keys) {
    const int64_t n = std::min(backward_keys, p.keys - j);
    tile.first = j, tile.count = n, tile.width = padded<T>(n);
    const Rows<const T> own = whole_vectors(x.k.row(b, kv, j), x.k.time, n, p.dim, tile.k_scaled);
    const Rows<const T> v = whole_vectors(x.v.row(b, kv, j), x.v.time, n, p.value_dim, tile.v_copy);
    tile_transpose(n, dim, T{1}, own.data, own.stride, tile.keys, tile.width);
    const Rows<const T> k =
        scaled_rows(scale, x.k.row(b, kv, j), x.k.time, n, p.dim, tile.k_scaled);
    tile_transpose(n, vdim, T{1}, v.data, v.stride, tile.values, tile.width);
    T *const dk = x.dk.row(b, kv, j), *const dv = x.dv.row(b, kv, j);
    const Rows<T> dk_sums = open_sums(dk, x.dk.time, n, p.dim, fresh, tile.dk_space);
    const Rows<T> dv_sums = open_sums(dv, x.dv.time, n, p.value_dim, fresh, tile.dv_space);
    for (int64_t i = p.first_to_see(j) / m * m; i < p.queries; i += m) {
      const int64_t r = std::min(m, p.queries - i);
      const Rows<const T> q =
          scaled_rows(scale, x.q.row(b, h, i), x.q.time, r, p.dim, tile.q_scaled);
      const Rows<const T> dy =
          whole_vectors(x.d_out.row(b, h, i), x.d_out.time, r, p.value_dim, tile.d_copy);
      tile.multiply(q, dy, i, r);
      apply_mask(p, b, h, i, j, false, r, n, tile.weights, tile.width);
      tile.softmax(i, r, rows + i, delta + i);
      if (dv) tile.add_to_keys(tile.weights, dy, i, r, vdim, dv_sums);
      if (dk) tile.add_to_keys(tile.dscores, q, i, r, dim, dk_sums);
      if (dq.data) tile.add_to_queries(k, i, r, dq);
    }
    close_sums(dk_sums, dk, x.dk.time, n, p.dim);
    close_sums(dv_sums, dv, x.dv.time, n, p.value_dim);
  }
}

}  // namespace

template <class T>
void attention_forward(const Attention<T>& p, const AttentionForward<T>& x) {
  const int64_t heads = p.batch * p.heads;
  if (p.queries < few_queries && !x.rows) {
    const int64_t work = p.keys * (p.dim + p.value_dim) + 1;
    parallel_for_each(heads * p.queries, least_work / work + 1, [&](int64_t row) {
      forward_query(p, x, row / p.queries / p.heads, row / p.queries % p.heads, row % p.queries);
    });
    return;
  }
  const int64_t tiles = ceil_div(p.queries, forward_queries);
  const int64_t work = std::min(forward_queries, p.queries) * p.keys * (p.dim + p.value_dim) + 1;
  parallel_for(tiles * heads, least_tile_work / work + 1, [&](int64_t begin, int64_t end) {
    ForwardTile<T> tile{p};
    for (int64_t n = begin; n < end; ++n) {
      const int64_t head = n / tiles;
      const int64_t first = (tiles - 1 - n % tiles) * forward_queries;  // the most keys come first
      forward_tile(tile, x, head / p.heads, head % p.heads, first,
                   std::min(forward_queries, p.queries - first));
    }
  });
}

template <class T>
void attention_backward(const Attention<T>& p, const AttentionBackward<T>& x) {
  const Heads<T>& dq = x.dq;
  const int64_t heads = p.batch * p.kv_heads, dim = padded<T>(p.dim), size = p.queries * dim;
  if (heads == 0) return;
  const int64_t tiles = std::max(ceil_div(p.keys, backward_keys), int64_t{1});
  const int64_t parts = std::min(ceil_div(backward_parts, heads), tiles);
  const int64_t work = p.queries * p.keys / parts * (p.dim + p.value_dim) * 2 + 1;
  const Scratch<T> partial(parts > 1 && dq.data ? heads * parts * size : 0);
  for (int64_t member = 0; member < p.group(); ++member) {
    parallel_for(heads * parts, least_tile_work / work + 1, [&](int64_t begin, int64_t end) {
      BackwardTile<T> tile{p};
      for (int64_t n = begin; n < end; ++n) {
        const int64_t b = n / parts / p.kv_heads, h = n / parts % p.kv_heads * p.group() + member;
        T* const result = parts == 1 || !dq.data ? dq.row(b, h, 0) : partial.data() + n * size;
        const int64_t stride = parts == 1 ? dq.time : dim, width = parts == 1 ? p.dim : dim;
        const Rows<T> sums = open_sums(result, stride, p.queries, width, true, tile.dq_space);
        backward_part(tile, x, b, h, n % parts, parts, sums);
        close_sums(sums, result, stride, p.queries, width);
      }
    });
    if (parts == 1 || !dq.data) continue;
    parallel_for_each(heads * p.queries, least_work / (parts * dim + 1) + 1, [&](int64_t row) {
      const int64_t head = row / p.queries, i = row % p.queries;
      const T* const from = partial.data() + head * parts * size + i * dim;
      T* const to = dq.row(head / p.kv_heads, head % p.kv_heads * p.group() + member, i);
      std::copy_n(from, p.dim, to);
      for (int64_t part = 1; part < parts; ++part)
        simd_for(p.dim, [=](int64_t d) { to[d] += from[part * size + d]; });
    });
  }
}

template void attention_forward(const Attention<float>&, const AttentionForward<float>&);
template void attention_forward(const Attention<double>&, const AttentionForward<double>&);
template void attention_backward(const Attention<float>&, const AttentionBackward<float>&);
template void attention_backward(const Attention<double>&, const AttentionBackward<double>&);

}  // namespace gradus::kernel
