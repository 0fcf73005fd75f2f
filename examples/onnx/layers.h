#pragma once
// Functions that add the forward pass of layers, in evaluation mode, to an ONNX graph and return
// the output. A fused op becomes one node if ONNX has the operator (Conv, LayerNormalization), and
// otherwise several nodes that compute the same.

#include "examples/onnx/graph.h"
#include "gradus/nn/convolution.h"
#include "gradus/nn/transformer.h"

namespace gradus {

/// Information about the tokens of a batch of sequences, for attention.
struct OnnxTokens {
  OnnxValue positions;  ///< (T) int64: 0, 1, ..., T - 1; needed by causal or rotary attention
  /// bool, broadcasts to (B, heads, T, T): true where attention is allowed. "" means no mask.
  OnnxValue mask = {};
};

/// Returns the positions 0, 1, ..., T - 1 for token ids (B, T).
OnnxValue onnx_positions(OnnxGraph& g, const OnnxValue& ids);
/// Adds `layer` applied to x, followed by `activation`, and returns the output.
OnnxValue onnx_linear(OnnxGraph& g, const nn::Linear& layer, const OnnxValue& x,
                      Activation activation = Activation::none);
/// Adds `activation` applied to x, and returns the output.
OnnxValue onnx_activation(OnnxGraph& g, Activation activation, const OnnxValue& x);
/// Adds `layer` applied to x, and returns the output.
OnnxValue onnx_norm(OnnxGraph& g, const nn::Norm& layer, const OnnxValue& x);
/// Adds `layer` applied to x, and returns the output.
OnnxValue onnx_conv(OnnxGraph& g, const nn::Conv2d& layer, const OnnxValue& x);
/// Adds attention and returns its output, softmax(q k scale) v. `q_k_v` contains q (..., Tq, D),
/// k (..., D, Tk), which is already transposed, and v (..., Tk, Dv). `mask` is a bool value that is
/// true where a query may attend to a key, or "" for no mask. If a query may attend to no key, its
/// output is 0.
OnnxValue onnx_attention(OnnxGraph& g, const std::vector<OnnxValue>& q_k_v, double scale,
                         const OnnxValue& mask = {});
/// Adds `block` applied to x, without a key/value cache, and returns the output. If the block has
/// token_shift, tokens.mask must be empty. `first_values` is for models with value_shortcut, whose
/// later blocks mix the attention values of the first block into their own. For such a model, pass
/// a pointer to one string, empty at first, to the calls for all blocks in order. The call for the
/// first block stores the name of its values in the string. Throws Error if `block` has a
/// value_shortcut but the pointer is null or the string is empty.
OnnxValue onnx_block(OnnxGraph& g, const nn::Block& block, const OnnxValue& x,
                     const OnnxTokens& tokens, OnnxValue* first_values = nullptr);

}  // namespace gradus
