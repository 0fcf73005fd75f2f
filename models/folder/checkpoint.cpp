#include "gradus/models/folder/checkpoint.h"

#include <set>
#include <sstream>

#include "gradus/core/internal.h"

namespace gradus::models {

namespace {

constexpr const char* model_prefix = "model.";
constexpr const char* optimizer_prefix = "optimizer.";
constexpr const char* average_prefix = "average.";

void append(NamedTensors& out, const std::string& prefix, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) out.emplace_back(prefix + name, tensor);
}

/// The tensors whose names start with `prefix`, renamed without it.
NamedTensors part(const NamedTensors& tensors, const std::string& prefix) {
  NamedTensors out;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), tensor);
  return out;
}

/// Returns a file's tensors with those in bfloat16 that are so in `model`: reading a file makes
/// them float32, which changes no value.
NamedTensors as_in(const NamedTensors& model, NamedTensors read) {
  std::set<std::string> narrow;
  for (const auto& [name, tensor] : model)
    if (tensor.dtype() == bfloat16) narrow.insert(name);
  for (auto& [name, tensor] : read)
    if (narrow.contains(name) && tensor.dtype() == float32) tensor = tensor.to(bfloat16);
  return read;
}

NamedTensors copied(const NamedTensors& tensors) {
  NamedTensors out;
  for (const auto& [name, tensor] : tensors) out.emplace_back(name, tensor.clone());
  return out;
}

}  // namespace

void save_checkpoint(const std::string& path, const nn::Module& model,
                     const optim::Optimizer& optimizer,
                     const std::map<std::string, std::string>& metadata,
                     const optim::WeightAverage* average) {
  NamedTensors tensors;
  append(tensors, model_prefix, model.state_dict());
  append(tensors, optimizer_prefix, optimizer.state_dict());
  if (average) append(tensors, average_prefix, average->state_dict());
  const RandomKey random = default_generator().state();
  auto all = metadata;
  all["random"] = std::to_string(random.seed) + ' ' + std::to_string(random.counter);
  save_safetensors(path, tensors, all);
}

Checkpoint::Checkpoint(const std::string& path) : path_(path), file_(load_safetensors(path)) {
  const auto found = file_.metadata.find("random");
  std::istringstream in(found == file_.metadata.end() ? "" : found->second);
  const bool whole = in >> random_.seed >> random_.counter && in.eof();
  check(whole && in.str().find('-') == std::string::npos, path,
        ": not a checkpoint: expected a random state of two whole numbers");
}

void Checkpoint::restore(nn::Module& model, optim::Optimizer& optimizer,
                         optim::WeightAverage* average) const {
  // Restored if another part does not fit.
  const NamedTensors model_before = copied(model.state_dict()),
                     average_before = average ? copied(average->state_dict()) : NamedTensors();
  try {
    naming(path_, [&] {
      model.load_state_dict(as_in(model_before, part(file_.tensors, model_prefix)));
      if (average) average->load_state_dict(part(file_.tensors, average_prefix));
      optimizer.load_state_dict(part(file_.tensors, optimizer_prefix));
    });
  } catch (...) {
    model.load_state_dict(model_before);
    if (average) average->load_state_dict(average_before);
    throw;
  }
  default_generator().set_state(random_);
}

}  // namespace gradus::models
