#pragma once
#include "gradus/core/runtime/random.h"

namespace gradus {

/// Saves this thread's random state on construction and restores it on destruction, so that
/// evaluation does not affect training.
struct KeepRandomState {
  const RandomKey state = default_generator().state();  ///< the state at the start
  ~KeepRandomState() { default_generator().set_state(state); }
};

}  // namespace gradus
