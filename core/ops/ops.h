#pragma once
// All ops.
#include "gradus/core/ops/activation.h"
#include "gradus/core/ops/attention.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/loss.h"
#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/ordering.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/ops/rotary.h"
#include "gradus/core/ops/shape.h"
