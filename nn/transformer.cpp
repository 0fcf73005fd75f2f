#include "gradus/nn/transformer.h"

#include "gradus/core/tensor/checks.h"

namespace gradus::nn {

namespace {
MultiHeadAttention make_attention(int64_t dim, const BlockOptions& o, bool causal, int64_t rotary,
                                  int64_t window) {
  return MultiHeadAttention(dim, {.heads = o.heads,
                                  .kv_heads = o.kv_heads,
                                  .key_dim = o.head_dim,
                                  .value_dim = o.head_dim,
                                  .rotary = rotary,
                                  .frequencies = o.frequencies,
                                  .positions = rotary > 0 ? o.positions : Tensor(),
                                  .causal = causal,
                                  .bias = o.bias,
                                  .qkv_bias = o.qkv_bias,
                                  .dropout = o.dropout,
                                  .window = window,
                                  .qk_norm = o.qk_norm,
                                  .eps = o.eps,
                                  .value_shortcut = o.value_shortcut});
}

Norm make_norm(int64_t dim, const BlockOptions& o) { return Norm(o.norm, dim, o.eps, o.bias); }

MLP make_mlp(int64_t dim, const BlockOptions& o) {
  return MLP(dim, {.hidden = o.hidden,
                   .activation = o.activation,
                   .gated = o.gated,
                   .bias = o.bias,
                   .dropout = o.dropout,
                   .hidden_dropout = o.hidden_dropout});
}
}  // namespace

Block::Block(int64_t dim, const BlockOptions& o)
    : norm_first(o.norm_first),
      ln1(child("ln1", make_norm(dim, o))),
      attn(child("attn", make_attention(dim, o, o.causal, o.rotary, o.window))),
      ln2(child("ln2", make_norm(dim, o))),
      mlp(child("mlp", make_mlp(dim, o))),
      shift1(o.token_shift ? param("shift1", {dim}, 0) : Tensor()),
      shift2(o.token_shift ? param("shift2", {dim}, 0) : Tensor()) {}

Tensor Block::first(int64_t count, const Tensor& x) const {
  core::check(!attn.causal && !attn.positions.defined(),
              "Block::first: expected attention that is neither causal nor rotary");
  core::check(!shift1.defined() && !attn.value_shortcut.defined(),
              "Block::first: expected neither token_shift nor value_shortcut");
  core::check_shape("Block::first", "x", x, {"B", "T", "dim"});
  core::check(count >= 1 && count <= x.size(1), "Block::first: expected 1 to ", x.size(1),
              " tokens, got ", count);
  const Tensor all = norm_first ? ln1(x) : x;
  Tensor h = x.slice(1, 0, count) + attn.cross(all.slice(1, 0, count), all);
  if (!norm_first) h = ln1(h);
  return residual(norm_first, ln2, h, mlp);
}

Block llama_block(int64_t dim, const LlamaBlockOptions& o) {
  core::check(o.context > 0, "llama_block: expected context > 0, got ", o.context);
  return Block(dim, {.heads = o.heads,
                     .kv_heads = o.kv_heads,
                     .hidden = o.hidden == 0 ? SwiGLU::hidden_size(dim) : o.hidden,
                     .activation = Activation::silu,
                     .gated = true,
                     .causal = true,
                     .bias = false,
                     .dropout = o.dropout,
                     .norm = NormKind::rms,
                     .eps = 1e-6,
                     .rotary = o.context,
                     .window = o.window});
}

DecoderBlock::DecoderBlock(int64_t dim, const BlockOptions& o)
    : norm_first(o.norm_first),
      ln1(child("ln1", make_norm(dim, o))),
      attn(child("attn", make_attention(dim, o, true, o.rotary, o.window))),
      ln2(child("ln2", make_norm(dim, o))),
      cross(child("cross", make_attention(dim, o, false, 0, 0))),
      ln3(child("ln3", make_norm(dim, o))),
      mlp(child("mlp", make_mlp(dim, o))) {
  core::check(!o.value_shortcut && !o.token_shift,
              "DecoderBlock: expected neither value_shortcut nor token_shift");
}

}  // namespace gradus::nn
