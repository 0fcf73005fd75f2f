// Hugging Face folders of models whose sizes and settings no golden folder has.

#include <catch2/catch.hpp>

#include "gradus/models/bert.h"
#include "gradus/models/data/tokenizers/bpe_tokenizer.h"
#include "gradus/models/data/tokenizers/wordpiece_tokenizer.h"
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

TEST_CASE("Hugging Face: one dropout, one context and the dtype are written under all their keys",
          "[hugging_face]") {
  const TemporaryFolder folder;
  GPT gpt({.vocab = 7, .context = 9, .layers = 1, .heads = 1, .dim = 4, .dropout = 0.25});
  const auto config_after_saving = [&](const auto& model) {
    models::save_hugging_face(folder / "x", model);
    return json_in(folder / "x/config.json");
  };
  json config = config_after_saving(gpt);
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop"}) CHECK(config[key] == 0.25);
  for (const char* key : {"n_positions", "n_ctx"}) CHECK(config[key] == 9);
  CHECK(config["scale_attn_weights"] == true);
  CHECK(config["torch_dtype"] == "float32");
  gpt.to(float64);
  CHECK(config_after_saving(gpt)["torch_dtype"] == "float64");
  const std::vector<json> others{
      config_after_saving(
          models::Bert({.vocab = 7, .layers = 1, .heads = 1, .dim = 4, .dropout = 0.25})),
      config_after_saving(
          models::ViT({.image = 4, .layers = 1, .heads = 1, .dim = 4, .dropout = 0.25}))};
  for (const json& other : others) {
    CHECK(other["hidden_dropout_prob"] == 0.25);
    CHECK(other["attention_probs_dropout_prob"] == 0.25);
  }
  CHECK(others[0]["is_decoder"] == false);
  CHECK(others[1]["qkv_bias"] == true);
}

TEST_CASE("Hugging Face: activations have several names", "[hugging_face]") {
  for (const auto& [name, activation] : {std::pair{"gelu_new", Activation::gelu_tanh},
                                         {"gelu_fast", Activation::gelu_tanh},
                                         {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                         {"gelu_python", Activation::gelu},
                                         {"gelu", Activation::gelu},
                                         {"swish", Activation::silu},
                                         {"silu", Activation::silu},
                                         {"linear", Activation::none},
                                         {"relu2", Activation::relu_squared}}) {
    CAPTURE(name);
    CHECK(config_of({{"model_type", "gpt2"}, {"activation_function", name}}).activation ==
          activation);
  }
}

TEST_CASE("Hugging Face: the options of BERT's tokenizer are kept", "[hugging_face]") {
  const TemporaryFolder folder;
  const auto tokenizer = models::WordPieceTokenizer::load_vocab(
      all_folders + "bert/vocab.txt",
      {.lower_case = false, .strip_accents = true, .split_cjk = false});
  const models::Bert model({.vocab = tokenizer.vocab_size(), .layers = 1, .heads = 1, .dim = 4});
  models::save_hugging_face(folder / "x", model, {.tokenizer = &tokenizer});
  CHECK(models::load_tokenizer(folder / "x")->to_json() == tokenizer.to_json());
  CHECK(json_in(folder / "x/config.json")["pad_token_id"] == tokenizer.special("[PAD]"));
}

TEST_CASE("Hugging Face: BERT's tokenizer keeps special tokens other than BERT's",
          "[hugging_face]") {
  const TemporaryFolder folder;
  const models::WordPieceTokenizer tokenizer(
      {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[E1]", "a", "##b"},
      {.special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[E1]"}});
  const models::Bert model({.vocab = 8, .layers = 1, .heads = 1, .dim = 4});
  models::save_hugging_face(folder / "x", model, {.tokenizer = &tokenizer});
  const auto back = models::load_tokenizer(folder / "x");
  CHECK(back->special_tokens() == tokenizer.special_tokens());
  CHECK(back->encode_with_special("a [E1] ab") == tokenizer.encode_with_special("a [E1] ab"));
}

TEST_CASE("Hugging Face: the tokens that begin and end a GPT-2's texts", "[hugging_face]") {
  const TemporaryFolder folder;
  const auto saved = [&](const models::Tokenizer& tokenizer) {
    const GPT model({.vocab = tokenizer.vocab_size(), .layers = 1, .heads = 1, .dim = 4});
    models::save_hugging_face(folder / "x", model, {.tokenizer = &tokenizer});
    return json_in(folder / "x/config.json");
  };
  const auto gpt2 = models::load_tokenizer(all_folders + "gpt2");
  for (const char* key : {"bos_token_id", "eos_token_id"})
    CHECK(saved(*gpt2)[key] == gpt2->special("<|endoftext|>"));
  const json config =
      saved(models::BPETokenizer::train("abab", {.vocab_size = 258, .special = {"<|a|>"}}));
  CHECK(config["bos_token_id"].is_null());
  CHECK(json_in(folder / "x/tokenizer_config.json")["bos_token"].is_null());
  const auto back = models::load_tokenizer(folder / "x");
  CHECK(back->special_tokens() == std::vector<std::string>{"<|a|>"});
}

TEST_CASE("Llama's family: what config.json leaves out is as in transformers", "[hugging_face]") {
  struct Sizes {
    const char* type;
    int64_t vocab, context, hidden, kv_heads, head_dim;
  };
  for (const Sizes& s : {Sizes{"llama", 32000, 2048, 11008, 0, 0},
                         {"mistral", 32000, 131072, 14336, 8, 0},
                         {"qwen2", 151936, 32768, 22016, 32, 0},
                         {"qwen3", 151936, 32768, 22016, 32, 128}}) {
    CAPTURE(s.type);
    const GPTConfig c = config_of({{"model_type", s.type}});
    CHECK(c.vocab == s.vocab);
    CHECK(c.context == s.context);
    CHECK(c.hidden == s.hidden);
    CHECK(c.kv_heads == s.kv_heads);
    CHECK(c.head_dim == s.head_dim);
    CHECK((c.layers == 32 && c.heads == 32 && c.dim == 4096));
    CHECK((c.norm_eps == 1e-6 && c.dropout == 0 && !c.tie));
    CHECK(c.activation == Activation::silu);
    CHECK(c.rotary == nn::RotaryOptions{.theta = 10000});
  }
}

TEST_CASE("Llama's family: without max_window_layers Qwen's first 28 layers have no window",
          "[hugging_face]") {
  for (const char* type : {"qwen2", "qwen3"}) {
    json config{{"model_type", type}, {"num_hidden_layers", 28}, {"use_sliding_window", true}};
    CHECK(config_of(config).window == 0);
    config["num_hidden_layers"] = 29;
    CHECK_THROWS_AS(config_of(config), Error);
    config.erase("num_hidden_layers");  // 32
    CHECK_THROWS_AS(config_of(config), Error);
    config["max_window_layers"] = 31;
    CHECK_THROWS_AS(config_of(config), Error);
    config["max_window_layers"] = 32;
    CHECK(config_of(config).window == 0);
  }
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
