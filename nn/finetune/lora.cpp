#include "gradus/nn/finetune/lora.h"

#include <algorithm>
#include <regex>

#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/matmul.h"
#include "gradus/core/ops/normalization.h"
#include "gradus/core/ops/pointwise.h"

namespace gradus::nn {

Tensor LoraUpdate::operator()(const Tensor& x, int64_t begin, int64_t end) const {
  const Tensor in = dropout > 0 ? gradus::dropout(x, dropout) : x;
  return linear(linear(in, a), b.slice(0, begin, end)) * (alpha / static_cast<double>(a.size(0)));
}

Tensor LoraUpdate::weight() const {
  return matmul(b, a) * (alpha / static_cast<double>(a.size(0)));
}

/// What reaches the linear layers of a module.
struct Lora {
  using Registry = Module::Registry;
  struct Layer {
    std::string name;
    Registry* registry;
    bool hidden;
  };

  static void collect(Registry& registry, const std::string& prefix, std::vector<Layer>& out) {
    const auto known = [&](const Layer& l) { return l.registry == &registry; };
    if (registry.adaptable.defined() && std::none_of(out.begin(), out.end(), known))
      out.push_back({prefix, &registry, registry.entries.front().hidden});
    for (const Module::Entry& entry : registry.entries)
      if (entry.child)
        collect(*entry.child, prefix.empty() ? entry.name : prefix + '.' + entry.name, out);
  }
  /// Each linear layer once.
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
  /// The layers whose weights the updates can be added to. Throws as merge_lora does.
  static std::vector<Layer> mergeable(const Module& model) {
    const std::vector<Layer> found = updated(model);
    check(!found.empty(), "merge_lora: the model has no updates");
    for (const Layer& layer : found) {
      const Tensor& weight = layer.registry->adaptable;
      check(is_floating(weight.dtype()), "merge_lora: the weight of ", layer.name, " is ",
            weight.dtype(), ": convert it to float32 first");
      for (const Module::Named& other : model.all())
        check(other.name == layer.name + ".weight" || &other.entry->tensor.impl() != &weight.impl(),
              "merge_lora: the weight of ", layer.name, " is also ", other.name);
    }
    return found;
  }
  static std::vector<Layer> chosen(const Module& model, const LoraOptions& options);
  static void add(Registry& registry, const LoraOptions& options);
  static void remove(Registry& registry) {
    std::erase_if(registry.entries,
                  [](const Module::Entry& e) { return e.name.starts_with("lora_"); });
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

void Lora::add(Registry& registry, const LoraOptions& o) {
  const Tensor& weight = registry.adaptable;
  const Dtype dtype = is_compressed(weight.dtype()) ? float32 : weight.dtype();
  const Tensor a = init::kaiming_uniform()({o.rank, weight.size(1)}).to(dtype),
               b = zeros({weight.size(0), o.rank}, dtype);
  registry.update = std::make_shared<LoraUpdate>(LoraUpdate{a, b, o.alpha, o.dropout});
  registry.entries.push_back({.name = "lora_A.weight", .tensor = a.requires_grad_()});
  registry.entries.push_back({.name = "lora_B.weight", .tensor = b.requires_grad_()});
}

void add_lora(Module& model, const LoraOptions& o) {
  check(o.rank >= 1 && o.alpha > 0 && o.dropout >= 0 && o.dropout < 1,
        "add_lora: expected rank >= 1, alpha > 0 and a dropout from 0 to below 1, got ", o.rank,
        ", ", o.alpha, " and ", o.dropout);
  const std::vector<Lora::Layer> chosen = Lora::chosen(model, o);
  for (const Lora::Layer& layer : chosen)
    check(o.rank <= std::min(layer.registry->adaptable.size(0), layer.registry->adaptable.size(1)),
          "add_lora: rank ", o.rank, " is above the sizes of ", layer.name, ", ",
          layer.registry->adaptable.shape());
  model.requires_grad_(false);
  for (const Lora::Layer& layer : chosen) Lora::add(*layer.registry, o);
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
    std::erase_if(
        state, [&](const auto& named) { return named.first.starts_with(layer.name + ".lora_"); });
    for (auto& [name, tensor] : state)
      if (name == layer.name + ".weight") tensor = tensor + layer.registry->update->weight();
  }
  return state;
}

std::vector<std::pair<std::string, LoraUpdate>> lora_updates(const Module& model) {
  std::vector<std::pair<std::string, LoraUpdate>> found;
  for (const Lora::Layer& layer : Lora::updated(model))
    found.emplace_back(layer.name, *layer.registry->update);
  return found;
}

}  // namespace gradus::nn
