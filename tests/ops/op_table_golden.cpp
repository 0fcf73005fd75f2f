// Ops and short formulas against PyTorch's float64 outputs and gradients; the cases are defined in
// golden/scripts/make_op_golden.py.

#include <catch2/catch.hpp>
#include <map>

#include "gradus/core/ops/ops.h"
#include "gradus/core/tensor/autograd.h"
#include "tests/golden/golden.h"
#include "tests/ops/op_checks.h"

namespace gradus::testing {
using namespace gradus::core;

namespace {

using Cases = std::map<std::string, std::function<Tensor(const Tensors&)>>;

Cases pointwise_cases() {
  return {{"gelu_erf", [](const Tensors& x) { return gelu(x[0]); }},
          {"gelu_tanh", [](const Tensors& x) { return gelu_tanh(x[0]); }},
          {"silu", [](const Tensors& x) { return silu(x[0]); }},
          {"erf", [](const Tensors& x) { return erf(x[0]); }},
          {"softplus", [](const Tensors& x) { return softplus(x[0]); }},
          {"sigmoid", [](const Tensors& x) { return sigmoid(x[0]); }},
          {"tanh", [](const Tensors& x) { return tanh(x[0]); }},
          {"sin", [](const Tensors& x) { return sin(x[0]); }},
          {"cos", [](const Tensors& x) { return cos(x[0]); }},
          {"exp", [](const Tensors& x) { return exp(x[0]); }},
          {"clamp", [](const Tensors& x) { return clamp(x[0], -1.5, 2.25); }},
          {"log", [](const Tensors& x) { return log(x[0]); }},
          {"sqrt", [](const Tensors& x) { return sqrt(x[0]); }},
          {"pow_scalar", [](const Tensors& x) { return pow(x[0], 2.7); }},
          {"abs_at_0", [](const Tensors& x) { return abs(x[0]); }},
          {"relu_at_0", [](const Tensors& x) { return relu(x[0]); }},
          {"norm_at_0", [](const Tensors& x) { return norm(x[0].slice(0, 1, INT64_MAX, 2)); }},
          {"maximum_of_equals", [](const Tensors& x) { return maximum(x[0], x[1]); }},
          {"minimum_of_equals", [](const Tensors& x) { return minimum(x[0], x[1]); }},
          {"pow", [](const Tensors& x) { return pow(x[0], x[1]); }},
          {"broadcast", [](const Tensors& x) { return (x[0] - x[1]) / (x[0] * x[1] + 7.0); }},
          {"masked_fill", [](const Tensors& x) { return masked_fill(x[0], x[1], -3.5); }},
          {"where", [](const Tensors& x) { return where(x[1], x[0] * x[0], x[0]); }},
          {"to_float32_and_back",
           [](const Tensors& x) { return (x[0] * x[0]).to(float32).to(float64); }}};
}

Cases reduction_cases() {
  return {{"sum",
           [](const Tensors& x) {
             return sum(x[0], {0, 2});
           }},
          {"mean", [](const Tensors& x) { return mean(x[0], 1, keepdim); }},
          {"mean_of_all", [](const Tensors& x) { return mean(x[0]); }},
          {"var",
           [](const Tensors& x) {
             return var(x[0], {0, 2});
           }},
          {"var_biased", [](const Tensors& x) { return var(x[0], {1}, 0, keepdim); }},
          {"norm",
           [](const Tensors& x) {
             return norm(x[0], {1, 2});
           }},
          {"norm_of_all", [](const Tensors& x) { return norm(x[0]); }},
          {"logsumexp", [](const Tensors& x) { return logsumexp(x[0], 1); }},
          {"softmax", [](const Tensors& x) { return softmax(x[0], 1); }},
          {"log_softmax", [](const Tensors& x) { return log_softmax(x[0], 0); }},
          {"max", [](const Tensors& x) { return max(x[0], 1).values; }},
          {"min", [](const Tensors& x) { return min(x[0], -1).values; }},
          {"max_of_all", [](const Tensors& x) { return max(x[0]); }},
          {"topk", [](const Tensors& x) { return topk(x[0], 3, 1).values; }},
          {"topk_indices", [](const Tensors& x) { return topk(x[0], 3, 1).indices; }},
          {"argmax", [](const Tensors& x) { return argmax(x[0], 0); }},
          {"sort", [](const Tensors& x) { return sort(x[0], 0, true).values; }},
          {"tril", [](const Tensors& x) { return tril(x[0], -1); }},
          {"triu", [](const Tensors& x) { return triu(x[0], 1); }}};
}

Cases indexing_cases() {
  return {
      {"views",
       [](const Tensors& x) {
         const Tensor rows = x[0].mT().slice(0, 1, 5, 2), others = x[0].reshape({6, 4});
         return (rows * others.slice(0, 0, INT64_MAX, 3)).unsqueeze(1).expand({2, 3, 4}).flatten(1);
       }},
      {"split",
       [](const Tensors& x) {
         return cat({x[0].chunk(4, 1)[0] * 2.0, x[0].split({1, 5}, 1)[1], x[0].slice(1, 0, 1)}, 1);
       }},
      {"stack",
       [](const Tensors& x) {
         return stack({x[0], x[0] * x[0], exp(x[0])}, 1);
       }},
      {"gather", [](const Tensors& x) { return gather(x[0], 1, x[1]); }},
      {"scatter_add", [](const Tensors& x) { return scatter_add(x[0], 0, x[1], x[2]); }},
      {"index_select", [](const Tensors& x) { return index_select(x[0], 1, x[1]); }},
      {"index_add", [](const Tensors& x) { return index_add(x[0], 1, x[1], x[2]); }},
      {"embedding", [](const Tensors& x) { return embedding(x[0], x[1]); }}};
}

/// |d sum(f(x)) / dx|^2 of each row.
Tensor penalty(const Tensor& y, const Tensor& x) {
  const Tensor g = grad({sum(y)}, {x}, {.create_graph = true})[0];
  return sum(g * g, -1);
}

Cases product_cases() {
  auto activated = [](Activation activation) {
    return [activation](const Tensors& x) { return linear(x[0], x[1], x[2], activation); };
  };
  return {{"matmul", [](const Tensors& x) { return matmul(x[0], x[1]); }},
          {"linear", activated(Activation::none)},
          {"linear_gelu", activated(Activation::gelu)},
          {"linear_gelu_tanh", activated(Activation::gelu_tanh)},
          {"linear_relu", activated(Activation::relu)},
          {"layer_norm", [](const Tensors& x) { return layer_norm(x[0], x[1], x[2]); }},
          {"mlp_penalty",
           [](const Tensors& x) { return penalty(matmul(tanh(matmul(x[0], x[1])), x[2]), x[0]); }},
          {"layer_norm_penalty",
           [](const Tensors& x) { return penalty(pow(layer_norm(x[0], x[1], x[2]), 3), x[0]); }}};
}

Cases loss_cases() {
  const Tensor weights = tensor({0.5, 2, 1, 0.25, 1.5}, float64);
  auto entropy = [](const CrossEntropyOptions& options) {
    return [options](const Tensors& x) { return cross_entropy(x[0], x[1], options); };
  };
  const CrossEntropyOptions all{
      .ignore_index = 2, .label_smoothing = 0.1, .class_weights = weights};
  CrossEntropyOptions all_none = all;
  all_none.reduction = Reduction::none;
  return {{"cross_entropy", entropy({})},
          {"cross_entropy_sum", entropy({.reduction = Reduction::sum})},
          {"cross_entropy_none", entropy({.reduction = Reduction::none})},
          {"cross_entropy_ignore", entropy({.ignore_index = 2})},
          {"cross_entropy_weights", entropy({.class_weights = weights})},
          {"cross_entropy_smoothing", entropy({.label_smoothing = 0.1})},
          {"cross_entropy_all", entropy(all)},
          {"cross_entropy_all_none", entropy(all_none)},
          {"cross_entropy_probabilities", entropy({})},
          {"cross_entropy_probabilities_all",
           entropy({.label_smoothing = 0.1, .class_weights = weights})},
          {"cross_entropy_probabilities_none",
           entropy({.reduction = Reduction::none, .class_weights = weights})},
          {"mse_loss", [](const Tensors& x) { return mse_loss(x[0], x[1]); }},
          {"mse_loss_sum",
           [](const Tensors& x) { return mse_loss(x[0], x[1], {.reduction = Reduction::sum}); }},
          {"bce", [](const Tensors& x) { return binary_cross_entropy_with_logits(x[0], x[1]); }},
          {"bce_none", [](const Tensors& x) {
             return binary_cross_entropy_with_logits(x[0] * 20.0, x[1],
                                                     {.reduction = Reduction::none});
           }}};
}

/// Each option of the losses away from its default.
Cases loss_option_cases() {
  const Tensor weights = tensor({0.5, 2, 1, 0.25, 1.5}, float64);
  const Tensor rows = tensor({{3}, {0.5}, {1}, {0}, {2}, {0.25}, {1.5}}, float64);
  constexpr Reduction total = Reduction::sum, each = Reduction::none;
  auto with_logits = [](const BCEWithLogitsOptions& options) {
    return [=](const Tensors& x) { return binary_cross_entropy_with_logits(x[0], x[1], options); };
  };
  auto of_probabilities = [](const BCEOptions& options) {
    return [=](const Tensors& x) { return binary_cross_entropy(sigmoid(x[0]), x[1], options); };
  };
  auto kl = [](const KLDivOptions& options) {
    return [=](const Tensors& x) { return kl_div(x[0], x[1], options); };
  };
  auto margins = [](const MultiMarginLossOptions& options) {
    return [=](const Tensors& x) { return multi_margin_loss(x[0], x[1], options); };
  };
  auto nll = [](const NLLLossOptions& options) {
    return [=](const Tensors& x) { return nll_loss(x[0], x[1], options); };
  };
  return {
      {"bce_weights", with_logits({.weights = rows})},
      {"bce_positive", with_logits({.reduction = total, .positive_weights = weights})},
      {"bce_all", with_logits({.reduction = each, .weights = rows, .positive_weights = weights})},
      {"bce_probabilities", of_probabilities({})},
      {"bce_probabilities_all", of_probabilities({.reduction = total, .weights = rows})},
      {"l1_sum", [](const Tensors& x) { return l1_loss(x[0], x[1], {.reduction = total}); }},
      {"smooth_l1",
       [](const Tensors& x) {
         return smooth_l1_loss(x[0], x[1], {.reduction = each, .beta = 0.4});
       }},
      {"kl_div_sum", kl({.reduction = total})},
      {"kl_div_log_target", kl({.reduction = each, .log_target = true})},
      {"margin", margins({})},
      {"margin_half", margins({.reduction = total, .margin = 0.5})},
      {"margin_weights", margins({.class_weights = weights})},
      {"margin_all",
       margins({.reduction = each, .margin = 0.75, .p = 2, .class_weights = weights})},
      {"nll", nll({})},
      {"nll_all", nll({.reduction = total, .ignore_index = 2, .class_weights = weights})}};
}

Cases attention_cases() {
  auto attend = [](const AttentionOptions& options) {
    return [options](const Tensors& x) {
      AttentionOptions own = options;
      if (x.size() > 3) own.mask = x[3];
      return scaled_dot_product_attention(x[0], x[1], x[2], own);
    };
  };
  return {{"attention", attend({})},
          {"attention_causal", attend({.causal = true})},
          {"attention_scale", attend({.scale = 0.7})},
          {"attention_mask", attend({})},
          {"attention_causal_mask", attend({.causal = true})},
          {"attention_bias", attend({})},
          {"self_attention",
           [](const Tensors& x) { return self_attention(x[0], 4, 2, {.causal = true}); }}};
}

void compare_with_pytorch(const golden::File& file, const std::string& name,
                          const std::function<Tensor(const Tensors&)>& f) {
  INFO(name);
  const bool differentiable = file.has(name + ".dy");
  Tensors inputs;
  for (int i = 0; file.has(name + ".in." + std::to_string(i)); ++i) {
    inputs.push_back(file.get(name + ".in." + std::to_string(i)));
    if (differentiable && is_floating(inputs.back().dtype())) inputs.back().requires_grad_();
  }
  const Tensor y = f(inputs);
  CHECK(relative_distance(y.detach(), file.get(name + ".out")) < 1e-9);
  if (!differentiable) return;
  y.backward(file.get(name + ".dy"));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string key = name + ".grad." + std::to_string(i);
    INFO("gradient " << i);
    REQUIRE(inputs[i].grad().defined() == file.has(key));
    if (file.has(key)) CHECK(relative_distance(inputs[i].grad(), file.get(key)) < 1e-9);
  }
}

}  // namespace

TEST_CASE("ops: PyTorch's outputs and gradients", "[ops][golden]") {
  const golden::File file("ops");
  size_t cases = 0;
  for (const Cases& some : {pointwise_cases(), reduction_cases(), indexing_cases(), product_cases(),
                            loss_cases(), loss_option_cases(), attention_cases()})
    for (const auto& [name, f] : some) {
      compare_with_pytorch(file, name, f);
      ++cases;
    }
  size_t made = 0;
  for (const auto& [key, tensor] : file.with_prefix("")) made += key.ends_with(".out");
  CHECK(cases == made);
}

}  // namespace gradus::testing
