#pragma once
#include <string>

namespace gradus {

/// A few lines naming the compiler, vector width, threads and their runtime, BLAS with its kernels
/// and why they were chosen.
std::string build_info();

/// The BLAS in use, its kernels and why they were chosen, on one line.
std::string blas_info();

}  // namespace gradus
