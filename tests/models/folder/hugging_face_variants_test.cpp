// Hugging Face folders of models whose sizes and settings no golden folder has.

#include <catch2/catch.hpp>

#include "gradus/models/bert.h"
#include "gradus/models/folder/hugging_face/hugging_face.h"
#include "gradus/models/vit.h"
#include "tests/models/folder/hugging_face_folders.h"

namespace gradus::testing::hugging_face_variants_test {
namespace {

using models::GPT, models::GPTConfig;

/// Saves and loads the model. Returns whether all weights are the same.
template <class M>
bool survives(const std::string& dir, const M& model) {
  models::save_hugging_face(dir, model);
  const auto back = models::load_model<M>(dir);
  const NamedTensors a = model.state_dict(), b = back.state_dict();
  bool same = a.size() == b.size();
  for (size_t i = 0; same && i < a.size(); ++i)
    same = a[i].first == b[i].first && golden::same(a[i].second.detach(), b[i].second.detach());
  return same;
}

/// The configuration of a folder whose config.json is this.
GPTConfig config_of(const json& config) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "config.json", config.dump());
  return models::load_config<GPT>(folder / "");
}

}  // namespace

TEST_CASE("Hugging Face: a model of ten blocks", "[hugging_face]") {
  const TemporaryFolder folder;
  CHECK(
      survives(folder / "x", GPT({.vocab = 7, .layers = 10, .heads = 1, .dim = 4, .bias = true})));
}

TEST_CASE("Hugging Face: a model of more than a million elements", "[hugging_face]") {
  const TemporaryFolder folder;
  CHECK(survives(
      folder / "x",
      GPT({.vocab = 70000, .context = 4, .layers = 1, .heads = 1, .dim = 16, .bias = true})));
}

TEST_CASE("Hugging Face: default sizes are written as numbers", "[hugging_face]") {
  const TemporaryFolder folder;
  CHECK(survives(folder / "bert", models::Bert({.vocab = 7, .layers = 1, .heads = 2, .dim = 8})));
  CHECK(json_in(folder / "bert/config.json")["intermediate_size"] == 32);
  CHECK(survives(
      folder / "vit",
      models::ViT({.image = 8, .patch = 4, .classes = 3, .layers = 1, .heads = 2, .dim = 8})));
  CHECK(json_in(folder / "vit/config.json")["intermediate_size"] == 32);
  // As many key/value heads as heads, which is all that a GPT-2 has, may be stated.
  CHECK(
      survives(folder / "gpt2",
               GPT({.vocab = 7, .layers = 1, .heads = 2, .dim = 8, .bias = true, .kv_heads = 2})));
}

TEST_CASE("Llama's family: windows that are given but not used", "[hugging_face]") {
  json config{{"model_type", "qwen2"},
              {"num_hidden_layers", 2},
              {"sliding_window", 4},
              {"use_sliding_window", true},
              {"max_window_layers", 0}};
  CHECK(config_of(config).window == 4);
  config["max_window_layers"] = 1;  // not all layers
  CHECK_THROWS_AS(config_of(config), Error);
  config["max_window_layers"] = 2;  // no layer
  CHECK(config_of(config).window == 0);
  config["max_window_layers"] = 0;
  config["use_sliding_window"] = false;
  CHECK(config_of(config).window == 0);
}

TEST_CASE("Llama's family: the base of positions may be given twice if it is the same",
          "[hugging_face]") {
  json config{{"model_type", "llama"},
              {"rope_theta", 100.0},
              {"rope_parameters", {{"rope_theta", 100.0}, {"rope_type", "default"}}}};
  CHECK(config_of(config).rotary.theta == 100);
  config.erase("rope_theta");
  CHECK(config_of(config).rotary.theta == 100);
}

TEST_CASE("Hugging Face: names of files of weights may have spaces", "[hugging_face]") {
  const Copy copy("vit");
  json index = json_in(copy / "model.safetensors.index.json");
  for (auto& [name, file] : index["weight_map"].items()) file = "part " + std::string(file);
  for (const char* file : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"})
    std::filesystem::rename(copy / file, copy / "part " + file);
  write_file_atomically(copy / "model.safetensors.index.json", index.dump());
  CHECK_NOTHROW(models::load_model<models::ViT>(copy.dir));
}

}  // namespace gradus::testing::hugging_face_variants_test
