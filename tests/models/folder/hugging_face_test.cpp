// Small Hugging Face folders, written with PyTorch by tests/golden/scripts/make_hugging_face.py:
// they load, compute PyTorch's outputs and are written back unchanged.

#include "gradus/models/folder/hugging_face/hugging_face.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gradus/core/core.h"
#include "gradus/models/bert.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/gpt.h"
#include "gradus/models/vit.h"
#include "tests/models/folder/hugging_face_folders.h"

using Catch::Matchers::Contains;

namespace gradus::testing::hugging_face_test {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (const size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

// A user's global may load a folder before main: the library's tables must be initialised by then.
const bool loaded_before_main = [] {
  try {
    const models::GPT model = models::load_model<models::GPT>(all_folders + "gpt2");
    const auto tokenizer = models::load_tokenizer(all_folders + "bert");
    return model.config.layers == 2 && tokenizer->has_special("[CLS]");
  } catch (const Error&) {
    return false;
  }
}();

double bert_difference(const models::Bert& model) {
  const NoGrad no_grad;
  const EvalMode eval;
  const golden::File file = expected("bert");
  const Tensor mask = file.get("mask"), real = mask.to(float32).unsqueeze(-1);
  const Tensor hidden = model({file.get("ids"), file.get("segments"), mask});
  const Tensor pooled = model.pooled(hidden);
  double worst = difference(hidden * real, file.get("hidden", float32) * real);
  worst = std::max(worst, difference(pooled, file.get("pooled", float32)));
  worst = std::max(worst, difference(model.word_logits(hidden) * real,
                                     file.get("prediction_logits", float32) * real));
  return std::max(worst,
                  difference(model.next(pooled), file.get("seq_relationship_logits", float32)));
}

double vit_difference(const models::ViT& model) {
  const NoGrad no_grad;
  const EvalMode eval;
  const golden::File file = expected("vit");
  return difference(model(file.get("images", float32)), file.get("logits", float32));
}

/// The tensors in all files of a folder, by name.
std::map<std::string, Tensor> weights_in(const std::string& dir) {
  std::map<std::string, Tensor> all;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("model") || !name.ends_with(".safetensors")) continue;
    for (const auto& [key, tensor] : load_safetensors(entry.path().string()).tensors)
      all.emplace(key, tensor);
  }
  return all;
}

/// Checks that every tensor in `saved` is in `original`, and that all others are listed as
/// exceptions.
void check_same_weights(const std::string& saved, const std::string& original,
                        const std::function<std::string(const std::string&)>& their_name,
                        const std::function<bool(const std::string&)>& may_miss) {
  std::map<std::string, Tensor> left = weights_in(original);
  for (const auto& [name, tensor] : weights_in(saved)) {
    CAPTURE(name);
    const auto found = left.find(their_name(name));
    REQUIRE(found != left.end());
    CHECK(golden::same(tensor, found->second));
    left.erase(found);
  }
  for (const auto& [name, tensor] : left)
    if (!may_miss(name)) FAIL_CHECK("not saved: " << name);
}

/// Checks that every entry of the saved config.json equals the original's, or the default.
void check_same_config(const std::string& saved, const std::string& original) {
  const json a = json_in(saved + "/config.json"), b = json_in(original + "/config.json");
  for (const auto& [key, value] : a.items()) {
    CAPTURE(key, value.dump());
    if (b.contains(key) && key != "torch_dtype") CHECK(b[key] == value);
  }
  for (const char* key : {"architectures", "model_type", "layer_norm_eps", "hidden_size", "n_embd",
                          "vocab_size", "id2label", "n_inner", "intermediate_size"})
    if (b.contains(key)) CHECK(a.contains(key));
  CHECK(load_safetensors(saved + "/model.safetensors").metadata.at("format") == "pt");
}

}  // namespace

TEST_CASE("Hugging Face: a global variable can load a folder before main", "[hugging_face]") {
  CHECK(loaded_before_main);
}

// ---- GPT-2 ----

