#pragma once
// Products of bfloat16 pairs in the tile registers of Intel's AMX, on Sapphire Rapids and later
// processors. A tile register holds 16 rows of 16 pairs or of 16 float32 sums, and one instruction
// multiplies two registers of pairs: 16 x 16 x 32 multiply-adds.
//
// The baseline is gemm_rows_of in tile_gemm.h with AVX512-BF16's vector instruction: with it,
// training steps of transformers take 1.3 to 1.6 times float32's time. With tile registers, the
// steps take 0.4 to 0.65 of float32's time, and products 0.13 to 0.41, including rounding and
// packing.
// Long parameter lists: as in BLAS's gemm, see tile_gemm.h.

#include <cstdint>

#include "gradus/core/kernels/products/product.h"
#include "gradus/core/runtime/parallel.h"

#if defined(__AMX_BF16__) || defined(__AMXBF16__)  // GCC's name and clang's
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#endif

namespace gradus::kernel {

#if defined(__AMX_BF16__) || defined(__AMXBF16__)

/// Returns whether this process may use AMX. The first call asks Linux, which refuses if a thread
/// has an alternate signal stack of less than about 10 KB, too small to save tile registers.
inline bool has_amx() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  return granted;
}

/// The tile registers of the calling thread. An object configures them when it first multiplies,
/// which takes 80 ns, and releases them when it is destroyed. A thread may have one object at a
/// time. Requires has_amx().
class TileRegisters {
 public:
  TileRegisters() = default;
  TileRegisters(const TileRegisters&) = delete;
  TileRegisters& operator=(const TileRegisters&) = delete;
  ~TileRegisters() {
    if (rows_ > 0) _tile_release();
  }

  /// Computes C = A B, or C += A B if `add`: A (m, k) and B (k, n) hold pairs of bfloat16 (see
  /// bfloat16_pairs.h), C (m, n) is float32. n is a multiple of 16. An element of C has the same
  /// bits whatever m and n are. If `add`, an element of A B is completely summed before it is added
  /// to C.
  void multiply(bool add, int64_t m, int64_t n, int64_t k, const uint32_t* a, int64_t lda,
                const uint32_t* b, int64_t ldb, float* c, int64_t ldc) {
    alignas(64) float sums[32 * 32];
    for (int64_t i = 0, rows = 0; i < m; i += rows, a += rows * lda, c += rows * ldc) {
      rows = m - i >= 32 && k % 16 == 0 ? 32 : std::min(m - i, int64_t{16});
      configure(std::min(rows, int64_t{16}), k % 16);
      for (int64_t j = 0; j < n; j += 32) {
        const int64_t cols = std::min(n - j, int64_t{32}), stride = add ? 32 : ldc;
        float* const to = add ? sums : c + j;
        if (rows == 32 && cols == 32)
          square(k, a, lda, b + j, ldb, to, stride);
        else
          for (int64_t r = 0; r < rows; r += 16)
            strip(cols == 32, k, a + r * lda, lda, b + j, ldb, to + r * stride, stride);
        for (int64_t r = 0; add && r < rows; ++r)
          simd_for(cols,
                   [sum = sums + r * 32, to = c + r * ldc + j](int64_t e) { to[e] += sum[e]; });
      }
    }
  }

  /// Computes C like multiply(), for an A whose layout tile registers cannot load.
  /// fill(i, rows, p, depth, block, stride) must copy rows [i, i + rows) and columns [p, p + depth)
  /// of A to `block`, which has row stride `stride` and space for both sizes rounded up to
  /// multiples of 16.
  // Long parameter list: as in BLAS's gemm.
  template <class Fill>
  void multiply_blocks(bool add, int64_t m, int64_t n, int64_t k, const Fill& fill,
                       const uint32_t* b, int64_t ldb, float* c, int64_t ldc) {
    constexpr int64_t most_rows = 32, stride = 64;
    alignas(64) uint32_t block[most_rows * stride];
    for (int64_t i = 0; i < m; i += most_rows) {
      int64_t p = 0;
      do {  // once if k = 0, to clear C
        const int64_t rows = std::min(most_rows, m - i), depth = std::min(stride, k - p);
        fill(i, rows, p, depth, block, stride);
        multiply(add || p > 0, rows, n, depth, block, stride, b + p * ldb, ldb, c + i * ldc, ldc);
      } while ((p += stride) < k);
    }
  }

