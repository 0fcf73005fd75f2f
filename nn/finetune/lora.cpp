#include "gradus/nn/finetune/lora.h"

#include <algorithm>
#include <regex>

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/tensor/recompute.h"

namespace gradus::nn {

Tensor LoraUpdate::inner(const Tensor& x) const {
  return linear(dropout > 0 ? gradus::dropout(x, dropout) : x, a) * scale();
}

// Backward drops elements of x again instead of keeping a copy of x.
Tensor LoraUpdate::operator()(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              int64_t begin) const {
  const auto of = [update = *this](const Tensor& in) { return update.inner(in); };
  const Tensor t = dropout > 0 && is_training() ? recompute(of, x) : inner(x);
  return updated_linear(x, weight, bias, t, b.slice(0, begin, begin + weight.size(0)));
}

Tensor updated_feed_forward(const Tensor& z, Activation activation, const Linear& layer,
                            bool is_gated) {
  const LoraUpdate& update = *layer.lora_update();
  const auto of = [=](const Tensor& in) {
    const Tensor h = is_gated ? gated(in, activation) : activate(in, activation);
    return std::vector<Tensor>{h, update.inner(h)};
  };
  const std::vector<Tensor> in = recompute(of, z);
  return updated_linear(in[0], layer.weight, layer.bias, in[1], update.b);
}

Tensor LoraUpdate::weight() const { return matmul(b, a) * scale(); }

/// Reads and changes the linear layers of a module, as a friend of Module.
struct Lora {
  using Registry = Module::Registry;
  /// Names of the parameters that an update adds to its layer.
  static constexpr const char* parameters[] = {"lora_A.weight", "lora_B.weight"};
  /// Returns the entry of the matrix that was passed to adaptable().
  static const Module::Entry& matrix(const Registry& registry) {
    return *std::ranges::find_if(registry.entries, [&](const Module::Entry& entry) {
      return entry.tensor.impl_ptr() == registry.adaptable.impl_ptr();
    });
  }
  struct Layer {
    std::string name;
    Registry* registry;
    bool hidden;
    /// Returns the name in the model of the layer's parameter `own`.
    std::string path(const std::string& own) const { return name.empty() ? own : name + '.' + own; }
    /// Returns the name in the model of the layer's matrix.
    std::string weight() const { return path(matrix(*registry).name); }
  };

  static void collect(Registry& registry, const std::string& prefix, std::vector<Layer>& out) {
    const auto known = [&](const Layer& l) { return l.registry == &registry; };
    if (registry.adaptable.defined() && std::none_of(out.begin(), out.end(), known))
      out.push_back({prefix, &registry, matrix(registry).hidden});
    for (const Module::Entry& entry : registry.entries)
      if (entry.child)
        collect(*entry.child, prefix.empty() ? entry.name : prefix + '.' + entry.name, out);
  }
  /// Returns each linear layer once, under its first name.
  static std::vector<Layer> layers(const Module& model) {
    std::vector<Layer> found;
    collect(*model.registry_, "", found);
    return found;
  }
  static std::vector<Layer> updated(const Module& model) {
    std::vector<Layer> found = layers(model);
    std::erase_if(found, [](const Layer& l) { return !l.registry->update; });
    return found;
  }
  /// Returns the layers that have an update. Throws the errors of merge_lora().
  static std::vector<Layer> mergeable(const Module& model) {
    const std::vector<Layer> found = updated(model);
    check(!found.empty(), "merge_lora: the model has no updates");
    for (const Layer& layer : found) {
      const Tensor& weight = layer.registry->adaptable;
      check(is_floating(weight.dtype()), "merge_lora: the weight of ", layer.name, " is ",
            weight.dtype(), ": convert it to float32 first");
      for (const Module::Named& other : model.all())
        check(other.name == layer.weight() || &other.entry->tensor.impl() != &weight.impl(),
              "merge_lora: the weight of ", layer.name, " is also ", other.name);
    }
    return found;
  }
  static std::vector<Layer> chosen(const Module& model, const LoraOptions& options);
  static void add(Registry& registry, const LoraUpdate& given);
  static void remove(Registry& registry) {
    for (const char* own : parameters)
      std::erase_if(registry.entries, [=](const Module::Entry& e) { return e.name == own; });
    registry.update.reset();
  }
};

std::vector<Lora::Layer> Lora::chosen(const Module& model, const LoraOptions& options) {
  const std::vector<Layer> all = layers(model);
  std::vector<Layer> found;
  if (options.layers.empty()) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(found),
                 [](const Layer& l) { return l.hidden; });
    check(!found.empty(), "add_lora: the model has no hidden linear layers");
  }
  for (const std::string& expression : options.layers) {
    const size_t before = found.size();
    try {
      const std::regex names("(.*\\.)?(" + expression + ")");
      for (const Layer& layer : all) {
        const auto same = [&](const Layer& l) { return l.registry == layer.registry; };
        if (std::regex_match(layer.name, names) && std::none_of(found.begin(), found.end(), same))
          found.push_back(layer);
      }
    } catch (const std::regex_error&) {
      fail("add_lora: layers: expected a regular expression, got ", expression);
    }
    check(found.size() > before, "add_lora: no other linear layer has a name that matches ",
          expression);
  }
  for (const Layer& layer : found)
    check(!layer.registry->update, "add_lora: ", layer.name, " has an update already");
  return found;
}

