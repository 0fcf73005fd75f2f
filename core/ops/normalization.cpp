#include "gradus/core/ops/normalization.h"

#include <cmath>

#include "gradus/core/autograd.h"
#include "gradus/core/internal.h"
#include "gradus/core/kernels/dropout.h"
#include "gradus/core/kernels/elementwise.h"
#include "gradus/core/kernels/layer_norm.h"
#include "gradus/core/kernels/partials.h"
#include "gradus/core/kernels/softmax.h"
#include "gradus/core/ops/ordering.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/parallel.h"
#include "gradus/core/profiler.h"
#include "gradus/core/reuse.h"

namespace gradus {

namespace {

void check_probability(double p) {
  check(p >= 0 && p <= 1, "dropout: expected a probability from 0 to 1, got ", p);
}

/// Calls f(x's row, y's row, n) for each row of the last axis of two contiguous tensors of one
/// shape, in parallel.
template <class T, class F>
void for_rows(const Tensor& x, const Tensor& y, F f) {
  if (y.numel() == 0) return;
  const int64_t n = y.shape().back();
  const T* px = x.data<T>();
  T* py = y.data<T>();
  parallel_for(y.numel() / n, kernel::rows_per_chunk<T>(n), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(px + i * n, py + i * n, n);
  });
}

/// An op on each row of an axis whose gradient is worked out from its output: forward(x, n, y) and
/// backward(y, dy, n, dx) on raw rows; rule(y, dy) is the formula of the gradient. An axis other
/// than the last changes places with it.
template <class Forward, class RowBackward, class Formula>
Tensor row_op(const char* name, const Tensor& x, int64_t dim, Forward forward, RowBackward backward,
              Formula formula) {
  const int axis = normalize_dim(name, dim, x.rank());
  if (axis != x.rank() - 1)
    return row_op(name, x.transpose(axis, -1), -1, forward, backward, formula).transpose(axis, -1);
  Tensor y = empty_like(x);
  const Tensor rows = x.detach().contiguous();
  dispatch_floating(name, x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_rows<T>(rows, y, [=](const T* from, T* to, int64_t n) { forward(from, n, to); });
  });
  record(name, {y}, {x}, saves_output, [=](Backward& b) {
    const Tensor y = b.output();
    if (b.create_graph()) return b.give(0, formula(y, b.grad()));
    Tensor dx = take_grad(b).contiguous();
    if (!dx.is_sole_owner()) dx = dx.clone();
    dispatch_floating("softmax", y.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for_rows<T>(y, dx, [=](const T* y, T* dx, int64_t n) { backward(y, dx, n, dx); });
    });
    b.give(0, std::move(dx));
  });
  return y;
}

}  // namespace

// y_i = exp(x_i) / sum_j exp(x_j)        dx = y (dy - sum(dy y))
Tensor softmax(const Tensor& x, int64_t dim) {
  const ProfileScope scope("softmax");
  return row_op(
      "softmax", x, dim, [](auto... row) { kernel::softmax_row(row...); },
      [](auto... row) { kernel::softmax_backward_row(row...); },
      [](const Tensor& y, const Tensor& dy) { return y * (dy - sum(dy * y, -1, keepdim)); });
}

// y_i = x_i - log sum_j exp(x_j)        dx = dy - exp(y) sum(dy)
Tensor log_softmax(const Tensor& x, int64_t dim) {
  const ProfileScope scope("log_softmax");
  return row_op(
      "log_softmax", x, dim, [](auto... row) { kernel::log_softmax_row(row...); },
      [](auto... row) { kernel::log_softmax_backward_row(row...); },
      [](const Tensor& y, const Tensor& dy) { return dy - exp(y) * sum(dy, -1, keepdim); });
}

// ---- layer norm and RMS norm ----

