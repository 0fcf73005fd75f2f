#pragma once
// The one place that says which version this is; the Makefile reads it here. Before 1.0 a new minor
// version may change what programs rely on, and with it the shared library's SONAME.

///@{
/// The version that a program is compiled with.
#define GRADUS_VERSION_MAJOR 0
#define GRADUS_VERSION_MINOR 1
#define GRADUS_VERSION_PATCH 0
///@}
/// For comparisons: 10000 major + 100 minor + patch.
#define GRADUS_VERSION \
  (GRADUS_VERSION_MAJOR * 10000 + GRADUS_VERSION_MINOR * 100 + GRADUS_VERSION_PATCH)

#if __cplusplus < 202002L
#error "gradus needs C++20 or later: compile with -std=c++20"
#elif defined(_GLIBCXX_DEBUG)
#error "gradus is built without _GLIBCXX_DEBUG, whose containers differ: use _GLIBCXX_ASSERTIONS"
#endif
