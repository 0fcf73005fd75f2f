#include "gradus/core/ops/attention.h"

#include "gradus/core/kernels/attention.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"

namespace gradus {

namespace {

/// The resolved options, which the kernels and the composed form share.
struct Settings {
  bool causal = false;
  int64_t window = 0;         // the most keys that a query sees; all of them if there is no limit
  Tensor mask = {};           // the option, attached to the graph
  Tensor mask_per_head = {};  // detached and expanded to (B, H, Tq, Tk)
  double scale = 1;
  double dropout = 0;  // 0 unless in training mode
  RandomKey key = {};
};

/// x (..., H, m, n), detached, as (B, H, m, n).
Tensor as_heads(const Tensor& x) {
  int64_t batch = 1;
  for (int i = 0; i + 3 < x.rank(); ++i) batch *= x.shape()[i];
  return x.detach().reshape({batch, x.size(-3), x.size(-2), x.size(-1)});
}

/// Resolves the options. `weights` is the weights' shape, (..., H, Tq, Tk); x supplies their dtype.
Settings settle(const char* op, const AttentionOptions& options, int64_t dim, const Shape& weights,
                const Tensor& x) {
  check(is_floating(x.dtype()), op, ": expected float32 or float64, got ", x.dtype());
  const double p = options.dropout;
  check(p >= 0 && p <= 1, op, ": expected dropout from 0 to 1, got ", p);
  const int64_t window = options.window, keys = weights.back();
  check(options.causal ? window >= 0 : window == 0, op,
        ": expected window >= 0, and 0 unless causal, got ", window);
  Settings s;
  s.causal = options.causal;
  s.window = window == 0 ? keys : std::min(window, keys);
  s.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(std::max<int64_t>(dim, 1))));
  if (const Tensor& mask = options.mask; mask.defined()) {
    check(mask.dtype() == boolean || mask.dtype() == x.dtype(), op, ": expected a mask of bool or ",
          x.dtype(), ", got ", mask.dtype());
    bool fits = mask.rank() <= weights.size();
    for (int i = 1; fits && i <= mask.rank(); ++i)
      fits = mask.size(-i) == 1 || mask.size(-i) == weights[weights.size() - i];
    check(fits, op, ": expected a mask that broadcasts to ", weights, ", got ", mask.shape());
    s.mask = mask;
    s.mask_per_head = as_heads(mask.detach().expand(weights));
  }
  if (is_training() && p > 0) {
    s.dropout = p;
    s.key = default_generator().reserve(weights.numel());
  }
  return s;
}

/// Whether the mask requires grad. The composed form is then recorded op by op, because the kernels
/// compute no gradient of the mask.
bool mask_requires_grad(const Settings& s) {
  return s.mask.defined() && s.mask.requires_grad() && grad_enabled();
}

// ---- the composed form ----

/// Repeats each head of x (..., Hk, T, D) once per query head that it serves: (..., H, T, D).
Tensor repeat_heads(const Tensor& x, int64_t heads) {
  const int64_t group = heads / x.size(-3);
  if (group == 1) return x;
  std::vector<int64_t> kv_head;
  for (int64_t h = 0; h < heads; ++h) kv_head.push_back(h / group);
  return index_select(x, -3, from_data(kv_head, {heads}));
}

/// Returns a mask (Tq, Tk), true where key j is not one of the `window` keys that end with query
/// i's last key, i + Tk - Tq.
Tensor is_hidden(int64_t queries, int64_t keys, int64_t window) {
  const Tensor last = arange(keys - queries, keys).unsqueeze(1), j = arange(keys);
  const Tensor is_future = gt(j, last);
  return window < keys ? logical_or(is_future, le(j, last - window)) : is_future;
}

/// softmax(scale q k^T + mask)
Tensor composed_weights(const Tensor& q, const Tensor& k, const Settings& s) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Tensor scores = matmul(q, repeat_heads(k, q.size(-3)).mT()) * s.scale;
  if (s.causal)
    scores = masked_fill(scores, is_hidden(q.size(-2), k.size(-2), s.window), -infinity);
  if (s.mask.defined())
    scores = s.mask.dtype() == boolean ? masked_fill(scores, logical_not(s.mask), -infinity)
                                       : scores + s.mask;
  return softmax(scores);
}

