// Catch2's own main, compiled once: its implementation is slow to compile.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

// Under a sanitizer a request for too much memory is refused as the system would refuse it, not
// taken for a mistake: the tests make such requests on purpose. They also fork beside other threads.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1 die_after_fork=0";
}