 private:
  // Sets the sizes of the registers, `rows` rows for A and C, and clears them. square() keeps C in
  // registers 0 to 3, A in 4 and 5, and B in 6 and 7. strip() keeps C in registers 0 and 1, A in 4,
  // and B in 6 and 7. If `rest` = k % 16 is not 0, strip() also loads the last `rest` columns of A
  // into 5, and the last `rest` rows of B into 2 and 3.
  void configure(int64_t rows, int64_t rest) {
    if (rows == rows_ && rest == rest_) return;
    rows_ = rows, rest_ = rest;
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14]{};
      uint16_t row_bytes[16]{};
      uint8_t rows[16]{};
    } sizes;
    std::fill_n(sizes.row_bytes, 8, uint16_t{64});
    std::fill_n(sizes.rows, 8, uint8_t{16});
    for (const int tile : {0, 1, 4, 5}) sizes.rows[tile] = static_cast<uint8_t>(rows);
    if (rest > 0) {
      sizes.row_bytes[5] = static_cast<uint16_t>(4 * rest);
      sizes.rows[2] = sizes.rows[3] = static_cast<uint8_t>(rest);
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(sizes));  // GCC's intrinsic declares 8 bytes, not all 64
  }

  // Keeps GCC from moving accesses to memory past the tile instructions. GCC does not know that
  // these instructions access memory.
  static void fence() { __asm__ volatile("" ::: "memory"); }

  // Computes 32 rows and 32 columns of C. k is a multiple of 16.
  [[gnu::noinline]] static void square(int64_t k, const uint32_t* a, int64_t lda, const uint32_t* b,
                                       int64_t ldb, float* c, int64_t ldc) {
    fence();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t p = 0; p < k; p += 16, a += 16, b += 16 * ldb) {
      _tile_loadd(4, a, 4 * lda);
      _tile_loadd(6, b, 4 * ldb);
      _tile_loadd(7, b + 16, 4 * ldb);
      _tile_loadd(5, a + 16 * lda, 4 * lda);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, 4 * ldc);
    _tile_stored(1, c + 16, 4 * ldc);
    _tile_stored(2, c + 16 * ldc, 4 * ldc);
    _tile_stored(3, c + 16 * ldc + 16, 4 * ldc);
    fence();
  }

  // Computes 16 columns of C, or 32 if `wide`. The number of rows is that of the last configure().
  [[gnu::noinline]] static void strip(bool wide, int64_t k, const uint32_t* a, int64_t lda,
                                      const uint32_t* b, int64_t ldb, float* c, int64_t ldc) {
    fence();
    _tile_zero(0);
    _tile_zero(1);
    for (; k >= 16; k -= 16, a += 16, b += 16 * ldb) {
      _tile_loadd(4, a, 4 * lda);
      _tile_loadd(6, b, 4 * ldb);
      _tile_dpbf16ps(0, 4, 6);
      if (!wide) continue;
      _tile_loadd(7, b + 16, 4 * ldb);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (k > 0) {
      _tile_loadd(5, a, 4 * lda);
      _tile_loadd(2, b, 4 * ldb);
      _tile_dpbf16ps(0, 5, 2);
      if (wide) _tile_loadd(3, b + 16, 4 * ldb);
      if (wide) _tile_dpbf16ps(1, 5, 3);
    }
    _tile_stored(0, c, 4 * ldc);
    if (wide) _tile_stored(1, c + 16, 4 * ldc);
    fence();
  }

  int64_t rows_ = 0, rest_ = 0;  // the arguments of the last configure()
};

#else

constexpr bool has_amx() { return false; }

/// Replaces the class of this name in builds without AMX, so that its callers compile. They never
/// call it there, because has_amx() is false.
struct TileRegisters {
  template <class... Arguments>
  void multiply(const Arguments&...) {}
  template <class... Arguments>
  void multiply_blocks(const Arguments&...) {}
};

#endif

}  // namespace gradus::kernel
