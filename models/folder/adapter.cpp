#include "gradus/models/folder/adapter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "gradus/core/files/json.h"
#include "gradus/core/files/safetensors.h"
#include "gradus/core/internal.h"
#include "gradus/models/folder/folder_files.h"
#include "gradus/models/folder/hugging_face/adapter.h"

namespace gradus::models {

using namespace internal;
using nlohmann::json, nlohmann::ordered_json;

namespace {

const std::string prefix = "base_model.model.";

std::string config_file(const std::string& dir) { return in_folder(dir, "adapter_config.json"); }
constexpr const char* tensor_file = "adapter_model.safetensors";

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

/// Throws Error if the configuration asks for anything else than the plain form. Which layers have
/// updates (target_modules, layers_to_transform, ...) follows from the tensors' names.
void check_plain(const std::string& path, const json& config) {
  const std::map<std::string, json> plain{
      {"peft_type", "LORA"},         {"bias", "none"},
      {"use_dora", false},           {"use_rslora", false},
      {"modules_to_save", json()},   {"lora_bias", false},
      {"layer_replication", json()}, {"alora_invocation_tokens", json()}};
  for (const auto& [key, value] : plain) {
    const json given = config.value(key, value);
    check(given == value || given.is_null(), path, ": ", key, ": expected ", shown(value), ", got ",
          shown(given));
  }
  const std::string init = config.value("init_lora_weights", json()).dump();
  for (const char* kind : {"\"pissa", "\"olora", "\"corda", "\"loftq"})
    check(!init.starts_with(kind), path, ": init_lora_weights: ", init, " changes the base model");
}

/// Returns the number of layer `name` in the object config[key]. Its keys are names of layers or
/// ends of such names; as in PEFT, the first key that fits counts. Returns `usual` if none fits.
double pattern_in(const std::string& path, const ordered_json& config, const char* key,
                  const std::string& name, double usual) {
  const ordered_json patterns = config.value(key, ordered_json());
  if (patterns.is_null()) return usual;
  if (!patterns.is_object())
    fail(path, ": ", key, ": expected an object, got ", shown(json(patterns)));
  std::string first;
  for (const auto& [pattern, value] : patterns.items()) {
    std::string plain = pattern;
    for (size_t i = 0; (i = plain.find("\\.", i)) != std::string::npos; ++i) plain.erase(i, 1);
    check(plain.find_first_of("^$|?*+()[]{}\\") == std::string::npos, path, ": ", key,
          ": expected names of layers, got ", shown(pattern));
    const bool fits = name == plain || name.ends_with('.' + plain);
    if (fits && first.empty()) first = pattern;
  }
  return first.empty() ? usual : number_in(path, json(patterns), first.c_str(), 1e-30, 1e36);
}

/// An adapter's configuration.
struct AdapterConfig {
  std::string path;
  json values;
  ordered_json patterns;  // the same values in the file's order
  double rank, alpha, dropout = 0;

