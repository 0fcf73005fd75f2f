#pragma once
// What a test does in a child of its own: with bounded memory, say.

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <fstream>
#include <string>

#include "gradus/core/runtime/allocator.h"

/// True if freed blocks are kept. They are not under a sanitizer, whose own allocator neither works
/// in a child of a process with threads nor with bounded memory.
inline bool caches() {
  gradus::release_cached_memory();
  { gradus::Storage s(1000); }
  const bool cached = gradus::memory_stats().cached > 0;
  gradus::release_cached_memory();
  return cached;
}

/// Removes what clang's OpenMP leaves in shared memory of a process that was killed, or left by
/// _exit: a later one of the same number would meet it.
inline void remove_leftovers(pid_t process) {
  shm_unlink(("/__KMP_REGISTERED_LIB_" + std::to_string(process) + '_' + std::to_string(getuid()))
                 .c_str());
}

/// The status with which a child ends that runs f and exits with its result; not 0 if it hangs for
/// 20 seconds, or dies.
template <class F>
int in_child(const F& f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    try {
      _exit(f());
    } catch (const std::exception&) {
      _exit(98);
    }
  }
  int status = 1;
  if (waitpid(child, &status, 0) != child) return -1;
  remove_leftovers(child);
  return status;
}

/// From now on this process may take no more than `bytes` of address space beside what it has.
inline void limit_memory(rlim_t bytes) {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit bound{static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + bytes, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &bound) != 0) _exit(99);
}

/// Any number again.
inline void unlimit_memory() {
  const rlimit bound{RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &bound);
}
