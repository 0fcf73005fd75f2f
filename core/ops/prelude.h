#pragma once
// What an op is written with: the other ops, recording, checks, threads, profiling. For the ops' own
// .cpp files.

#include "gradus/core/autograd.h"
#include "gradus/core/internal.h"
#include "gradus/core/ops/ops.h"
#include "gradus/core/parallel.h"
#include "gradus/core/profiler.h"
#include "gradus/core/reuse.h"
