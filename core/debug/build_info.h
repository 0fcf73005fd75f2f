#pragma once
#include <string>

namespace gradus {

/// The version of the library that the program runs with, such as "0.1.0". GRADUS_VERSION
/// (core/version.h) is the version that the program was compiled with.
std::string version();

/// Describes the build in one line each for version, compiler, vector width, threads and their
/// runtime, and blas_info().
std::string build_info();

/// Describes the BLAS in use, its kernels and why they were chosen, in one line.
std::string blas_info();

/// Whether Bfloat16Products has an effect: the processor multiplies bfloat16 (AVX512_BF16), and the
/// library was built for it.
bool has_bfloat16_products();

}  // namespace gradus
