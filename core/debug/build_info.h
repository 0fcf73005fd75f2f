#pragma once
#include <string>

namespace gradus {

/// The version of the library the program runs with: "0.1.0". GRADUS_VERSION (core/version.h) is
/// the version it was compiled with.
std::string version();

/// Describes the build, one line each: version, compiler, vector width, threads and their runtime,
/// blas_info().
std::string build_info();

/// Describes the BLAS in use, its kernels and why they were chosen, in one line.
std::string blas_info();

}  // namespace gradus
