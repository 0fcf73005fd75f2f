#include "gradus/models/transformer.h"

#include <algorithm>
#include <cmath>

#include "gradus/core/internal.h"
#include "gradus/core/ops/attention.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/loss.h"
#include "gradus/core/ops/reduction.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/nn/sequential.h"

namespace gradus::models {

namespace {
TransformerConfig checked(TransformerConfig c) {
  Transformer::fields(c).check("Transformer");
  check(c.dim % c.heads == 0, "Transformer: heads must divide dim: dim ", c.dim, ", heads ",
        c.heads);
  check(!c.shared_vocab || c.source_vocab == c.target_vocab,
        "Transformer: shared_vocab needs vocabularies of one size, got ", c.source_vocab, " and ",
        c.target_vocab);
  return c;
}

nn::BlockOptions block_options(const TransformerConfig& c) {
  return {.heads = c.heads,
          .hidden = c.hidden,
          .activation = c.activation,
          .dropout = c.dropout,
          .hidden_dropout = c.dropout,
          .norm_first = c.pre_norm};
}

/// Draws matrices by xavier_uniform, as torch.nn.Transformer does, and embeddings from a normal
/// distribution with standard deviation dim^-0.5. Sets biases to 0.
void draw_weights(Transformer& model) {
  const double std = 1 / std::sqrt(static_cast<double>(model.config.dim));
  model.initialise([std](const std::string& name, const Tensor& p) {
    if (name.ends_with("embedding.weight"))
      p.copy_(nn::init::normal(p.shape(), 0, std));
    else if (p.rank() >= 2)
      p.copy_(nn::init::xavier_uniform(p.shape()));
    else if (name.ends_with(".bias"))
      p.zero_();
  });
}
}  // namespace

Fields Transformer::fields(TransformerConfig& c) {
  Fields fields;
  fields.add("source_vocab", c.source_vocab, 1, 1e9, "vocabulary size of the source");
  fields.add("target_vocab", c.target_vocab, 1, 1e9, "vocabulary size of the target");
  fields.add("context", c.context, 1, 1e6, "maximum length of a source or target");
  fields.add("layers", c.layers, 1, 10000, "blocks of encoder and of decoder");
  fields.add("heads", c.heads, 1, 1e6, "attention heads of a block; must divide dim");
  fields.add("dim", c.dim, 1, 1e6, "embedding size");
  fields.add("hidden", c.hidden, 0, 1e7, "hidden size of the feed-forward layers; 0: 4 dim");
  fields.add("dropout", c.dropout, 0, 0.999999, "dropout probability");
  fields.add("activation", c.activation, "activation of the feed-forward layers");
  fields.add("pre_norm", c.pre_norm, "pre-norm blocks instead of post-norm");
  fields.add("tie", c.tie, "one weight for the target embedding and the output");
  fields.add("shared_vocab", c.shared_vocab, "one embedding for source and target");
  return fields;
}

Transformer::Transformer(const TransformerConfig& c)
    : config(checked(c)),
      source_embedding(child("source_embedding", nn::Embedding(c.source_vocab, c.dim))),
      target_embedding(child("target_embedding", c.shared_vocab
                                                     ? source_embedding
                                                     : nn::Embedding(c.target_vocab, c.dim))),
      positions(child("positions", nn::SinusoidalPositions(c.context, c.dim))),
      dropout(c.dropout),
      encoder(children("encoder", c.layers,
                       [&](int64_t) { return nn::Block(c.dim, block_options(c)); })),
      encoder_norm(child("encoder_norm", nn::LayerNorm(c.dim))),
      decoder_blocks(children("decoder", c.layers,
                              [&](int64_t) { return nn::DecoderBlock(c.dim, block_options(c)); })),
      decoder_norm(child("decoder_norm", nn::LayerNorm(c.dim))),
      head(child("head", c.tie ? nn::Linear(target_embedding.weight)
                               : nn::Linear(c.dim, c.target_vocab, {.hidden = false}))) {
  draw_weights(*this);
}

Tensor Transformer::embed(const nn::Embedding& embedding, const Tensor& ids, int64_t offset) const {
  check(ids.size(1) <= config.context - offset, "Transformer: ", offset + ids.size(1),
        " tokens do not fit a context of ", config.context);
  return dropout(embedding(ids) * std::sqrt(static_cast<double>(config.dim)) +
                 positions(ids.size(1), offset));
}

Tensor Transformer::encode(const Tensor& x, const Tensor& mask) const {
  return encoder_norm(nn::apply_blocks(encoder, config.recompute, x, mask));
}

Tensor Transformer::decode(const Tensor& y, const Tensor& memory, const Tensor& mask) const {
  const auto apply = [=, this](size_t i, std::vector<Tensor>& state) {
    const nn::DecoderBlock& block = decoder_blocks[i];
    state[0] = block(state[0], block.cross.keys_and_values(memory), mask);
  };
  return decoder_norm(nn::run_stack(decoder_blocks.size(), config.recompute, {y}, apply)[0]);
}

Tensor Transformer::encode_source(const Tensor& source, const Tensor& mask) const {
  return encode(embed(source_embedding, source, 0), mask);
}

Tensor Transformer::operator()(const Tensor& source, const Tensor& lengths,
                               const Tensor& target) const {
  internal::check_ids("Transformer", "source ids", source);
  internal::check_ids("Transformer", "target ids", target);
  check(source.size(0) == target.size(0), "Transformer: ", source.size(0), " sources, ",
        target.size(0), " targets");
  const Tensor mask = nn::padding_mask(lengths, source.size(0), source.size(1));
  const Tensor memory = encode_source(source, mask);  // its dropout draws before the target's
  return head(decode(embed(target_embedding, target, 0), memory, mask));
}

Tensor Transformer::loss(const PairBatch& batch, double label_smoothing) const {
  return cross_entropy((*this)(batch.source, batch.source_lengths, batch.inputs), batch.targets,
                       {.label_smoothing = label_smoothing});
}

Tensor Transformer::alignment(const Tensor& source, const Tensor& lengths,
                              const Tensor& target) const {
  const NoGrad no_grad;
  const EvalMode eval;
  const AttentionTrace trace;
  (*this)(source, lengths, target);
  return mean(trace.weights().back(), {1});
}

// ---- decoding ----

TransformerDecoder Transformer::decoder(const Tensor& source, const Tensor& lengths,
                                        int64_t beams) const& {
  return TransformerDecoder(*this, source, lengths, beams);
}

TransformerDecoder::TransformerDecoder(const Transformer& model, const Tensor& source,
                                       const Tensor& lengths, int64_t beams)
    : model_(&model) {
  internal::check_ids("Transformer", "source ids", source);
  rows_ = {"Transformer", source.size(0), beams};
  mask_ = nn::padding_mask(lengths, source.size(0), source.size(1));
  const Tensor memory = model.encode_source(source, mask_);
  for (const nn::DecoderBlock& block : model.decoder_blocks) {
    memories_.push_back(block.cross.keys_and_values(memory));
    layers_.push_back(block.attn.make_cache(rows_.size(), capacity()));
  }
  select_sources(rows_.index());
}

void TransformerDecoder::select_sources(const Tensor& rows) {
  internal::select_rows({&mask_}, rows);
  for (auto& [keys, values] : memories_) internal::select_rows({&keys, &values}, rows);
}

Tensor TransformerDecoder::next_logits(const Tensor& ids) {
  rows_.check_next(ids, room());
  Tensor y = model_->embed(model_->target_embedding, ids, capacity() - room());
  for (size_t i = 0; i < layers_.size(); ++i)
    y = model_->decoder_blocks[i](y, memories_[i], mask_, &layers_[i]);
  return model_->head(model_->decoder_norm(y.select(1, -1)));
}

void TransformerDecoder::reorder(const Tensor& rows) {
  const bool sources_changed = rows_.reorder(rows);
  for (nn::KeyValueCache& layer : layers_) layer.reorder(rows);
  if (sources_changed) select_sources(rows);
}

void TransformerDecoder::clear() {
  for (nn::KeyValueCache& layer : layers_) layer.clear();
}

}  // namespace gradus::models