/// dropout(softmax(scale q k^T + mask)) v
Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Settings& s) {
  Tensor weights = composed_weights(q, k, s);
  if (s.dropout > 0) weights = dropout(weights, s.dropout, s.key);
  return matmul(weights, repeat_heads(v, q.size(-3)));
}

/// Splits qkv (B, T, (H + 2 Hk) D) into q, k and v, each (B, heads, T, D).
std::vector<Tensor> split_heads(const Tensor& qkv, int64_t heads, int64_t kv_heads) {
  const int64_t all = heads + 2 * kv_heads;
  const Tensor x = qkv.reshape({qkv.size(0), qkv.size(1), all, qkv.size(2) / all});
  std::vector<Tensor> parts = x.split(Shape{heads, kv_heads, kv_heads}, 2);
  for (Tensor& part : parts) part = part.transpose(1, 2);
  return parts;
}

Tensor composed_self_attention(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                               const Settings& s) {
  const auto parts = split_heads(qkv, heads, kv_heads);
  const Tensor y = composed_attention(parts[0], parts[1], parts[2], s);  // (B, H, T, D)
  return y.transpose(1, 2).reshape({qkv.size(0), qkv.size(1), heads * y.size(-1)});
}

// ---- the kernels, on tensors (B, H, T, D) whose rows are contiguous ----

Tensor whole_rows(const Tensor& x) {
  return x.size(-1) <= 1 || x.strides().back() == 1 ? x : x.contiguous();
}

/// Returns an uninitialised tensor of `shape` (..., H, T, D). Its heads are interleaved per token
/// if those of `like` are, so that neither joining an output's heads nor splitting an input's
/// gradient needs a copy.
Tensor empty_heads(const Shape& shape, const Tensor& like) {
  if (shape.size() != 4 || like.strides()[1] >= like.strides()[2])
    return empty(shape, like.dtype());
  return empty({shape[0], shape[2], shape[1], shape[3]}, like.dtype()).transpose(1, 2);
}

template <class T>
kernel::Heads<T> heads_of(const Tensor& x) {
  if (!x.defined()) return {};
  return {x.data<T>(), x.strides()[0], x.strides()[1], x.strides()[2]};
}

template <class T>
kernel::Attention<T> problem_of(const Tensor& q, const Tensor& k, const Tensor& v,
                                const Settings& s) {
  kernel::Attention<T> p;
  p.batch = q.size(0), p.heads = q.size(1), p.kv_heads = k.size(1);
  p.queries = q.size(2), p.keys = k.size(2), p.dim = q.size(3), p.value_dim = v.size(3);
  p.causal = s.causal, p.window = s.window;
  p.scale = s.scale, p.dropout = s.dropout, p.key = s.key;
  if (const Tensor& mask = s.mask_per_head; mask.defined()) {
    if (mask.dtype() == boolean)
      p.visible = mask.data<bool>();
    else
      p.bias = mask.data<T>();
    std::copy_n(mask.strides().begin(), 4, p.mask_strides.begin());
  }
  return p;
}

/// Counts the FLOPs of `with_keys` products with the keys and `with_values` products with the
/// values, over the pairs of a query and a key that it sees.
template <class T>
void count_work(const kernel::Attention<T>& p, int64_t with_keys, int64_t with_values) {
  int64_t pairs = 0;
  for (int64_t i = 0; i < p.queries; ++i) pairs += p.seen_by(i) - p.first_seen(i);
  const int64_t flops = 2 * (with_keys * p.dim + with_values * p.value_dim);
  ProfileScope::count(static_cast<double>(p.batch * p.heads * pairs) * static_cast<double>(flops),
                      0);
}

template <class T>
kernel::RowSoftmax<T>* rows_of(const Tensor& rows) {
  return rows.defined() ? reinterpret_cast<kernel::RowSoftmax<T>*>(rows.data<T>()) : nullptr;
}

