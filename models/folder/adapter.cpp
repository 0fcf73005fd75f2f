#include "gradus/models/folder/adapter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "gradus/core/files/json.h"
#include "gradus/core/files/safetensors.h"
#include "gradus/core/internal.h"
#include "gradus/models/folder/folder_files.h"

namespace gradus::models {

using namespace internal;
using nlohmann::json;

namespace {

const std::string prefix = "base_model.model.";

std::string config_file(const std::string& dir) { return in_folder(dir, "adapter_config.json"); }
std::string tensor_file(const std::string& dir) {
  return in_folder(dir, "adapter_model.safetensors");
}

/// Returns config[key], a number from `least` to `most`.
double number_in(const std::string& path, const json& config, const char* key, double least,
                 double most) {
  const auto found = config.find(key);
  check(found != config.end(), path, ": ", key, " is missing");
  const bool fits =
      found->is_number() && found->get<double>() >= least && found->get<double>() <= most;
  check(fits, path, ": ", key, ": expected a number from ", least, " to ", most, ", got ",
        shown(*found));
  return found->get<double>();
}

/// Throws Error if the configuration asks for anything else than the plain form.
void check_plain(const std::string& path, const json& config) {
  const std::map<std::string, json> plain{{"peft_type", "LORA"},
                                          {"bias", "none"},
                                          {"use_dora", false},
                                          {"use_rslora", false},
                                          {"fan_in_fan_out", false},
                                          {"rank_pattern", json::object()},
                                          {"alpha_pattern", json::object()},
                                          {"modules_to_save", json()},
                                          {"lora_bias", false},
                                          {"layers_to_transform", json()}};
  for (const auto& [key, value] : plain) {
    const json given = config.value(key, value);
    check(given == value || given.is_null(), path, ": ", key, ": expected ", shown(value), ", got ",
          shown(given));
  }
}

/// A regular expression that matches exactly this layer's name.
std::string literally(const std::string& name) {
  std::string out = "^";
  for (const char c : name) {
    if (std::string("\\^$.|?*+()[]{}").find(c) != std::string::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

void save_adapter(const std::string& dir, const nn::Module& model) {
  const auto updates = nn::lora_updates(model);
  check(!updates.empty(), "save_adapter: the model has no low-rank updates");
  const nn::LoraUpdate& first = updates.front().second;
  NamedTensors tensors;
  json layers = json::array();
  for (const auto& [name, update] : updates) {
    check(update.a.size(0) == first.a.size(0) && update.alpha == first.alpha &&
              update.dropout == first.dropout,
          "save_adapter: ", name, " and ", updates.front().first,
          " differ in rank, alpha or dropout");
    layers.push_back(name);
    tensors.emplace_back(prefix + name + ".lora_A.weight", update.a.detach());
    tensors.emplace_back(prefix + name + ".lora_B.weight", update.b.detach());
  }
  create_folder("save_adapter", dir);
  save_safetensors(tensor_file(dir), tensors);
  write_json(config_file(dir), {{"peft_type", "LORA"},
                                {"r", first.a.size(0)},
                                {"lora_alpha", first.alpha},
                                {"lora_dropout", first.dropout},
                                {"bias", "none"},
                                {"fan_in_fan_out", false},
                                {"target_modules", layers}});
}

void load_adapter(const std::string& dir, nn::Module& model) {
  const std::string path = config_file(dir), weights = tensor_file(dir);
  const json config = read_json_object(path);
  check_plain(path, config);
  const double rank = number_in(path, config, "r", 1, 1e6);
  check(rank == std::floor(rank), path, ": r: expected a whole number, got ", rank);
  nn::LoraOptions options{.rank = static_cast<int64_t>(rank),
                          .alpha = number_in(path, config, "lora_alpha", 1e-30, 1e30),
                          .dropout = config.contains("lora_dropout")
                                         ? number_in(path, config, "lora_dropout", 0, 0.999999)
                                         : 0};
  std::map<std::string, Tensor> tensors;
  std::set<std::string> layers;
  const std::string end_a = ".lora_A.weight", end_b = ".lora_B.weight";
  for (const auto& [name, tensor] : load_safetensors(weights).tensors) {
    const bool known = name.starts_with(prefix) && (name.ends_with(end_a) || name.ends_with(end_b));
    check(known, weights, ": expected names such as ", prefix, "LAYER", end_a, ", got ",
          shown(name));
    const std::string inner = name.substr(prefix.size());
    tensors.emplace(inner, tensor);
    layers.insert(inner.substr(0, inner.size() - end_a.size()));
  }
  check(!layers.empty(), weights, ": holds no updates");
  const NamedTensors params = model.named_parameters();
  for (const std::string& layer : layers) {
    const auto weight = std::find_if(params.begin(), params.end(), [&](const auto& named) {
      return named.first == layer + ".weight";
    });
    check(weight != params.end() && weight->second.rank() == 2, weights,
          ": the model has no layer ", shown(layer));
    const Shape& shape = weight->second.shape();
    for (const auto& [name, expected] : {std::pair{layer + end_a, Shape{options.rank, shape[1]}},
                                         std::pair{layer + end_b, Shape{shape[0], options.rank}}}) {
      const auto found = tensors.find(name);
      check(found != tensors.end(), weights, ": ", prefix, name, " is missing");
      check(is_floating(found->second.dtype()) && found->second.shape() == expected, weights, ": ",
            prefix, name, ": expected shape ", expected, ", got ", found->second.shape());
    }
    options.layers.push_back(literally(layer));
  }
  nn::add_lora(model, options);
  const NoGrad no_grad;
  for (const auto& [name, update] : nn::lora_updates(model)) {
    update.a.copy_(tensors.at(name + end_a).to(update.a.dtype()));
    update.b.copy_(tensors.at(name + end_b).to(update.b.dtype()));
  }
}

}  // namespace gradus::models
