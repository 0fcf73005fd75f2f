#pragma once
// All of gradus: `#include <gradus/gradus.h>`.

/// @namespace gradus
/// Tensors, ops and automatic differentiation.
/// @namespace gradus::core
/// For authors of ops: checks of inputs, allocation of outputs, recording of backward rules.
/// @namespace gradus::nn
/// Layers, transformer blocks, LoRA, probability distributions and metrics.
/// @namespace gradus::nn::init
/// Initialisers of parameters.
/// @namespace gradus::optim
/// Optimisers, gradient clipping, weight averaging, and training on several ranks.
/// @namespace gradus::optim::schedule
/// Learning rates as functions of the step.
/// @namespace gradus::models
/// Models, their data and files, and decoding.
#include "gradus/core/version.h"
#if __cplusplus >= 202002L
#include "gradus/core/core.h"
#include "gradus/models/models.h"
#include "gradus/nn/nn.h"
#include "gradus/optim/optim.h"
#endif
