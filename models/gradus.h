#pragma once
// All of gradus: `#include <gradus/gradus.h>`.
#include "gradus/core/version.h"
#if __cplusplus >= 202002L
#include "gradus/core/core.h"
#include "gradus/models/models.h"
#include "gradus/nn/nn.h"
#include "gradus/optim/optim.h"
#endif
