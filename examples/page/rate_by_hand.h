#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace gradus {

/// Changes of the learning rate that somebody made while the run was training: from a step on, the
/// schedule's learning rate is multiplied by a factor. Checkpoints store them.
class RateByHand {
 public:
  /// Multiplies by `factor` from step number `step` (from 1) on.
  void change(int64_t step, double factor) { factors_[step] = factor; }
  /// The factor at this step; 1 before the first change.
  double factor(int64_t step) const {
    const auto next = factors_.upper_bound(step);
    return next == factors_.begin() ? 1 : std::prev(next)->second;
  }
  bool empty() const { return factors_.empty(); }
  /// All changes, as "101:0.5 201:2", from which from_text() makes the same ones.
  std::string text() const;
  /// Throws Error on another text; the message starts with `where`.
  static RateByHand from_text(const std::string& text, const std::string& where);

 private:
  std::map<int64_t, double> factors_;  // by step
};

}  // namespace gradus
