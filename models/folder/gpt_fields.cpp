// The fields of a GPT's configuration, as files and flags have them, and what they must satisfy.

#include "gradus/core/internal.h"
#include "gradus/models/gpt.h"

namespace gradus::models {

namespace {
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
  // add() takes the initial values, for files that lack a field, from c: from the defaults here.
  const GPTConfig given = std::exchange(c, {});
  Fields fields;
  fields.add("vocab", c.vocab, 1, 1e9, "vocabulary size");
  fields.add("context", c.context, 1, 1e6, "maximum number of tokens");
  fields.add("layers", c.layers, 1, 10000, "transformer blocks");
  fields.add("heads", c.heads, 1, 1e6,
             "attention heads of a block; must divide dim unless head_dim is given");
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
  fields.add("norm_eps", c.norm_eps, 0, 1, "added to variance or mean square").optional = true;
  fields.add("window", c.window, 0, 1e6, "attention window in tokens; 0: the whole context")
      .optional = true;
  add_fewer_steps_fields(fields, c);
  fields.renamed("activation", "gelu", {{"erf", "gelu"}, {"tanh", "gelu_tanh"}});
  c = given;
  return fields;
}

GPTConfig GPT::checked_config(GPTConfig c) {
  fields(c).check("GPT");
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
  check(!c.bigram || c.vocab <= max_bigram_vocab, "GPT: bigram: its table has vocab * vocab ",
        "weights: expected a vocab of at most ", max_bigram_vocab, ", got ", c.vocab);
  return c;
}

}  // namespace gradus::models
