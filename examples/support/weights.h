#pragma once
// The flag --weights: the dtype in which a model's weights are kept in memory and written.

#include "examples/support/flags.h"
#include "gradus/nn/module.h"

namespace gradus {

enum class Weights { float32, bfloat16, int8, as_stored };

/// Adds the flag --weights.
inline void add_weights(Flags& flags, Weights& weights) {
  flags.add("--weights", weights, {"float32", "bfloat16", "int8", "as-stored"},
            "dtype of the weights of linear layers and embeddings: bfloat16 takes a half and int8 "
            "a quarter of the memory, and of the time to generate a token");
}

/// Converts weights of the model to the dtype `weights`. For float32, converts all parameters. For
/// bfloat16 or int8, converts only the weights of linear layers and embeddings. For as_stored, does
/// nothing.
inline void store_weights(nn::Module& model, Weights weights) {
  if (weights == Weights::float32) model.to(float32);
  if (weights == Weights::bfloat16) model.to(bfloat16);
  if (weights == Weights::int8) model.to(int8);
}

}  // namespace gradus
