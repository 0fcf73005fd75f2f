#include "gradus/core/kernels/products/blas.h"

#include <cblas.h>
#include <sys/mman.h>

#include <climits>
#include <cstdlib>
#include <string_view>

#include "gradus/core/internal.h"
#include "gradus/core/kernels/products/bfloat16_pairs.h"
#include "gradus/core/kernels/products/panel_gemm.h"
#include "gradus/core/kernels/products/product.h"
#include "gradus/core/kernels/products/row_dots.h"
#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/error.h"
#include "gradus/core/runtime/modes.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/profiler.h"

// Functions that OpenBLAS has beyond CBLAS. All are null with another BLAS, and some in an OpenBLAS
// that was built with a single set of kernels.
extern "C" {
__attribute__((weak)) char* openblas_get_corename(void);
__attribute__((weak)) char* openblas_get_config(void);
__attribute__((weak)) int openblas_get_parallel(void);
__attribute__((weak)) int openblas_get_num_threads(void);
__attribute__((weak)) void openblas_set_num_threads(int);
__attribute__((weak)) void gotoblas_dynamic_init(void);
__attribute__((weak)) void gotoblas_dynamic_quit(void);
}

namespace gradus::blas {

using kernel::ProductKernel, kernel::ProductShape, kernel::choose_product;

namespace {

// The instruction set of an OpenBLAS core's kernels: 0 SSE, 1 AVX, 2 AVX2 with FMA, 3 AVX-512.
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

// Makes OpenBLAS use the widest kernels that this CPU can run, unless the user chose some. By
// itself OpenBLAS selects kernels by the CPU's name; for an unknown CPU, versions before 0.3.25
// fall back to kernels of 2004, which are a fifth as fast. Returns the reason for the kernels now
// in use.
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
  bool openmp = false;   // BLAS asks OpenMP for the number of threads at each call
  bool pthread = false;  // BLAS has its own threads; their number is global to the process
};

Setup set_up() {
  Setup s;
  if (!openblas_get_corename || !openblas_get_config || !openblas_get_parallel) return s;
  const std::string why = choose_kernels();
  const int parallel = openblas_get_parallel();  // 0 serial, 1 pthread, 2 OpenMP
  s.openmp = parallel == 2;
  s.pthread = parallel == 1 && openblas_get_num_threads && openblas_set_num_threads;
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  const std::string config = openblas_get_config();
  constexpr const char* build[] = {" (serial)", " (pthread)", " (openmp)"};
  s.description = config.substr(0, config.find(' ', config.find(' ') + 1)) +
                  build[std::clamp(parallel, 0, 2)] + ", kernels " + openblas_get_corename() +
                  ": " + why;
  return s;
}

// Set up before the first call of BLAS.
const Setup& setup() {
  static const Setup& s = *new Setup(set_up());  // never destroyed: threads may outlive it
  return s;
}

template <class T>
constexpr auto cblas_gemm = cblas_dgemm;
template <>
constexpr auto cblas_gemm<float> = cblas_sgemm;

// Returns the stride to pass to BLAS. BLAS requires at least the row's length, even for a single
// row, whose stride has no meaning.
int64_t row_stride(const char* name, int64_t rows, int64_t cols, int64_t stride) {
  if (rows <= 1) return std::max<int64_t>({cols, 1});
  check(stride >= cols, "gemm: row stride of ", name, " is ", stride, ", shorter than its rows of ",
        cols);
  return std::max<int64_t>(stride, 1);
}

template <class T>
void validate(Product<T>& p) {
  check(p.m >= 0 && p.n >= 0 && p.k >= 0, "gemm: expected sizes (m, n, k) >= 0, got (", p.m, ", ",
        p.n, ", ", p.k, ")");
  p.lda = row_stride("A", p.trans_a ? p.k : p.m, p.trans_a ? p.m : p.k, p.lda);
  p.ldb = row_stride("B", p.trans_b ? p.n : p.k, p.trans_b ? p.k : p.n, p.ldb);
  p.ldc = row_stride("C", p.m, p.n, p.ldc);
  check(std::max({p.m, p.n, p.k, p.lda, p.ldb, p.ldc}) <= INT_MAX, "gemm: sizes (", p.m, ", ", p.n,
        ", ", p.k, ") with row strides (", p.lda, ", ", p.ldb, ", ", p.ldc,
        ") exceed BLAS's limit of ", INT_MAX);
}

template <class T>
ProductShape shape_of(const Product<T>& p) {
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .trans_a = p.trans_a,
          .trans_b = p.trans_b,
          .lda = p.lda,
          .ldb = p.ldb,
          .rounded = core::modes().bfloat16};
}

