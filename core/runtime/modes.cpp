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

ModeScope::~ModeScope() {
  ModeScope* newer = newer_;
  while (newer && newer->mode_ != mode_) newer = newer->newer_;
  if (newer)  // a newer scope stays in force and later restores this scope's value
    newer->before_ = before_;
  else
    current.*mode_ = before_;

  if (newer_)
    newer_->older_ = older_;
  else
    newest = older_;
  if (older_) older_->newer_ = newer_;
}

}  // namespace gradus::core
