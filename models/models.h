#pragma once
// Models, tokenizers and text data.
#include "gradus/models/checkpoint.h"
#include "gradus/models/decoding.h"
#include "gradus/models/fields.h"
#include "gradus/models/gpt.h"
#include "gradus/models/model_folder.h"
#include "gradus/models/text_data.h"
#include "gradus/models/tokenizer.h"
