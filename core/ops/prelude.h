#pragma once
// Includes what every op's .cpp needs: recording, checks, threads, profiling. The headers of other
// ops are included one by one.

#include "gradus/core/internal.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/profiler.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/core/tensor/checks.h"
#include "gradus/core/tensor/reuse.h"
