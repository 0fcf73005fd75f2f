#include "gradus/nn/layers.h"

#include "gradus/core/ops/indexing.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/nn/init.h"

namespace gradus {

Linear::Linear(int64_t in, int64_t out, const LinearOptions& options) {
  check(in > 0 && out > 0, "Linear: expected sizes > 0, got ", in, " -> ", out);
  weight = param("weight", init::kaiming_uniform({out, in}));
  if (options.bias) bias = param("bias", init::uniform_fan_in({out}, in));
}

Linear::Linear(Tensor weight_, Tensor bias_) {
  check(weight_.defined() && weight_.rank() == 2, "Linear: expected a weight of shape (out, in)");
  check(!bias_.defined() || bias_.shape() == Shape{weight_.size(0)},
        "Linear: expected a bias of shape ", Shape{weight_.size(0)}, ", got ",
        bias_.defined() ? bias_.shape() : Shape{});
  weight = param("weight", weight_);
  if (bias_.defined()) bias = param("bias", bias_);
}

Embedding::Embedding(int64_t count, int64_t dim) {
  check(count > 0 && dim > 0, "Embedding: expected sizes > 0, got ", count, " x ", dim);
  weight = param("weight", init::normal({count, dim}));
}

Tensor Embedding::operator()(const Tensor& ids) const { return embedding(weight, ids); }

LayerNorm::LayerNorm(int64_t dim, const LayerNormOptions& options) : eps(options.eps) {
  check(dim > 0 && eps >= 0, "LayerNorm: expected dim > 0 and eps >= 0, got ", dim, " and ", eps);
  weight = param("weight", ones({dim}));
  if (options.bias) bias = param("bias", zeros({dim}));
}

Tensor LayerNorm::operator()(const Tensor& x) const { return layer_norm(x, weight, bias, eps); }

Dropout::Dropout(double p_) : p(p_) {
  check(p >= 0 && p <= 1, "Dropout: expected a probability, got ", p);
}

Tensor Dropout::operator()(const Tensor& x) const { return p == 0 ? x : gradus::dropout(x, p); }

namespace {
int64_t hidden_size(int64_t dim, int64_t hidden) { return hidden == 0 ? 4 * dim : hidden; }
}  // namespace

MLP::MLP(int64_t dim, const MLPOptions& options)
    : fc(child("fc", Linear(dim, hidden_size(dim, options.hidden), {.bias = options.bias}))),
      proj(child("proj", Linear(hidden_size(dim, options.hidden), dim, {.bias = options.bias}))),
      activation(options.activation),
      dropout(options.dropout) {}

}  // namespace gradus
