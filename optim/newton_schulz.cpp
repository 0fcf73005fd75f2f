#include "gradus/optim/newton_schulz.h"

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
/// The Polar Express, for singular values from 0.001 up: each polynomial has the least error on the
/// range that those before leave, cut off below 0.02 of its upper end. All but the fifth are
/// p(x / 1.01), so that rounding errors stay in range. Later steps use the limit.
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

/// Added to the norm that a matrix is divided by.
constexpr double eps = 1e-7;

/// Scales x so that its Frobenius norm is at most t: t x / (norm + eps).
template <class T>
void normalise(int64_t n, double t, T* x) {
  double scale = 1;  // keeps the squares of large doubles finite
  if constexpr (std::is_same_v<T, double>) {
    const double peak = simd_max(n, 0.0, [=](int64_t i) { return std::abs(x[i]); });
    if (peak > 1e100) scale = 1 / peak;
  }
  const double squares = parallel_sum<double>(n, Chunks::grain, [&](int64_t begin, int64_t end) {
    const T* from = x + begin;
    return simd_sum<double>(end - begin, [=](int64_t i) {
      const double v = static_cast<double>(from[i]) * scale;
      return v * v;
    });
  });
  const double factor = t / (std::sqrt(squares) + eps * scale);
  parallel_for(n, Chunks::grain, [&](int64_t begin, int64_t end) {
    T* to = x + begin;
    simd_for(end - begin, [=](int64_t i) {
      to[i] = static_cast<T>(static_cast<double>(to[i]) * scale * factor);
    });
  });
}

/// Columns per task of a product with `cols` columns. A thread that has a matrix to itself computes
/// all columns at once, so that it packs and rounds the other operand once.
template <class T>
int64_t task_cols(int64_t cols, int64_t panels) {
  return num_threads() == 1 || in_parallel_region() ? cols : panels * kernel::panel_cols<T>;
}

/// The iteration for x (n, cols) with n <= cols, in the buffers of one matrix.
///
/// Products may round their operands to bfloat16. The identity is therefore never part of an
/// operand: a step is a X + V X with V = b A + A A, which keeps small elements of X.
template <class T>
class Iteration {
 public:
  Iteration(int64_t n, int64_t cols, T* x)
      : n_(n), cols_(cols), buffer_(n * cols), squares_(4 * n * n), x_(x), next_(buffer_.data()) {}

  /// One step after another, as written in newton_schulz.h.
  void run(std::span<const Step> steps) {
    T *gram = squares_.data(), *v = gram + n_ * n_;
    for (const Step& step : steps) {
      multiply_by_transpose(gram);
      multiply_squares(T(step.b), gram, gram, v);
      multiply(T(step.a), v);
    }
  }

  /// The same by the Gram matrix R = X X^T alone: a step multiplies X by W = a I + V, so that R
  /// becomes W R W. X itself is multiplied once, by the product Q of all W: for a matrix of n x 4 n
  /// this is half the work. (Dao 2026, "Gram Newton-Schulz".)
  void run_by_gram(std::span<const Step> steps) {
    T *gram = squares_.data(), *v = gram + n_ * n_, *q = v + n_ * n_, *spare = q + n_ * n_;
    multiply_by_transpose(gram);
    multiply_squares(T(steps[0].b), gram, gram, v);
    std::copy_n(v, n_ * n_, q);
    add_diagonal(T(steps[0].a), q);
    for (size_t i = 1; i < steps.size(); ++i) {
      const auto before = static_cast<T>(steps[i - 1].a);
      multiply_squares(before, gram, v, spare);
      multiply_squares(before, spare, v, gram);
      multiply_squares(T(steps[i].b), gram, gram, v);
      multiply_squares(T(steps[i].a), q, v, spare);
      std::swap(q, spare);
    }
    T mean{0};  // of the diagonal, which would lose most by rounding
    for (int64_t i = 0; i < n_; ++i) mean += q[i * n_ + i] / static_cast<T>(n_);
    add_diagonal(-mean, q);
    multiply(mean, q);
  }

  /// The matrix after the steps, in x or in a buffer.
  const T* result() const { return x_; }

