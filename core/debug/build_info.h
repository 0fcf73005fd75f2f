#pragma once
#include <string>

namespace gradus {

/// Returns the version of the library that the program runs with, such as "0.1.0". GRADUS_VERSION
/// (core/version.h) is the version that the program was compiled with.
std::string version();

/// Returns a description of the build in five lines: version, compiler, vector width, threads
/// (their number and the OpenMP runtime), and BLAS (see blas_info()).
std::string build_info();

/// Returns one line about matrix products: OpenBLAS's version, its kernels and why they were
/// chosen, or that the BLAS is another one; whether a kernel of gradus computes large float32
/// products; and whether bfloat16 products are available.
std::string blas_info();

/// Returns whether Bfloat16Products has an effect, that is, whether the library was built for a
/// processor with AVX512_BF16.
bool has_bfloat16_products();

}  // namespace gradus
