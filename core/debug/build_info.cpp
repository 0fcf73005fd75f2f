#include "gradus/core/debug/build_info.h"

#include "gradus/core/kernels/products/blas.h"
#include "gradus/core/kernels/products/product.h"
#include "gradus/core/runtime/error.h"
#include "gradus/core/runtime/threads.h"
#include "gradus/core/version.h"

namespace gradus {

namespace {

#if defined(__clang__)
constexpr char compiler[] = "clang " __clang_version__, openmp_runtime[] = "libomp";
#else
constexpr char compiler[] = "g++ " __VERSION__, openmp_runtime[] = "libgomp";
#endif

const char* vectors() {
#if defined(__AVX512F__)
  return "AVX-512 (512 bits)";
#elif defined(__AVX2__) && defined(__FMA__)
  return "AVX2 with FMA (256 bits)";
#elif defined(__AVX__)
  return "AVX (256 bits)";
#elif defined(__x86_64__)
  return "SSE2 (128 bits)";
#elif defined(__aarch64__)
  return "NEON (128 bits)";
#else
  return "the compiler's default";
#endif
}

}  // namespace

std::string version() {
  core::Text out;
  out << GRADUS_VERSION_MAJOR << '.' << GRADUS_VERSION_MINOR << '.' << GRADUS_VERSION_PATCH;
  return out.str();
}

bool has_bfloat16_products() { return kernel::bfloat16_products; }

std::string blas_info() { return blas::describe(); }

std::string build_info() {
  core::Text out;
  out << "gradus    " << version() << "\ncompiler  " << compiler << "\nvectors   " << vectors()
      << "\nthreads   " << num_threads() << " (" << openmp_runtime << ")\nblas      " << blas_info()
      << '\n';
  return out.str();
}

}  // namespace gradus