 private:
  /// Computes C = factor A + A B, a symmetric matrix, for the operands of g.
  void multiply_symmetric(T factor, const blas::Product<T>& g) const {
    parallel_for(n_, task_cols<T>(n_, 1), [&](int64_t begin, int64_t end) {
      kernel::symmetric_product(factor, g, begin, end);
    });
  }
  /// gram = X X^T.
  void multiply_by_transpose(T* gram) const {
    blas::Product<T> g{.trans_b = true, .n = n_, .k = cols_, .c = gram, .ldc = n_};
    g.a = g.b = x_, g.lda = g.ldb = cols_;
    multiply_symmetric(T{0}, g);
  }
  /// out = factor x + x y for two square matrices that commute.
  void multiply_squares(T factor, const T* x, const T* y, T* out) const {
    multiply_symmetric(
        factor, {.n = n_, .k = n_, .a = x, .lda = n_, .b = y, .ldb = n_, .c = out, .ldc = n_});
  }
  void add_diagonal(T value, T* square) const {
    for (int64_t i = 0; i < n_; ++i) square[i * n_ + i] += value;
  }
  /// X = factor X + w X.
  void multiply(T factor, const T* w) {
    // Only the panel kernel gives the same bits for any split, and only if n_ > 1: a last column
    // of one element would be a dot product.
    const bool any_split = n_ > 1 && std::is_same_v<T, float> && kernel::vector_bytes == 64;
    const int64_t task = any_split ? task_cols<T>(cols_, 2) : 2 * kernel::panel_cols<T>;
    parallel_for(cols_, task, [&](int64_t begin, int64_t end) {
      blas::Product<T> g{.m = n_, .n = end - begin, .k = n_, .a = w, .lda = n_};
      g.add = true, g.b = x_ + begin, g.c = next_ + begin, g.ldb = g.ldc = cols_;
      kernel::scale_rows(factor, n_, g.n, g.b, cols_, g.c);
      blas::gemm_serial<T>(g);
    });
    std::swap(x_, next_);
  }

  int64_t n_, cols_;
  Scratch<T> buffer_, squares_;
  T *x_, *next_;
};

/// Runs the steps on x = t X (rows, cols), which is normalised.
template <class T>
void iterate(int64_t rows, int64_t cols, std::span<const Step> steps, bool rounded, T* x) {
  if (rows > cols) {
    const Scratch<T> wide(rows * cols);
    kernel::transpose(rows, cols, x, cols, wide.data(), rows);
    iterate(cols, rows, steps, rounded, wide.data());
    return kernel::transpose(cols, rows, wide.data(), rows, x, cols);
  }
  Iteration<T> iteration(rows, cols, x);
  // With rounded operands, the errors of more than 5 steps add up to too much.
  if (cols < 2 * rows || (rounded && steps.size() > 5)) {
    iteration.run(steps);
  } else {
    // Errors in the Gram matrix grow. It is therefore computed again from X before they would grow
    // by more than this factor.
    const double most_growth = rounded ? 2e3 : 1e6;
    size_t begin = 0;
    double growth = 1;
    for (size_t i = 0; i < steps.size(); ++i) {
      growth *= steps[i].growth;
      if (i == begin || growth <= most_growth) continue;
      iteration.run_by_gram(steps.subspan(begin, i - begin));
      begin = i, growth = steps[i].growth;
    }
    iteration.run_by_gram(steps.subspan(begin));
  }
  if (iteration.result() != x) std::copy_n(iteration.result(), rows * cols, x);
}

}  // namespace

template <class T>
void internal::newton_schulz(int64_t rows, int64_t cols, int64_t steps, bool polar_express,
                             bool rounded, T* x) {
  rounded = rounded && kernel::bfloat16_products && std::is_same_v<T, float>;
  const Bfloat16Products products(rounded);
  const Steps all(steps, polar_express);
  normalise(rows * cols, all.t, x);
  iterate<T>(rows, cols, all.list, rounded, x);
}

template void internal::newton_schulz<float>(int64_t, int64_t, int64_t, bool, bool, float*);
template void internal::newton_schulz<double>(int64_t, int64_t, int64_t, bool, bool, double*);

Tensor newton_schulz(const Tensor& matrices, int64_t steps) {
  check(matrices.defined() && matrices.rank() >= 2 && is_floating(matrices.dtype()),
        "newton_schulz: expected matrices (..., rows, columns) of float32 or float64");
  check(steps >= 1 && steps <= 100, "newton_schulz: expected 1 to 100 steps, got ", steps);
  const NoGrad no_grad;
  const Tensor out = matrices.contiguous().clone();
  const int64_t rows = out.size(-2), cols = out.size(-1), size = rows * cols;
  const int64_t count = size == 0 ? 0 : out.numel() / size;
  dispatch_floating("newton_schulz", out.dtype(), [&]<class T>(TypeTag<T>) {
    T* x = out.data<T>();
    internal::for_each_matrix(count, [=](int64_t i) {
      internal::newton_schulz(rows, cols, steps, false, false, x + i * size);
    });
  });
  return out;
}

}  // namespace gradus::optim
