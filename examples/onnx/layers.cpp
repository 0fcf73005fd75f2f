#include "examples/onnx/layers.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace gradus {

OnnxValue onnx_positions(OnnxGraph& g, const OnnxValue& ids) {
  const OnnxValue length = g("Shape", {ids}, {{"start", 1}, {"end", 2}});
  return g("Range", {g.index(0), g("Squeeze", {length}), g.index(1)});
}

OnnxValue onnx_linear(OnnxGraph& g, const nn::Linear& layer, const OnnxValue& x,
                      Activation activation) {
  const OnnxValue weight = g("Transpose", {g.weight(layer.weight)}, {{"perm", Ints{1, 0}}});
  OnnxValue y = g("MatMul", {x, weight});
  if (layer.bias.defined()) y = g("Add", {y, g.weight(layer.bias)});
  return onnx_activation(g, activation, y);
}

namespace {
OnnxValue times_sigmoid(OnnxGraph& g, const OnnxValue& x, const OnnxValue& argument) {
  return g("Mul", {x, g("Sigmoid", {argument})});
}

/// x/2 (1 + s)
OnnxValue half_of_one_plus(OnnxGraph& g, const OnnxValue& x, const OnnxValue& s) {
  return g("Mul", {g("Mul", {x, g.number(0.5)}), g("Add", {s, g.number(1)})});
}

OnnxValue gelu_tanh_slope(OnnxGraph& g, const OnnxValue& x) {
  const OnnxValue cube = g("Mul", {g("Mul", {x, x}), x});
  const OnnxValue inner = g("Add", {x, g("Mul", {cube, g.number(0.044715)})});
  return g("Tanh", {g("Mul", {inner, g.number(std::sqrt(2 / std::numbers::pi))})});
}
}  // namespace

OnnxValue onnx_activation(OnnxGraph& g, Activation activation, const OnnxValue& x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return g("Relu", {x});
    case Activation::tanh:
      return g("Tanh", {x});
    case Activation::sigmoid:
      return g("Sigmoid", {x});
    case Activation::gelu:
      return half_of_one_plus(g, x, g("Erf", {g("Mul", {x, g.number(std::sqrt(0.5))})}));
    case Activation::gelu_tanh:
      return half_of_one_plus(g, x, gelu_tanh_slope(g, x));
    case Activation::silu:
      return times_sigmoid(g, x, x);
    case Activation::quick_gelu:
      return times_sigmoid(g, x, g("Mul", {x, g.number(1.702)}));
    case Activation::relu_squared:
      return g("Mul", {g("Relu", {x}), g("Relu", {x})});
  }
  core::fail("ONNX: an activation that is not exported: ", core::name_of(activation));
}

OnnxValue onnx_norm(OnnxGraph& g, const nn::Norm& layer, const OnnxValue& x) {
  const OnnxValue weight = g.weight(layer.weight);
  if (layer.kind == nn::NormKind::layer) {
    std::vector<OnnxValue> inputs{x, weight};
    if (layer.bias.defined()) inputs.push_back(g.weight(layer.bias));
    return g("LayerNormalization", inputs, {{"axis", -1}, {"epsilon", layer.eps}});
  }
  const OnnxValue square = g("ReduceMean", {g("Mul", {x, x})}, {{"axes", Ints{-1}}});
  const OnnxValue root = g("Sqrt", {g("Add", {square, g.number(layer.eps)})});
  return g("Mul", {g("Div", {x, root}), weight});
}

OnnxValue onnx_conv(OnnxGraph& g, const nn::Conv2d& layer, const OnnxValue& x) {
  const auto& o = layer.options;
  const int64_t down = o.padding.height, across = o.padding.width;
  std::vector<OnnxValue> inputs{x, g.weight(layer.weight)};
  if (layer.bias.defined()) inputs.push_back(g.weight(layer.bias));
  return g("Conv", inputs,
           {{"strides", Ints{o.stride.height, o.stride.width}},
            {"pads", Ints{down, across, down, across}},
            {"dilations", Ints{o.dilation.height, o.dilation.width}},
            {"group", o.groups}});
}

OnnxValue onnx_attention(OnnxGraph& g, const std::vector<OnnxValue>& q_k_v, double scale,
                         const OnnxValue& mask) {
  OnnxValue scores = g("MatMul", {q_k_v[0], q_k_v[1]});
  if (scale != 1) scores = g("Mul", {scores, g.number(scale)});
  if (!mask.empty())
    scores = g("Where", {mask, scores, g.number(std::numeric_limits<float>::lowest())});
  OnnxValue weights = g("Softmax", {scores}, {{"axis", -1}});
  if (!mask.empty()) weights = g("Where", {mask, weights, g.number(0)});
  return g("MatMul", {weights, q_k_v[2]});
}

