#include "gradus/models/folder/hugging_face/adapter.h"

#include <algorithm>
#include <map>

#include "gradus/core/files/json.h"
#include "gradus/core/files/named_tensors.h"
#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/pointwise.h"
#include "gradus/core/ops/shape.h"
#include "gradus/models/folder/hugging_face/config.h"
#include "gradus/models/folder/hugging_face/parts.h"

namespace gradus::models::internal {

using nn::LoraUpdate;

namespace {

constexpr std::string_view weight_suffix = ".weight";

/// A linear layer of ours, and the names of its parts.
struct Layer {
  std::string name;
  Shape weight;
  std::vector<Part> parts;
  std::vector<std::string> part_names;  // Hugging Face's, without their prefix
};

/// The parts of our layer of this name, all of it if Hugging Face has no such layer.
Layer layer_of(const std::optional<LayerNames>& names, const std::string& name,
               const Shape& weight) {
  const auto parameter =
      names ? find_parameter(names->table, name + std::string(weight_suffix)) : std::nullopt;
  if (!parameter) return {name, weight, {{0, weight[0], false}}, {name}};
  Layer layer{name, weight, parts_of(*parameter, weight[0], names->layout), parameter->names};
  for (std::string& part : layer.part_names) part.resize(part.size() - weight_suffix.size());
  return layer;
}

std::vector<Layer> layers_of(const std::optional<LayerNames>& names, const nn::Module& model) {
  std::vector<Layer> layers;
  for (const auto& [name, weight] : nn::linear_layers(model))
    layers.push_back(layer_of(names, name, weight));
  return layers;
}

void check_shapes(const std::string& name, const LoraUpdate& u, int64_t rows, int64_t columns) {
  const int64_t rank = u.a.size(0);
  check(u.a.size(1) == columns, name, ".lora_A.weight: expected shape ", Shape{rank, columns},
        ", got ", u.a.shape());
  check(u.b.shape() == Shape{rows, rank}, name, ".lora_B.weight: expected shape ",
        Shape{rows, rank}, ", got ", u.b.shape());
}

/// The updates found for one of our layers, by part.
using PartUpdates = std::map<size_t, LoraUpdate>;

bool share_a(const PartUpdates& parts, size_t count) {
  const LoraUpdate& first = parts.begin()->second;
  return parts.size() == count && std::all_of(parts.begin(), parts.end(), [&](const auto& part) {
           const LoraUpdate& u = part.second;
           return u.alpha == first.alpha && has_equal_elements(u.a, first.a);
         });
}

/// One update of the whole layer:
///   A = [A_0; A_1; ...]   B = diag(B_0, B_1, ...)   where the scales s_i differ, B_i s_i / s_0
LoraUpdate join(const Layer& layer, const LayerNames& names, const PartUpdates& parts) {
  const LoraUpdate& first = parts.begin()->second;
  const bool shared = share_a(parts, layer.parts.size());
  int64_t rank = 0;
  std::vector<Tensor> all_a;
  for (const auto& [i, u] : parts) {
    if (!shared || rank == 0) rank += u.a.size(0);
    all_a.push_back(u.a.to(float32));
  }
  const Tensor b = zeros({layer.weight[0], rank});
  int64_t column = 0;
  for (const auto& [i, u] : parts) {
    const Part& part = layer.parts[i];
    Tensor rows = u.b.to(float32);
    if (part.is_rotary) rows = reordered(rows, names.layout.head_dim, true);
    if (u.scale() != first.scale()) rows = rows * (u.scale() / first.scale());
    b.slice(0, part.begin, part.end).slice(1, column, column + u.a.size(0)).copy_(rows);
    if (!shared) column += u.a.size(0);
  }
  return {shared ? all_a[0] : cat(all_a), b, first.scale() * static_cast<double>(rank),
          first.dropout};
}

/// Returns whether Hugging Face's format can express the model's configuration.
bool is_expressible(const std::string& kind, const Fields& fields) {
  try {
    make_hugging_face_config(kind, fields, {});
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::optional<LayerNames> layer_names(const std::string& kind, const Fields& fields) {
  if (!has_hugging_face_form(kind) || !is_expressible(kind, fields)) return {};
  LayerNames names{hugging_face_model(kind, fields), {}};
  if (names.table.is_llama) names.layout = head_layout(fields);
  if (kind == "vit" && fields.find("classes")->to_text() == "0") names.table.prefix = "";
  return names;
}

NamedUpdates split_updates(const LayerNames& names, const NamedUpdates& ours) {
  NamedUpdates theirs;
  for (const auto& [name, update] : ours) {
    const auto parameter = find_parameter(names.table, name + std::string(weight_suffix));
    check(parameter.has_value(), "save_adapter: Hugging Face's ", names.table.type,
          " has no layer ", name);
    const Layer layer = layer_of(names, name, {update.b.size(0), update.a.size(1)});
    for (size_t i = 0; i < layer.parts.size(); ++i) {
      const Part& part = layer.parts[i];
      LoraUpdate one = update;
      one.b = update.b.detach().slice(0, part.begin, part.end);
      if (part.is_rotary) one.b = reordered(one.b, names.layout.head_dim, false);
      theirs.emplace_back((parameter->has_prefix ? names.table.prefix : "") + layer.part_names[i],
                          one);
    }
  }
  return theirs;
}

NamedUpdates join_updates(const std::optional<LayerNames>& names, const nn::Module& model,
                          const NamedUpdates& read) {
  const std::vector<Layer> layers = layers_of(names, model);
  std::vector<PartUpdates> by_part(layers.size());
  NamedUpdates whole(layers.size());
  for (const auto& [name, update] : read) {
    std::string plain = name;
    const std::string prefix = names ? names->table.prefix : "";
    if (plain.starts_with(prefix)) plain.erase(0, prefix.size());
    bool found = false;
    for (size_t l = 0; l < layers.size() && !found; ++l) {
      const Layer& layer = layers[l];
      const auto part = std::find(layer.part_names.begin(), layer.part_names.end(), plain);
      if (layer.name == name) {
        check_shapes(name, update, layer.weight[0], layer.weight[1]);
        whole[l] = {name, update};
      } else if (part != layer.part_names.end()) {
        const size_t i = static_cast<size_t>(part - layer.part_names.begin());
        check_shapes(name, update, layer.parts[i].end - layer.parts[i].begin, layer.weight[1]);
        check(by_part[l].emplace(i, update).second, name, ": this layer has two updates");
      } else {
        continue;
      }
      found = true;
    }
    check(found, "the model has no layer ", shown(name));
  }
  const NoGrad no_grad;
  NamedUpdates joined;
  for (size_t l = 0; l < layers.size(); ++l) {
    check(whole[l].first.empty() || by_part[l].empty(), layers[l].name, " has two updates");
    if (!whole[l].first.empty()) joined.push_back(whole[l]);
    if (!by_part[l].empty())
      joined.emplace_back(layers[l].name, join(layers[l], *names, by_part[l]));
  }
  return joined;
}

}  // namespace gradus::models::internal
