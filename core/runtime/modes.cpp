#include "gradus/core/runtime/modes.h"

namespace gradus::core {

namespace {
thread_local Modes current;
thread_local ModeScope* newest = nullptr;
}  // namespace

Modes& modes() { return current; }

ModeScope::ModeScope(bool Modes::*mode, bool value)
    : mode_(mode), before_(current.*mode), older_(newest) {
  current.*mode = value;
  if (older_) older_->newer_ = this;
  newest = this;
}

// A newer scope of the same switch goes on deciding, and inherits what to go back to.
ModeScope::~ModeScope() {
  ModeScope* heir = newer_;
  while (heir && heir->mode_ != mode_) heir = heir->newer_;
  (heir ? heir->before_ : current.*mode_) = before_;
  (newer_ ? newer_->older_ : newest) = older_;
  if (older_) older_->newer_ = newer_;
}

}  // namespace gradus::core
