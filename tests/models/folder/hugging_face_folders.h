#pragma once
// Modifiable copies of the model folders in tests/golden/hugging_face (Hugging Face's format).

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "gradus/core/core.h"
#include "gradus/models/gpt.h"
#include "tests/golden/golden.h"
#include "tests/support/compare.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"

namespace gradus::testing {

using nlohmann::json;

const std::string all_folders = gradus::testing::source_path("tests/golden/hugging_face/");

inline json json_in(const std::string& path) { return json::parse(read_file(path)); }

/// A modifiable copy of the folder tests/golden/hugging_face/NAME.
struct Copy {
  TemporaryFolder folder;
  std::string dir;
  explicit Copy(const std::string& name) : dir(folder / name) {
    std::filesystem::copy(all_folders + name, dir);
  }
  std::string operator/(const std::string& file) const { return dir + '/' + file; }
  /// Sets each key of `changes` to its value in the JSON object in `file`. A null value removes the
  /// key.
  void change_config(const json& changes, const std::string& file = "config.json") const {
    json config = json_in(*this / file);
    for (const auto& [key, value] : changes.items()) {
      config[key] = value;
      if (value.is_null()) config.erase(key);
    }
    write_file_atomically(*this / file, config.dump());
  }
  NamedTensors tensors() const { return load_safetensors(*this / "model.safetensors").tensors; }
  void put(const NamedTensors& tensors) const {
    save_safetensors(*this / "model.safetensors", tensors);
  }
  /// Renames each weight to rename(name), or removes it if rename(name) is "".
  void rename(const std::function<std::string(const std::string&)>& rename) const {
    NamedTensors renamed;
    for (const auto& [name, tensor] : tensors())
      if (const std::string now = rename(name); !now.empty()) renamed.emplace_back(now, tensor);
    put(renamed);
  }
};

/// Returns inputs for the model in the folder `name`, and PyTorch's outputs for these inputs.
inline golden::File expected(const std::string& name) {
  return golden::File("hugging_face/" + name + "/expected");
}

/// Returns the largest difference (see difference() in compare.h) between the logits of the model
/// and PyTorch's logits, on the token ids stored for the model folder gpt2.
inline double gpt2_difference(const models::GPT& model) {
  const NoGrad no_grad;
  const EvalMode eval;
  const golden::File file = expected("gpt2");
  return difference(model(file.get("ids")), file.get("logits", float32));
}

}  // namespace gradus::testing