/// Writes the output. Returns the row statistics for the backward pass if `recording`.
Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, const Settings& s,
               const Tensor& out, bool recording) {
  const Tensor rows = recording ? empty({q.size(0), q.size(1), q.size(2), 2}, q.dtype()) : Tensor();
  dispatch_floating("attention", q.dtype(), [&]<class T>(TypeTag<T>) {
    const auto problem = problem_of<T>(q, k, v, s);
    count_work(problem, 1, 1);
    kernel::attention_forward<T>(problem,
                                 {heads_of<const T>(q), heads_of<const T>(k), heads_of<const T>(v),
                                  heads_of<T>(out), rows_of<T>(rows)});
  });
  return rows;
}

/// The backward pass's operands; those of dq, dk and dv that are defined are overwritten.
struct Gradients {
  Tensor q, k, v, out, rows, d_out;
  Tensor dq, dk, dv;
};

void backward(const Gradients& g, const Settings& s) {
  dispatch_floating("attention", g.q.dtype(), [&]<class T>(TypeTag<T>) {
    const auto problem = problem_of<T>(g.q, g.k, g.v, s);
    count_work(problem, 1 + g.dq.defined() + g.dk.defined(), 1 + g.dv.defined());
    kernel::attention_backward<T>(
        problem, {heads_of<const T>(g.q), heads_of<const T>(g.k), heads_of<const T>(g.v),
                  heads_of<const T>(g.out), heads_of<const T>(g.d_out), rows_of<T>(g.rows),
                  heads_of<T>(g.dq), heads_of<T>(g.dk), heads_of<T>(g.dv)});
  });
}

void check_operands(const char* op, const Tensor& q, const Tensor& k, const Tensor& v) {
  auto shapes = [&](const char* expected) {
    fail(op, ": expected ", expected, ", got q ", q.shape(), ", k ", k.shape(), ", v ", v.shape());
  };
  if (q.rank() < 3 || k.rank() != q.rank() || v.rank() != q.rank())
    shapes("q (..., H, Tq, D), k (..., Hk, Tk, D) and v (..., Hk, Tk, Dv) of one rank from 3 up");
  check(q.dtype() == k.dtype() && q.dtype() == v.dtype(), op, ": expected one dtype, got q ",
        q.dtype(), ", k ", k.dtype(), ", v ", v.dtype());
  for (int i = 0; i + 3 < q.rank(); ++i)
    if (k.shape()[i] != q.shape()[i] || v.shape()[i] != q.shape()[i])
      shapes("the same leading axes");
  if (q.size(-1) != k.size(-1)) shapes("q and k of one head size");
  if (k.size(-2) != v.size(-2)) shapes("as many keys as values");
  if (q.size(-3) < 1 || k.size(-3) < 1 || v.size(-3) != k.size(-3) || q.size(-3) % k.size(-3) != 0)
    shapes("as many key as value heads, at least one, and a multiple of them of query heads");
}

/// Adds the attention weights of q and k (B, H, T, D) to this thread's trace, if any.
void trace(const Tensor& q, const Tensor& k, const Settings& s) {
  AttentionTrace::add([&] {
    const NoGrad no_grad;
    Settings per_head = s;
    per_head.mask = s.mask_per_head;
    return composed_weights(q, k, per_head);
  });
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options) {
  constexpr const char* op = "scaled_dot_product_attention";
  const ProfileScope scope(op);
  check_operands(op, q, k, v);
  const Settings s = settle(op, options, q.size(-1), q.shape().with(-1, k.size(-2)), q);
  trace(as_heads(q), as_heads(k), s);
  if (mask_requires_grad(s)) return composed_attention(q, k, v, s);

  const Tensor out = empty_heads(q.shape().with(-1, v.size(-1)), q);
  auto whole = [](const Tensor& x) { return whole_rows(as_heads(x)); };
  const bool recording = Recorder::should_record({q, k, v});
  const Tensor rows = forward(whole(q), whole(k), whole(v), s, as_heads(out), recording);
  record_fused(
      op, {out}, {q, k, v, s.mask}, saves_output,
      [s](auto& in) { return composed_attention(in[0], in[1], in[2], s); },
      [s, rows, whole](Backward& b) {
        const Tensor q = b.input(0), k = b.input(1), v = b.input(2);
        if (s.mask.defined()) b.input(3);  // throws if the mask was changed in place
        Tensor d[3];
        for (int i = 0; i < 3; ++i)
          if (b.needs(i)) d[i] = empty_heads(b.input_shape(i), b.input(i));
        auto view = [](const Tensor& x) { return x.defined() ? as_heads(x) : x; };
        backward({.q = whole(q),
                  .k = whole(k),
                  .v = whole(v),
                  .out = as_heads(b.output()),
                  .rows = rows,
                  .d_out = whole(take_grad(b)),
                  .dq = view(d[0]),
                  .dk = view(d[1]),
                  .dv = view(d[2])},
                 s);
        for (int i = 0; i < 3; ++i)
          if (d[i].defined()) b.give(i, std::move(d[i]));
      });
  return out;
}

