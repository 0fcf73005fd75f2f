#pragma once
#include <string>

namespace gradus {

/// The version of the library that the program runs with: "0.1.0". GRADUS_VERSION (core/version.h)
/// is the one that it was compiled with.
std::string version();

/// A few lines naming the version, the compiler, vector width, threads and their runtime, BLAS with
/// its kernels and why they were chosen.
std::string build_info();

/// The BLAS in use, its kernels and why they were chosen, on one line.
std::string blas_info();

}  // namespace gradus
