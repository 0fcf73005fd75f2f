#pragma once
// Muon for a module: which parameters it updates, and AdamW for the others.

#include "gradus/nn/module.h"
#include "gradus/optim/combined.h"
#include "gradus/optim/muon.h"
#include "gradus/optim/optimizers.h"

namespace gradus::models {

struct MuonAndAdamWOptions {
  optim::MuonOptions muon = {};
  optim::AdamWOptions adamw = {.lr = 3e-3, .beta2 = 0.99, .weight_decay = 0};
};

/// Muon for module.hidden_matrices() and AdamW for all other parameters, as one optimiser:
///   const auto optimizer = models::muon_and_adamw(model, {.muon = {.lr = 0.02}});
/// Its learning rate, for schedules, is AdamW's; Muon's changes in proportion. AdamW decays its
/// parameters of rank >= 2 only. Throws Error if the module has no hidden matrix, or nothing else.
std::unique_ptr<optim::CombinedOptimizer> muon_and_adamw(const nn::Module& module,
                                                         const MuonAndAdamWOptions& options = {});

}  // namespace gradus::models