  explicit AdapterConfig(const std::string& dir)
      : path(config_file(dir)),
        values(read_json_object(path)),
        patterns(ordered_json::parse(read_file(path))) {
    check_plain(path, values);
    rank = number_in(path, values, "r", 1, 1e6);
    check(rank == std::floor(rank), path, ": r: expected a whole number, got ", rank);
    alpha = number_in(path, values, "lora_alpha", 1e-30, 1e36);
    if (!values.value("lora_dropout", json()).is_null())
      dropout = number_in(path, values, "lora_dropout", 0, 0.999999);
  }
};

/// The updates in a file, under its names of layers.
NamedUpdates read_updates(const std::string& path, const AdapterConfig& config) {
  std::map<std::string, Tensor> tensors;
  std::set<std::string> layers;
  const std::string end_a = ".lora_A.weight", end_b = ".lora_B.weight";
  for (const auto& [name, tensor] : load_safetensors(path).tensors) {
    const bool known = name.starts_with(prefix) && (name.ends_with(end_a) || name.ends_with(end_b));
    check(known, path, ": expected names such as ", prefix, "LAYER", end_a, ", got ", shown(name));
    check(is_floating(tensor.dtype()) && tensor.rank() == 2, path, ": ", name,
          ": expected a matrix of floating-point numbers, got ", tensor.dtype(), ' ',
          tensor.shape());
    const std::string inner = name.substr(prefix.size());
    tensors.emplace(inner, tensor);
    layers.insert(inner.substr(0, inner.size() - end_a.size()));
  }
  check(!layers.empty(), path, ": holds no updates");
  NamedUpdates updates;
  for (const std::string& layer : layers) {
    for (const std::string& name : {layer + end_a, layer + end_b})
      check(tensors.contains(name), path, ": ", prefix, name, " is missing");
    const Tensor &a = tensors.at(layer + end_a), &b = tensors.at(layer + end_b);
    const double rank =
        pattern_in(config.path, config.patterns, "rank_pattern", layer, config.rank);
    check(static_cast<double>(a.size(0)) == rank, path, ": ", prefix, layer, end_a,
          ": expected rank ", rank, ", got shape ", a.shape());
    const double alpha =
        pattern_in(config.path, config.patterns, "alpha_pattern", layer, config.alpha);
    updates.emplace_back(layer, nn::LoraUpdate{a, b, alpha, config.dropout});
  }
  return updates;
}

}  // namespace

void save_adapter_files(const std::string& dir, const std::string& kind, const Fields& fields,
                        const nn::Module& model) {
  NamedUpdates updates = nn::lora_updates(model);
  check(!updates.empty(), "save_adapter: the model has no low-rank updates");
  for (const auto& [name, update] : updates)
    check(update.dropout == updates.front().second.dropout, "save_adapter: ", name, " and ",
          updates.front().first, " differ in dropout");
  const std::optional<LayerNames> names = layer_names(kind, fields);
  if (names) updates = split_updates(*names, updates);

  const nn::LoraUpdate& first = updates.front().second;
  NamedTensors tensors;
  ordered_json layers = json::array(), ranks, alphas;
  bool same_rank = true, same_alpha = true;
  for (const auto& [name, update] : updates) {
    layers.push_back(name);
    same_rank &= update.a.size(0) == first.a.size(0), same_alpha &= update.alpha == first.alpha;
    tensors.emplace_back(prefix + name + ".lora_A.weight", update.a.detach());
    tensors.emplace_back(prefix + name + ".lora_B.weight", update.b.detach());
  }
  // In a pattern the first name that fits counts, and one layer's name may be the end of another's.
  NamedUpdates longest_first = updates;
  std::ranges::stable_sort(longest_first, std::greater(), [](auto& u) { return u.first.size(); });
  for (const auto& [name, update] : longest_first)
    ranks[name] = update.a.size(0), alphas[name] = update.alpha;
  create_folder("save_adapter", dir);
  save_safetensors(in_folder(dir, tensor_file), tensors);
  write_json(config_file(dir),
             {{"peft_type", "LORA"},
              {"task_type", kind == "gpt" ? json("CAUSAL_LM") : json()},
              {"r", first.a.size(0)},
              {"lora_alpha", first.alpha},
              {"lora_dropout", first.dropout},
              {"rank_pattern", same_rank ? ordered_json::object() : ranks},
              {"alpha_pattern", same_alpha ? ordered_json::object() : alphas},
              {"bias", "none"},
              {"fan_in_fan_out", names && names->table.type == std::string("gpt2")},
              {"target_modules", layers}});
}

void load_adapter_files(const std::string& dir, const std::string& kind, const Fields& fields,
                        nn::Module& model) {
  const AdapterConfig config(dir);
  const std::string weights = in_folder(dir, tensor_file);
  const NamedUpdates read = read_updates(weights, config);
  naming(weights, [&] {
    nn::add_lora_updates(model, join_updates(layer_names(kind, fields), model, read));
  });
}

}  // namespace gradus::models
