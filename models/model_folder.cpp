#include "gradus/models/model_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "gradus/core/internal.h"
#include "gradus/core/json.h"
#include "gradus/core/safetensors.h"

namespace gradus::models {

namespace {
std::string in_folder(const std::string& dir, const char* file) {
  return (std::filesystem::path(dir) / file).string();
}

/// The configuration's entries behind that of the model's kind.
Fields with_kind(std::string& kind, const Fields& config) {
  Fields all;
  all.add("model", kind, "what kind of model it is");
  all.append(config);
  return all;
}

/// f(); its errors then open with the file's name.
template <class F>
decltype(auto) naming(const std::string& path, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    fail(path, ": ", error.what());
  }
}
}  // namespace

std::string config_path(const std::string& dir) { return in_folder(dir, "config.json"); }
std::string weights_path(const std::string& dir) { return in_folder(dir, "model.safetensors"); }
std::string tokenizer_path(const std::string& dir) { return in_folder(dir, "tokenizer.json"); }

void save_model_files(const std::string& dir, std::string kind, const Fields& config,
                      const nn::Module& model) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  check(std::filesystem::is_directory(dir, error), "save_model: cannot make the folder ", dir);
  save_safetensors(weights_path(dir), model.state_dict());
  write_file_atomically(config_path(dir), with_kind(kind, config).to_json(true) + '\n');
}

namespace {
std::string kind_in(const std::string& path, const std::string& text) {
  return naming(path, [&] { return json_text(parse_json("the file", text), "model"); });
}
}  // namespace

std::string model_kind(const std::string& dir) {
  return kind_in(config_path(dir), read_file(config_path(dir)));
}

void expect_kind(const std::string& dir, const std::string& kind) {
  const std::string found = model_kind(dir);
  check(found == kind, config_path(dir), ": expected a model of kind \"", kind, "\", got ",
        shown(found));
}

void read_config(const std::string& dir, const std::string& kind, const Fields& config) {
  expect_kind(dir, kind);
  std::string found;
  with_kind(found, config).read_json(config_path(dir), read_file(config_path(dir)));
}

namespace {
void load_into(const std::string& path, const NamedTensors& tensors, nn::Module& model) {
  naming(path, [&] {
    if (!tensors.empty()) model.to(tensors.front().second.dtype());
    model.load_state_dict(tensors);
  });
}
}  // namespace

void load_weights(const std::string& dir, nn::Module& model) {
  load_into(weights_path(dir), load_safetensors(weights_path(dir)).tensors, model);
}

void load_weights(const std::string& dir, const std::function<nn::Module&()>& make) {
  const NamedTensors tensors = load_safetensors(weights_path(dir)).tensors;
  int64_t numbers = 0;
  for (const auto& [name, tensor] : tensors) numbers += tensor.numel();
  nn::Module& model = naming(config_path(dir), [&]() -> nn::Module& {
    const nn::init::Skip skip(numbers);
    return make();
  });
  load_into(weights_path(dir), tensors, model);
}

}  // namespace gradus::models
