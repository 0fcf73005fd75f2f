#include "gradus/optim/newton_schulz.h"

#include <optional>

#include "gradus/core/internal.h"
#include "gradus/core/kernels/products/product.h"
#include "gradus/core/kernels/products/symmetric.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/modes.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/optim/chunks.h"

namespace gradus::optim {

namespace {

/// A step: X becomes a X + b A X + c A A X with A = X X^T.
struct Polynomial {
  double a, b, c;
};

constexpr Polynomial jordan{3.4445, -4.7750, 2.0315};
/// The Polar Express, for singular values from 0.001 up. Each polynomial has the smallest maximum
/// error on the range of singular values after the earlier steps, without the part of the range
/// below 0.02 of its upper end. All polynomials but the fifth are p(x / 1.01), so that rounding
/// errors stay in range. Steps after the fifth use polar_express_limit.
constexpr Polynomial polar_express_steps[]{{8.2373, -23.1577, 16.6806},
                                           {4.0819, -2.8929, 0.5253},
                                           {3.9224, -2.8538, 0.532},
                                           {3.2777, -2.4095, 0.4847},
                                           {2.2938, -1.6627, 0.4181}};
constexpr Polynomial polar_express_limit{1.875, -1.25, 0.375};

/// A step on Y = t X with G = Y Y^T. If u is the scale after the step,
///   u (a X + b A X + c A A X) = (a u / t) Y + (b u / t^3) G Y + (c u / t^5) G G Y,
/// and t^5 = c u makes the last coefficient 1.
struct Step {
  double a, b;
  double growth;  // of errors in G: the square of the polynomial's a
};

/// The steps from Y = t X to the final X. The scale after the last is 1.
struct Steps {
  double t = 1;
  std::vector<Step> list;
  Steps(int64_t steps, bool polar_express) : list(static_cast<size_t>(steps)) {
    for (size_t i = list.size(); i-- > 0;) {
      const auto [a, b, c] = !polar_express                       ? jordan
                             : i < std::size(polar_express_steps) ? polar_express_steps[i]
                                                                  : polar_express_limit;
      const double after = t;
      t = std::pow(c * after, 0.2);
      list[i] = {a * after / t, b * after / (t * t * t), a * a};
    }
  }
};

/// Added to the norm by which a matrix is divided.
constexpr double eps = 1e-7;

template <class T>
double sum_of_squares(int64_t n, const T* x) {
  return parallel_sum<double>(n, Chunks::grain, [&](int64_t begin, int64_t end) {
    const T* from = x + begin;
    return simd_sum<double>(end - begin, [=](int64_t i) {
      const auto v = static_cast<double>(from[i]);
      return v * v;
    });
  });
}

template <class T>
void multiply_elements(int64_t n, double factor, T* x) {
  parallel_for(n, Chunks::grain, [=](int64_t begin, int64_t end) {
    simd_for(end - begin, [=, x = x + begin](int64_t i) {
      x[i] = static_cast<T>(static_cast<double>(x[i]) * factor);
    });
  });
}

/// x = factor x + y.
template <class T>
void scale_and_add(int64_t n, T factor, T* x, const T* y) {
  parallel_for(n, Chunks::grain, [=](int64_t begin, int64_t end) {
    simd_for(end - begin,
             [=, x = x + begin, y = y + begin](int64_t i) { x[i] = factor * x[i] + y[i]; });
  });
}

/// A matrix `factor` x, whose norm is at most t. `eps` is what was added to the norm of x.
struct Normalised {
  double factor, eps;
};

/// Divides a matrix by its Frobenius norm: the result is t x / (norm + eps). If the squares of x
/// may leave the range of T, x itself is multiplied, and the factor is 1.
template <class T>
Normalised normalise(int64_t n, double t, double squares, T* x) {
  if (squares >= 1e-20 && squares <= 1e20) return {t / (std::sqrt(squares) + eps), eps};
  double scale = 1;  // keeps the squares of large doubles finite
  if constexpr (std::is_same_v<T, double>) {
    const double peak = simd_max(n, 0.0, [=](int64_t i) { return std::abs(x[i]); });
    if (peak > 1e100) {
      scale = 1 / peak;
      multiply_elements(n, scale, x);
      squares = sum_of_squares(n, x);
    }
  }
  const double factor = t / (std::sqrt(squares) + eps * scale);
  multiply_elements(n, factor, x);
  return {1, eps * scale * factor};
}

/// Columns per task of a product with `cols` columns. A thread that has a matrix to itself computes
/// all columns at once, so that it packs and rounds the other operand once.
template <class T>
int64_t task_cols(int64_t cols, int64_t panels) {
  return num_threads() == 1 || in_parallel_region() ? cols : panels * kernel::panel_cols<T>;
}

/// The iteration for a matrix X (rows, cols), in the buffers of one matrix. If X has more rows than
/// columns, read X^T X for X X^T, and X V for V X.
///
/// Products may round their operands to bfloat16. The identity is therefore never part of an
/// operand: a step is a X + V X with V = b A + A A, which keeps small elements of X. X is held as
/// factor x + y, so that a product is written once and added when it is next read.
template <class T>
class Iteration {
 public:
  /// The iteration from X = start.factor x. `y` has the size of x. If closer > 0, it starts from
  /// X = closer x / (s + start.eps) instead, where s^4 is the sum of the fourth powers of the
  /// singular values of x. None of them exceeds s, and s is at most the Frobenius norm, so the
  /// singular values of X are larger and need fewer steps.
  Iteration(int64_t rows, int64_t cols, const Normalised& start, double closer, T* x, T* y)
      : rows_(rows),
        cols_(cols),
        n_(std::min(rows, cols)),
        factor_(static_cast<T>(start.factor)),
        eps_(start.eps),
        closer_(closer),
        x_(x),
        y_(y),
        squares_(4 * n_ * n_) {}

