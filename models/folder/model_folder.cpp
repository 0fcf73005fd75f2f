#include "gradus/models/folder/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "gradus/core/files/file.h"
#include "gradus/core/files/json.h"
#include "gradus/core/files/safetensors.h"
#include "gradus/core/internal.h"
#include "gradus/models/folder/folder_files.h"
#include "gradus/models/folder/hugging_face/config.h"
#include "gradus/models/folder/hugging_face/weights.h"
#include "gradus/nn/finetune/lora.h"
#include "gradus/nn/init.h"
#include "gradus/nn/loading.h"

namespace gradus::models {

using namespace internal;
using nlohmann::json;

std::string config_path(const std::string& dir) { return in_folder(dir, "config.json"); }
std::string weights_path(const std::string& dir) { return in_folder(dir, "model.safetensors"); }
std::string tokenizer_path(const std::string& dir) { return in_folder(dir, "tokenizer.json"); }

namespace {

/// The model's kind, followed by the configuration's fields.
Fields with_kind(std::string& kind, const Fields& config) {
  Fields all;
  all.add("model", kind, "kind of model");
  all.append(config);
  return all;
}

}  // namespace

void save_model_files(const std::string& dir, std::string kind, const Fields& config,
                      const nn::Module& model) {
  check(nn::lora_updates(model).empty(), "save_model: the model has low-rank updates: call ",
        "merge_lora first, or save_adapter instead");
  save_model_files(dir, std::move(kind), config, model.state_dict());
}

void save_model_files(const std::string& dir, std::string kind, const Fields& config,
                      const NamedTensors& state) {
  create_folder("save_model", dir);
  save_safetensors(weights_path(dir), state);
  save_config(dir, std::move(kind), config);
}

void save_config(const std::string& dir, std::string kind, const Fields& config) {
  create_folder("save_model", dir);
  write_file_atomically(config_path(dir), with_kind(kind, config).to_json(true) + '\n');
}

// ---- configurations ----

std::string model_kind(const std::string& dir) {
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(dir, error);
  check(!is_file, dir, ": expected a model's folder, got a file");
  const std::string path = config_path(dir);
  const json config = read_json(path);
  if (is_hugging_face_config(config)) return kind_in({path, config});
  check(!config.is_object() || config.contains("model"), path,
        ": expected a model, or a model_type as Hugging Face's have it, and there is neither");
  return naming(path, [&] { return json_text(config, "model"); });
}

void expect_kind(const std::string& dir, const std::string& kind) {
  const std::string found = model_kind(dir);
  check(found == kind, config_path(dir), ": expected a model of kind \"", kind, "\", got ",
        shown(found));
}

void read_config(const std::string& dir, const std::string& kind, const Fields& config) {
  if (const auto hf_config = find_hugging_face_config(dir))
    return read_fields(*hf_config, kind, config);
  expect_kind(dir, kind);
  std::string found;
  with_kind(found, config).read_json(config_path(dir), read_file(config_path(dir)));
}

// ---- weights ----

namespace {

int64_t count_elements(const NamedTensors& tensors) {
  int64_t elements = 0;
  for (const auto& [name, tensor] : tensors) elements += tensor.numel();
  return elements;
}

/// Calls make() without running initialisers. Throws Error if the model's parameters have more than
/// `elements` elements in all.
nn::Module& make_uninitialised(const std::string& dir, int64_t elements,
                               const std::function<nn::Module&()>& make) {
  return naming(config_path(dir), [&]() -> nn::Module& {
    const Loading loading(elements);
    return make();
  });
}

void load_into(nn::Module& model, const std::string& path, const NamedTensors& tensors) {
  naming(path, [&] {
    const bool compressed = std::any_of(tensors.begin(), tensors.end(), [](const auto& named) {
      return named.second.dtype() == int8;
    });
    if (!tensors.empty() && !is_compressed(tensors.front().second.dtype()))
      model.to(tensors.front().second.dtype());
    if (compressed) model.to(int8);
    model.load_state_dict(tensors);
  });
}

/// Draws the matrices of new heads; their biases and norms have their initial values already.
void initialise_heads(const NamedTensors& heads) {
  const NoGrad no_grad;
  for (const auto& [name, p] : heads)
    if (p.rank() >= 2) p.copy_(nn::init::normal(p.shape(), 0, 0.02).to(p.dtype()));
}

}  // namespace

void load_weights(const std::string& dir, nn::Module& model, const LoadOptions& options) {
  if (const auto hf_config = find_hugging_face_config(dir)) {
    load_hugging_face_weights(read_hugging_face_weights(dir), *hf_config, model, options);
    return;
  }
  const std::string path = weights_path(dir);
  const NamedTensors tensors = load_safetensors(path).tensors;
  std::map<std::string, Shape> shapes;
  for (const auto& [name, tensor] : model.state_dict()) shapes.emplace(name, tensor.shape());
  // load_into() converts the model first: if it cannot succeed, throw before the conversion.
  for (const auto& [name, tensor] : tensors)
    if (const auto at = shapes.find(name); at != shapes.end() && at->second != tensor.shape())
      naming(path, [&] { model.load_state_dict(tensors); });
  load_into(model, path, tensors);
}

void load_weights(const std::string& dir, const std::function<nn::Module&()>& make,
                  const LoadOptions& options) {
  if (const auto hf_config = find_hugging_face_config(dir)) {
    HuggingFaceFile file = read_hugging_face_weights(dir);
    // Heads that the file lacks may add as many elements as it has, and a million more.
    nn::Module& model = make_uninitialised(dir, 2 * count_elements(file.tensors) + 1'000'000, make);
    initialise_heads(load_hugging_face_weights(std::move(file), *hf_config, model, options));
    return;
  }
  const NamedTensors tensors = load_safetensors(weights_path(dir)).tensors;
  // The model may have slightly more elements than the file, so that load_state_dict can name
  // parameters whose sizes differ.
  const int64_t elements = count_elements(tensors);
  nn::Module& model = make_uninitialised(dir, elements + elements / 64, make);
  load_into(model, weights_path(dir), tensors);
}

}  // namespace gradus::models
