#pragma once
#include <string>

namespace gradus {

/// The version of the library that the program runs with, such as "0.1.0". GRADUS_VERSION
/// (core/version.h) is the version that the program was compiled with.
std::string version();

/// Returns a description of the build, one line each for: version, compiler, vector width, threads
/// and their runtime, and blas_info().
std::string build_info();

/// Returns one line about the BLAS library in use: its name, its kernels and why they were chosen.
std::string blas_info();

/// Returns whether Bfloat16Products has an effect. It has one if the processor multiplies bfloat16
/// (AVX512_BF16) and the library was built for that.
bool has_bfloat16_products();

}  // namespace gradus
