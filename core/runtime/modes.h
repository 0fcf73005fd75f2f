#pragma once
// Modes: per-thread switches set by scope objects. The workers of a parallel loop see the modes of
// the thread that runs the loop.

namespace gradus {

namespace core {

/// A thread's switches; the values here hold while no scope is open.
struct Modes {
  bool grad = true;          ///< ops are recorded for backward
  bool eval = false;         ///< layers behave as in evaluation
  bool anomaly = false;      ///< ops and their backward rules check for NaN and infinities
  bool composed = false;     ///< ops with kernels of their own are computed from basic ops
  bool bfloat16 = false;     ///< float32 products round their operands to bfloat16
  bool recomputing = false;  ///< backward runs a function of recompute() again
};

/// The calling thread's switches.
Modes& modes();

/// Sets one switch for its lifetime. Scopes may end in any order: of those that set the same
/// switch, the newest one alive decides. Must be destroyed on the thread that created it.
class ModeScope {
 public:
  ModeScope(bool Modes::*mode, bool value);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  bool Modes::*mode_;
  bool before_;                                    // the value to restore
  ModeScope *older_ = nullptr, *newer_ = nullptr;  // neighbours in this thread's list of scopes
};

}  // namespace core

/// Whether ops on this thread record gradients.
inline bool grad_enabled() { return core::modes().grad; }
/// Whether layers on this thread behave as in training (dropout is on), which is the default.
inline bool is_training() { return !core::modes().eval; }
/// Whether backward is running a function of recompute() again on this thread. A layer that changes
/// a state of its own at each call, such as a running mean, leaves it alone then.
inline bool recomputing() { return core::modes().recomputing; }

/// For its lifetime, ops on this thread record gradients (true) or do not (false).
struct GradMode : core::ModeScope {
  [[nodiscard]] explicit GradMode(bool on) : ModeScope(&core::Modes::grad, on) {}
};

/// For its lifetime, no gradients are recorded on this thread.
struct NoGrad : GradMode {
  [[nodiscard]] NoGrad() : GradMode(false) {}
};

/// For its lifetime, layers on this thread behave as in evaluation (true: dropout is off) or as in
/// training (false).
struct EvalMode : core::ModeScope {
  [[nodiscard]] explicit EvalMode(bool on = true) : ModeScope(&core::Modes::eval, on) {}
};

/// For its lifetime, checks each op recorded on this thread and each backward rule: throws Error
/// naming the first op that computed a NaN or an infinity from finite values, forward or backward.
struct AnomalyMode : core::ModeScope {
  [[nodiscard]] AnomalyMode() : ModeScope(&core::Modes::anomaly, true) {}
};

/// For its lifetime, float32 matrix products on this thread round their operands to bfloat16 and add
/// up in float32, at nearly twice the speed on processors with AVX512_BF16: those of matmul, linear
/// layers and recurrent layers, and those of their gradients, whenever these are computed. All else
/// stays float32, products in attention, in convolutions, in Muon and of a matrix with a vector
/// included. On other processors nothing changes; build_info() says which it is.
struct Bfloat16Products : core::ModeScope {
  [[nodiscard]] explicit Bfloat16Products(bool on = true) : ModeScope(&core::Modes::bfloat16, on) {}
};

}  // namespace gradus