TEST_CASE("Hugging Face: a GPT-2 computes PyTorch's logits", "[hugging_face]") {
  const std::string dir = all_folders + "gpt2";
  CHECK(models::is_hugging_face(dir));
  CHECK(models::model_kind(dir) == "gpt");
  const auto config = models::load_config<models::GPT>(dir);
  CHECK(config.vocab == 304);
  CHECK(config.context == 12);
  CHECK(config.activation == Activation::gelu_tanh);
  CHECK(config.hidden == 0);
  CHECK(config.bias);
  CHECK(config.tie);
  CHECK(config.dropout == 0.1);
  CHECK(config.norm_eps == 1e-5);
  CHECK(gpt2_difference(models::load_model<models::GPT>(dir)) < 1e-4);
  models::GPTConfig precise = config;
  precise.norm_eps = 0.25;
  const models::GPT of_eps(precise);
  for (const double eps : {of_eps.blocks[1].ln1.eps, of_eps.blocks[1].ln2.eps, of_eps.ln_f.eps})
    CHECK(eps == 0.25);
  models::GPT other(config);
  models::load_weights(dir, other);
  CHECK(gpt2_difference(other) < 1e-4);
}

TEST_CASE("Hugging Face: GPT-2 files with variants of parameter names load", "[hugging_face]") {
  const Copy copy("gpt2");
  auto check = [&] { CHECK(gpt2_difference(models::load_model<models::GPT>(copy.dir)) < 1e-4); };
  NamedTensors tensors = copy.tensors();
  const NamedTensors bare = tensors;
  Tensor wte;
  for (auto& [name, tensor] : tensors) {
    if (name == "wte.weight") wte = tensor;
    name = "transformer." + name;
  }
  copy.put(tensors);
  check();
  tensors.emplace_back("lm_head.weight", wte);
  tensors.emplace_back("score.weight", ones({2, 16}));  // another task's head
  copy.put(tensors);
  check();

  tensors = bare;  // not tied
  tensors.emplace_back("lm_head.weight", wte * 2);
  copy.put(tensors);
  CHECK_THROWS_WITH(models::load_model<models::GPT>(copy.dir),
                    Contains("lm_head.weight and wte.weight differ"));
  copy.change_config({{"tie_word_embeddings", false}});
  const auto untied = models::load_model<models::GPT>(copy.dir);
  CHECK_FALSE(untied.config.tie);
  const NoGrad no_grad;
  const EvalMode eval;
  CHECK(difference(untied(expected("gpt2").get("ids")),
                   expected("gpt2").get("logits", float32) * 2) < 1e-4);
  copy.put(bare);
  CHECK_THROWS_WITH(models::load_model<models::GPT>(copy.dir), Contains("missing: lm_head.weight"));
}

TEST_CASE("Hugging Face: a GPT-2 is written back unchanged", "[hugging_face]") {
  const std::string dir = all_folders + "gpt2";
  const TemporaryFolder folder;
  const std::string to = folder / "to";
  const auto model = models::load_model<models::GPT>(dir);
  const auto tokenizer = models::load_tokenizer(dir);
  models::save_hugging_face(to, model, {.tokenizer = tokenizer.get()});
  check_same_weights(
      to, dir, [](const std::string& name) { return replaced(name, "transformer.", ""); },
      [](const std::string& name) { return name.ends_with("bias") && name.find(".attn.") < 4; });
  check_same_config(to, dir);
  CHECK(json_in(to + "/config.json")["n_inner"].is_null());
  CHECK(json_in(to + "/vocab.json") == json_in(dir + "/vocab.json"));
  CHECK(read_file(to + "/merges.txt") == read_file(dir + "/merges.txt"));
  const json settings = json_in(to + "/tokenizer_config.json");
  CHECK(settings["tokenizer_class"] == "GPT2Tokenizer");
  for (const char* key : {"bos_token", "eos_token", "unk_token"})
    CHECK(settings[key] == "<|endoftext|>");
  CHECK(gpt2_difference(models::load_model<models::GPT>(to)) < 1e-4);
}

