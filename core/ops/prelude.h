#pragma once
// Includes the headers that the .cpp file of every op needs. A .cpp file that calls other ops
// includes the headers of those ops itself.

#include "gradus/core/internal.h"
#include "gradus/core/runtime/parallel.h"
#include "gradus/core/runtime/profiler.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/core/tensor/checks.h"
#include "gradus/core/tensor/reuse.h"
