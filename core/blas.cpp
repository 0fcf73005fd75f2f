#include "gradus/core/blas.h"

#include <cblas.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "gradus/core/error.h"
#include "gradus/core/parallel.h"
#include "gradus/core/profiler.h"

// What OpenBLAS has beyond CBLAS; null in another BLAS, or in a build with one set of kernels.
extern "C" {
__attribute__((weak)) char* openblas_get_corename(void);
__attribute__((weak)) char* openblas_get_config(void);
__attribute__((weak)) int openblas_get_parallel(void);
__attribute__((weak)) void openblas_set_num_threads(int);
__attribute__((weak)) void gotoblas_dynamic_init(void);
__attribute__((weak)) void gotoblas_dynamic_quit(void);
}

namespace gradus::blas {

namespace {

// How wide the kernels of an OpenBLAS core are: 0 SSE, 1 AVX, 2 AVX2 with FMA, 3 AVX-512.
int kernel_level(std::string_view core) {
  for (const char* name : {"SkylakeX", "Cooperlake", "SapphireRapids"})
    if (core == name) return 3;
  for (const char* name : {"Haswell", "Zen", "Excavator"})
    if (core == name) return 2;
  for (const char* name : {"Sandybridge", "Bulldozer", "Piledriver", "Steamroller"})
    if (core == name) return 1;
  return 0;
}

constexpr const char* best_kernels[] = {"", "Sandybridge", "Haswell", "SkylakeX"};  // by level

int cpu_level() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return 3;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 2;
  if (__builtin_cpu_supports("avx")) return 1;
#endif
  return 0;
}

// OpenBLAS takes the kernels of the CPUs that it knows; on younger ones it falls back, before
// 0.3.25 as far as to those of 2004, a fifth as fast. Moves it to the widest that this CPU can run,
// whoever made it, unless the user chose. Returns why the kernels now in use are.
std::string choose_kernels() {
  const std::string found = openblas_get_corename();
  const int level = cpu_level();
  const bool narrow = kernel_level(found) < level;
  if (std::getenv("OPENBLAS_CORETYPE")) {
    return std::string("set by OPENBLAS_CORETYPE") +
           (narrow ? std::string(", though this CPU can run ") + best_kernels[level] : "");
  }
  if (!narrow) return "OpenBLAS's own choice";
  if (!gotoblas_dynamic_init || !gotoblas_dynamic_quit) return "the only ones in this build";
  setenv("OPENBLAS_CORETYPE", best_kernels[level], 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv("OPENBLAS_CORETYPE");
  return "the widest for this CPU; OpenBLAS had taken " + found;
}

struct Setup {
  std::string description = "CBLAS, not OpenBLAS";
  bool openmp = false;  // this BLAS asks OpenMP for the number of threads on each call
};

Setup set_up() {
  Setup s;
  if (!openblas_get_corename || !openblas_get_config || !openblas_get_parallel) return s;
  const std::string why = choose_kernels();
  const int parallel = openblas_get_parallel();  // 0 serial, 1 pthread, 2 OpenMP
  s.openmp = parallel == 2;
  if (parallel == 1 && openblas_set_num_threads) openblas_set_num_threads(1);
  const std::string config =
      openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  constexpr const char* build[] = {" (serial)", " (pthread)", " (openmp)"};
  s.description = config.substr(0, config.find(' ', config.find(' ') + 1)) +
                  build[std::clamp(parallel, 0, 2)] + ", kernels " + openblas_get_corename() +
                  ": " + why;
  return s;
}

// Done before the first call of BLAS.
const Setup& setup() {
  static const Setup s = set_up();
  return s;
}

void cblas_gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha,
                const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void cblas_gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha,
                const double* a, int lda, const double* b, int ldb, double beta, double* c,
                int ldc) {
  cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// A row stride of a matrix of one row means nothing: BLAS wants it at least the row's length.
int64_t row_stride(const char* name, int64_t rows, int64_t cols, int64_t stride) {
  if (rows <= 1) return std::max<int64_t>({cols, 1});
  check(stride >= cols, "gemm: row stride of ", name, " is ", stride, ", shorter than its rows of ",
        cols);
  return std::max<int64_t>(stride, 1);
}

// One product, its arguments checked.
template <class T>
struct Gemm {
  bool trans_a, trans_b;
  int64_t m, n, k;
  T alpha;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  T beta;
  T* c;
  int64_t ldc;

  void validate() {
    check(m >= 0 && n >= 0 && k >= 0, "gemm: sizes (m, n, k) = (", m, ", ", n, ", ", k,
          ") are negative");
    lda = row_stride("A", trans_a ? k : m, trans_a ? m : k, lda);
    ldb = row_stride("B", trans_b ? n : k, trans_b ? k : n, ldb);
    ldc = row_stride("C", m, n, ldc);
    check(std::max({m, n, k, lda, ldb, ldc}) <= INT_MAX, "gemm: sizes (", m, ", ", n, ", ", k,
          ") with row strides (", lda, ", ", ldb, ", ", ldc, ") exceed BLAS's limit of ", INT_MAX);
  }

  // C = beta C, for k = 0.
  void scale() const {
    for (int64_t i = 0; i < m; ++i) {
      T* row = c + i * ldc;
      if (beta == T{0})
        std::fill_n(row, n, T{0});
      else if (beta != T{1})
        simd_for(n, [&](int64_t j) { row[j] *= beta; });
    }
  }

  // Rows [i0, i1) and columns [j0, j1) of the product, on this thread.
  void block(int64_t i0, int64_t i1, int64_t j0, int64_t j1) const {
    cblas_gemm(trans_a ? CblasTrans : CblasNoTrans, trans_b ? CblasTrans : CblasNoTrans,
               static_cast<int>(i1 - i0), static_cast<int>(j1 - j0), static_cast<int>(k), alpha,
               a + (trans_a ? i0 : i0 * lda), static_cast<int>(lda), b + (trans_b ? j0 * ldb : j0),
               static_cast<int>(ldb), beta, c + i0 * ldc + j0, static_cast<int>(ldc));
  }

  // The same, BLAS kept from starting a team of its own.
  void serial(int64_t i0, int64_t i1, int64_t j0, int64_t j1) const {
    FlushDenormals flush;
    if (setup().openmp) {
      with_single_openmp_thread([&] { block(i0, i1, j0, j1); });
    } else {
      block(i0, i1, j0, j1);
    }
  }
};

// y[r] = alpha * dot(w[r, :], x) + beta * y[r] for rows r of a row-major matrix. One stream of
// memory at a time: this reads w as fast as the memory gives it, which BLAS's gemv does not.
template <class T>
struct RowDots {
  const T* w;
  int64_t ldw, rows, n;
  const T* x;
  T alpha, beta;
  T* y;
  int64_t incy;

  void run(int64_t begin, int64_t end) const {
    for (int64_t r = begin; r < end; ++r) {
      const T sum = dot(w + r * ldw, x, n);
      T& out = y[r * incy];
      out = beta == T{0} ? alpha * sum : alpha * sum + beta * out;
    }
  }

  static T dot(const T* u, const T* v, int64_t n) {
    constexpr int64_t block = 4096;  // a longer sum in one float would lose digits
    T sum{0};
    for (; n > 0; u += block, v += block, n -= block)
      sum += simd_sum<T>(std::min(block, n), [=](int64_t i) { return u[i] * v[i]; });
    return sum;
  }
};

// A product with a vector as dots with the rows of the matrix, if that is how both lie in memory.
template <class T>
std::optional<RowDots<T>> as_row_dots(const Gemm<T>& g) {
  if (g.m == 1 && g.trans_b && (!g.trans_a || g.lda == 1))
    return RowDots<T>{g.b, g.ldb, g.n, g.k, g.a, g.alpha, g.beta, g.c, 1};
  if (g.n == 1 && !g.trans_a && (g.trans_b || g.ldb == 1))
    return RowDots<T>{g.a, g.lda, g.m, g.k, g.b, g.alpha, g.beta, g.c, g.ldc};
  return std::nullopt;
}

// Below this many multiply-adds one thread is done before two had shared the work.
constexpr int64_t serial_work = 2 * 64 * 64 * 64;

// How a product is split: along the longer side of C, in one piece a thread, since each piece packs
// the whole of the other operand (more pieces cost 2 to 5% each doubling). BLAS's kernels round
// differently at a block's edges: one thread computes the pieces of two, so that both give the same
// bits; that costs it 2%.
template <class T>
void split(const Gemm<T>& g) {
  if (g.m * g.n < serial_work / g.k) return g.serial(0, g.m, 0, g.n);
  const int64_t pieces = std::max(2, num_threads());
  auto piece = [&](int64_t length) { return ((length + pieces - 1) / pieces + 15) / 16 * 16; };
  if (g.m >= g.n) {
    parallel_for(g.m, piece(g.m), [&](int64_t i0, int64_t i1) { g.serial(i0, i1, 0, g.n); });
  } else {
    parallel_for(g.n, piece(g.n), [&](int64_t j0, int64_t j1) { g.serial(0, g.m, j0, j1); });
  }
}

}  // namespace

template <class T>
void gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  Gemm<T> g{trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc};
  g.validate();
  if (m == 0 || n == 0) return;
  if (k == 0) return g.scale();
  ProfileScope::count(
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k), 0);
  if (const auto dots = as_row_dots(g)) {
    const int64_t grain = std::max<int64_t>(1, 65536 / k);
    return parallel_for(dots->rows, grain, [&](int64_t r0, int64_t r1) { dots->run(r0, r1); });
  }
  split(g);
}

template <class T>
void gemm_serial(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
                 int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  Gemm<T> g{trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc};
  g.validate();
  if (m == 0 || n == 0) return;
  if (k == 0) return g.scale();
  if (const auto dots = as_row_dots(g)) {
    FlushDenormals flush;
    return dots->run(0, dots->rows);
  }
  g.serial(0, m, 0, n);
}

template void gemm<float>(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t,
                          const float*, int64_t, float, float*, int64_t);
template void gemm<double>(bool, bool, int64_t, int64_t, int64_t, double, const double*, int64_t,
                           const double*, int64_t, double, double*, int64_t);
template void gemm_serial<float>(bool, bool, int64_t, int64_t, int64_t, float, const float*,
                                 int64_t, const float*, int64_t, float, float*, int64_t);
template void gemm_serial<double>(bool, bool, int64_t, int64_t, int64_t, double, const double*,
                                  int64_t, const double*, int64_t, double, double*, int64_t);

std::string describe() { return setup().description; }

}  // namespace gradus::blas