namespace {

// RMS norm is layer norm that is not `centred`: it takes no mean off.
Tensor composed_norm(bool centred, const Tensor& x, const Tensor& weight, const Tensor& bias,
                     double eps) {
  const Tensor d = centred ? x - mean(x, -1, keepdim) : x;
  Tensor y = d / sqrt(mean(d * d, -1, keepdim) + eps);
  if (weight.defined()) y = y * weight;
  if (bias.defined()) y = y + bias;
  return y;
}

struct NormGradients {
  Tensor dx, dweight, dbias;  // undefined: not wanted
};

/// All three gradients in one pass over x and dy. dx is added into `total` if that is defined, else
/// written over dy where nobody else holds it. `weight` may be undefined.
template <class T>
NormGradients norm_backward(Backward& back, bool centred, const Tensor& x, const Tensor& weight,
                            const Tensor& mean, const Tensor& rstd, const Tensor& total) {
  const Tensor dy = take_grad(back).contiguous();
  const int64_t n = x.shape().back(), rows = mean.numel();
  NormGradients out;
  if (back.needs(0)) out.dx = total.defined() ? total : dy.is_sole_owner() ? dy : empty_like(dy);
  if (back.needs(1)) out.dweight = empty({n}, x.dtype());
  if (back.needs(2)) out.dbias = empty({n}, x.dtype());

  const int64_t grain = kernel::rows_per_partial(rows, n * static_cast<int64_t>(sizeof(T)));
  const int64_t chunks = kernel::partial_count(rows, grain);
  const Scratch<T> dweights(out.dweight.defined() ? chunks * n : 0);
  const Scratch<T> dbiases(out.dbias.defined() ? chunks * n : 0);
  const T *px = x.data<T>(), *pdy = dy.data<T>(), *pw = data_or_null<T>(weight);
  const T *pmean = mean.data<T>(), *prstd = rstd.data<T>();
  T* pdx = data_or_null<T>(out.dx);
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    T* dw = out.dweight.defined() ? dweights.data() + begin / grain * n : nullptr;
    T* db = out.dbias.defined() ? dbiases.data() + begin / grain * n : nullptr;
    if (dw) std::fill_n(dw, n, T{0});
    if (db) std::fill_n(db, n, T{0});
    for (int64_t i = begin; i < end; ++i)
      kernel::layer_norm_backward_row(pdy + i * n, px + i * n, pw, pmean[i], prstd[i], n, centred,
                                      total.defined(), pdx ? pdx + i * n : nullptr, dw, db);
  });
  if (out.dweight.defined())
    kernel::add_partials(dweights.data(), chunks, n, out.dweight.data<T>());
  if (out.dbias.defined()) kernel::add_partials(dbiases.data(), chunks, n, out.dbias.data<T>());
  return out;
}

void check_norm(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                double eps) {
  check(x.rank() >= 1, op, ": expected rank 1 or more, got shape ", x.shape());
  check(is_floating(x.dtype()), op, ": expected float32 or float64, got ", x.dtype());
  check(eps >= 0, op, ": eps is ", eps, ", below 0");
  const Shape expected{x.shape().back()};
  auto check_parameter = [&](const char* name, const Tensor& p) {
    check(!p.defined() || (p.shape() == expected && p.dtype() == x.dtype()), op, ": expected ",
          name, " of ", x.dtype(), " ", expected, " for x ", x.shape(), ", got ",
          p.defined() ? p.dtype() : x.dtype(), " ", p.defined() ? p.shape() : Shape{});
  };
  check_parameter("weight", weight);
  check_parameter("bias", bias);
}

// xhat = (x - mean) rstd, y = xhat w + b        with g = dy w:
// dx = rstd (g - mean(g) - xhat mean(g xhat))    dw = sum(dy xhat)    db = sum(dy)
// and for RMS norm without either mean.
Tensor norm_rows(const char* op, bool centred, const Tensor& x, const Tensor& weight,
                 const Tensor& bias, double eps) {
  const ProfileScope scope(op);
  check_norm(op, x, weight, bias, eps);
  const int64_t n = x.shape().back(), rows = x.numel() / std::max<int64_t>(n, 1);
  Tensor y = empty_like(x);
  const Tensor mean = empty({rows}, x.dtype()), rstd = empty({rows}, x.dtype());
  const Tensor from = x.detach().contiguous();
  const Tensor w = weight.defined() ? weight.detach().contiguous() : weight;
  const Tensor b = bias.defined() ? bias.detach().contiguous() : bias;
  dispatch_floating("norm", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *px = from.data<T>(), *pw = data_or_null<T>(w), *pb = data_or_null<T>(b);
    T *py = y.data<T>(), *pmean = mean.data<T>(), *prstd = rstd.data<T>();
    parallel_for(rows, kernel::rows_per_chunk<T>(n), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        kernel::layer_norm_row(px + i * n, pw, pb, n, eps, centred, py + i * n, pmean + i,
                               prstd + i);
    });
  });
  record_fused(
      op, {y}, {x, weight, bias}, saves_nothing,
      [centred, eps](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{composed_norm(centred, in[0], in[1], in[2], eps)};
      },
      [centred, mean, rstd, weighted = weight.defined()](Backward& back) {
        const Tensor x = back.input(0).contiguous();
        const Tensor w = weighted ? back.input(1).contiguous() : Tensor();
        const Tensor total = sum_in_place(back, 0);
        NormGradients given = dispatch_floating("norm", x.dtype(), [&](auto tag) {
          using T = typename decltype(tag)::type;
          return norm_backward<T>(back, centred, x, w, mean, rstd, total);
        });
        if (given.dweight.defined()) back.give(1, std::move(given.dweight));
        if (given.dbias.defined()) back.give(2, std::move(given.dbias));
        if (given.dx.defined() && !total.defined()) back.give(0, std::move(given.dx));
      });
  return y;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return norm_rows("layer_norm", true, x, weight, bias, eps);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return norm_rows("rms_norm", false, x, weight, {}, eps);
}

