#pragma once
// Includes the public headers of optim: optimisers, gradient clipping, learning-rate schedules,
// weight averaging, and training on several ranks. Does not include mpi/mpi.h, which belongs to a
// separate library.
#include "gradus/core/version.h"
#if __cplusplus >= 202002L
#include "gradus/optim/adaptive.h"
#include "gradus/optim/combined.h"
#include "gradus/optim/elementwise.h"
#include "gradus/optim/grad_norm.h"
#include "gradus/optim/muon.h"
#include "gradus/optim/optimizer.h"
#include "gradus/optim/optimizers.h"
#include "gradus/optim/parallel/communicator.h"
#include "gradus/optim/parallel/data_parallel.h"
#include "gradus/optim/parallel/sharded.h"
#include "gradus/optim/schedule.h"
#include "gradus/optim/weight_average.h"
#endif
