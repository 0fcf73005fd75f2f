#pragma once
// Runs part of a test in a child process, for example with limited memory.

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <fstream>
#include <string>

#include "gradus/core/runtime/sanitizer.h"

/// Returns whether the allocator caches all freed blocks: true unless the build has a sanitizer.
/// Tests that call in_child() are skipped if this is false, because a sanitizer's own allocator
/// supports neither fork in a multithreaded process nor limited memory.
inline bool caches() { return !gradus::core::sanitized; }

/// Removes the shared memory that clang's OpenMP leaves when a process is killed or calls _exit.
/// Otherwise a later process with the same id would find it.
inline void remove_leftovers(pid_t process) {
  shm_unlink(("/__KMP_REGISTERED_LIB_" + std::to_string(process) + '_' + std::to_string(getuid()))
                 .c_str());
}

/// Waits until a child process ends. Returns its status from waitpid(), or -1 if waitpid() fails.
inline int wait_for(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return status;
}

/// Runs f in a child process. The child exits with f's result, which must be from 0 to 255, or with
/// 98 if f throws a std::exception. Returns the status from waitpid(), which is 0 only if f
/// returned 0. Returns -1 if fork() or waitpid() fails. Kills a child that runs for 20 seconds.
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
  if (child < 0) return -1;  // waitpid(-1) would wait for any other child
  const int status = wait_for(child);
  remove_leftovers(child);
  return status;
}

/// Limits the address space of this process to `bytes` more than it uses now. Exits with status 99
/// on failure.
inline void limit_memory(rlim_t bytes) {
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit bound{};
  getrlimit(RLIMIT_AS, &bound);  // the hard limit stays
  bound.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + bytes;
  if (setrlimit(RLIMIT_AS, &bound) != 0) _exit(99);
}

/// Undoes limit_memory(): sets the limit of the address space to its highest allowed value.
inline void unlimit_memory() {
  rlimit bound{};
  getrlimit(RLIMIT_AS, &bound);
  bound.rlim_cur = bound.rlim_max;
  setrlimit(RLIMIT_AS, &bound);
}
