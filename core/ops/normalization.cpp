#include "gradus/core/ops/normalization.h"

#include "gradus/core/kernels/dropout.h"
#include "gradus/core/kernels/elementwise.h"
#include "gradus/core/kernels/layer_norm.h"
#include "gradus/core/kernels/partials.h"
#include "gradus/core/kernels/softmax.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/prelude.h"
#include "gradus/core/ops/reduction.h"

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
  parallel_for_each(y.numel() / n, kernel::rows_per_chunk<T>(n),
                    [=](int64_t i) { f(px + i * n, py + i * n, n); });
}

/// Computes an op on each row along axis `dim` whose gradient depends on x only through the output.
/// forward(x, n, y) and backward(y, dy, n, dx) work on raw rows; formula(y, dy) composes the
/// gradient of ops. An axis other than the last is swapped with the last.
template <class Forward, class RowBackward, class Formula>
Tensor row_op(const char* name, const Tensor& x, int64_t dim, Forward forward, RowBackward backward,
              Formula formula) {
  const int axis = normalize_dim(name, dim, x.rank());
  if (axis != x.rank() - 1)
    return row_op(name, x.transpose(axis, -1), -1, forward, backward, formula).transpose(axis, -1);
  Tensor y = empty_like(x);
  const Tensor rows = x.detach().contiguous();
  dispatch_floating(name, x.dtype(), [&]<class T>(TypeTag<T>) {
    for_rows<T>(rows, y, [=](const T* from, T* to, int64_t n) { forward(from, n, to); });
  });
  record(name, {y}, {x}, saves_output, [=](Backward& b) {
    const Tensor y = b.output();
    if (b.create_graph()) return b.give(0, formula(y, b.grad()));
    Tensor dx = take_grad(b).contiguous();
    if (!dx.is_sole_owner()) dx = dx.clone();
    dispatch_floating("softmax", y.dtype(), [&]<class T>(TypeTag<T>) {
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

/// d / sqrt(mean(d^2) + eps), with the mean over `axes`. Squares of d may leave the dtype's range,
/// so d is first multiplied by a power of two near `rstd`, the divisor's reciprocal; eps by its
/// square. The power is 1 unless rstd is very large or very small.
Tensor divide_by_deviation(const Tensor& d, const Axes& axes, double eps, const Tensor& rstd) {
  const Tensor power = empty_like(rstd);
  dispatch_floating("norm", d.dtype(), [&]<class T>(TypeTag<T>) {
    kernel::map<T, T>(power, rstd, [](T r) {
      constexpr int most = std::numeric_limits<T>::max_exponent - 1;
      const int e = std::isfinite(r) ? std::clamp(std::ilogb(r), 1 - most, most) : 0;
      return std::abs(e) > most / 3 ? std::ldexp(T{1}, e) : T{1};
    });
  });
  const Tensor scaled = d * power;
  return scaled / sqrt(mean(scaled * scaled, axes, keepdim) + power * eps * power);
}

/// What a row norm's gradients need besides its inputs.
struct NormStatistics {
  bool centred;
  Tensor mean, rstd;  // one element per row
};

// RMS norm is layer norm without centring: the mean is not subtracted.
Tensor composed_norm(const NormStatistics& stats, double eps, const Tensor& x, const Tensor& weight,
                     const Tensor& bias) {
  const Tensor d = stats.centred ? x - mean(x, -1, keepdim) : x;
  const Shape per_row = x.shape().with(x.rank() - 1, std::min<int64_t>(x.size(-1), 1));
  Tensor y = divide_by_deviation(d, -1, eps, stats.rstd.reshape(per_row));
  if (weight.defined()) y = y * weight;
  if (bias.defined()) y = y + bias;
  return y;
}

/// Returns the tensor to write x's gradient to: `total`, the sum that it is added to, if defined;
/// else dy if dy has no other owner; else a new tensor.
Tensor room_for_dx(const Tensor& total, const Tensor& dy) {
  if (total.defined()) return total;
  return dy.is_sole_owner() ? dy : empty_like(dy);
}

/// Gives the gradients of x, weight and bias, computed in one pass over x and dy.
template <class T>
void norm_backward(Backward& back, const NormStatistics& stats, const Tensor& x,
                   const Tensor& weight) {
  const Tensor total = sum_in_place(back, 0);
  Tensor dy = take_grad(back).contiguous(), dx, dweight, dbias;
  const int64_t n = x.shape().back(), rows = stats.mean.numel();
  if (back.needs(0)) dx = room_for_dx(total, dy);
  if (back.needs(1)) dweight = empty({n}, x.dtype());
  if (back.needs(2)) dbias = empty({n}, x.dtype());

  const int64_t grain = kernel::rows_per_partial(rows, n * static_cast<int64_t>(sizeof(T)));
  const int64_t chunks = kernel::partial_count(rows, grain);
  const bool parameters = dweight.defined() || dbias.defined();
  const Scratch<T> dweights(parameters ? chunks * n : 0), dbiases(parameters ? chunks * n : 0);
  const T *px = x.data<T>(), *pdy = dy.data<T>();
  const T *pmean = stats.mean.data<T>(), *prstd = stats.rstd.data<T>();
  T* pdx = data_or_null<T>(dx);
  const kernel::LayerNorm<T> norm{n, stats.centred, data_or_null<T>(weight)};
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    T* dw = dweights.data() + begin / grain * n;
    T* db = dbiases.data() + begin / grain * n;
    if (parameters) {
      std::fill_n(dw, n, T{0});
      std::fill_n(db, n, T{0});
    }
    for (int64_t i = begin; i < end; ++i) {
      const kernel::NormalizedRow<T> row{px + i * n, pmean[i], prstd[i]};
      if (parameters) norm.add_parameter_gradients(row, pdy + i * n, dw, db);
      if (pdx) norm.input_gradient(row, pdy + i * n, total.defined(), pdx + i * n);
    }
  });
  if (dweight.defined()) kernel::add_partials(dweights.data(), chunks, n, dweight.data<T>());
  if (dbias.defined()) kernel::add_partials(dbiases.data(), chunks, n, dbias.data<T>());
  dy = {};  // else give() would find another owner of dx
  if (dweight.defined()) back.give(1, std::move(dweight));
  if (dbias.defined()) back.give(2, std::move(dbias));
  if (dx.defined() && !total.defined()) back.give(0, std::move(dx));
}

/// Returns eps, or the smallest number that kernels do not flush to 0 if eps is above 0 but less.
double kept_by_kernels(double eps, Dtype dtype) {
  return eps > 0 ? std::max(eps, dtype == float32 ? 0x1p-126 : 0x1p-1022) : 0;
}

/// Throws Error unless weight and bias, where defined, are of the size of x's axis.
void check_norm(const char* op, const Tensor& x, int axis, const Tensor& weight, const Tensor& bias,
                double eps) {
  if (axis < 0)
    check_shape(op, "x", x, {"...", "C"});
  else
    check_shape(op, "x", x, {"N", "C", "..."});
  check_floating(op, x);
  check(eps >= 0, op, ": expected eps >= 0, got ", eps);
  if (weight.defined()) check_tensor(op, "weight", weight, x.dtype(), {x.size(axis)});
  if (bias.defined()) check_tensor(op, "bias", bias, x.dtype(), {x.size(axis)});
}

/// A power of two per row of x (..., n): 1, except for finite rows whose rstd is below `least` or
/// NaN because a square or the deviation's reciprocal left T's range. Those are scaled to 2^most,
/// where eps is negligible beside them. Undefined if there are no such rows.
template <class T>
Tensor row_scales(const Tensor& x, const Tensor& rstd, T least, int most) {
  const NoGrad no_grad;
  const std::span<T> kept(rstd.data<T>(), static_cast<size_t>(rstd.numel()));
  if (std::all_of(kept.begin(), kept.end(), [=](T r) { return r >= least; })) return {};
  const Tensor scales = max(abs(x), -1, keepdim).values;
  for (size_t i = 0; i < kept.size(); ++i) {
    T& v = scales.data<T>()[i];
    v = kept[i] >= least || !std::isfinite(v) ? T{1} : std::ldexp(T{1}, most - std::ilogb(v));
  }
  return scales;
}

struct NormOptions {
  bool centred;         // false: RMS norm
  double eps;           // added to the variance
  bool scaled = false;  // rows were scaled into T's range already
};

// xhat = (x - mean) rstd, y = xhat w + b        with g = dy w:
// dx = rstd (g - mean(g) - xhat mean(g xhat))    dw = sum(dy xhat)    db = sum(dy)
// RMS norm omits mean and mean(g).
Tensor norm_rows(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const NormOptions& o) {
  const ProfileScope scope(op);
  check_norm(op, x, -1, weight, bias, o.eps);
  const int64_t n = x.shape().back(), rows = x.numel() / std::max<int64_t>(n, 1);
  Tensor y = empty_like(x), scales;
  const NormStatistics stats{o.centred, empty({rows}, x.dtype()), empty({rows}, x.dtype())};
  const Tensor from = dense(x), w = dense(weight), b = dense(bias);
  dispatch_floating("norm", x.dtype(), [&]<class T>(TypeTag<T>) {
    const kernel::LayerNorm<T> norm{n, o.centred, data_or_null<T>(w), data_or_null<T>(b)};
    const T* px = from.data<T>();
    T *py = y.data<T>(), *mean = stats.mean.data<T>(), *rstd = stats.rstd.data<T>();
    parallel_for_each(rows, kernel::rows_per_chunk<T>(n), [=, eps = o.eps](int64_t i) {
      const auto row = norm.forward(px + i * n, eps, py + i * n);
      mean[i] = row.mean;
      rstd[i] = row.rstd;
    });
    constexpr int most = std::numeric_limits<T>::max_exponent / 2 - 4;
    if (!o.scaled) scales = row_scales(from, stats.rstd, std::ldexp(T{1}, -3 * most / 2), most);
  });
  if (scales.defined()) return norm_rows(op, x * scales, weight, bias, {o.centred, o.eps, true});
  record_fused(
      op, {y}, {x, weight, bias}, saves_nothing,
      [stats, o](auto& in) { return composed_norm(stats, o.eps, in[0], in[1], in[2]); },
      [stats, weighted = weight.defined()](Backward& back) {
        const Tensor x = back.input(0).contiguous();
        const Tensor w = weighted ? back.input(1).contiguous() : Tensor();
        dispatch_floating("norm", x.dtype(),
                          [&]<class T>(TypeTag<T>) { norm_backward<T>(back, stats, x, w); });
      });
  return y;
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  return norm_rows("layer_norm", x, weight, bias, {.centred = true, .eps = eps});
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  return norm_rows("rms_norm", x, weight, {}, {.centred = false, .eps = eps});
}

// ---- batch norm and group norm ----

namespace {

/// Returns y (N, C, ...) times weight (C) plus bias (C), each where defined.
Tensor scale_channels(Tensor y, const Tensor& weight, const Tensor& bias) {
  const Shape shape = Shape::filled(y.rank() - 1, 1).with(0, y.size(1));
  if (weight.defined()) y = y * weight.reshape(shape);
  return bias.defined() ? y + bias.reshape(shape) : y;
}

/// Batch norm of x (N, C, n); stats (3, C) receives mean, var and rstd. All tensors are contiguous.
template <class T>
void batch_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                        const Tensor& y, const Tensor& stats) {
  const int64_t channels = x.size(1), n = x.size(2), step = channels * n;
  const T *w = weight.data<T>(), *b = bias.data<T>();
  T* stat = stats.data<T>();
  parallel_for_each(channels, kernel::rows_per_chunk<T>(x.size(0) * n), [&](int64_t c) {
    const T* first = x.data<T>() + c * n;
    const auto moments =
        kernel::mean_and_variance(kernel::Pieces<T>{first, n, x.size(0), step}, eps, true);
    const T mean = static_cast<T>(moments.first);
    const T rstd = static_cast<T>(1 / std::sqrt(moments.second + eps));
    stat[c] = mean;
    stat[channels + c] = static_cast<T>(moments.second);
    stat[2 * channels + c] = rstd;
    for (int64_t i = c * n; i < x.numel(); i += step)
      simd_for(n, [=, x = x.data<T>() + i, y = y.data<T>() + i, w = w[c], b = b[c]](int64_t j) {
        y[j] = (x[j] - mean) * rstd * w + b;
      });
  });
}

/// Where batch norm's gradients are written; dx may be dy.
struct BatchNormGradients {
  Tensor dx, dweight, dbias;
};

template <class T>
void batch_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& weight,
                         const Tensor& stats, const BatchNormGradients& d) {
  const int64_t channels = x.size(1), n = x.size(2), step = channels * n;
  const auto count = static_cast<double>(x.size(0) * n);
  const T* stat = stats.data<T>();
  parallel_for_each(channels, kernel::rows_per_chunk<T>(x.size(0) * n), [&](int64_t c) {
    const T mean = stat[c], rstd = stat[2 * channels + c];
    double total = 0, product = 0;
    for (int64_t i = c * n; i < x.numel(); i += step) {
      const T *g = dy.data<T>() + i, *from = x.data<T>() + i;
      total += blocked_sum<T>(n, [=](int64_t j) { return g[j]; });
      product += blocked_sum<T>(n, [=](int64_t j) { return g[j] * ((from[j] - mean) * rstd); });
    }
    d.dbias.data<T>()[c] = static_cast<T>(total);
    d.dweight.data<T>()[c] = static_cast<T>(product);
    const T a = static_cast<T>(total / count), b = static_cast<T>(product / count);
    for (int64_t i = c * n; i < x.numel(); i += step)
      simd_for(n, [=, g = dy.data<T>() + i, x = x.data<T>() + i, dx = d.dx.data<T>() + i,
                   scale = weight.data<T>()[c] * rstd](int64_t j) {
        dx[j] = scale * (g[j] - a - (x[j] - mean) * rstd * b);
      });
  });
}

}  // namespace

// With xhat = (x - mean) rstd, y = xhat w + b, and means and sums over a channel:
// dx = rstd w (dy - mean(dy) - xhat mean(dy xhat))        dw = sum(dy xhat)        db = sum(dy)
BatchNormOutput batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const ProfileScope scope("batch_norm");
  check_norm("batch_norm", x, 1, weight, bias, eps);
  const int64_t size = x.size(0), channels = x.size(1), n = x.shape().without(0).without(0).numel();
  const int64_t count = Shape{size, n}.numel();
  check(count != 1, "batch_norm: expected more than one element per channel, got x ", x.shape());
  const bool joins = n < 16 && size > 1;  // joins small images into longer vectors
  if (joins || x.rank() != 3) {
    const Tensor from = joins ? x.transpose(0, 1) : x;
    BatchNormOutput out = batch_norm(from.reshape({joins ? 1 : size, channels, joins ? count : n}),
                                     weight, bias, eps);
    out.y = out.y.reshape(from.shape());
    if (joins) out.y = out.y.transpose(0, 1);
    return out;
  }
  const Tensor w = weight.defined() ? weight : full({channels}, 1, x.dtype());
  const Tensor b = bias.defined() ? bias : full({channels}, 0, x.dtype());
  const Tensor y = empty_like(x), stats = empty({3, channels}, x.dtype());
  dispatch_floating("batch_norm", x.dtype(), [&]<class T>(TypeTag<T>) {
    batch_norm_forward<T>(dense(x), dense(w), dense(b), eps, y, stats);
  });
  record_fused(
      "batch_norm", {y}, {x, w, b}, saves_nothing,
      [eps, rstd = stats[2].unsqueeze(-1)](auto& in) {
        const Tensor d = in[0] - mean(in[0], {0, 2}, keepdim);
        return scale_channels(divide_by_deviation(d, {0, 2}, eps, rstd), in[1], in[2]);
      },
      [stats](Backward& back) {
        const Tensor dy = take_grad(back).contiguous();
        const Tensor x = back.input(0).contiguous(), weight = back.input(1).contiguous();
        const BatchNormGradients d{dy.is_sole_owner() ? dy : empty_like(dy), empty_like(weight),
                                   empty_like(weight)};
        dispatch_floating("batch_norm", dy.dtype(), [&]<class T>(TypeTag<T>) {
          batch_norm_backward<T>(dy, x, weight, stats, d);
        });
        back.give(0, d.dx);
        back.give(1, d.dweight);
        back.give(2, d.dbias);
      });
  return {y, stats[0].clone(), stats[1].clone()};
}