TEST_CASE("Hugging Face: a gradus GPT without biases is written with zero biases",
          "[hugging_face]") {
  const TemporaryFolder folder;
  const std::string to = folder / "to";
  const NoGrad no_grad;
  for (const bool tie : {true, false}) {
    const models::GPT model({.vocab = 7, .layers = 2, .heads = 2, .dim = 8, .tie = tie});
    models::save_hugging_face(to, model);
    const auto back = models::load_model<models::GPT>(to);
    CHECK(back.config.bias);
    CHECK(back.config.tie == tie);
    const Tensor ids = tensor({{1, 6, 3, 0}}).to(int64);
    CHECK(golden::same(model(ids), back(ids)));
  }
  models::save_hugging_face(
      to, models::GPT({.vocab = 7, .activation = Activation::relu_squared, .zero_init = true}));
  CHECK(nlohmann::json::parse(read_file(to + "/config.json"))["activation_function"] == "relu2");
  CHECK(models::load_config<models::GPT>(to).activation == Activation::relu_squared);
  // dim / heads, the only size of heads that a GPT-2 has, may be stated.
  models::save_hugging_face(to, models::GPT({.vocab = 7, .heads = 2, .dim = 8, .head_dim = 4}));
  CHECK(models::load_config<models::GPT>(to).dim == 8);
  auto refused = [&](models::GPTConfig config, const char* message) {
    config.vocab = 7;
    CHECK_THROWS_WITH(models::save_hugging_face(folder / "none", models::GPT(config)),
                      Contains(message));
  };
  refused({.positions = models::Positions::rotary},
          "Hugging Face's llama has gated true, this model has false");
  refused({.positions = models::Positions::sinusoidal},
          "Hugging Face's gpt2 has positions learned, this model has sinusoidal");
  refused({.norm = nn::NormKind::rms}, "has norm layer, this model has rms");
  refused({.gated = true}, "has gated false, this model has true");
  refused({.kv_heads = 2}, "has kv_heads 0, this model has 2");
  refused({.head_dim = 16}, "has head_dim 0, this model has 16");
  refused({.window = 8}, "has window 0, this model has 8");
  refused({.qk_norm = true}, "has qk_norm false, this model has true");
  refused({.value_shortcut = true}, "has value_shortcut false, this model has true");
  refused({.embedding_shortcut = true}, "has embedding_shortcut false, this model has true");
  refused({.logit_cap = 30}, "has logit_cap 0.0, this model has 30.0");
  refused({.bigram = true}, "has bigram false, this model has true");
  refused({.token_shift = true}, "has token_shift false, this model has true");
  CHECK_FALSE(folder.has("none"));
}

// ---- BERT ----

TEST_CASE("Hugging Face: a BERT computes PyTorch's outputs", "[hugging_face]") {
  const std::string dir = all_folders + "bert";
  CHECK(models::model_kind(dir) == "bert");
  const auto config = models::load_config<models::Bert>(dir);
  CHECK(config.hidden == 20);
  CHECK(config.context == 10);
  CHECK(config.norm_eps == 1e-12);
  CHECK(bert_difference(models::load_model<models::Bert>(dir)) < 1e-4);
  models::BertConfig other = config;
  other.norm_eps = 0.25;
  const models::Bert of_eps(other);
  for (const double eps : {of_eps.embedding_norm.eps, of_eps.blocks[1].ln1.eps,
                           of_eps.blocks[1].ln2.eps, of_eps.transform_norm.eps})
    CHECK(eps == 0.25);
  const Copy copy("bert");
  copy.rename([](const std::string& name) {  // as in newer files
    if (name.find("decoder") != std::string::npos || name.find("ids") != std::string::npos)
      return std::string();
    return replaced(replaced(name, "gamma", "weight"), "beta", "bias");
  });
  CHECK(bert_difference(models::load_model<models::Bert>(copy.dir)) < 1e-4);
}

