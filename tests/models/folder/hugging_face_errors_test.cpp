// Hugging Face folders that are damaged or hold unsupported models are refused with a message that
// names the problem.

#include <catch2/catch.hpp>

#include "gradus/models/bert.h"
#include "gradus/models/folder/hugging_face/hugging_face.h"
#include "gradus/models/folder/hugging_face/models.h"
#include "gradus/models/vit.h"
#include "tests/models/folder/hugging_face_folders.h"

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace gradus::testing::hugging_face_errors_test {
namespace {

/// Checks that the golden model with these changes to its configuration is refused.
void refused(const char* name, const json& changes, const std::string& message) {
  const Copy copy(name);
  copy.change_config(changes);
  CAPTURE(name, changes.dump());
  const std::string opening = copy / "config.json" + ": ";
  auto load = [&] {
    if (name == std::string("gpt2"))
      models::load_model<models::GPT>(copy.dir);
    else if (name == std::string("bert"))
      models::load_model<models::Bert>(copy.dir);
    else
      models::load_model<models::ViT>(copy.dir);
  };
  CHECK_THROWS_WITH(load(), Contains(opening) && Contains(message));
}

}  // namespace

TEST_CASE("Hugging Face: a configuration of an unsupported model is refused", "[hugging_face]") {
  refused("gpt2", {{"model_type", "gpt_neox"}},
          "model_type: expected one of \"bert\", \"gpt2\", \"llama\", \"mistral\", \"qwen2\", "
          "\"qwen3\", \"vit\", "
          "got \"gpt_neox\"");
  refused("gpt2", {{"model_type", 7}}, "got 7");
  refused("gpt2", {{"model_type", "vit"}}, "expected a model of kind \"gpt\", got a vit");
  refused("gpt2", {{"scale_attn_by_inverse_layer_idx", true}},
          "scale_attn_by_inverse_layer_idx: expected false, got true");
  refused("gpt2", {{"scale_attn_weights", false}}, "scale_attn_weights: expected true");
  for (const char* name : {"gpt2", "bert"})
    for (const std::string key : {"add_cross_attention", "is_encoder_decoder"})
      refused(name, {{key, true}}, key + ": expected false, got true");
  refused("gpt2", {{"activation_function", "relu6"}}, "activation_function: expected one of");
  refused("gpt2", {{"num_hidden_layers", 3}},
          "n_layer is 2, num_hidden_layers is 3: expected equal values, since they mean the same");
  refused("gpt2", {{"n_layer", 0}}, "n_layer: expected a whole number from 1 to 10000, got 0");
  refused("gpt2", {{"n_layer", "2"}}, "n_layer: expected a whole number");
  refused("gpt2", {{"n_embd", 16.5}}, "n_embd: expected a whole number");
  refused("gpt2", {{"n_head", 3}}, "heads must divide dim");
  refused("gpt2", {{"resid_pdrop", 1}}, "resid_pdrop: expected a number from 0 to 0.999999, got 1");
  refused("bert", {{"position_embedding_type", "relative_key"}}, "expected \"absolute\"");
  refused("bert", {{"is_decoder", true}}, "is_decoder: expected false, got true");
  refused("bert", {{"tie_word_embeddings", false}}, "tie_word_embeddings: expected true");
  refused("bert", {{"pruned_heads", {{"1", {0}}}}}, "pruned_heads: expected {}");
  refused("vit", {{"problem_type", "multi_label_classification"}},
          R"(problem_type: expected "single_label_classification", got "multi_label)");
  refused("vit", {{"hidden_act", "relu"}}, "hidden_act: expected \"gelu\", got \"relu\"");
  refused("vit", {{"qkv_bias", false}}, "qkv_bias: expected true, got false");
  refused("vit", {{"id2label", {{"0", "a"}, {"2", "b"}}}},
          "id2label: expected a name for each number from 0 to 1, but there is none for 1");
  refused("vit", {{"id2label", 3}}, "id2label: expected an object");
  // Models with more elements than the file holds.
  refused("gpt2", {{"n_layer", 10000}}, "exceeds the");
  refused("gpt2", {{"n_embd", 1000000}}, "exceeds the");
  refused("bert", {{"vocab_size", 1000000000}}, "exceeds the");
  refused("vit", {{"image_size", 99999}}, "exceeds the");
}

TEST_CASE("Hugging Face: a configuration may say what is the only supported value",
          "[hugging_face]") {
  const json none{{"add_cross_attention", false}, {"is_encoder_decoder", false}};
  const Copy gpt("gpt2"), bert("bert"), vit("vit");
  gpt.change_config(none);
  gpt.change_config({{"scale_attn_weights", true}, {"scale_attn_by_inverse_layer_idx", false}});
  CHECK_NOTHROW(models::load_model<models::GPT>(gpt.dir));
  bert.change_config(none);
  bert.change_config({{"position_embedding_type", "absolute"},
                      {"is_decoder", false},
                      {"tie_word_embeddings", true},
                      {"pruned_heads", json::object()}});
  CHECK_NOTHROW(models::load_model<models::Bert>(bert.dir));
  vit.change_config({{"hidden_act", "gelu"}, {"qkv_bias", true}});
  CHECK_NOTHROW(models::load_model<models::ViT>(vit.dir));
}

TEST_CASE("Hugging Face: a configuration may have irrelevant, missing and renamed keys",
          "[hugging_face]") {
  const Copy copy("gpt2");
  copy.change_config({{"summary_type", "cls_index"},
                      {"future", {{"x", 1}}},
                      {"activation_function", "gelu_pytorch_tanh"},
                      {"n_inner", 64},
                      {"scale_attn_weights", nullptr},
                      {"layer_norm_epsilon", nullptr},
                      {"architectures", nullptr}});
  CHECK(gpt2_difference(models::load_model<models::GPT>(copy.dir)) < 1e-4);
  json renamed = json_in(all_folders + "gpt2/config.json");  // with the aliases of keys
  for (const auto& [now, before] : {std::pair("hidden_size", "n_embd"),
                                    {"num_hidden_layers", "n_layer"},
                                    {"num_attention_heads", "n_head"},
                                    {"max_position_embeddings", "n_positions"}}) {
    renamed[now] = renamed[before];
    renamed.erase(before);
  }
  write_file_atomically(copy / "config.json", renamed.dump());
  CHECK(gpt2_difference(models::load_model<models::GPT>(copy.dir)) < 1e-4);
  renamed["scale_attn_weights"] = nullptr;  // counts as false
  write_file_atomically(copy / "config.json", renamed.dump());
  CHECK_THROWS_WITH(models::load_model<models::GPT>(copy.dir),
                    Contains("scale_attn_weights: expected true, got null"));
}

TEST_CASE("Hugging Face: a configuration with only a model_type has defaults", "[hugging_face]") {
  const Copy copy("gpt2");
  write_file_atomically(copy / "config.json", R"({"n_layer": 2})");
  CHECK_THROWS_WITH(models::load_model<models::GPT>(copy.dir),
                    Contains("config.json: expected a model, or a model_type as Hugging Face's"));
  write_file_atomically(copy / "config.json", R"({"model_type": "gpt2"})");
  const auto defaults = models::load_config<models::GPT>(copy.dir);
  CHECK(defaults.vocab == 50257);
  CHECK(defaults.layers == 12);
  CHECK((defaults.context == 1024 && defaults.heads == 12 && defaults.dim == 768));
  CHECK((defaults.hidden == 0 && defaults.dropout == 0.1 && defaults.tie));
  CHECK(defaults.norm_eps == 1e-5);
  CHECK(defaults.activation == Activation::gelu_tanh);
  write_file_atomically(copy / "config.json", R"({"model_type": "bert"})");
  const auto bert = models::load_config<models::Bert>(copy.dir);
  CHECK((bert.vocab == 30522 && bert.context == 512 && bert.segments == 2));
  CHECK((bert.layers == 12 && bert.heads == 12 && bert.dim == 768 && bert.hidden == 3072));
  CHECK((bert.dropout == 0.1 && bert.activation == Activation::gelu && bert.norm_eps == 1e-12));
  write_file_atomically(copy / "config.json", R"({"model_type": "vit"})");
  const auto vit = models::load_config<models::ViT>(copy.dir);
  CHECK((vit.image == 224 && vit.channels == 3 && vit.patch == 16));
  CHECK((vit.layers == 12 && vit.heads == 12 && vit.dim == 768 && vit.hidden == 3072));
  CHECK((vit.dropout == 0 && vit.norm_eps == 1e-12));
  write_file_atomically(copy / "config.json", "{\"model_type\": \"gpt2\"");
  CHECK_THROWS_WITH(models::load_config<models::GPT>(copy.dir),
                    Contains(copy / "config.json" + ": the file is not JSON"));
}

TEST_CASE("Hugging Face: the message is short however many weights do not fit", "[hugging_face]") {
  const Copy copy("gpt2");
  NamedTensors others;
  for (const auto& [name, tensor] : copy.tensors())
    if (name.starts_with("h.0.")) others.emplace_back(name, ones({1, 1, 1, 1}));
  for (int i = 0; i < 50; ++i)
    others.emplace_back(std::to_string(i) + std::string(300, 'x'), ones({1}));
  copy.put(others);
  std::string message;
  try {
    models::load_model<models::GPT>(copy.dir);
  } catch (const Error& e) {
    message = e.what();
  }
  CAPTURE(message);
  CHECK(message.size() < 1500);
  for (const char* kind : {"missing: ", "mismatched: h.0.", "unexpected: 0xxx"})
    CHECK_THAT(message, Contains(kind));
}

TEST_CASE("Hugging Face: weights that do not fit are refused by name", "[hugging_face]") {
  const Copy copy("gpt2");
  const NamedTensors good = copy.tensors();
  auto refused = [&](const std::string& message) {
    CHECK_THROWS_WITH(
        models::load_model<models::GPT>(copy.dir),
        Contains(copy / "model.safetensors" + ": the names or shapes differ") && Contains(message));
  };
  copy.rename([](const std::string& name) { return name == "h.1.mlp.c_fc.bias" ? "" : name; });
  refused("missing: transformer.h.1.mlp.c_fc.bias");
  NamedTensors changed = good;
  changed.emplace_back("h.2.ln_1.weight", ones({16}));
  copy.put(changed);
  refused("unexpected: h.2.ln_1.weight");
  changed = good;
  changed.emplace_back("lm_head.bias", ones({304}));
  copy.put(changed);
  refused("unexpected: lm_head.bias");
  changed = good;
  for (auto& [name, tensor] : changed)
    if (name == "h.0.attn.c_attn.weight") tensor = tensor.mT();
  copy.put(changed);
  refused("mismatched: h.0.attn.c_attn.weight (expected float32 (16, 48), got float32 (48, 16))");
  changed = good;
  for (auto& [name, tensor] : changed)
    if (name == "ln_f.bias") tensor = tensor.to(int64);
  copy.put(changed);
  refused("ln_f.bias (expected float32 (16,), got int64 (16,))");
  changed = good;
  changed.emplace_back("transformer.ln_f.bias", ones({16}));
  copy.put(changed);
  CHECK_THROWS_WITH(models::load_model<models::GPT>(copy.dir), Contains("is given twice"));
  models::GPT model(models::load_config<models::GPT>(copy.dir));
  const Tensor before = model.ln_f.weight.clone();
  CHECK_THROWS_AS(models::load_weights(copy.dir, model), Error);
  CHECK(golden::same(before, model.ln_f.weight));
  copy.put(good);
  models::Bert other({.vocab = 7, .layers = 1, .heads = 2, .dim = 8});
  CHECK_THROWS_WITH(models::load_weights(copy.dir, other),
                    Contains("Hugging Face's gpt2 has no parameter \"words.weight\""));
}

TEST_CASE("Hugging Face: missing files of weights, and those of PyTorch", "[hugging_face]") {
  const Copy copy("gpt2");
  std::filesystem::remove(copy / "model.safetensors");
  CHECK_THROWS_WITH(models::load_model<models::GPT>(copy.dir), Contains("model.safetensors"));
  write_file_atomically(copy / "pytorch_model.bin", "x");
  CHECK_THROWS_WITH(models::load_model<models::GPT>(copy.dir),
                    Contains("examples/weights.py to-safetensors " + (copy / "pytorch_model.bin")));

  std::filesystem::rename(copy / "pytorch_model.bin", copy / "pytorch_model.bin.index.json");
  CHECK_THROWS_WITH(models::load_model<models::GPT>(copy.dir),
                    Contains("to-safetensors " + (copy / "pytorch_model.bin.index.json")));

  const Copy parts("vit");
  std::filesystem::remove(parts / "model-00002-of-00002.safetensors");
  CHECK_THROWS_WITH(models::load_model<models::ViT>(parts.dir),
                    Contains(parts / "model-00002-of-00002.safetensors"));
  parts.change_config({{"weight_map", {{"a", "../x"}}}}, "model.safetensors.index.json");
  CHECK_THROWS_WITH(models::load_model<models::ViT>(parts.dir),
                    Contains("expected a file of this folder for \"a\", got \"../x\""));
  // A name that would reach the terminal is escaped.
  parts.change_config({{"weight_map", {{"a", "\x1b]0;owned\x07"}}}},
                      "model.safetensors.index.json");
  CHECK_THROWS_WITH(models::load_model<models::ViT>(parts.dir),
                    EndsWith("for \"a\", got \"\\u001b]0;owned\\u0007\""));
  parts.change_config({{"weight_map", {{"a", "\u009b2J"}}}}, "model.safetensors.index.json");
  CHECK_THROWS_WITH(models::load_model<models::ViT>(parts.dir), EndsWith("got \"\\u009b2J\""));
  const auto refused = [&](const json& index, const std::string& message) {
    write_file_atomically(parts / "model.safetensors.index.json", index.dump());
    CHECK_THROWS_WITH(models::load_model<models::ViT>(parts.dir), Contains(message));
  };
  const std::string no_map = "index.json: expected an object weight_map of names and files";
  for (const json& index : {json::array(), json::object(), json{{"weight_map", 1}},
                            json{{"weight_map", json::object()}}})
    refused(index, no_map);
  const std::string no_file = "weight_map: expected a file of this folder for \"a\", got ";
  for (const json& file : {json(7), json(""), json("\x7f")})
    refused({{"weight_map", {{"a", file}}}}, no_file);
}

TEST_CASE("Hugging Face: null stands for what a model does not use", "[hugging_face]") {
  const Copy copy("bert");
  json config = json_in(copy / "config.json");
  for (const char* key : {"position_embedding_type", "is_decoder", "pruned_heads", "id2label"})
    config[key] = nullptr;
  write_file_atomically(copy / "config.json", config.dump());
  CHECK_NOTHROW(models::load_model<models::Bert>(copy.dir));
}

TEST_CASE("Hugging Face: the class that wrote a folder decides the kind of model",
          "[hugging_face]") {
  const Copy copy("bert");
  const auto kind = [&](const json& architectures) {
    json config = json_in(copy / "config.json");
    config["architectures"] = architectures;
    write_file_atomically(copy / "config.json", config.dump());
    return models::model_kind(copy.dir);
  };
  const char* const classifier = "BertForSequenceClassification";
  CHECK(kind({classifier}) == "bert-classifier");
  CHECK(kind({"BertModel", classifier}) == "bert");
  for (const json& none : {json(), json(classifier), json::array(), json::array({7})})
    CHECK(kind(none) == "bert");
}

TEST_CASE("Hugging Face: the number of classes without their names", "[hugging_face]") {
  const Copy copy("vit");
  const auto classes = [&](const json& count) {
    json config{{"model_type", "vit"}, {"id2label", nullptr}, {"num_labels", count}};
    if (count.is_null()) config.erase("num_labels");
    write_file_atomically(copy / "config.json", config.dump());
    return models::load_config<models::ViT>(copy.dir).classes;
  };
  CHECK(classes({}) == 2);
  CHECK(classes(1) == 1);
  CHECK(classes(1000000) == 1000000);
  for (const json& count : {json(0), json(1000001), json(2.5), json("3")})
    CHECK_THROWS_WITH(
        classes(count),
        EndsWith("num_labels: expected a whole number from 1 to 1000000, got " + count.dump()));
  const std::string text =
      R"({"model_type": "bert", "architectures": ["BertForTokenClassification"])";
  write_file_atomically(copy / "config.json", text + R"(, "num_labels": 1})");
  CHECK_THROWS_WITH(models::load_config<models::BertClassifier>(copy.dir),
                    EndsWith("expected 2 to 1000000 classes, got 1"));
  std::string names = R"("0": "a")";
  for (int i = 1; i <= 1000000; ++i) names += ",\"" + std::to_string(i) + R"(": "a")";
  write_file_atomically(copy / "config.json", text + R"(, "id2label": {)" + names + "}}");
  CHECK_THROWS_WITH(models::load_config<models::BertClassifier>(copy.dir),
                    EndsWith("expected 2 to 1000000 classes, got 1000001"));
  write_file_atomically(copy / "config.json", text + R"(, "id2label": {"0": 5, "1": "b"}})");
  CHECK_THROWS_WITH(models::load_config<models::BertClassifier>(copy.dir),
                    EndsWith("id2label: expected a name for each number from 0 to 1, but there is "
                             "none for 0"));
}