// ---- vectors of length 1 ----

namespace {

/// For each vector along dim a power of two next to its largest |x_i|, or to eps if that is larger:
/// what x is divided by, exactly, so that |x| stays within the number's range.
Tensor length_scale(const Tensor& x, int axis, double eps) {
  const NoGrad no_grad;
  const Tensor largest = max(abs(x), axis, keepdim).values, scale = empty_like(largest);
  dispatch_floating("normalize", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    kernel::map<T, T>(scale, largest, [least = static_cast<T>(eps)](T v) {
      const T size = v < least ? least : v;
      return std::isnormal(size) ? std::ldexp(T{1}, std::ilogb(size)) : T{1};
    });
  });
  return scale;
}

/// (sum of |x_i|^p)^(1/p), its axis kept.
Tensor length_of(const Tensor& x, int axis, double p) {
  if (p == 2) return norm(x, axis, keepdim);
  if (std::isinf(p)) return max(abs(x), axis, keepdim).values;
  const Tensor total = sum(pow(abs(x), p), axis, keepdim), is_zero = eq(total, 0);
  return masked_fill(pow(masked_fill(total, is_zero, 1), 1 / p), is_zero, 0);
}

}  // namespace

// y = x / max(|x|, eps), both divided by a constant first
Tensor normalize(const Tensor& x, int64_t dim, double eps, double p) {
  const ProfileScope scope("normalize");
  check(is_floating(x.dtype()), "normalize: expected float32 or float64, got ", x.dtype());
  check(p >= 1, "normalize: expected p >= 1, got ", p);
  check(eps >= 0 && std::isfinite(eps), "normalize: expected eps >= 0, got ", eps);
  const int axis = normalize_dim("normalize", dim, x.rank());
  if (x.numel() == 0) return x.clone();
  const Tensor scale = length_scale(x.detach(), axis, eps), scaled = x / scale;
  const Tensor length = length_of(scaled, axis, p), least = full({}, eps, x.dtype()) / scale;
  return scaled / where(lt(length.detach(), least), least, length);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim, double eps) {
  const ProfileScope scope("cosine_similarity");
  check(a.dtype() == b.dtype(), "cosine_similarity: dtypes differ: ", a.dtype(), " and ",
        b.dtype());
  check(is_floating(a.dtype()), "cosine_similarity: expected float32 or float64, got ", a.dtype());
  const Shape shape = broadcast_shapes("cosine_similarity", a.shape(), b.shape());
  const int axis = normalize_dim("cosine_similarity", dim, shape.size());
  return sum(normalize(a.expand(shape), axis, eps) * normalize(b.expand(shape), axis, eps), axis);
}

// ---- dropout ----

// y = x s, s_i = 0 with probability p, else 1/(1-p)        dx = dy s
Tensor dropout(const Tensor& x, double p, RandomKey key) {
  const ProfileScope scope("dropout");
  check_probability(p);
  Tensor y = empty_like(x);
  const Tensor from = x.detach().contiguous();
  dispatch_floating("dropout", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* px = from.data<T>();
    T* py = y.data<T>();
    parallel_for(x.numel(), 32768 / sizeof(T), [=](int64_t begin, int64_t end) {
      kernel::dropout_scale(key, p, begin, end, py + begin);
      // What is dropped is 0 even if it was not finite.
      simd_for(end - begin, [in = px + begin, out = py + begin](int64_t i) {
        out[i] = out[i] == 0 ? T{0} : in[i] * out[i];
      });
    });
  });
  record("dropout", {y}, {x}, saves_nothing,
         [p, key](Backward& b) { b.give(0, dropout(b.grad(), p, key)); });
  return y;
}

Tensor dropout(const Tensor& x, double p) {
  check_probability(p);
  if (p == 0 || !is_training()) return x;
  return dropout(x, p, default_generator().reserve(x.numel()));
}

}  // namespace gradus