TEST_CASE("Hugging Face: a BERT is written back unchanged", "[hugging_face]") {
  const std::string dir = all_folders + "bert";
  const TemporaryFolder folder;
  const std::string to = folder / "to";
  const auto tokenizer = models::load_tokenizer(dir);
  models::save_hugging_face(to, models::load_model<models::Bert>(dir),
                            {.tokenizer = tokenizer.get()});
  check_same_weights(
      to, dir,
      [](const std::string& name) {
        if (name.find("LayerNorm") == std::string::npos) return name;
        return replaced(replaced(name, "weight", "gamma"), "bias", "beta");
      },
      [](const std::string& name) {
        return name.starts_with("cls.predictions.decoder") || name.ends_with("position_ids");
      });
  check_same_config(to, dir);
  CHECK(read_file(to + "/vocab.txt") == read_file(dir + "/vocab.txt"));
  const json settings = json_in(to + "/tokenizer_config.json");
  CHECK(settings["do_lower_case"] == true);
  CHECK(settings["unk_token"] == "[UNK]");
  CHECK(settings["mask_token"] == "[MASK]");
  CHECK(bert_difference(models::load_model<models::Bert>(to)) < 1e-4);
}

TEST_CASE("Hugging Face: a classifier on a BERT without heads gets new heads", "[hugging_face]") {
  const Copy copy("bert");
  copy.rename([](const std::string& name) {  // a BertModel, also without the pooler
    return name.starts_with("cls.") || name.find("pooler") != std::string::npos
               ? ""
               : replaced(name, "bert.", "");
  });
  copy.change_config({{"architectures", {"BertModel"}}, {"num_labels", 3}});
  CHECK_THROWS_WITH(models::load_model<models::Bert>(copy.dir),
                    Contains("missing:") && Contains("bert.pooler.dense.weight") &&
                        Contains("cls.predictions.bias"));
  manual_seed(3);
  const auto fresh = models::load_model<models::Bert>(copy.dir, {.new_heads = true});
  const NoGrad no_grad;
  const EvalMode eval;
  const golden::File file = expected("bert");
  const Tensor real = file.get("mask").to(float32).unsqueeze(-1);
  const models::BertInput input{file.get("ids"), file.get("segments"), file.get("mask")};
  CHECK(difference(fresh(input) * real, file.get("hidden", float32) * real) < 1e-4);
  const Tensor drawn = cat({fresh.transform.weight.flatten(), fresh.pooler.weight.flatten()});
  CHECK(std_dev(drawn).item() == Approx(0.02).epsilon(0.12));
  CHECK(max(abs(fresh.transform.bias)).item() == 0);
  CHECK(min(fresh.transform_norm.weight).item() == 1);

  const auto classifier = models::load_model<models::BertClassifier>(copy.dir);
  CHECK(classifier.config.classes == 3);
  CHECK(max(abs(classifier.head.weight)).item() > 0);
  CHECK(difference(classifier.bert(input), fresh(input)) == 0);

  for (const bool tokens : {false, true}) {  // saved as a Hugging Face classifier
    const models::BertClassifier mine(
        {.bert = models::load_config<models::Bert>(copy.dir), .classes = 4, .tokens = tokens});
    const std::string to = copy / "saved" + (tokens ? "1" : "0");
    models::save_hugging_face(to, mine);
    CHECK(json_in(to + "/config.json")["architectures"][0] ==
          (tokens ? "BertForTokenClassification" : "BertForSequenceClassification"));
    CHECK(weights_in(to).contains("classifier.weight"));
    CHECK(weights_in(to).contains("bert.pooler.dense.weight") == !tokens);
    CHECK_FALSE(weights_in(to).contains("cls.predictions.bias"));
    CHECK(models::model_kind(to) == "bert-classifier");
    const auto back = models::load_model<models::BertClassifier>(to);
    CHECK(back.config.tokens == tokens);
    CHECK(golden::same(mine(input), back(input)));
    const std::map<std::string, Tensor> whole = weights_in(to);
    auto load_without = [&](const char* prefix, bool new_heads = false) {
      NamedTensors without;
      for (const auto& [name, tensor] : whole)
        if (!name.starts_with(prefix)) without.emplace_back(name, tensor);
      save_safetensors(to + "/model.safetensors", without);
      return models::load_model<models::BertClassifier>(to, {.new_heads = new_heads});
    };
    CHECK_THROWS_WITH(load_without("classifier"),
                      Contains("missing: classifier.weight, classifier.bias"));
    if (tokens)
      CHECK(golden::same(load_without("bert.pooler")(input), back(input)));
    else
      CHECK_THROWS_WITH(load_without("bert.pooler"),
                        Contains("missing: bert.pooler.dense.weight, bert.pooler.dense.bias"));
    CHECK_NOTHROW(load_without("bert.pooler", true));
  }
}

