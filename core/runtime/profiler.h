#pragma once
// Where a step's time goes, by op.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gradus {

class ProfileScope;

/// What one op took while a Profile was open.
struct ProfileRow {
  std::string op;                          ///< its name
  int64_t calls = 0;                       ///< forward calls
  double forward_ms = 0, backward_ms = 0;  ///< in all, of what ran within the Profile
  double flops = 0, bytes = 0;  ///< of matrix multiplications, and bytes moved where the op says so
};

/// Records, while it lives, the time of each op called on this thread and of each backward rule.
/// Nested ops count for the outermost only. Of nested profiles the innermost records; they end in any
/// order, on the thread that began them.
///   Profile profile;  train_step();  std::puts(profile.table().c_str());
class Profile {
 public:
  Profile();
  ~Profile();
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  /// Rows, the most expensive first.
  std::vector<ProfileRow> rows() const;
  /// Op, calls, ms forward, ms backward, GFLOP/s, GB/s and share as an aligned table.
  std::string table() const;

 private:
  friend class ProfileScope;
  Profile* outer_;
  const ProfileScope* open_scope_ = nullptr;
  ProfileRow* open_row_ = nullptr;
  std::map<std::string, ProfileRow, std::less<>> rows_;
};

/// Marks the calling scope as op `name` for an open Profile; costs one test of a thread-local
/// pointer otherwise.
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
  /// Adds to the outermost open scope's counts.
  static void count(double flops, double bytes) {
    if (current_) add(flops, bytes);
  }

 private:
  friend class Profile;
  static inline thread_local constinit Profile* current_ = nullptr;  // the innermost of this thread

  static void add(double flops, double bytes);
  void begin(const char* name, bool backward);
  void end();
  bool open_ = false;
  bool backward_ = false;
  double start_ms_ = 0;
};

}  // namespace gradus
