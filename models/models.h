#pragma once
// Models and what they are fed with.
#include "gradus/models/bert.h"
#include "gradus/models/checkpoint.h"
#include "gradus/models/data/batches.h"
#include "gradus/models/data/idx.h"
#include "gradus/models/data/text_data.h"
#include "gradus/models/data/tokenizer.h"
#include "gradus/models/decoding.h"
#include "gradus/models/fields.h"
#include "gradus/models/gpt.h"
#include "gradus/models/model_folder.h"
#include "gradus/models/transformer.h"
