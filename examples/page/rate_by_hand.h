#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace gradus {

/// The changes of the learning rate that the user made during training. Each change multiplies the
/// learning rate of the schedule by a factor, from a given step on. Checkpoints store the changes.
class RateByHand {
 public:
  /// Multiplies the learning rate of the schedule by `factor` from step `step` on, until the next
  /// change. The factor replaces the previous one. Steps are numbered from 1.
  void change(int64_t step, double factor) { factors_[step] = factor; }
  /// Returns the factor at this step. Before the first change, the factor is 1.
  double factor(int64_t step) const {
    const auto next = factors_.upper_bound(step);
    return next == factors_.begin() ? 1 : std::prev(next)->second;
  }
  bool empty() const { return factors_.empty(); }
  /// Returns all changes as text: STEP:FACTOR, separated by spaces, for example "101:0.5 201:2".
  std::string text() const;
  /// Parses a result of text(). Throws Error unless each part is STEP:FACTOR with STEP >= 1 and
  /// FACTOR >= 0; the message begins with `where`.
  static RateByHand from_text(const std::string& text, const std::string& where);

 private:
  std::map<int64_t, double> factors_;  // by step
};

}  // namespace gradus