Tensor self_attention(const Tensor& qkv, int64_t heads, int64_t kv_heads,
                      const AttentionOptions& options) {
  constexpr const char* op = "self_attention";
  const ProfileScope scope(op);
  check(heads > 0 && heads <= INT32_MAX && kv_heads > 0 && heads % kv_heads == 0, op,
        ": expected heads to be a multiple of kv_heads below 2^31, got ", heads, " and ", kv_heads);
  check(qkv.rank() == 3 && qkv.size(2) % (heads + 2 * kv_heads) == 0, op,
        ": expected qkv (B, T, (heads + 2 kv_heads) D) with heads + 2 kv_heads = ",
        heads + 2 * kv_heads, ", got ", qkv.shape());
  const int64_t batch = qkv.size(0), time = qkv.size(1), dim = qkv.size(2) / (heads + 2 * kv_heads);
  const Settings s = settle(op, options, dim, {batch, heads, time, time}, qkv);
  const auto parts = split_heads(whole_rows(qkv.detach()), heads, kv_heads);
  trace(parts[0], parts[1], s);
  if (mask_requires_grad(s)) return composed_self_attention(qkv, heads, kv_heads, s);

  // y (B, T, H D) as (B, H, T, D)
  auto per_head = [heads](const Tensor& y) {
    return y.detach().reshape({y.size(0), y.size(1), heads, y.size(2) / heads}).transpose(1, 2);
  };
  auto split = [heads, kv_heads](const Tensor& x) {
    return split_heads(whole_rows(x.detach()), heads, kv_heads);
  };
  const Tensor out = empty({batch, time, heads * dim}, qkv.dtype());
  const bool recording = Recorder::should_record({qkv});
  const Tensor rows = forward(parts[0], parts[1], parts[2], s, per_head(out), recording);
  record_fused(
      op, {out}, {qkv, s.mask}, saves_output,
      [s, heads, kv_heads](auto& in) { return composed_self_attention(in[0], heads, kv_heads, s); },
      [s, rows, per_head, split](Backward& b) {
        if (s.mask.defined()) b.input(1);  // throws if the mask was changed in place
        Tensor d_qkv = empty(b.input_shape(0), rows.dtype());
        const auto x = split(b.input(0)), d = split(d_qkv);
        backward({.q = x[0],
                  .k = x[1],
                  .v = x[2],
                  .out = per_head(b.output()),
                  .rows = rows,
                  .d_out = per_head(whole_rows(take_grad(b))),
                  .dq = d[0],
                  .dk = d[1],
                  .dv = d[2]},
                 s);
        b.give(0, std::move(d_qkv));
      });
  return out;
}

Tensor attention_weights(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  constexpr const char* op = "attention_weights";
  const ProfileScope scope(op);
  check_operands(op, q, k, k);
  AttentionOptions without_dropout = options;
  without_dropout.dropout = 0;
  const Shape weights = q.shape().with(-1, k.size(-2));
  return composed_weights(q, k, settle(op, without_dropout, q.size(-1), weights, q));
}

// ---- the trace ----

AttentionTrace*& AttentionTrace::current() {
  static thread_local AttentionTrace* trace = nullptr;
  return trace;
}

AttentionTrace::AttentionTrace() : outer_(std::exchange(current(), this)) {}
AttentionTrace::~AttentionTrace() {
  for (AttentionTrace** trace = &current(); *trace; trace = &(*trace)->outer_)
    if (*trace == this) {
      *trace = outer_;
      return;
    }
}

}  // namespace gradus
