#include "gradus/models/folder/model_folder.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "gradus/core/files/json.h"
#include "gradus/core/files/safetensors.h"
#include "gradus/core/internal.h"
#include "gradus/models/folder/hugging_face_parts.h"
#include "gradus/nn/loading.h"

namespace gradus::models {

using nlohmann::json;

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
json read_json_file(const std::string& path) {
  return naming(path, [&] { return parse_json("the file", read_file(path)); });
}

std::string kind_in(const std::string& path, const json& config) {
  if (internal::is_theirs(config)) return internal::kind_of_theirs(path, config);
  check(!config.is_object() || config.contains("model"), path,
        ": expected a model, or a model_type as Hugging Face's have it, and there is neither");
  return naming(path, [&] { return json_text(config, "model"); });
}
}  // namespace

std::string model_kind(const std::string& dir) {
  const std::string path = config_path(dir);
  return kind_in(path, read_json_file(path));
}

void expect_kind(const std::string& dir, const std::string& kind) {
  const std::string found = model_kind(dir);
  check(found == kind, config_path(dir), ": expected a model of kind \"", kind, "\", got ",
        shown(found));
}

void read_config(const std::string& dir, const std::string& kind, const Fields& config) {
  const std::string path = config_path(dir);
  if (const json file = read_json_file(path); internal::is_theirs(file))
    return internal::read_their_config(path, file, kind, config);
  expect_kind(dir, kind);
  std::string found;
  with_kind(found, config).read_json(path, read_file(path));
}

namespace {
int64_t count_numbers(const NamedTensors& tensors) {
  int64_t numbers = 0;
  for (const auto& [name, tensor] : tensors) numbers += tensor.numel();
  return numbers;
}

nn::Module& make_undrawn(const std::string& dir, int64_t elements,
                         const std::function<nn::Module&()>& make) {
  return naming(config_path(dir), [&]() -> nn::Module& {
    const Loading loading(elements);
    return make();
  });
}

void load_into(const std::string& path, const NamedTensors& tensors, nn::Module& model) {
  naming(path, [&] {
    if (!tensors.empty()) model.to(tensors.front().second.dtype());
    model.load_state_dict(tensors);
  });
}

/// DIR/config.json if it is one of Hugging Face's.
std::optional<json> their_config_in(const std::string& dir) {
  std::error_code error;
  if (!std::filesystem::exists(config_path(dir), error)) return {};
  json config = read_json_file(config_path(dir));
  return internal::is_theirs(config) ? std::optional(std::move(config)) : std::nullopt;
}
}  // namespace

void load_weights(const std::string& dir, nn::Module& model, const LoadOptions& options) {
  if (const std::optional<json> config = their_config_in(dir))
    return internal::load_their_weights(internal::read_their_weights(dir), config_path(dir),
                                        *config, model, options.new_heads, /*drawn=*/true);
  load_into(weights_path(dir), load_safetensors(weights_path(dir)).tensors, model);
}

void load_weights(const std::string& dir, const std::function<nn::Module&()>& make,
                  const LoadOptions& options) {
  if (const std::optional<json> config = their_config_in(dir)) {
    internal::TheirFile file = internal::read_their_weights(dir);
    // Twice as many and some more: heads that the file lacks.
    nn::Module& model = make_undrawn(dir, 2 * count_numbers(file.tensors) + 1'000'000, make);
    return internal::load_their_weights(std::move(file), config_path(dir), *config, model,
                                        options.new_heads, /*drawn=*/false);
  }
  const NamedTensors tensors = load_safetensors(weights_path(dir)).tensors;
  // A model that is a little too large is left to load_state_dict, which names what differs.
  const int64_t elements = count_numbers(tensors);
  load_into(weights_path(dir), tensors, make_undrawn(dir, elements + elements / 64, make));
}

}  // namespace gradus::models
