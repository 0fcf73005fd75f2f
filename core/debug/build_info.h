#pragma once
#include <string>

namespace gradus {

/// Returns the version of the library that the program runs with, such as "0.1.0". It may differ
/// from GRADUS_VERSION (core/version.h), the version that the program was compiled with.
std::string version();

/// Returns a description of the build in five lines: version, compiler, vector width, threads
/// (their number and the OpenMP runtime), and BLAS (the text of blas_info()).
std::string build_info();

/// Returns a line of text that describes how matrices are multiplied. The line contains the version
/// of OpenBLAS, the set of kernels that OpenBLAS uses and why this set was chosen. If the BLAS is
/// not OpenBLAS, the line says so. The line also states whether gradus multiplies large float32
/// matrices with its own kernel, whether bfloat16 products are available, and whether AMX computes
/// these products.
std::string blas_info();

/// Returns whether Bfloat16Products has an effect, that is, whether the library was built for a
/// processor with AVX512_BF16.
bool has_bfloat16_products();

}  // namespace gradus
