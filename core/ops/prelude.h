#pragma once
// What an op is written with: the other ops, recording, checks, threads, profiling. For the ops' own
// .cpp files.

#include "gradus/core/internal.h"
#include "gradus/core/ops/ops.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/profiler.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/core/tensor/reuse.h"