/// Adds the update, converted to the dtype of the layer's inputs.
void Lora::add(Registry& registry, const LoraUpdate& given) {
  const Dtype own = registry.adaptable.dtype(), dtype = is_compressed(own) ? float32 : own;
  const LoraUpdate update{given.a.to(dtype), given.b.to(dtype), given.alpha, given.dropout};
  registry.update = std::make_shared<LoraUpdate>(update);
  registry.entries.push_back({.name = parameters[0], .tensor = update.a.requires_grad_()});
  registry.entries.push_back({.name = parameters[1], .tensor = update.b.requires_grad_()});
}

namespace {
/// Throws Error unless an update can have these options. The message begins with `op`.
void check_options(const std::string& op, int64_t rank, double alpha, double dropout) {
  const double scale = alpha / static_cast<double>(rank);
  check(rank >= 1 && scale >= 1e-30 && scale <= 1e30 && dropout >= 0 && dropout <= 0.999999, op,
        ": expected rank >= 1, alpha / rank from 1e-30 to 1e30 and a dropout from 0 to 0.999999, ",
        "got rank ", rank, ", alpha ", alpha, " and dropout ", dropout);
}
}  // namespace

void add_lora(Module& model, const LoraOptions& o) {
  check_options("add_lora", o.rank, o.alpha, o.dropout);
  const std::vector<Lora::Layer> chosen = Lora::chosen(model, o);
  for (const Lora::Layer& layer : chosen)
    check(o.rank <= std::min(layer.registry->adaptable.size(0), layer.registry->adaptable.size(1)),
          "add_lora: rank ", o.rank, " is above the sizes of ", layer.name, ", ",
          layer.registry->adaptable.shape());
  model.requires_grad_(false);
  for (const Lora::Layer& layer : chosen) {
    const Shape& weight = layer.registry->adaptable.shape();
    Lora::add(*layer.registry, {init::kaiming_uniform()({o.rank, weight[1]}),
                                zeros({weight[0], o.rank}), o.alpha, o.dropout});
  }
}

void add_lora_updates(Module& model,
                      const std::vector<std::pair<std::string, LoraUpdate>>& updates) {
  check(!updates.empty(), "add_lora_updates: expected at least one update, got none");
  const std::vector<Lora::Layer> all = Lora::layers(model);
  std::vector<Lora::Registry*> found;
  for (const auto& [name, update] : updates) {
    const auto layer = std::ranges::find(all, name, &Lora::Layer::name);
    check(layer != all.end(), "add_lora_updates: the model has no linear layer ", name);
    const bool is_first = std::find(found.begin(), found.end(), layer->registry) == found.end();
    check(!layer->registry->update && is_first, "add_lora_updates: ", name,
          " has an update already");
    const Tensor& weight = layer->registry->adaptable;
    const int64_t rank = update.a.size(0);
    check_options("add_lora_updates: " + name, rank, update.alpha, update.dropout);
    check(update.a.shape() == Shape{rank, weight.size(1)} &&
              update.b.shape() == Shape{weight.size(0), rank},
          "add_lora_updates: ", name, ": expected an update of ", weight.shape(), ", got ",
          update.a.shape(), " and ", update.b.shape());
    found.push_back(layer->registry);
  }
  model.requires_grad_(false);
  for (size_t i = 0; i < found.size(); ++i) {
    const LoraUpdate& update = updates[i].second;
    Lora::add(*found[i],
              {update.a.detach().clone(), update.b.detach().clone(), update.alpha, update.dropout});
  }
}

void merge_lora(Module& model) {
  const std::vector<Lora::Layer> layers = Lora::mergeable(model);
  const NoGrad no_grad;
  for (const Lora::Layer& layer : layers) {
    layer.registry->adaptable.add_(layer.registry->update->weight());
    Lora::remove(*layer.registry);
  }
}

NamedTensors merged_state_dict(const Module& model) {
  const std::vector<Lora::Layer> layers = Lora::mergeable(model);
  const NoGrad no_grad;
  NamedTensors state = model.state_dict();
  for (const Lora::Layer& layer : layers) {
    for (const char* own : Lora::parameters)
      std::erase_if(state, [&](const auto& named) { return named.first == layer.path(own); });
    for (auto& [name, tensor] : state)
      if (name == layer.weight()) tensor = tensor + layer.registry->update->weight();
  }
  return state;
}

std::vector<std::pair<std::string, Shape>> linear_layers(const Module& model) {
  std::vector<std::pair<std::string, Shape>> found;
  for (const Lora::Layer& layer : Lora::layers(model))
    found.emplace_back(layer.name, layer.registry->adaptable.shape());
  return found;
}

std::vector<std::pair<std::string, LoraUpdate>> lora_updates(const Module& model) {
  std::vector<std::pair<std::string, LoraUpdate>> found;
  for (const Lora::Layer& layer : Lora::updated(model))
    found.emplace_back(layer.name, *layer.registry->update);
  return found;
}

}  // namespace gradus::nn
