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
/// Adds nodes that compute activation(layer(x)), and returns their output.
OnnxValue onnx_linear(OnnxGraph& g, const nn::Linear& layer, const OnnxValue& x,
                      Activation activation = Activation::none);
/// Adds nodes that compute activation(x), and returns their output.
OnnxValue onnx_activation(OnnxGraph& g, Activation activation, const OnnxValue& x);
/// Adds nodes that compute layer(x), and returns their output.
OnnxValue onnx_norm(OnnxGraph& g, const nn::Norm& layer, const OnnxValue& x);
/// Adds nodes that compute layer(x), and returns their output.
OnnxValue onnx_conv(OnnxGraph& g, const nn::Conv2d& layer, const OnnxValue& x);
/// Adds nodes that compute attention, softmax(q k scale) v, and returns their output. `q_k_v`
/// contains q (..., Tq, D), the already transposed k (..., D, Tk), and v (..., Tk, Dv). `mask` is
/// bool, true where a query may attend to a key; "" means no mask. If a query may attend to no key,
/// its output is 0.
OnnxValue onnx_attention(OnnxGraph& g, const std::vector<OnnxValue>& q_k_v, double scale,
                         const OnnxValue& mask = {});
/// Adds nodes that compute block(x), without a key/value cache, and returns their output. If the
/// block has token_shift, tokens.mask must be empty.
///
/// `first_values` is needed only for models with value_shortcut: each block but the first mixes the
/// attention values of the first block into its own. Add the blocks in order, and pass a pointer to
/// the same string in each call. The string must be empty before the first call, which stores the
/// name of the first block's values in it. Throws Error if `block` has a value_shortcut but the
/// pointer is null or the string is empty.
OnnxValue onnx_block(OnnxGraph& g, const nn::Block& block, const OnnxValue& x,
                     const OnnxTokens& tokens, OnnxValue* first_values = nullptr);

}  // namespace gradus
