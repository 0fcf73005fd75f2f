#pragma once
// Includes the public headers of core, except files/named_tensors.h, which nn and optim include.
#include "gradus/core/version.h"
#if __cplusplus >= 202002L
#include "gradus/core/debug/build_info.h"
#include "gradus/core/debug/gradcheck.h"
#include "gradus/core/files/file.h"
#include "gradus/core/files/safetensors.h"
#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/allocator.h"
#include "gradus/core/runtime/error.h"
#include "gradus/core/runtime/profiler.h"
#include "gradus/core/runtime/random.h"
#include "gradus/core/runtime/threads.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/core/tensor/checks.h"
#include "gradus/core/tensor/derivatives.h"
#include "gradus/core/tensor/recompute.h"
#include "gradus/core/tensor/tensor.h"
#endif
