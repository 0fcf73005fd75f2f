#pragma once
// Modes: per-thread switches, set by scope objects. The workers of a parallel loop use the modes of
// the thread that calls the loop.

namespace gradus {

namespace core {

/// The switches of one thread, with their default values. Objects such as NoGrad change a switch
/// for as long as they exist.
struct Modes {
  bool grad = true;          ///< ops are recorded for backward
  bool eval = false;         ///< layers behave as in evaluation, for example without dropout
  bool anomaly = false;      ///< ops and backward rules are checked for NaNs and infinities
  bool composed = false;     ///< fused ops are computed from basic ops
  bool bfloat16 = false;     ///< float32 matrix products round their operands to bfloat16
  bool recomputing = false;  ///< backward is rerunning a function passed to recompute()
};

/// Returns the switches of the calling thread.
Modes& modes();

/// Sets one switch of the current thread to a value until the object is destroyed. If several
/// objects set the same switch, the newest that still exists decides its value. They may be
/// destroyed in any order, but only on the thread that created them.
class ModeScope {
 public:
  ModeScope(bool Modes::*mode, bool value);
  ~ModeScope();
  ModeScope(const ModeScope&) = delete;
  ModeScope& operator=(const ModeScope&) = delete;

 private:
  bool Modes::*mode_;
  bool before_;                                    // the value to restore
  ModeScope *older_ = nullptr, *newer_ = nullptr;  // neighbours in the list of this thread's scopes
};

}  // namespace core

/// Returns whether ops on this thread are recorded for backward.
inline bool grad_enabled() { return core::modes().grad; }
/// Returns whether layers on this thread behave as in training, for example with dropout. The
/// default is true; EvalMode changes it.
inline bool is_training() { return !core::modes().eval; }
/// Returns whether backward, on this thread, is rerunning a function passed to recompute().
/// A layer that updates its own state at each call, such as a running mean, must not update it
/// again in this second run.
inline bool recomputing() { return core::modes().recomputing; }

/// While a GradMode object exists, ops on its thread are recorded for backward if `on` is true, and
/// are not recorded if it is false.
struct GradMode : core::ModeScope {
  [[nodiscard]] explicit GradMode(bool on) : ModeScope(&core::Modes::grad, on) {}
};

/// While a NoGrad object exists, ops on its thread are not recorded for backward.
struct NoGrad : GradMode {
  [[nodiscard]] NoGrad() : GradMode(false) {}
};

/// While an EvalMode object exists, layers on its thread behave as in evaluation (for example
/// without dropout) if `on` is true, and as in training if it is false.
struct EvalMode : core::ModeScope {
  [[nodiscard]] explicit EvalMode(bool on = true) : ModeScope(&core::Modes::eval, on) {}
};

/// While an AnomalyMode object exists, its thread checks recorded ops and backward rules for NaNs
/// and infinities. The check throws Error with the op's name if
/// - an op recorded outside of backward computes a NaN or an infinity from finite inputs, or
/// - the backward rule of an op computes a NaN or an infinity from finite output gradients.
///
/// The outputs of where and masked_fill are not checked.
struct AnomalyMode : core::ModeScope {
  [[nodiscard]] AnomalyMode() : ModeScope(&core::Modes::anomaly, true) {}
};

/// While a Bfloat16Products object exists, float32 matrix products on its thread round their
/// operands to bfloat16 and accumulate in float32. If `on` is false, they do not round. This
/// applies to matmul and ops that call it, linear and recurrent layers, attention, convolutions and
/// contrastive losses. The gradients of these ops are computed in the same way, even if backward
/// runs after the object is destroyed.
///
/// A rounded product takes 0.49 to 0.63 times as long as a float32 product, and 0.13 to 0.41 times
/// on a processor with AMX. The object has no effect in a build without AVX512_BF16 (see
/// has_bfloat16_products()). It also has no effect on
/// - attention of fewer than 4 queries without gradients,
/// - Newton-Schulz steps (see MuonOptions::bfloat16),
/// - most products of a matrix and one vector, and
/// - products of up to 12 rows with a bfloat16 or int8 weight.
struct Bfloat16Products : core::ModeScope {
  [[nodiscard]] explicit Bfloat16Products(bool on = true) : ModeScope(&core::Modes::bfloat16, on) {}
};

}  // namespace gradus
