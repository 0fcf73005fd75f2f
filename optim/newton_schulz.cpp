#include "gradus/optim/newton_schulz.h"

#include "gradus/core/internal.h"
#include "gradus/core/kernels/products/blas.h"
#include "gradus/core/kernels/products/tile_gemm.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/modes.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/optim/chunks.h"

namespace gradus::optim {

namespace {

/// The coefficients of a step: a X + b A X + c A A X.
constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
/// Added to the norm that a matrix is divided by.
constexpr double eps = 1e-7;

/// Columns of a symmetric product that one task computes, the width of a packed panel. The
/// narrower, the less is computed beyond the triangle.
template <class T>
constexpr int64_t block_cols = 2 * kernel::lanes<T>;

/// Scales x so that its Frobenius norm is at most 1: x / (norm + eps).
template <class T>
void normalise(int64_t n, T* x) {
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
  const double factor = 1 / (std::sqrt(squares) + eps * scale);
  parallel_for(n, Chunks::grain, [&](int64_t begin, int64_t end) {
    T* to = x + begin;
    simd_for(end - begin, [=](int64_t i) {
      to[i] = static_cast<T>(static_cast<double>(to[i]) * scale * factor);
    });
  });
}

/// to (cols, rows) = the transpose of from (rows, cols).
template <class T>
void transpose(int64_t rows, int64_t cols, const T* from, int64_t from_stride, T* to,
               int64_t to_stride) {
  constexpr int64_t n = kernel::lanes<T>;
  const int64_t whole_rows = rows / n * n, whole_cols = cols / n * n;
  for (int64_t i = 0; i < whole_rows; i += n)
    for (int64_t j = 0; j < whole_cols; j += n)
      kernel::detail::transpose_square(n, T{1}, from + i * from_stride + j, from_stride,
                                       to + j * to_stride + i, to_stride);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i < whole_rows ? whole_cols : 0; j < cols; ++j)
      to[j * to_stride + i] = from[i * from_stride + j];
}

/// out (n, n) = the product of x (n, k) and y, which is symmetric; y is (n, k) and transposed, or
/// (k, n). Computes the lower triangle, by blocks, and mirrors it: half the work.
template <class T>
void symmetric_product(int64_t n, int64_t k, const T* x, const T* y, bool transposed, T* out) {
  parallel_for(n, block_cols<T>, [&](int64_t begin, int64_t end) {
    const int64_t cols = end - begin;
    T* block = out + begin * n + begin;
    blas::gemm_serial<T>({.trans_b = transposed,
                          .m = n - begin,
                          .n = cols,
                          .k = k,
                          .a = x + begin * k,
                          .lda = k,
                          .b = transposed ? y + begin * k : y + begin,
                          .ldb = transposed ? k : n,
                          .c = block,
                          .ldc = n});
    transpose(n - end, cols, block + cols * n, n, block + cols, n);
  });
}

/// out = w x for w (n, n) and x (n, cols).
template <class T>
void product(int64_t n, int64_t cols, const T* w, const T* x, T* out) {
  parallel_for(cols, 2 * block_cols<T>, [&](int64_t begin, int64_t end) {
    blas::gemm_serial<T>({.m = n,
                          .n = end - begin,
                          .k = n,
                          .a = w,
                          .lda = n,
                          .b = x + begin,
                          .ldb = cols,
                          .c = out + begin,
                          .ldc = cols});
  });
}

/// The iteration for x (n, cols) with n <= cols, in the buffers of one matrix.
template <class T>
class Iteration {
 public:
  Iteration(int64_t n, int64_t cols, T* x)
      : n_(n), cols_(cols), buffer_(n * cols), squares_(4 * n * n), x_(x), next_(buffer_.data()) {}

  /// One step after another, as written in newton_schulz.h.
  void run(int64_t steps) {
    T *gram = squares_.data(), *w = gram + n_ * n_;
    for (int64_t i = 0; i < steps; ++i) {
      symmetric_product(n_, cols_, x_, x_, true, gram);
      make_factor(gram, w);
      product(n_, cols_, w, x_, next_);
      std::swap(x_, next_);
    }
  }

  /// The same by the Gram matrix R = X X^T alone: a step multiplies X by W = a + b R + c R R, so
  /// that R becomes W R W. X itself is multiplied once, by the product Q of all W: for a matrix of
  /// n x 4 n this is half the work. (Dao 2026, "Gram Newton-Schulz".)
  void run_by_gram(int64_t steps) {
    T *gram = squares_.data(), *w = gram + n_ * n_, *q = w + n_ * n_, *spare = q + n_ * n_;
    symmetric_product(n_, cols_, x_, x_, true, gram);
    for (int64_t i = 0; i < steps; ++i) {
      make_factor(gram, w);
      if (i == 0) {
        std::copy_n(w, n_ * n_, q);
      } else {
        symmetric_product(n_, n_, q, w, false, spare);
        std::swap(q, spare);
      }
      if (i + 1 == steps) break;
      symmetric_product(n_, n_, gram, w, false, spare);
      symmetric_product(n_, n_, spare, w, false, gram);
    }
    product(n_, cols_, q, x_, next_);
    std::swap(x_, next_);
  }

  /// The matrix after the steps, in x or in a buffer.
  const T* result() const { return x_; }

 private:
  /// w = a + b gram + c gram gram.
  void make_factor(const T* gram, T* w) {
    symmetric_product(n_, n_, gram, gram, false, w);
    simd_for(n_ * n_, [=](int64_t i) { w[i] = T(b) * gram[i] + T(c) * w[i]; });
    for (int64_t i = 0; i < n_; ++i) w[i * n_ + i] += T(a);
  }

  int64_t n_, cols_;
  Scratch<T> buffer_, squares_;
  T *x_, *next_;
};

/// As internal::newton_schulz, for a normalised x (rows, cols).
template <class T>
void iterate(int64_t rows, int64_t cols, int64_t steps, T* x) {
  // Rounded operands make the iteration by the Gram matrix diverge.
  const Bfloat16Products unrounded(false);
  if (rows > cols) {
    const Scratch<T> wide(rows * cols);
    transpose(rows, cols, x, cols, wide.data(), rows);
    iterate(cols, rows, steps, wide.data());
    return transpose(cols, rows, wide.data(), rows, x, cols);
  }
  Iteration<T> iteration(rows, cols, x);
  if (cols >= 2 * rows)
    iteration.run_by_gram(steps);
  else
    iteration.run(steps);
  if (iteration.result() != x) std::copy_n(iteration.result(), rows * cols, x);
}

}  // namespace

template <class T>
void internal::newton_schulz(int64_t rows, int64_t cols, int64_t steps, T* x) {
  normalise(rows * cols, x);
  iterate(rows, cols, steps, x);
}

template void internal::newton_schulz<float>(int64_t, int64_t, int64_t, float*);
template void internal::newton_schulz<double>(int64_t, int64_t, int64_t, double*);

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
    internal::for_each_matrix(
        count, [=](int64_t i) { internal::newton_schulz(rows, cols, steps, x + i * size); });
  });
  return out;
}

}  // namespace gradus::optim
