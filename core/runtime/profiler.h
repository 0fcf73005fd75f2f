#pragma once
// Profiling: time per op.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gradus {

class ProfileScope;

/// The total cost of one op in a Profile, summed over all calls of the op.
struct ProfileRow {
  std::string op;                          ///< the op's name
  int64_t calls = 0;                       ///< number of forward calls
  double forward_ms = 0, backward_ms = 0;  ///< total time in milliseconds
  double flops = 0;  ///< FLOPs of matrix products, as reported by ProfileScope::count()
  double bytes = 0;  ///< bytes moved, as reported by ProfileScope::count(); gradus's ops report 0
};

/// Records the time of the ops and backward rules that its thread runs while the Profile exists.
/// Ops measure their time with a ProfileScope. If an op with a scope calls another op, the time
/// counts for the calling op. Ops without a scope, such as stack and median, appear as the ops that
/// they call. Views, copies, conversions, in-place methods and factories (except the random ones)
/// have no scope either: their forward time is recorded only as part of ops that call them.
///
/// If several Profiles exist, only the newest records. They may be destroyed in any order, but only
/// on the thread that created them. Example:
///   Profile profile;  train_step();  std::puts(profile.table().c_str());
class Profile {
 public:
  Profile();
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  /// Returns one row per op, the most expensive first.
  std::vector<ProfileRow> rows() const;
  /// Returns the rows as a text table with the columns op, calls, ms forward, ms backward, GFLOP/s,
  /// GB/s and share of the total time. The last row is the total.
  std::string table() const;

 private:
  friend class ProfileScope;
  Profile* outer_;
  const ProfileScope* open_scope_ = nullptr;
  ProfileRow* open_row_ = nullptr;
  std::map<std::string, ProfileRow, std::less<>> rows_;
};

/// Measures the time from its construction to its destruction, and adds it to the op `name` in this
/// thread's newest Profile. If `backward` is true, adds it to the backward time. Otherwise adds it
/// to the forward time and counts one call. A scope inside another scope adds nothing, because the
/// outer scope already measures the same time. Without a Profile, a scope costs only the test of a
/// thread-local pointer.
class ProfileScope {
 public:
  explicit ProfileScope(const char* name, bool backward = false) {
    if (current_) begin(name, backward);
  }
  ~ProfileScope() {
    if (open_) end();
  }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;
  /// Adds `flops` and `bytes` to the op that this thread's newest Profile is timing. Does nothing
  /// if there is no such op.
  static void count(double flops, double bytes) {
    if (current_) add(flops, bytes);
  }

 private:
  friend class Profile;
  static inline thread_local constinit Profile* current_ = nullptr;  // the newest profile

  static void add(double flops, double bytes);
  void begin(const char* name, bool backward);
  void end();
  bool open_ = false;
  bool backward_ = false;
  double start_ms_ = 0;
};

}  // namespace gradus
