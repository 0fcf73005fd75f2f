#pragma once
// The version of gradus, defined only here; the Makefile reads it from this file. Before 1.0, each
// new minor version changes the SONAME of the shared library and may break compatibility.

///@{
/// The version of gradus that a program is compiled with.
#define GRADUS_VERSION_MAJOR 0
#define GRADUS_VERSION_MINOR 1
#define GRADUS_VERSION_PATCH 0
///@}
/// The version as one number, for comparisons: 10000 major + 100 minor + patch.
#define GRADUS_VERSION \
  (GRADUS_VERSION_MAJOR * 10000 + GRADUS_VERSION_MINOR * 100 + GRADUS_VERSION_PATCH)

#if __cplusplus < 202002L
#error "gradus needs C++20 or later: compile with -std=c++20"
#elif defined(_GLIBCXX_DEBUG)
#error "gradus is built without _GLIBCXX_DEBUG, whose containers differ: use _GLIBCXX_ASSERTIONS"
#endif
