#include "gradus/nn/transformer.h"

namespace gradus::nn {

namespace {
MultiHeadAttention make_attention(int64_t dim, const BlockOptions& o, bool causal, int64_t rotary) {
  return MultiHeadAttention(dim, {.heads = o.heads,
                                  .kv_heads = o.kv_heads,
                                  .rotary = rotary,
                                  .causal = causal,
                                  .bias = o.bias,
                                  .dropout = o.dropout});
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
    : ln1(child("ln1", make_norm(dim, o))),
      attn(child("attn", make_attention(dim, o, o.causal, o.rotary))),
      ln2(child("ln2", make_norm(dim, o))),
      mlp(child("mlp", make_mlp(dim, o))) {}

Tensor Block::first(int64_t count, const Tensor& x) const {
  core::check(!attn.causal && !attn.positions.defined(),
              "Block::first: expected attention without causal order or rotary places");
  const Tensor all = ln1(x);
  core::check(count >= 1 && count <= x.size(1), "Block::first: expected 1 to ", x.size(1),
              " tokens, got ", count);
  const Tensor h = x.slice(1, 0, count) + attn.cross(all.slice(1, 0, count), all);
  return h + mlp(ln2(h));
}

namespace {
int64_t checked_context(int64_t context) {
  core::check(context > 0, "LlamaBlock: expected context > 0, got ", context);
  return context;
}
}  // namespace

LlamaBlock::LlamaBlock(int64_t dim, const LlamaBlockOptions& o)
    : Block(dim, {.heads = o.heads,
                  .kv_heads = o.kv_heads,
                  .hidden = o.hidden == 0 ? SwiGLU::hidden_size(dim) : o.hidden,
                  .activation = Activation::silu,
                  .gated = true,
                  .causal = true,
                  .bias = false,
                  .dropout = o.dropout,
                  .norm = NormKind::rms,
                  .eps = 1e-6,
                  .rotary = checked_context(o.context)}) {}

DecoderBlock::DecoderBlock(int64_t dim, const BlockOptions& o)
    : ln1(child("ln1", make_norm(dim, o))),
      attn(child("attn", make_attention(dim, o, true, o.rotary))),
      ln2(child("ln2", make_norm(dim, o))),
      cross(child("cross", make_attention(dim, o, false, 0))),
      ln3(child("ln3", make_norm(dim, o))),
      mlp(child("mlp", make_mlp(dim, o))) {}

}  // namespace gradus::nn