namespace {

/// Which earlier tokens a token sees: (T, T) bool.
OnnxValue causal_mask(OnnxGraph& g, const OnnxValue& positions, int64_t window) {
  const OnnxValue query = g("Unsqueeze", {positions, g.ints({1})});
  const OnnxValue earlier = g("LessOrEqual", {positions, query});
  if (window == 0) return earlier;
  const OnnxValue oldest = g("Sub", {query, g.index(window)});
  return g("And", {earlier, g("Greater", {positions, oldest})});
}

/// rotary() of all heads: x (B, T, heads, D).
OnnxValue rotated(OnnxGraph& g, const nn::MultiHeadAttention& a, const OnnxValue& x,
                  const OnnxValue& positions) {
  const int64_t pairs = a.key_dim / 2;
  const OnnxValue table = g("Gather", {g.weight(a.positions), positions});  // (T, D)
  const auto angle = g.split(g("Reshape", {table, g.ints({-1, 1, pairs, 2})}), {1, 1});
  // The last axis of x as pairs; -1: heads.
  const auto x_pair = g.split(g("Reshape", {x, g.ints({0, 0, -1, pairs, 2})}), {1, 1});
  const auto product = [&](size_t i, size_t j) { return g("Mul", {x_pair[i], angle[j]}); };
  const OnnxValue even = g("Sub", {product(0, 1), product(1, 0)}),
                  odd = g("Add", {product(1, 1), product(0, 0)});
  return g("Reshape", {g("Concat", {even, odd}, {{"axis", -1}}), g.ints({0, 0, -1, a.key_dim})});
}

/// Queries, keys and values (B, heads, T, D), the keys transposed to (B, heads, D, T). Key/value
/// heads are repeated for their queries.
std::vector<OnnxValue> split_heads(OnnxGraph& g, const nn::MultiHeadAttention& a,
                                   std::vector<OnnxValue> parts, const OnnxTokens& tokens) {
  const Ints sizes{a.key_dim, a.key_dim, a.value_dim};
  const int64_t repeats = a.heads / a.kv_heads;
  for (size_t i = 0; i < 3; ++i) {
    OnnxValue& x = parts[i];
    x = g("Reshape", {x, g.ints({0, 0, i == 0 ? a.heads : a.kv_heads, sizes[i]})});
    if (i < 2 && a.q_norm) x = onnx_norm(g, i == 0 ? *a.q_norm : *a.k_norm, x);
    if (i < 2 && a.positions.defined()) x = rotated(g, a, x, tokens.positions);
    if (i > 0 && repeats > 1) {
      x = g("Expand", {g("Unsqueeze", {x, g.ints({3})}), g.ints({1, 1, 1, repeats, 1})});
      x = g("Reshape", {x, g.ints({0, 0, a.heads, sizes[i]})});
    }
    x = g("Transpose", {x}, {{"perm", i == 1 ? Ints{0, 2, 3, 1} : Ints{0, 2, 1, 3}}});
  }
  return parts;
}

OnnxValue multi_head_attention(OnnxGraph& g, const nn::MultiHeadAttention& a, const OnnxValue& x,
                               const OnnxTokens& tokens, OnnxValue* first_values) {
  std::vector<OnnxValue> parts =
      g.split(onnx_linear(g, a.qkv, x),
              {a.heads * a.key_dim, a.kv_heads * a.key_dim, a.kv_heads * a.value_dim});
  if (first_values && first_values->empty()) *first_values = parts[2];
  if (a.value_shortcut.defined()) {
    const auto mix = [&](const OnnxValue& v, int64_t i) {
      return g("Mul", {v, g("Gather", {g.weight(a.value_shortcut), g.index(i)})});
    };
    parts[2] = g("Add", {mix(parts[2], 0), mix(*first_values, 1)});
  }
  OnnxValue mask = tokens.mask;
  if (a.causal) {
    const OnnxValue causal = causal_mask(g, tokens.positions, a.window);
    mask = mask.empty() ? causal : g("And", {mask, causal});
  }
  const OnnxValue y = onnx_attention(g, split_heads(g, a, std::move(parts), tokens),
                                     1 / std::sqrt(static_cast<double>(a.key_dim)), mask);
  const OnnxValue by_token = g("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}});
  return onnx_linear(g, a.proj, g("Reshape", {by_token, g.ints({0, 0, a.heads * a.value_dim})}));
}

OnnxValue mlp(OnnxGraph& g, const nn::MLP& layer, const OnnxValue& x) {
  if (!layer.gated)
    return onnx_linear(g, layer.proj, onnx_linear(g, layer.fc, x, layer.activation));
  const int64_t hidden = layer.fc.weight.size(0) / 2;
  const auto halves = g.split(onnx_linear(g, layer.fc, x), {hidden, hidden});
  return onnx_linear(g, layer.proj,
                     g("Mul", {onnx_activation(g, layer.activation, halves[0]), halves[1]}));
}

/// nn::token_shift.
OnnxValue token_shift(OnnxGraph& g, const OnnxValue& x, const Tensor& weight) {
  if (!weight.defined()) return x;
  const OnnxValue padded = g("Pad", {x, g.ints({0, 1, 0, 0, 0, 0})});
  const OnnxValue previous = g("Slice", {padded, g.ints({0}), g.ints({-1}), g.ints({1})});
  return g("Add", {x, g("Mul", {g("Sub", {previous, x}), g.weight(weight)})});
}

}  // namespace

OnnxValue onnx_block(OnnxGraph& g, const nn::Block& block, const OnnxValue& x,
                     const OnnxTokens& tokens, OnnxValue* first_values) {
  core::check(!block.attn.value_shortcut.defined() || (first_values && !first_values->empty()),
              "onnx_block: value_shortcut needs the values of a first block without it");
  const auto residual = [&](const nn::Norm& norm, const OnnxValue& y, const auto& f) {
    if (block.norm_first) return g("Add", {y, f(onnx_norm(g, norm, y))});
    return onnx_norm(g, norm, g("Add", {y, f(y)}));
  };
  const OnnxValue h = residual(block.ln1, x, [&](const OnnxValue& y) {
    return multi_head_attention(g, block.attn, token_shift(g, y, block.shift1), tokens,
                                first_values);
  });
  return residual(block.ln2, h, [&](const OnnxValue& y) {
    return mlp(g, block.mlp, token_shift(g, y, block.shift2));
  });
}

}  // namespace gradus
