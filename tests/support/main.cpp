// Catch2's main, compiled once because it is slow to compile.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

// Under a sanitizer, huge allocations return null as they do without one, instead of ending the
// process: the tests make them on purpose. The tests also fork while other threads run.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1 die_after_fork=0";
}
