#pragma once
// Modes: switches that belong to a thread and last as long as a scope object. A parallel loop's
// workers see those of the thread whose loop it is.

namespace gradus {

namespace core {

/// A thread's switches, as they stand while no scope is open.
struct Modes {
  bool grad = true;        ///< ops are recorded
  bool eval = false;       ///< layers behave as in evaluation
  bool anomaly = false;    ///< ops and their backward look for NaN and infinities
  bool skip_init = false;  ///< initialisers give zeros
};

/// The calling thread's.
Modes& modes();

/// Sets one switch while it lives. Scopes may end in any order: the one opened last among those
/// that live decides. Must end on the thread that opened it.
class ModeScope {
 public:
  ModeScope(bool Modes::*mode, bool value);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  bool Modes::*mode_;
  bool before_;                                    // what the switch goes back to
  ModeScope *older_ = nullptr, *newer_ = nullptr;  // this thread's open scopes
};

}  // namespace core

/// Whether ops on this thread record gradients.
inline bool grad_enabled() { return core::modes().grad; }
/// Whether layers on this thread behave as in training: dropout is on. Threads start so.
inline bool is_training() { return !core::modes().eval; }

/// While it lives, ops on this thread record gradients (true) or do not (false).
struct GradMode : core::ModeScope {
  [[nodiscard]] explicit GradMode(bool on) : ModeScope(&core::Modes::grad, on) {}
};

/// While it lives, no gradients are recorded on this thread.
struct NoGrad : GradMode {
  [[nodiscard]] NoGrad() : GradMode(false) {}
};

/// While it lives, layers behave as in evaluation (true) or training (false): dropout is off or on.
struct EvalMode : core::ModeScope {
  [[nodiscard]] explicit EvalMode(bool on = true) : ModeScope(&core::Modes::eval, on) {}
};

/// While it lives, each op that is recorded on this thread, and each rule of a backward pass, is
/// looked at: throws Error naming the first op that made a NaN or an infinity from finite numbers,
/// forward or backward.
struct AnomalyMode : core::ModeScope {
  [[nodiscard]] AnomalyMode() : ModeScope(&core::Modes::anomaly, true) {}
};

}  // namespace gradus