Tensor batch_norm_by(const Tensor& mean, const Tensor& var, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, double eps) {
  const ProfileScope scope("batch_norm_by");
  check_norm("batch_norm_by", x, 1, weight, bias, eps);
  check_norm("batch_norm_by", x, 1, mean, var, eps);
  const Tensor rstd = rsqrt(var + kept_by_kernels(eps, x.dtype()));
  return scale_channels(scale_channels(x, {}, -mean), weight.defined() ? weight * rstd : rstd,
                        bias);
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  const ProfileScope scope("group_norm");
  check_norm("group_norm", x, 1, weight, bias, eps);
  check(groups >= 1 && x.size(1) % groups == 0, "group_norm: ", groups,
        " groups do not divide the channels of x ", x.shape());
  const Tensor rows = x.reshape({x.size(0) * groups, x.shape().without(0).numel() / groups});
  return scale_channels(layer_norm(rows, {}, {}, eps).reshape(x.shape()), weight, bias);
}

// ---- unit vectors ----

namespace {

/// For each vector along dim, the power of two just below its largest |x_i|, or below eps if that
/// is larger. Dividing x by it is exact and keeps |x| within range.
Tensor length_scale(const Tensor& x, int axis, double eps) {
  const NoGrad no_grad;
  const Tensor largest = max(abs(x), axis, keepdim).values, scale = empty_like(largest);
  dispatch_floating("normalize", x.dtype(), [&]<class T>(TypeTag<T>) {
    kernel::map<T, T>(scale, largest, [least = static_cast<T>(eps)](T v) {
      const T size = v < least ? least : v;
      return std::isnormal(size) ? std::ldexp(T{1}, std::ilogb(size)) : T{1};
    });
  });
  return scale;
}

/// (sum |x_i|^p)^(1/p), keeping the axis.
Tensor length_of(const Tensor& x, int axis, double p) {
  if (p == 2) return norm(x, axis, keepdim);
  if (std::isinf(p)) return max(abs(x), axis, keepdim).values;
  const Tensor total = sum(pow(abs(x), p), axis, keepdim), is_zero = eq(total, 0);
  return masked_fill(pow(masked_fill(total, is_zero, 1), 1 / p), is_zero, 0);
}

}  // namespace

