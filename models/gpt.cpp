#include "gradus/models/gpt.h"

#include <cmath>

#include "gradus/core/internal.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/loss.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/nn/sequential.h"

namespace gradus::models {

namespace {
void draw_weights(GPT& model) {
  const bool zero = model.config.zero_init;
  const double std = 0.02,
               residual_std = std / std::sqrt(2.0 * static_cast<double>(model.config.layers));
  model.initialise([=](const std::string& name, const Tensor& p) {
    const bool writes = name.ends_with(".proj.weight");  // to the residual stream
    if (name.ends_with(".bias") || name == "bigram" || (zero && (writes || name == "head.weight")))
      p.zero_();
    else if (writes)
      p.copy_(nn::init::normal(p.shape(), 0, residual_std));
    else if (p.rank() >= 2)
      p.copy_(nn::init::normal(p.shape(), 0, std));
  });
}
}  // namespace

/// Block `index`. The blocks share one table of rotary positions, which the first one sets.
nn::Block GPT::make_block(int64_t index, Tensor& positions) const {
  const GPTConfig& c = config;
  const int64_t default_hidden = c.gated ? nn::SwiGLU::hidden_size(c.dim) : 0;
  nn::Block block(c.dim, {.heads = c.heads,
                          .kv_heads = c.kv_heads,
                          .head_dim = c.head_dim,
                          .hidden = c.hidden > 0 ? c.hidden : default_hidden,
                          .activation = c.activation,
                          .gated = c.gated,
                          .causal = true,
                          .bias = c.bias,
                          .qkv_bias = c.qkv_bias,
                          .dropout = c.dropout,
                          .norm = c.norm,
                          .eps = c.norm_eps,
                          .rotary = c.positions == Positions::rotary ? c.context : 0,
                          .frequencies = c.rotary,
                          .positions = positions,
                          .window = c.window,
                          .qk_norm = c.qk_norm,
                          .value_shortcut = c.value_shortcut && index > 0,
                          .token_shift = c.token_shift});
  positions = block.attn.positions;
  return block;
}

GPT::GPT(const GPTConfig& c)
    : config(checked_config(c)),
      wte(child("wte", nn::Embedding(c.vocab, c.dim))),
      wpe(c.positions == Positions::learned
              ? std::optional(child("wpe", nn::LearnedPositions(c.context, c.dim)))
              : std::nullopt),
      sinusoidal(c.positions == Positions::sinusoidal
                     ? std::optional(child("waves", nn::SinusoidalPositions(c.context, c.dim)))
                     : std::nullopt),
      dropout(c.dropout),
      blocks(children(
          "blocks", c.layers,
          [this, positions = Tensor()](int64_t i) mutable { return make_block(i, positions); })),
      ln_f(child("ln_f", nn::Norm(c.norm, c.dim, c.norm_eps, c.bias))),
      head(child("head", c.tie ? nn::Linear(wte.weight)
                               : nn::Linear(c.dim, c.vocab, {.bias = false, .hidden = false}))),
      stream_mix(c.embedding_shortcut ? param("stream_mix", {c.layers - 1}, 1) : Tensor()),
      embedding_mix(c.embedding_shortcut ? param("embedding_mix", {c.layers - 1}, 0) : Tensor()),
      bigram(c.bigram ? compressible(param("bigram", {c.vocab, c.vocab}, 0)) : Tensor()) {
  draw_weights(*this);
}

/// The tokens' embeddings at `positions` (B, T) or, if undefined, from `offset` on.
Tensor GPT::embed(const Tensor& ids, int64_t offset, const Tensor& positions) const {
  internal::check_ids("GPT", "ids", ids);
  check(ids.size(1) <= config.context - offset, "GPT: ", offset + ids.size(1),
        " tokens do not fit a context of ", config.context);
  const auto encoded = [&](const auto& table) {
    return positions.defined() ? table(positions) : table(ids.size(1), offset);
  };
  if (wpe) return dropout(wte(ids) + encoded(*wpe));
  // Embeddings are multiplied by sqrt(dim), as in Vaswani et al. 2017, section 3.4: their initial
  // standard deviation is 0.02, whereas sinusoids have amplitude 1.
  if (sinusoidal)
    return dropout(wte(ids) * std::sqrt(static_cast<double>(config.dim)) + encoded(*sinusoidal));
  return dropout(wte(ids));
}

/// The last block's output for the embedded tokens x. With caches, one per block, x holds the next
/// tokens only, see nn::Block. `mask`: see nn::Block too.
Tensor GPT::apply_blocks(Tensor x, const Tensor& mask,
                         std::vector<nn::KeyValueCache>* caches) const {
  const Tensor embedded = config.embedding_shortcut ? x : Tensor();
  const auto apply = [=, this](size_t i, std::vector<Tensor>& state) {
    Tensor& y = state[0];
    Tensor* const first_values = config.value_shortcut ? &state[1] : nullptr;
    if (config.embedding_shortcut && i > 0) {
      const int64_t at = static_cast<int64_t>(i) - 1;
      y = y * stream_mix[at] + embedded * embedding_mix[at];
    }
    y = caches ? blocks[i](y, (*caches)[i], first_values) : blocks[i](y, mask, first_values);
  };
  return nn::run_stack(blocks.size(), config.recompute, {x, Tensor()}, apply)[0];
}

/// Next-token logits, from the last block's output for the tokens ids: (..., dim) -> (..., vocab).
Tensor GPT::logits(const Tensor& x, const Tensor& ids) const {
  Tensor y = head(ln_f(x));
  if (bigram.defined()) y = y + embedding(bigram, ids);
  if (config.logit_cap > 0) y = tanh(y / config.logit_cap) * config.logit_cap;
  return y;
}

Tensor GPT::operator()(const Tensor& ids, const Tensor& positions) const {
  const Tensor mask = nn::same_example(ids, positions);
  return logits(apply_blocks(embed(ids, 0, positions), mask), ids);
}

Tensor GPT::loss(const Tensor& ids, const Tensor& targets, const Tensor& positions) const {
  check(ids.defined() && targets.defined() && ids.shape() == targets.shape(),
        "GPT: ids and targets must have the same shape");
  check(config.logit_rows >= 0, "GPT: expected logit_rows >= 0, got ", config.logit_rows);
  if (config.logit_rows == 0) return cross_entropy((*this)(ids, positions), targets);
  const CrossEntropyOptions summed{.reduction = Reduction::sum};
  const Tensor mask = nn::same_example(ids, positions);
  const Tensor x = apply_blocks(embed(ids, 0, positions), mask).reshape({-1, config.dim}),
               flat_ids = ids.reshape({-1}), flat_targets = targets.reshape({-1});
  Tensor total = zeros({}, x.dtype());
  for (int64_t begin = 0; begin < ids.numel(); begin += config.logit_rows) {
    const int64_t end = std::min(ids.numel(), begin + config.logit_rows);
    const Tensor some_ids = flat_ids.slice(0, begin, end),
                 some_targets = flat_targets.slice(0, begin, end);
    const auto loss = [=, this](const Tensor& rows) {
      return cross_entropy(logits(rows, some_ids), some_targets, summed);
    };
    total = total + recompute(loss, x.slice(0, begin, end));
  }
  return total / (flat_targets != summed.ignore_index).to(float64).sum().item();
}

}  // namespace gradus::models
