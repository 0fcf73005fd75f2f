// Settings of the whole test program.
#include <cstdlib>
#include <optional>

#include "gradus/core/runtime/modes.h"

namespace {

// With GRADUS_COMPOSED=1 in the environment, this thread runs the composed form of every fused op.
// The suite must then pass except [fused]: tests of the memory that fused ops save, of rounding and
// extremes in which only they are exact, of their names and errors, and of other threads.
const struct Composed {
  Composed() {
    if (std::getenv("GRADUS_COMPOSED")) scope.emplace(&gradus::core::Modes::composed, true);
  }
  std::optional<gradus::core::ModeScope> scope;
} composed;

}  // namespace

// Under a sanitizer, huge allocations return null as they do without one, instead of ending the
// process: the tests make them on purpose. The tests also fork while other threads run. With a
// smaller quarantine of freed blocks and shorter stack traces, the table of ops takes a sixth less
// time.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "allocator_may_return_null=1:quarantine_size_mb=64:malloc_context_size=10";
}
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() {
  return "allocator_may_return_null=1 die_after_fork=0";
}