TEST_CASE("Hugging Face: the number in a parameter's name", "[hugging_face]") {
  using models::internal::number_in;
  CHECK(number_in("h.*.bias", "h.0.bias") == "0");
  CHECK(number_in("h.*.bias", "h.19.bias") == "19");
  CHECK(number_in("wte", "wte") == "");
  for (const char* name :
       {"h..bias", "g.0.bias", "h.0.bits", "h.x.bias", "h.0x.bias", "h.-1.bias", "h.bias", "wte"})
    CHECK_FALSE(number_in("h.*.bias", name));
  CHECK_FALSE(number_in("wte", "wte.weight"));
}

TEST_CASE("Hugging Face: how many names a refusal lists, and how long they are", "[hugging_face]") {
  const Copy copy("gpt2");
  const NamedTensors good = copy.tensors();
  const auto with = [&](const std::vector<std::string>& names) {
    NamedTensors more = good;
    for (const std::string& name : names) more.emplace_back(name, ones({1}));
    copy.put(more);
    try {
      models::load_model<models::GPT>(copy.dir);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  const std::string a(98, 'a'), b(98, 'b'), c(99, 'c'), d(98, 'd'), e(98, 'e');
  // " a, b, c" has 300 characters.
  CHECK_THAT(with({a, b, c, d, e}),
             EndsWith("unexpected: " + a + ", " + b + ", " + c + " and 2 more"));
  CHECK_THAT(with({a, b, c}), EndsWith("unexpected: " + a + ", " + b + ", " + c));
  CHECK_THAT(with({std::string(140, 'a'), std::string(141, 'b')}),
             EndsWith(": " + std::string(140, 'a') + ", " + std::string(140, 'b') + "..."));
}

TEST_CASE("Hugging Face: weights of another dtype, or that are not a BERT's", "[hugging_face]") {
  const Copy copy("gpt2"), bert("bert");
  NamedTensors tensors = copy.tensors();
  for (auto& [name, tensor] : tensors)
    if (name == "ln_f.bias") tensor = tensor.to(float64);
  copy.put(tensors);
  CHECK_THROWS_WITH(models::load_model<models::GPT>(copy.dir),
                    EndsWith("mismatched: ln_f.bias (expected float32 (16,), got float64 (16,))"));
  for (auto& [name, tensor] : tensors)
    if (is_floating(tensor.dtype())) tensor = tensor.to(float64);
  copy.put(tensors);
  auto model = models::load_model<models::GPT>(copy.dir);
  CHECK(model.wte.weight.dtype() == float64);
  model.to(float32);
  CHECK(gpt2_difference(model) < 1e-4);

  tensors = bert.tensors();
  tensors.emplace_back("bert.encoder.layer.7.output.dense.bias", ones({12}));
  bert.put(tensors);
  CHECK_THROWS_WITH(models::load_model<models::Bert>(bert.dir),
                    EndsWith("unexpected: encoder.layer.7.output.dense.bias"));
}

TEST_CASE("Hugging Face: a tied weight may be in the file under either name", "[hugging_face]") {
  const Copy copy("gpt2");
  copy.rename(
      [](const std::string& name) { return name == "wte.weight" ? "lm_head.weight" : name; });
  CHECK(gpt2_difference(models::load_model<models::GPT>(copy.dir)) < 1e-4);
  NamedTensors both = copy.tensors();
  for (const auto& [name, tensor] : both)
    if (name == "lm_head.weight") {
      both.emplace_back("wte.weight", tensor.slice(0, 0, 303).clone());  // without its last row
      break;
    }
  copy.put(both);
  CHECK_THROWS_WITH(
      models::load_model<models::GPT>(copy.dir),
      EndsWith("the tensors lm_head.weight and wte.weight differ: expected one, tied"));
}

TEST_CASE("Hugging Face: nothing is saved that would be read as something else", "[hugging_face]") {
  const TemporaryFolder folder;
  const models::GPT gpt({.vocab = 7, .layers = 1, .heads = 1, .dim = 4});
  const models::BertClassifier classifier(
      {.bert = {.vocab = 7, .layers = 1, .heads = 1, .dim = 4}, .classes = 2});
  const auto bpe = models::load_tokenizer(all_folders + "gpt2"),
             pieces = models::load_tokenizer(all_folders + "bert"),
             form = models::load_tokenizer(all_folders + "llama2");
  const std::string file = models::tokenizer_path(folder / "");
  models::save_hugging_face(folder / "", gpt, {.tokenizer = form.get()});
  CHECK_NOTHROW(models::save_hugging_face(folder / "", gpt, {.tokenizer = form.get()}));
  CHECK_THROWS_WITH(
      models::save_hugging_face(folder / "", gpt, {.tokenizer = bpe.get()}),
      "save_hugging_face: " + file + " exists and would be read instead of vocab.json");
  CHECK_THROWS_WITH(
      models::save_hugging_face(folder / "", classifier, {.tokenizer = pieces.get()}),
      "save_hugging_face: " + file + " exists and would be read instead of vocab.txt");

  const std::string other = folder / "other/";
  models::save_hugging_face(other, gpt, {.tokenizer = bpe.get()});
  CHECK_THROWS_WITH(
      models::save_hugging_face(other, classifier, {.tokenizer = pieces.get()}),
      "save_hugging_face: " + other + "vocab.json exists and would be read instead of vocab.txt");
  write_file_atomically(other + "chat_template.jinja", "{{ old }}");
  models::TextInfo text{.chat_template = "{{ old }}"};
  CHECK_NOTHROW(models::save_hugging_face(other, gpt, {.tokenizer = bpe.get(), .text = &text}));
  text.chat_template = "{{ new }}";
  CHECK_THROWS_WITH(models::save_hugging_face(other, gpt, {.tokenizer = bpe.get(), .text = &text}),
                    "save_hugging_face: " + other +
                        "chat_template.jinja exists and would be read "
                        "instead of the chat template in tokenizer_config.json");

  const models::ImageInfo images{{{0}, {1}}};
  CHECK_THROWS_WITH(models::save_hugging_face(folder / "no", gpt, {.images = &images}),
                    "save_hugging_face: a gpt takes no images");
  const models::TextInfo three{.class_names = {"a", "b", "c"}};
  CHECK_THROWS_WITH(models::save_hugging_face(folder / "no", classifier, {.text = &three}),
                    "save_hugging_face: expected 2 names of classes, got 3");
  CHECK_FALSE(folder.has("no"));
}

}  // namespace gradus::testing::hugging_face_errors_test