template <class T>
void call_blas(const Product<T>& p) {
  auto size = [](int64_t n) { return static_cast<int>(n); };
  cblas_gemm<T>(CblasRowMajor, p.trans_a ? CblasTrans : CblasNoTrans,
                p.trans_b ? CblasTrans : CblasNoTrans, size(p.m), size(p.n), size(p.k), 1, p.a,
                size(p.lda), p.b, size(p.ldb), p.add ? T{1} : T{0}, p.c, size(p.ldc));
}

// OpenBLAS allocates a buffer per concurrent call and retries forever if that fails. Each thread
// therefore checks before its first call that there is memory.
void expect_room() {
  static thread_local constinit bool found = false;
  if (found) return;
  constexpr size_t buffer = size_t{128} << 20;
  void* room = mmap(nullptr, buffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check<OutOfMemory>(room != MAP_FAILED, "gemm: out of memory: OpenBLAS needs ", buffer, " bytes");
  munmap(room, buffer);
  found = true;
}

constexpr bool is_panel(ProductKernel choice) {
  return choice == ProductKernel::panel || choice == ProductKernel::bfloat16_panel;
}

// Computes one tile of p's C on this thread by `choice`: panel, bfloat16_panel or blas.
template <class T>
void compute(ProductKernel choice, const Product<T>& p, const Tile& tile, const TileDone& done) {
  Product<T> part = p;
  part.m = tile.rows, part.n = tile.cols;
  part.a = p.a_at(tile.row, 0), part.b = p.b_at(0, tile.col);
  part.c = p.c + tile.row * p.ldc + tile.col;
  FlushDenormals flush;
  const auto tile_done = [&](const Tile& b) {
    if (done) done({tile.row + b.row, b.rows, tile.col + b.col, b.cols});
  };
  if constexpr (kernel::can_round<T>)
    if (choice == ProductKernel::bfloat16_panel)
      return kernel::panel_gemm<kernel::RoundedOperands>(part, tile_done);
  if (choice == ProductKernel::panel)
    return kernel::panel_gemm<kernel::PlainOperands<T>>(part, tile_done);
  expect_room();
  // OpenBLAS must not start a team of its own.
  if (setup().pthread && openblas_get_num_threads() != 1) openblas_set_num_threads(1);
  if (setup().openmp)
    with_single_openmp_thread([&] { call_blas(part); });
  else
    call_blas(part);
  if (done) done(tile);
}

// Below this many multiply-adds one thread finishes before two could have shared the work.
constexpr int64_t serial_work = 2 * 64 * 64 * 64;

// Splits a product over the threads, one piece per thread, since each piece packs an operand.
//
// The panel kernel splits by rows if there are more rows than columns, by columns otherwise. Each
// thread reads one operand whole, then the smaller one, and the threads that compute the next layer
// find the rows that they need in their own caches. With operands from memory and a cache line's
// round trip of 470 ns between two cores, the products of a training step are 2 to 20% faster than
// if split by columns; where A is transposed and C is square, they are slower. The other axis is
// taken if it splits more evenly. BLAS splits by the longer side. Its kernels round differently at
// a tile's edges, so a single thread also computes two pieces: one and two threads then give the
// same bits. This costs the single thread 2%.
template <class T>
void split(ProductKernel choice, const Product<T>& p, const TileDone& done) {
  if (p.m * p.n < serial_work / p.k) return compute(choice, p, {0, p.m, 0, p.n}, done);
  const bool panel = is_panel(choice);
  int64_t pieces = std::max(panel ? 1 : 2, num_threads());
  auto piece = [&](int64_t length) { return ((length + pieces - 1) / pieces + 31) / 32 * 32; };
  bool by_columns = p.n > p.m;
  if (panel) {
    const int64_t area_by_rows = piece(p.m) * p.n, area_by_columns = piece(p.n) * p.m;
    const bool tall = p.trans_a ? p.m >= 2 * p.n : p.m > p.n;
    by_columns = p.n >= 64 * pieces && (tall ? area_by_columns < area_by_rows * 31 / 32
                                             : area_by_columns <= area_by_rows * 33 / 32);
  }
  const int64_t length = by_columns ? p.n : p.m;
  // BLAS calls `done` once for a whole piece, which should then still be in a cache.
  while (done && !panel && piece(length) > 384) pieces *= 2;
  parallel_for(length, piece(length), [&](int64_t begin, int64_t end) {
    compute(choice, p,
            by_columns ? Tile{0, p.m, begin, end - begin} : Tile{begin, end - begin, 0, p.n}, done);
  });
}

// Computes the lower triangle of C. The panel kernel computes it in one call; otherwise each block
// of panel_cols columns is a product of its own. A split at multiples of panel_cols therefore gives
// the same bits.
template <class T>
void compute_lower(const Product<T>& p) {
  check(p.m >= p.n, "gemm: lower: expected m >= n, got ", p.m, " and ", p.n);
  const ProductKernel choice = choose_product(
      {.m = p.m, .n = kernel::narrow_cols, .k = p.k, .rounded = core::modes().bfloat16},
      dtype_of<T>);
  if (is_panel(choice)) return compute(choice, p, {0, p.m, 0, p.n}, {});
  for (int64_t begin = 0; begin < p.n; begin += kernel::panel_cols<T>) {
    Product<T> block = p;
    block.lower = false, block.m = p.m - begin;
    block.n = std::min(kernel::panel_cols<T>, p.n - begin);
    block.a = p.a_at(begin, 0), block.b = p.b_at(0, begin), block.c += begin * p.ldc + begin;
    gemm_serial(block);
  }
}

// Computes a product with k = 0: clears C, or leaves it unchanged with `add`.
template <class T>
void clear(const Product<T>& p) {
  for (int64_t i = 0; i < p.m && !p.add; ++i) std::fill_n(p.c + i * p.ldc, p.n, T{0});
}

}  // namespace

