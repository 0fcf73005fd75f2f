#pragma once
// Everything of core that a user needs.
#include "gradus/core/version.h"
#if __cplusplus >= 202002L
#include "gradus/core/allocator.h"
#include "gradus/core/autograd.h"
#include "gradus/core/build_info.h"
#include "gradus/core/error.h"
#include "gradus/core/file.h"
#include "gradus/core/gradcheck.h"
#include "gradus/core/ops/ops.h"
#include "gradus/core/profiler.h"
#include "gradus/core/random.h"
#include "gradus/core/safetensors.h"
#include "gradus/core/tensor.h"
#include "gradus/core/threads.h"
#endif
