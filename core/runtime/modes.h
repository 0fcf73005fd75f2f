#pragma once
// Modes: per-thread switches, set by scope objects. The workers of a parallel loop use the modes of
// the thread that calls the loop.

namespace gradus {

namespace core {

/// The switches of one thread. The initial values hold while no scope is open.
struct Modes {
  bool grad = true;          ///< ops are recorded for backward
  bool eval = false;         ///< layers behave as in evaluation
  bool anomaly = false;      ///< results of ops and of backward rules are checked; see AnomalyMode
  bool composed = false;     ///< fused ops are computed from basic ops
  bool bfloat16 = false;     ///< float32 matrix products round their operands to bfloat16
  bool recomputing = false;  ///< backward is rerunning a function passed to recompute()
};

/// Returns the switches of the calling thread.
Modes& modes();

/// While it exists, one switch of the thread that created it has the given value. If several scopes
/// set the same switch, the newest that still exists decides its value. Scopes may end in any
/// order, but a scope must be destroyed on the thread that created it.
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

/// Returns whether ops on this thread record gradients.
inline bool grad_enabled() { return core::modes().grad; }
/// Returns whether layers on this thread behave as in training (dropout is on). This is the
/// default.
inline bool is_training() { return !core::modes().eval; }
/// Returns whether backward is rerunning, on this thread, a function passed to recompute(). A layer
/// that updates its own state at each call, such as a running mean, must not update it in the
/// second run.
inline bool recomputing() { return core::modes().recomputing; }

/// While it exists, ops on this thread record gradients (true) or do not (false).
struct GradMode : core::ModeScope {
  [[nodiscard]] explicit GradMode(bool on) : ModeScope(&core::Modes::grad, on) {}
};

/// While it exists, ops on this thread do not record gradients.
struct NoGrad : GradMode {
  [[nodiscard]] NoGrad() : GradMode(false) {}
};

/// While it exists, layers on this thread behave as in evaluation (true: dropout is off) or as in
/// training (false).
struct EvalMode : core::ModeScope {
  [[nodiscard]] explicit EvalMode(bool on = true) : ModeScope(&core::Modes::eval, on) {}
};

/// While it exists, this thread checks the ops that it records outside of backward, and the
/// gradients that backward rules compute. Throws Error with the op's name if an op computes a NaN
/// or an infinity from finite inputs, or its rule does so from finite output gradients. The outputs
/// of where and masked_fill are not checked.
struct AnomalyMode : core::ModeScope {
  [[nodiscard]] AnomalyMode() : ModeScope(&core::Modes::anomaly, true) {}
};

/// While it exists, the float32 products of this thread (of matmul and ops that call it, linear and
/// recurrent layers, attention, convolutions and contrastive losses) round their operands to
/// bfloat16 and accumulate in float32 or, if `on` is false, do not round. The products in their
/// gradients round likewise, even if backward runs after the scope has ended. With AVX512_BF16, a
/// matrix product takes 0.49 to 0.63 of the time that it takes in float32. In a build without
/// AVX512_BF16, the scope has no effect (see has_bfloat16_products()).
///
/// The scope has no effect on attention of fewer than 4 queries without gradients, Newton-Schulz
/// steps (see MuonOptions::bfloat16), most products of a matrix and one vector, and products of up
/// to 12 rows with a bfloat16 or int8 weight.
struct Bfloat16Products : core::ModeScope {
  [[nodiscard]] explicit Bfloat16Products(bool on = true) : ModeScope(&core::Modes::bfloat16, on) {}
};

}  // namespace gradus
