#include "gradus/nn/layers.h"

#include "gradus/core/internal.h"
#include "gradus/core/ops/compression.h"
#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/nn/finetune/lora.h"

namespace gradus::nn {

namespace {
const Tensor& checked_weight(const Tensor& weight, const Tensor& bias) {
  check(weight.defined() && weight.rank() == 2, "Linear: expected a weight of shape (out, in)");
  if (!bias.defined()) return weight;
  check_tensor("Linear", "bias", bias, weight.dtype(), {weight.size(0)});
  check(bias.is_leaf() && !is_expanded(bias), "Linear: the bias must be a leaf, not expanded");
  return weight;
}
}  // namespace

Linear::Linear(int64_t in, int64_t out, const LinearOptions& options)
    : weight(compressible(param("weight", {out, in}, init::kaiming_uniform()))),
      bias(options.bias ? param("bias", {out}, init::uniform_fan_in(in)) : Tensor()) {
  adaptable(weight);
  if (options.hidden) hidden_weight(weight, options.rows, options.heads);
}

Linear::Linear(const Tensor& weight_, const Tensor& bias_)
    : weight(compressible(param("weight", checked_weight(weight_, bias_)))),
      bias(bias_.defined() ? param("bias", bias_) : bias_) {
  adaptable(weight);
}

Tensor Linear::operator()(const Tensor& x, Activation activation) const {
  if (!lora_update()) return linear(x, weight, bias, activation);
  return activate((*lora_update())(x, weight, bias), activation);
}

Tensor Linear::rows(const Tensor& x, int64_t begin, int64_t end) const {
  check(0 <= begin && begin < end && end <= weight.size(0), "Linear::rows: expected 0 <= begin < ",
        "end <= ", weight.size(0), ", got ", begin, " and ", end);
  const Tensor w = rows_of(weight, begin, end);
  const Tensor b = bias.defined() ? bias.slice(0, begin, end) : bias;
  return lora_update() ? (*lora_update())(x, w, b, begin) : linear(x, w, b);
}

Tensor feed_forward(const Tensor& x, const Linear& first, Activation activation,
                    const Linear& second, bool is_gated) {
  if (second.lora_update()) return updated_feed_forward(first(x), activation, second, is_gated);
  if (is_gated) return second(gated(first(x), activation));
  if (first.lora_update()) return second(first(x, activation));
  return gradus::feed_forward(x, first.weight, first.bias, activation, second.weight, second.bias);
}

Embedding::Embedding(int64_t count, int64_t dim)
    : weight(compressible(param("weight", {count, dim}, init::normal()))) {}

Tensor Embedding::operator()(const Tensor& ids) const { return embedding(weight, ids); }

Norm::Norm(NormKind kind_, int64_t dim, double eps_, bool biased)
    : weight(param("weight", {dim}, 1, kind_ == NormKind::rms ? "RMSNorm" : "LayerNorm")),
      bias(biased && kind_ == NormKind::layer ? param("bias", {dim}, 0) : Tensor()),
      eps(eps_),
      kind(kind_) {
  check(eps >= 0, kind == NormKind::rms ? "RMSNorm" : "LayerNorm", ": expected eps >= 0, got ",
        eps);
}

Tensor Norm::operator()(const Tensor& x) const {
  return kind == NormKind::rms ? rms_norm(x, weight, eps) : layer_norm(x, weight, bias, eps);
}

Dropout::Dropout(double p_) : p(p_) {
  check(p >= 0 && p <= 1, "Dropout: expected a probability from 0 to 1, got ", p);
}

Tensor Dropout::operator()(const Tensor& x) const { return p == 0 ? x : gradus::dropout(x, p); }

namespace {
int64_t hidden_size(int64_t dim, int64_t hidden) {
  check(dim > 0 && dim <= INT64_MAX / 4 && hidden >= 0 && hidden <= INT64_MAX / 2,
        "MLP: expected sizes > 0, got dim ", dim, ", hidden ", hidden);
  return hidden == 0 ? 4 * dim : hidden;
}

Linear make_fc(int64_t dim, int64_t hidden, const MLPOptions& o) {
  if (!o.gated) return Linear(dim, hidden, {.bias = o.bias});
  return Linear(dim, 2 * hidden, {.bias = o.bias, .rows = {hidden, hidden}});
}
}  // namespace

MLP::MLP(int64_t dim, const MLPOptions& o)
    : fc(child("fc", make_fc(dim, hidden_size(dim, o.hidden), o))),
      proj(child("proj", Linear(hidden_size(dim, o.hidden), dim, {.bias = o.bias}))),
      activation(o.activation),
      gated(o.gated),
      dropout(o.dropout),
      hidden_dropout(o.hidden_dropout) {}

Tensor MLP::operator()(const Tensor& x) const {
  if (hidden_dropout.p == 0 || !is_training())
    return dropout(feed_forward(x, fc, activation, proj, gated));
  const Tensor hidden = gated ? gradus::gated(fc(x), activation) : fc(x, activation);
  return dropout(proj(hidden_dropout(hidden)));
}

int64_t SwiGLU::hidden_size(int64_t dim) {
  return (8 * std::clamp<int64_t>(dim, 0, INT64_MAX / 16) / 3 + 7) / 8 * 8;
}

SwiGLU::SwiGLU(int64_t dim, const SwiGLUOptions& o)
    : MLP(dim, {.hidden = o.hidden == 0 ? hidden_size(dim) : o.hidden,
                .activation = Activation::silu,
                .gated = true,
                .bias = o.bias,
                .dropout = o.dropout}) {}

}  // namespace gradus::nn