  /// One step after another, as written in newton_schulz.h.
  void run(std::span<const Step> steps) {
    T *gram = squares_.data(), *v = gram + n_ * n_;
    for (const Step& step : steps) {
      multiply_by_transpose(gram);
      multiply_squares(T(step.b), gram, gram, v);
      multiply(T(step.a), v);
    }
  }

  /// Does the same as run(), but iterates on the Gram matrix R = X X^T alone: a step multiplies X
  /// by W = a I + V, so that R becomes W R W. X itself is multiplied once, by the product Q of all
  /// W: for a matrix of n x 4 n this is half the work. If `exact_first`, the first step's products
  /// other than R are not rounded. (Dao 2026, "Gram Newton-Schulz".)
  void run_by_gram(std::span<const Step> steps, bool exact_first) {
    T *gram = squares_.data(), *v = gram + n_ * n_, *q = v + n_ * n_, *spare = q + n_ * n_;
    multiply_by_transpose(gram);
    std::optional<Bfloat16Products> exact;
    if (exact_first) exact.emplace(false);
    multiply_squares(T(steps[0].b), gram, gram, v);
    std::copy_n(v, n_ * n_, q);
    add_diagonal(T(steps[0].a), q);
    for (size_t i = 1; i < steps.size(); ++i) {
      const auto before = static_cast<T>(steps[i - 1].a);
      multiply_squares(before, gram, v, spare);
      multiply_squares(before, spare, v, gram);
      exact.reset();
      multiply_squares(T(steps[i].b), gram, gram, v);
      multiply_squares(T(steps[i].a), q, v, spare);
      std::swap(q, spare);
    }
    T mean{0};  // of the diagonal, which would lose most by rounding
    for (int64_t i = 0; i < n_; ++i) mean += q[i * n_ + i] / static_cast<T>(n_);
    add_diagonal(-mean, q);
    multiply(mean, q);
  }

  /// The factor of x in the result, factor x + y.
  T factor() const { return factor_; }

 private:
  /// Computes C = factor A + A B, a symmetric matrix, for the operands of g.
  void multiply_symmetric(T factor, const blas::Product<T>& g) const {
    parallel_for(n_, task_cols<T>(n_, 1), [&](int64_t begin, int64_t end) {
      kernel::symmetric_product(factor, g, begin, end);
    });
  }
  /// gram = X X^T.
  void multiply_by_transpose(T* gram) {
    add_product();
    const bool tall = rows_ > cols_;
    blas::Product<T> g{.trans_a = tall, .trans_b = !tall, .n = n_, .k = std::max(rows_, cols_)};
    g.a = g.b = x_, g.lda = g.ldb = cols_;
    g.c = gram, g.ldc = n_;
    multiply_symmetric(T{0}, g);
    if (closer_ > 0) {  // the sum of fourth powers is R's squared Frobenius norm
      const double fourths = blocked_sum<double>(n_ * n_, [=](int64_t i) {
        const auto v = static_cast<double>(gram[i]);
        return v * v;
      });
      factor_ = static_cast<T>(closer_ / (std::sqrt(std::sqrt(fourths)) + eps_));
      closer_ = 0;
    }
    scale(factor_ * factor_, gram);
  }
  /// out = factor x + x y for two square matrices that commute.
  void multiply_squares(T factor, const T* x, const T* y, T* out) const {
    multiply_symmetric(
        factor, {.n = n_, .k = n_, .a = x, .lda = n_, .b = y, .ldb = n_, .c = out, .ldc = n_});
  }
  void add_diagonal(T value, T* square) const {
    for (int64_t i = 0; i < n_; ++i) square[i * n_ + i] += value;
  }
  void scale(T factor, T* square) const {
    if (factor != T{1}) simd_for(n_ * n_, [=](int64_t i) { square[i] *= factor; });
  }
  /// X = factor X + w X. Overwrites w.
  void multiply(T factor, T* w) {
    add_product();
    scale(factor_, w);
    // Only the panel kernel gives the same bits for any split, and only if n_ > 1: a last column
    // of one element would be a dot product.
    const bool any_split = n_ > 1 && std::is_same_v<T, float> && kernel::vector_bytes == 64;
    const int64_t task = any_split ? task_cols<T>(cols_, 2) : 2 * kernel::panel_cols<T>;
    const bool tall = rows_ > cols_;
    parallel_for(cols_, task, [&](int64_t begin, int64_t end) {
      blas::Product<T> g{.m = rows_, .n = end - begin, .k = n_};
      g.a = tall ? x_ : w, g.b = (tall ? w : x_) + begin, g.c = y_ + begin;
      g.lda = n_, g.ldb = g.ldc = cols_;
      blas::gemm_serial<T>(g);
    });
    factor_ *= factor, has_product_ = true;
  }
  /// x = factor x + y, unless y was not written yet.
  void add_product() {
    if (!has_product_) return;
    scale_and_add(rows_ * cols_, factor_, x_, y_);
    factor_ = 1, has_product_ = false;
  }