// ---- ViT ----

TEST_CASE("Hugging Face: a float16 ViT in two files computes PyTorch's logits", "[hugging_face]") {
  const std::string dir = all_folders + "vit";
  CHECK(models::model_kind(dir) == "vit");
  const auto model = models::load_model<models::ViT>(dir);
  CHECK(model.config.classes == 5);
  for (const double eps : {model.blocks[1].ln1.eps, model.blocks[1].ln2.eps, model.ln_f.eps})
    CHECK(eps == 1e-12);
  CHECK(model.class_token.dtype() == float32);
  CHECK(vit_difference(model) < 1e-4);
  const models::ImageInfo info = models::load_image_info(dir);
  CHECK(info.stats.mean == std::vector<double>{0.5, 0.5, 0.25});
  CHECK(info.stats.std == std::vector<double>{0.5, 0.5, 0.75});
  CHECK(info.class_names.size() == 5);
  CHECK(info.class_names[1] == "goldfish, Carassius auratus");
  const Copy copy("vit");
  CHECK(models::class_names_path(copy.dir) == copy / "config.json");
  copy.change_config({{"image_std", {0.5, 0.5}}}, "preprocessor_config.json");
  CHECK_THROWS_WITH(models::load_image_info(copy.dir),
                    Contains(models::image_info_path(copy.dir) + ": expected a mean and a std") &&
                        Contains("preprocessor_config.json"));
}

TEST_CASE("Hugging Face: a ViT is written back unchanged", "[hugging_face]") {
  const std::string dir = all_folders + "vit";
  const TemporaryFolder folder;
  const std::string to = folder / "to";
  const auto model = models::load_model<models::ViT>(dir);
  const models::ImageInfo info = models::load_image_info(dir);
  models::save_hugging_face(to, model, {.images = &info});
  check_same_weights(
      to, dir, [](const std::string& name) { return name; },
      [](const std::string&) { return false; });
  check_same_config(to, dir);
  CHECK(json_in(to + "/preprocessor_config.json") == json_in(dir + "/preprocessor_config.json"));
  CHECK(vit_difference(models::load_model<models::ViT>(to)) < 1e-4);
  CHECK(models::load_image_info(to).class_names == info.class_names);

  models::ViTConfig config = model.config;
  config.classes = 0;
  models::save_hugging_face(folder / "bare", models::ViT(config));
  CHECK(json_in(folder / "bare" + "/config.json")["architectures"][0] == "ViTModel");
  CHECK(weights_in(folder / "bare").contains("embeddings.cls_token"));
  CHECK(models::load_model<models::ViT>(folder / "bare").config.classes == 0);
  std::filesystem::copy_file(dir + "/preprocessor_config.json",
                             folder / "bare" + "/preprocessor_config.json");
  CHECK(models::load_image_info(folder / "bare").class_names.empty());
  config.pooling = models::Pooling::mean;
  CHECK_THROWS_WITH(models::save_hugging_face(folder / "none", models::ViT(config)),
                    Contains("has pooling token, this model has mean"));
}

}  // namespace gradus::testing::hugging_face_test