// y = x / max(|x|, eps), after dividing x and eps by length_scale
Tensor normalize(const Tensor& x, int64_t dim, double eps, double p) {
  const ProfileScope scope("normalize");
  check_floating("normalize", x);
  check(p >= 1, "normalize: expected p >= 1, got ", p);
  check(eps >= 0 && std::isfinite(eps), "normalize: expected eps >= 0, got ", eps);
  eps = kept_by_kernels(eps, x.dtype());
  const int axis = normalize_dim("normalize", dim, x.rank());
  if (x.numel() == 0) return x.clone();
  const Tensor scale = length_scale(x.detach(), axis, eps), scaled = x / scale;
  const Tensor length = length_of(scaled, axis, p), least = full({}, eps, x.dtype()) / scale;
  return scaled / where(lt(length.detach(), least), least, length);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim, double eps) {
  const ProfileScope scope("cosine_similarity");
  check_same_dtype("cosine_similarity", a, b);
  check_floating("cosine_similarity", a);
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
  dispatch_floating("dropout", x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* px = from.data<T>();
    T* py = y.data<T>();
    parallel_for(x.numel(), 32768 / sizeof(T), [=](int64_t begin, int64_t end) {
      kernel::dropout_scale(key, p, begin, end, py + begin);
      // A dropped element is 0 even if it was not finite.
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
  check_floating("dropout", x);
  return dropout(x, p, default_generator().reserve(x.numel()));
}

}  // namespace gradus