  int64_t rows_, cols_, n_;
  T factor_;
  double eps_, closer_;
  bool has_product_ = false;
  T *x_, *y_;
  Scratch<T> squares_;
};

/// Runs the steps by the Gram matrix, which is computed again from X before its errors would grow
/// too large.
template <class T>
void run_by_gram(std::span<const Step> steps, bool rounded, Iteration<T>& x) {
  constexpr double most = 1e6, most_rounded = 2e3, most_after_first = 300;
  double growth = 1;
  for (const Step& step : steps) growth *= step.growth;
  // The errors of a rounded first step grow most. If it is exact, the three steps of the Polar
  // Express need one Gram matrix instead of two: 0.8 of the time.
  const bool exact_first =
      rounded && growth > most_rounded && growth <= most_after_first * steps[0].growth;
  const double most_growth = rounded && !exact_first ? most_rounded : most;
  size_t begin = 0;
  growth = 1;
  for (size_t i = 0; i < steps.size(); ++i) {
    growth *= steps[i].growth;
    if (i == begin || growth <= most_growth) continue;
    x.run_by_gram(steps.subspan(begin, i - begin), false);
    begin = i, growth = steps[i].growth;
  }
  x.run_by_gram(steps.subspan(begin), exact_first);
}

}  // namespace

template <class T>
T internal::newton_schulz(int64_t rows, int64_t cols, const NewtonSchulz& options, double squares,
                          T* x, T* y) {
  const bool rounded = options.rounded && kernel::can_round<T>;
  const Bfloat16Products products(rounded);
  const Steps steps(options.steps, options.polar_express);
  Iteration<T> iteration(rows, cols, normalise(rows * cols, steps.t, squares, x),
                         options.polar_express ? steps.t : 0, x, y);
  // With rounded operands, the errors of more than 5 steps add up to too much.
  if (std::max(rows, cols) >= 2 * std::min(rows, cols) && !(rounded && options.steps > 5))
    run_by_gram<T>(steps.list, rounded, iteration);
  else
    iteration.run(steps.list);
  return iteration.factor();
}

template float internal::newton_schulz<float>(int64_t, int64_t, const NewtonSchulz&, double, float*,
                                              float*);
template double internal::newton_schulz<double>(int64_t, int64_t, const NewtonSchulz&, double,
                                                double*, double*);

Tensor newton_schulz(const Tensor& matrices, int64_t steps) {
  check(matrices.defined() && matrices.rank() >= 2 && is_floating(matrices.dtype()),
        "newton_schulz: expected matrices (..., rows, columns) of float32 or float64");
  check(steps >= 1 && steps <= 100, "newton_schulz: expected 1 to 100 steps, got ", steps);
  const NoGrad no_grad;
  const Tensor out = matrices.contiguous().clone();
  const int64_t rows = out.size(-2), cols = out.size(-1), size = rows * cols;
  const int64_t count = size == 0 ? 0 : out.numel() / size;
  dispatch_floating("newton_schulz", out.dtype(), [&]<class T>(TypeTag<T>) {
    internal::for_each_matrix(count, [=, data = out.data<T>()](int64_t i) {
      T* x = data + i * size;
      const Scratch<T> product(size);
      T* y = product.data();
      const double squares = sum_of_squares(size, x);
      const T factor = internal::newton_schulz(rows, cols, {.steps = steps}, squares, x, y);
      scale_and_add(size, factor, x, y);
    });
  });
  return out;
}

}  // namespace gradus::optim