template <class T>
void gemm(Product<T> p, const TileDone& done) {
  validate(p);
  check(!p.lower, "gemm: lower is for gemm_serial only");
  if (p.m == 0 || p.n == 0) return;
  ProfileScope::count(
      2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k), 0);
  const ProductShape shape = shape_of(p);
  const ProductKernel choice = choose_product(shape, dtype_of<T>);
  if (choice == ProductKernel::zero) {
    clear(p);
    if (done) done({0, p.m, 0, p.n});
  } else if (choice == ProductKernel::row_dots) {
    const auto dots = kernel::row_dots(shape, p);
    parallel_for(dots.n, dots.grain(), [&](int64_t begin, int64_t end) {
      dots.run(begin, end);
      if (!done) return;
      const int64_t count = end - begin;
      done(shape.dots_with_b() ? Tile{0, p.m, begin, count} : Tile{begin, count, 0, p.n});
    });
  } else {
    split(choice, p, done);
  }
}

template <class T>
void gemm_serial(Product<T> p) {
  validate(p);
  if (p.m == 0 || p.n == 0) return;
  if (p.lower) return compute_lower(p);
  const ProductShape shape = shape_of(p);
  const ProductKernel choice = choose_product(shape, dtype_of<T>);
  if (choice == ProductKernel::zero) return clear(p);
  if (choice == ProductKernel::row_dots) {
    FlushDenormals flush;
    const auto dots = kernel::row_dots(shape, p);
    return dots.run(0, dots.n);
  }
  compute(choice, p, {0, p.m, 0, p.n}, {});
}

template void gemm<float>(Product<float>, const TileDone&);
template void gemm<double>(Product<double>, const TileDone&);
template void gemm_serial<float>(Product<float>);
template void gemm_serial<double>(Product<double>);

std::string describe() {
  const ProductKernel choice = choose_product({.m = 64, .n = 64, .k = 64}, float32);
  std::string text = setup().description;
  if (choice == ProductKernel::panel) text += "; float32 products by a kernel of our own";
  if (!kernel::bfloat16_products) return text + "; no bfloat16 products: float32 in their place";
  return text + (kernel::has_amx() ? "; bfloat16 products by AMX" : "; bfloat16 products");
}

}  // namespace gradus::blas
