#include "gradus/models/bert.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/compression.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/loss.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/models/decoding.h"
#include "gradus/nn/sequential.h"

namespace gradus::models {

namespace {
BertConfig checked(BertConfig c) {
  Bert::fields(c).check("Bert");
  check(c.dim % c.heads == 0, "Bert: heads must divide dim: dim ", c.dim, ", heads ", c.heads);
  return c;
}

BertClassifierConfig checked(BertClassifierConfig c) {
  BertClassifier::fields(c).check("BertClassifier");
  return c;
}

/// Draws matrices and embeddings from a normal distribution with standard deviation 0.02; sets
/// biases to 0.
void draw(const std::string& name, const Tensor& p) {
  if (p.rank() >= 2)
    p.copy_(nn::init::normal(p.shape(), 0, 0.02));
  else if (name.ends_with("bias"))
    p.zero_();
}

/// Returns the indices of the masked tokens in the flattened targets (B * T), in order.
Tensor masked_positions(const Tensor& targets) {
  std::vector<int64_t> positions;
  const std::vector<int64_t> all = targets.to_vector<int64_t>();
  for (int64_t i = 0; i < std::ssize(all); ++i)
    if (all[static_cast<size_t>(i)] != -100) positions.push_back(i);
  return from_data(positions, {std::ssize(positions)});
}
}  // namespace

Fields Bert::fields(BertConfig& c) {
  Fields fields;
  fields.add("vocab", c.vocab, 1, 1e9, "vocabulary size");
  fields.add("context", c.context, 1, 1e6, "maximum number of tokens");
  fields.add("segments", c.segments, 1, 1000, "number of segments in a sequence");
  fields.add("layers", c.layers, 1, 10000, "transformer blocks");
  fields.add("heads", c.heads, 1, 1e6, "attention heads of a block; must divide dim");
  fields.add("dim", c.dim, 1, 1e6, "embedding size");
  fields.add("hidden", c.hidden, 0, 1e7, "hidden size of the feed-forward layers; 0: 4 dim");
  fields.add("dropout", c.dropout, 0, 0.999999, "dropout probability");
  fields.add("activation", c.activation, "activation of the feed-forward layers");
  fields.add("norm_eps", c.norm_eps, 0, 1, "added to the variance by the norms").optional = true;
  return fields;
}

Bert::Bert(const BertConfig& c)
    : config(checked(c)),
      words(child("words", nn::Embedding(c.vocab, c.dim))),
      positions(child("positions", nn::Embedding(c.context, c.dim))),
      segments(child("segments", nn::Embedding(c.segments, c.dim))),
      embedding_norm(child("embedding_norm", nn::LayerNorm(c.dim, {.eps = c.norm_eps}))),
      dropout(c.dropout),
      blocks(children("blocks", c.layers,
                      [&](int64_t) {
                        return nn::Block(c.dim, {.heads = c.heads,
                                                 .hidden = c.hidden,
                                                 .activation = c.activation,
                                                 .dropout = c.dropout,
                                                 .norm_first = false,
                                                 .eps = c.norm_eps});
                      })),
      pooler(child("pooler", nn::Linear(c.dim, c.dim))),
      transform(child("transform", nn::Linear(c.dim, c.dim))),
      transform_norm(child("transform_norm", nn::LayerNorm(c.dim, {.eps = c.norm_eps}))),
      decoder(child("decoder", nn::Linear(words.weight, zeros({c.vocab})))),
      next(child("next", nn::Linear(c.dim, 2, {.hidden = false}))) {
  initialise(draw);
}

Tensor Bert::operator()(const BertInput& in) const {
  internal::check_ids("Bert", "ids", in.ids);
  const int64_t B = in.ids.size(0), T = in.ids.size(1);
  check(T <= config.context, "Bert: ", T, " tokens do not fit a context of ", config.context);
  check(!in.segments.defined() || in.segments.shape() == in.ids.shape(),
        "Bert: expected segments of the ids' shape ", in.ids.shape(), ", got ",
        in.segments.defined() ? in.segments.shape() : Shape{});
  check(!in.mask.defined() || (in.mask.shape() == in.ids.shape() && in.mask.dtype() == boolean),
        "Bert: expected a mask of bool ", in.ids.shape());
  const Tensor segment =
      in.segments.defined() ? segments(in.segments) : floating(segments.weight)[0];
  Tensor x = words(in.ids) + (floating(rows_of(positions.weight, 0, T)) + segment);
  x = dropout(embedding_norm(x));
  const Tensor mask = in.mask.defined() ? in.mask.reshape({B, 1, 1, T}) : Tensor();
  return nn::apply_blocks(blocks, config.recompute, x, mask);
}

Tensor Bert::pooled(const Tensor& hidden) const {
  return pooler(hidden.select(1, 0), Activation::tanh);
}

Tensor Bert::word_logits(const Tensor& hidden) const {
  return decoder(transform_norm(transform(hidden, config.activation)));
}

BertAnswers Bert::answers(const MaskedBatch& batch) const {
  check(batch.targets.defined() && batch.targets.dtype() == int64 &&
            batch.targets.shape() == batch.ids.shape(),
        "Bert: expected targets of int64 ", batch.ids.shape());
  const Shape rows{batch.ids.size(0)};
  check(batch.is_next.defined() && batch.is_next.dtype() == int64 && batch.is_next.shape() == rows,
        "Bert: expected is_next of int64 ", rows);
  const Tensor hidden = (*this)({batch.ids, batch.segments, batch.mask});
  const Tensor masked = masked_positions(batch.targets);
  check(masked.numel() > 0, "Bert: no token of the batch is masked");
  return {word_logits(index_select(hidden.reshape({-1, config.dim}), 0, masked)),
          index_select(batch.targets.reshape({-1}), 0, masked), next(pooled(hidden)),
          batch.is_next};
}

// ---- fine-tuning ----

Fields BertClassifier::fields(BertClassifierConfig& c) {
  Fields fields = Bert::fields(c.bert);
  fields.add("classes", c.classes, 2, 1e6, "number of classes");
  fields.add("tokens", c.tokens, "classify each token, not the text");
  return fields;
}

BertClassifier::BertClassifier(const BertClassifierConfig& c)
    : config(checked(c)),
      bert(child("bert", Bert(c.bert))),
      dropout(c.bert.dropout),
      head(child("head", nn::Linear(c.bert.dim, c.classes, {.hidden = false}))) {
  head.initialise(draw);
}

Tensor BertClassifier::operator()(const BertInput& input) const {
  const Tensor hidden = bert(input);
  return head(dropout(config.tokens ? hidden : bert.pooled(hidden)));
}

Tensor BertClassifier::loss(const BertInput& input, const Tensor& labels) const {
  return cross_entropy((*this)(input), labels);
}

}  // namespace gradus::models
