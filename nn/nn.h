#pragma once
// Layers and what they are made of.
#include "gradus/nn/init.h"
#include "gradus/nn/layers.h"
#include "gradus/nn/module.h"
#include "gradus/nn/positions.h"
#include "gradus/nn/transformer.h"
