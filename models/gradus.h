#pragma once
// All of gradus: `#include <gradus/gradus.h>`.

/// @namespace gradus
/// Tensors, the ops on them and their gradients.
/// @namespace gradus::core
/// For authors of ops: how an op checks its inputs, makes its outputs and records its rule.
/// @namespace gradus::nn
/// Layers, and the blocks that transformers are made of.
/// @namespace gradus::nn::init
/// How parameters begin.
/// @namespace gradus::optim
/// Optimisers and the clipping of gradients.
/// @namespace gradus::optim::schedule
/// Learning rates as functions of the step.
/// @namespace gradus::models
/// Models of the course, what they are fed with, and how they write.
#include "gradus/core/version.h"
#if __cplusplus >= 202002L
#include "gradus/core/core.h"
#include "gradus/models/models.h"
#include "gradus/nn/nn.h"
#include "gradus/optim/optim.h"
#endif
