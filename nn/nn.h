#pragma once
// Includes the public headers of nn: layers, initialisers, probability distributions, LoRA and
// metrics.
#include "gradus/core/version.h"
#if __cplusplus >= 202002L
#include "gradus/nn/activations.h"
#include "gradus/nn/attention.h"
#include "gradus/nn/convolution.h"
#include "gradus/nn/finetune/lora.h"
#include "gradus/nn/init.h"
#include "gradus/nn/key_value_cache.h"
#include "gradus/nn/layers.h"
#include "gradus/nn/metrics.h"
#include "gradus/nn/module.h"
#include "gradus/nn/positions.h"
#include "gradus/nn/probability/distributions.h"
#include "gradus/nn/recurrent.h"
#include "gradus/nn/sequential.h"
#include "gradus/nn/transformer.h"
#endif
