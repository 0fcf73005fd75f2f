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
/// Adds nn::Linear followed by the activation.
OnnxValue onnx_linear(OnnxGraph& g, const nn::Linear& layer, const OnnxValue& x,
                      Activation activation = Activation::none);
/// Adds activate().
OnnxValue onnx_activation(OnnxGraph& g, Activation activation, const OnnxValue& x);
/// Adds nn::Norm.
OnnxValue onnx_norm(OnnxGraph& g, const nn::Norm& layer, const OnnxValue& x);
/// Adds nn::Conv2d.
OnnxValue onnx_conv(OnnxGraph& g, const nn::Conv2d& layer, const OnnxValue& x);
/// Returns softmax(q k scale) v for q (..., Tq, D), k (..., D, Tk) and v (..., Tk, Dv). `mask`, a
/// bool value or "" for none, is true where a query may attend to a key. If a query may attend to
/// no key, its output is 0.
OnnxValue onnx_attention(OnnxGraph& g, const std::vector<OnnxValue>& q_k_v, double scale,
                         const OnnxValue& mask = {});
/// Adds nn::Block without a key/value cache. If the block has token_shift, tokens.mask must be
/// empty. If blocks after the first have a value_shortcut, `first_values` must point to one string
/// for all blocks, empty at first: the first block stores its values there and the others read
/// them. Throws Error if there are no values to read.
OnnxValue onnx_block(OnnxGraph& g, const nn::Block& block, const OnnxValue& x,
                     const OnnxTokens& tokens, OnnxValue* first_values = nullptr);

}  // namespace gradus
