#include "gradus/models/gpt.h"

#include <cmath>

#include "gradus/core/internal.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/loss.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/nn/sequential.h"

namespace gradus::models {

namespace {
GPTConfig checked(GPTConfig c) {
  GPT::fields(c).check("GPT");
  check(c.head_dim > 0 || c.dim % c.heads == 0, "GPT: heads must divide dim: dim ", c.dim,
        ", heads ", c.heads);
  check(c.kv_heads == 0 || c.heads % c.kv_heads == 0, "GPT: kv_heads must divide heads: heads ",
        c.heads, ", kv_heads ", c.kv_heads);
  const int64_t head_dim = c.head_dim > 0 ? c.head_dim : c.dim / c.heads;
  check(c.positions != Positions::rotary || head_dim % 2 == 0,
        "GPT: rotary positions need heads of even size, got ", head_dim);
  check(c.rotary.low_turns < c.rotary.high_turns, "GPT: expected rotary_low_turns below ",
        "rotary_high_turns, got ", c.rotary.low_turns, " and ", c.rotary.high_turns);
  for (const auto& [is_on, name] : {std::pair{c.value_shortcut, "value_shortcut"},
                                    std::pair{c.embedding_shortcut, "embedding_shortcut"}})
    check(!is_on || c.layers > 1, "GPT: ", name, " needs at least 2 layers");
  check(!c.bigram || c.vocab <= GPT::max_bigram_vocab, "GPT: bigram: its table has vocab * vocab ",
        "weights: expected a vocab of at most ", GPT::max_bigram_vocab, ", got ", c.vocab);
  return c;
}

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

void add_rotary_fields(Fields& fields, nn::RotaryOptions& o) {
  auto add = [&](const char* name, auto& value, double least, double most, const char* meaning) {
    fields.add(name, value, least, most, meaning).optional = true;
  };
  add("rotary_theta", o.theta, 1, 1e12, "base of the frequencies of rotary positions");
  add("rotary_factor", o.factor, 1, 1e6,
      "divides the lowest frequencies, as in Llama 3.1; 1: none");
  add("rotary_low_turns", o.low_turns, 0, 1e6,
      "with rotary_factor: pairs with fewer turns are slowed by all of it");
  add("rotary_high_turns", o.high_turns, 0, 1e6,
      "with rotary_factor: pairs with more turns are not slowed");
  add("rotary_trained_context", o.trained_context, 1, 1e9,
      "with rotary_factor: tokens within which turns are counted");
}

void add_fewer_steps_fields(Fields& fields, GPTConfig& c) {
  auto add = [&](const char* name, bool& value, const char* meaning) {
    fields.add(name, value, meaning).optional = true;
  };
  add("qk_norm", c.qk_norm, "RMSNorm of each head's queries and keys");
  add("zero_init", c.zero_init,
      "start at 0 what writes to the residual stream, and an untied head");
  add("value_shortcut", c.value_shortcut, "mix each block's values with the first block's");
  add("embedding_shortcut", c.embedding_shortcut, "mix blocks' outputs with the embedded tokens");
  fields.add("logit_cap", c.logit_cap, 0, 1e6, "logits are cap * tanh(logits / cap); 0: no cap")
      .optional = true;
  add("bigram", c.bigram, "add a learnt table of next-token logits, indexed by the current token");
  add("token_shift", c.token_shift, "mix sublayers' inputs with the previous token's");
}
}  // namespace

Fields GPT::fields(GPTConfig& c) {
  Fields fields;
  fields.add("vocab", c.vocab, 1, 1e9, "vocabulary size");
  fields.add("context", c.context, 1, 1e6, "maximum number of tokens");
  fields.add("layers", c.layers, 1, 10000, "transformer blocks");
  fields.add("heads", c.heads, 1, 1e6, "attention heads of a block; must divide dim");
  fields.add("dim", c.dim, 1, 1e6, "embedding size");
  fields.add("dropout", c.dropout, 0, 0.999999, "dropout probability");
  fields.add("bias", c.bias, "biases in linear layers and norms");
  fields.add("tie", c.tie, "one weight for the token embedding and the output");
  fields.add("activation", c.activation, "activation of the feed-forward layers");
  // Files of earlier versions lack the optional fields.
  fields.add("gated", c.gated, "gated feed-forward layers; with silu: SwiGLU").optional = true;
  fields
      .add("hidden", c.hidden, 0, 1e7,
           "hidden size of the feed-forward layers; 0: 4 dim, gated 8/3 dim")
      .optional = true;
  fields.add("kv_heads", c.kv_heads, 0, 1e6, "key/value heads; 0: heads").optional = true;
  fields.add("head_dim", c.head_dim, 0, 1e6, "size of an attention head; 0: dim / heads").optional =
      true;
  fields.add("qkv_bias", c.qkv_bias, "biases of queries, keys and values, even without bias")
      .optional = true;
  fields.add("positions", c.positions, {"learned", "sinusoidal", "rotary"}, "position encoding")
      .optional = true;
  add_rotary_fields(fields, c.rotary);
  fields.add("norm", c.norm, {"layer", "rms"}, "kind of norm").optional = true;
  fields.add("norm_eps", c.norm_eps, 0, 1, "added to the variance by the norms").optional = true;
  fields.add("window", c.window, 0, 1e6, "attention window in tokens; 0: the whole context")
      .optional = true;
  add_fewer_steps_fields(fields, c);
  fields.renamed("activation", "gelu", {{"erf", "gelu"}, {"tanh", "gelu_tanh"}});
  return fields;
}

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
    : config(checked(c)),
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

Tensor GPT::embed(const Tensor& ids, int64_t offset) const {
  internal::check_ids("GPT", "ids", ids);
  check(ids.size(1) <= config.context - offset, "GPT: ", offset + ids.size(1),
        " tokens do not fit a context of ", config.context);
  const int64_t length = ids.size(1);
  if (wpe) return dropout(wte(ids) + (*wpe)(length, offset));
  // Embeddings are multiplied by sqrt(dim), as in Vaswani et al. 2017, section 3.4: their initial
  // standard deviation is 0.02, whereas sinusoids have amplitude 1.
  if (sinusoidal)
    return dropout(wte(ids) * std::sqrt(static_cast<double>(config.dim)) +
                   (*sinusoidal)(length, offset));
  return dropout(wte(ids));
}

/// The last block's output for the embedded tokens x. With caches, one per block, x holds the next
/// tokens only, see nn::Block.
Tensor GPT::apply_blocks(Tensor x, std::vector<nn::KeyValueCache>* caches) const {
  const Tensor embedded = config.embedding_shortcut ? x : Tensor();
  const auto apply = [=, this](size_t i, std::vector<Tensor>& state) {
    Tensor& y = state[0];
    Tensor* const first_values = config.value_shortcut ? &state[1] : nullptr;
    if (config.embedding_shortcut && i > 0) {
      const int64_t at = static_cast<int64_t>(i) - 1;
      y = y * stream_mix[at] + embedded * embedding_mix[at];
    }
    y = caches ? blocks[i](y, (*caches)[i], first_values) : blocks[i](y, {}, first_values);
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

Tensor GPT::operator()(const Tensor& ids) const {
  return logits(apply_blocks(embed(ids, 0), nullptr), ids);
}

Tensor GPT::loss(const Tensor& ids, const Tensor& targets) const {
  check(ids.defined() && targets.defined() && ids.shape() == targets.shape(),
        "GPT: ids and targets must have the same shape");
  check(config.logit_rows >= 0, "GPT: expected logit_rows >= 0, got ", config.logit_rows);
  if (config.logit_rows == 0) return cross_entropy((*this)(ids), targets);
  const CrossEntropyOptions summed{.reduction = Reduction::sum};
  const Tensor x = apply_blocks(embed(ids, 0), nullptr).reshape({-1, config.dim}),
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

// ---- decoding ----

GPTDecoder GPT::decoder(int64_t rows) const& { return GPTDecoder(*this, rows); }

GPTDecoder::GPTDecoder(const GPT& model, int64_t rows) : model_(&model) {
  for (const nn::Block& block : model.blocks)
    layers_.push_back(block.attn.make_cache(rows, capacity()));
}

Tensor GPTDecoder::next_logits(const Tensor& ids) {
  check(!grad_enabled(), "GPT: gradients do not flow through a cache; use it under NoGrad");
  const Tensor x = model_->apply_blocks(model_->embed(ids, capacity() - room()), &layers_);
  return model_->logits(x.select(1, -1), ids.select(1, -1));
}

void GPTDecoder::reorder(const Tensor& rows) {
  for (nn::KeyValueCache& layer : layers_) layer.reorder(rows);
}

void GPTDecoder::clear() {
  for (nn::KeyValueCache& layer : layers_) layer.clear();
}

}  // namespace gradus::models
