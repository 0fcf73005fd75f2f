// Folders of Llama's family, written with PyTorch by tests/golden/scripts/make_llama_golden.py:
// they load, compute PyTorch's logits and are written back unchanged; what they cannot say is
// refused.

#include <catch2/catch.hpp>
#include <cmath>
#include <numbers>

#include "gradus/core/core.h"
#include "gradus/models/data/tokenizers/tokenizer_file.h"
#include "gradus/models/folder/hugging_face/hugging_face.h"
#include "gradus/models/gpt.h"
#include "tests/models/folder/hugging_face_folders.h"

using Catch::Matchers::Contains;

namespace gradus::testing::llama_folders_test {
namespace {

using models::GPT, models::GPTConfig;

const std::vector<std::string> family{"llama2", "llama3", "mistral", "qwen2", "qwen3", "smollm2"};

/// The largest difference between the model's logits and PyTorch's.
double logits_difference(const GPT& model, const std::string& name) {
  const NoGrad no_grad;
  const EvalMode eval;
  const golden::File file = expected(name);
  return difference(model(file.get("ids")), file.get("logits", float32));
}

/// All tensors of a folder of one file or several, by name.
std::map<std::string, Tensor> tensors_in(const std::string& dir) {
  std::map<std::string, Tensor> all;
  for (const auto& entry : std::filesystem::directory_iterator(dir))
    if (const std::string file = entry.path().filename().string();
        file.starts_with("model") && file.ends_with(".safetensors"))
      for (const auto& [name, tensor] : load_safetensors(entry.path().string()).tensors)
        all.emplace(name, tensor);
  return all;
}

GPTConfig llama_config() {
  return {.vocab = 11,
          .context = 12,
          .layers = 2,
          .heads = 4,
          .dim = 16,
          .activation = Activation::silu,
          .gated = true,
          .kv_heads = 2,
          .positions = models::Positions::rotary,
          .norm = nn::NormKind::rms,
          .norm_eps = 1e-3};
}

/// The error of loading the folder `name` with these changes to its configuration, which must name
/// the file.
std::string refused(const std::string& name, const json& changes) {
  const Copy copy(name);
  json config = json_in(copy / "config.json");
  config.update(changes);
  write_file_atomically(copy / "config.json", config.dump());
  try {
    models::load_model<GPT>(copy.dir);
  } catch (const Error& e) {
    const std::string text = e.what(), opening = copy / "config.json" + ": ";
    CHECK(text.starts_with(opening));
    return text.substr(std::min(text.size(), opening.size()));
  }
  return "accepted";
}

}  // namespace

TEST_CASE("Llama's family: the folders compute PyTorch's logits", "[hugging_face]") {
  for (const std::string& name : family) {
    CAPTURE(name);
    const std::string dir = all_folders + name;
    CHECK(models::is_hugging_face(dir));
    CHECK(models::model_kind(dir) == "gpt");
    const auto model = models::load_model<GPT>(dir);
    CHECK(model.wte.weight.dtype() == float32);
    CHECK(logits_difference(model, name) < 1e-4);
    GPT other(models::load_config<GPT>(dir));
    models::load_weights(dir, other);
    CHECK(logits_difference(other, name) < 1e-4);
  }
}

TEST_CASE("Llama's family: the configurations", "[hugging_face]") {
  auto load = [](const char* name) { return models::load_config<GPT>(all_folders + name); };
  const GPTConfig llama2 = load("llama2");
  CHECK(llama2.norm_eps == 0.01);
  CHECK(llama2.rotary == nn::RotaryOptions{});
  CHECK_FALSE(llama2.tie);
  CHECK_FALSE(llama2.bias);
  CHECK(llama2.gated);
  CHECK(llama2.activation == Activation::silu);
  const nn::RotaryOptions scaled{
      .theta = 100, .factor = 8, .low_turns = 1, .high_turns = 4, .trained_context = 32};
  CHECK(load("llama3").rotary == scaled);
  CHECK(load("llama3").head_dim == 8);
  CHECK(load("mistral").window == 5);
  CHECK(load("qwen2").window == 0);
  CHECK(load("qwen2").qkv_bias);
  CHECK(load("qwen3").rotary.theta == 50);
  CHECK(load("qwen3").qk_norm);
  CHECK(load("smollm2").tie);
  CHECK(load("smollm2").kv_heads == 1);

  const Copy copy("mistral");  // what the configurations may lack or have as null
  auto change = [&](const json& config) {
    write_file_atomically(copy / "config.json", config.dump());
    return models::load_config<GPT>(copy.dir);
  };
  CHECK(change({{"model_type", "mistral"}}).window == 4096);
  CHECK(change({{"model_type", "mistral"}}).kv_heads == 8);
  CHECK(change({{"model_type", "mistral"}, {"sliding_window", nullptr}}).window == 0);
  CHECK(change({{"model_type", "llama"}}).hidden == 11008);
  CHECK(change({{"model_type", "llama"}, {"sliding_window", 7}}).window == 0);
  CHECK(change({{"model_type", "qwen3"}}).head_dim == 128);
  CHECK(change({{"model_type", "qwen3"}, {"num_key_value_heads", nullptr}}).kv_heads == 0);
  const json sliding{{"model_type", "qwen2"},
                     {"use_sliding_window", true},
                     {"sliding_window", 9},
                     {"max_window_layers", 0},
                     {"layer_types", {"sliding_attention"}}};
  CHECK(change(sliding).window == 9);
  const json old{{"model_type", "llama"}, {"rope_scaling", {{"type", "default"}, {"factor", 2}}}};
  CHECK(change(old).rotary.factor == 1);
  // A key with a dot is no entry of rope_scaling.
  CHECK(change({{"model_type", "llama"}, {"rope_scaling.factor", 8}}).rotary.factor == 1);
}

TEST_CASE("Llama's family: folders are written back unchanged", "[hugging_face]") {
  for (const std::string& name : family) {
    CAPTURE(name);
    const std::string dir = all_folders + name;
    const TemporaryFolder folder;
    const std::string to = folder / "to";
    const auto model = models::load_model<GPT>(dir);
    models::save_hugging_face(to, model);
    const std::map<std::string, Tensor> before = tensors_in(dir), after = tensors_in(to);
    CHECK(before.size() == after.size());
    for (const auto& [key, tensor] : before) {
      CAPTURE(key);
      REQUIRE(after.contains(key));
      CHECK(golden::same(tensor, after.at(key)));
    }
    const json a = json_in(dir + "/config.json"), b = json_in(to + "/config.json");
    for (const char* key :
         {"architectures", "model_type", "hidden_size", "intermediate_size", "num_hidden_layers",
          "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size", "rms_norm_eps",
          "max_position_embeddings", "rope_theta", "rope_scaling", "tie_word_embeddings",
          "hidden_act", "attention_bias", "mlp_bias", "use_sliding_window"}) {
      CAPTURE(key);
      if (a.contains(key)) CHECK(b.value(key, json()) == a[key]);
    }
    CHECK(b.contains("sliding_window") ==
          (name != "llama2" && name != "llama3" && name != "smollm2"));
    CHECK(logits_difference(models::load_model<GPT>(to), name) < 1e-4);
    GPTConfig first = model.config, second = models::load_config<GPT>(to);
    first.head_dim = second.head_dim = 0;  // written even where it is hidden_size / heads
    CHECK(GPT::fields(first).to_json() == GPT::fields(second).to_json());
  }
}

TEST_CASE("Llama's family: the tokenizer is written with what transformers must know",
          "[hugging_face][tokenizer]") {
  const std::string dir = all_folders + "llama2";
  const TemporaryFolder folder;
  const auto tokenizer = models::load_tokenizer(dir);
  models::save_hugging_face(folder / "to", models::load_model<GPT>(dir),
                            {.tokenizer = tokenizer.get()});
  CHECK(json_in(folder / "to/tokenizer.json") == json_in(dir + "/tokenizer.json"));
  const json config = json_in(folder / "to/tokenizer_config.json");
  CHECK(config["tokenizer_class"] == "PreTrainedTokenizerFast");
  CHECK(config["model_max_length"] == json_in(dir + "/config.json")["max_position_embeddings"]);
  CHECK(config["bos_token"] == "<s>");
  CHECK(json_in(folder / "to/config.json")["bos_token_id"] == 1);
  // With true, transformers takes the space out of a decoded "a ." and similar texts.
  CHECK(config["clean_up_tokenization_spaces"] == false);
}

TEST_CASE("Llama's family: a GPT trained here is written in the form that fits", "[hugging_face]") {
  const TemporaryFolder folder;
  const std::string to = folder / "to";
  const NoGrad no_grad;
  const EvalMode eval;
  auto written = [&](const std::function<void(GPTConfig&)>& change) {
    GPTConfig config = llama_config();
    change(config);
    manual_seed(5);
    const GPT model(config);
    for (const auto& [name, p] : model.named_parameters())
      if (p.rank() == 1) p.copy_(randn(p.shape()));
    models::save_hugging_face(to, model);
    const auto back = models::load_model<GPT>(to);
    const Tensor ids = tensor({{1, 6, 3, 0, 10, 2}}).to(int64);
    CHECK(golden::same(model(ids), back(ids)));
    return json_in(to + "/config.json");
  };
  json config = written([](auto&) {});
  CHECK(config["architectures"][0] == "LlamaForCausalLM");
  CHECK(config["model_type"] == "llama");
  CHECK(config["intermediate_size"] == 48);
  CHECK(config["head_dim"] == 4);
  CHECK(config["rope_scaling"].is_null());
  CHECK(config["attention_bias"] == false);
  config = written([](auto& c) { c.window = 3, c.kv_heads = 0, c.tie = false; });
  CHECK(config["model_type"] == "mistral");
  CHECK(config["sliding_window"] == 3);
  CHECK(config["num_key_value_heads"] == 4);
  config = written([](auto& c) { c.qkv_bias = true, c.window = 3, c.hidden = 20; });
  CHECK(config["model_type"] == "qwen2");
  CHECK(config["use_sliding_window"] == true);
  CHECK(config["max_window_layers"] == 0);
  CHECK(config["intermediate_size"] == 20);
  config = written([](auto& c) {
    c.qk_norm = true, c.head_dim = 10, c.dropout = 0.25;
    c.rotary = {.theta = 77, .factor = 3, .low_turns = 0.5, .high_turns = 2, .trained_context = 6};
  });
  CHECK(config["model_type"] == "qwen3");
  CHECK(config["use_sliding_window"] == false);
  CHECK(config["rope_scaling"]["rope_type"] == "llama3");
  CHECK(config["rope_scaling"]["original_max_position_embeddings"] == 6);
  CHECK(config["attention_dropout"] == 0.25);
  auto refused = [&](const std::function<void(GPTConfig&)>& change, const char* message) {
    GPTConfig c = llama_config();
    change(c);
    CHECK_THROWS_WITH(models::save_hugging_face(folder / "none", GPT(c)), Contains(message));
    CHECK_FALSE(folder.has("none"));
  };
  refused([](auto& c) { c.bias = true; }, "llama has bias false, this model has true");
  refused([](auto& c) { c.norm = nn::NormKind::layer; }, "has norm rms, this model has layer");
  refused([](auto& c) { c.gated = false; }, "has gated true, this model has false");
  refused([](auto& c) { c.qk_norm = c.qkv_bias = true; }, "qwen3 has qkv_bias false");
  refused([](auto& c) { c.logit_cap = 3; }, "has logit_cap 0.0, this model has 3.0");
  refused([](auto& c) { c.bigram = true; }, "has bigram false");
  refused([](auto& c) { c.value_shortcut = true; }, "has value_shortcut false");
  refused([](auto& c) { c.embedding_shortcut = true; }, "has embedding_shortcut false");
  refused([](auto& c) { c.token_shift = true; }, "has token_shift false");
  refused([](auto& c) { c.positions = models::Positions::learned; }, "gpt2 has gated false");
}

TEST_CASE("Llama's family: what changes the maths and is not supported is refused by name",
          "[hugging_face]") {
  CHECK(refused("llama2", {{"attention_bias", true}}) ==
        "attention_bias: expected false, got true: gradus has no such model");
  CHECK_THAT(refused("llama2", {{"mlp_bias", true}}), Contains("mlp_bias: expected false"));
  CHECK_THAT(refused("qwen3", {{"attention_bias", true}}), Contains("attention_bias: expected f"));
  CHECK_THAT(refused("llama2", {{"hidden_act", "relu6"}}), Contains("hidden_act: expected "));
  CHECK_THAT(refused("llama2", {{"model_type", "mixtral"}}), Contains("model_type: expected one"));
  auto scaled = [](const json& changes) {
    json scaling = json_in(all_folders + "llama3/config.json")["rope_scaling"];
    scaling.update(changes);
    return json{{"rope_scaling", scaling}};
  };
  CHECK(refused("llama2", {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}}}) ==
        R"(rope_scaling.rope_type: expected "default" or "llama3", got "yarn": gradus has no such )"
        "positions");
  CHECK_THAT(refused("llama2", {{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}}),
             Contains(R"(rope_scaling.rope_type: expected "default" or "llama3", got "linear")"));
  CHECK_THAT(refused("llama2", {{"rope_scaling", 3}}), Contains("expected an object or null"));
  CHECK(refused("llama3", {{"rope_scaling", {{"rope_type", "llama3"}, {"factor", 4}}}}) ==
        "rope_scaling: expected an entry low_freq_factor");
  CHECK_THAT(refused("llama3", scaled({{"factor", 0.5}})),
             Contains("rope_scaling.factor: expected a number from 1"));
  CHECK_THAT(refused("llama3", scaled({{"factor", "8"}})), Contains("rope_scaling.factor: expec"));
  CHECK_THAT(refused("llama3", scaled({{"low_freq_factor", 4}})),
             Contains("expected rotary_low_turns below rotary_high_turns, got 4 and 4"));
  CHECK_THAT(refused("llama3", scaled({{"beta_fast", 32}})),
             Contains("rope_scaling.beta_fast: gradus has no positions with this entry"));
  CHECK_THAT(refused("llama3", {{"rope_parameters", {{"rope_theta", 7}}}}),
             Contains("rope_parameters.rope_theta: got 7, elsewhere 100.0: expected equal"));
  CHECK_THAT(refused("llama2", {{"partial_rotary_factor", 0.5}}),
             Contains("partial_rotary_factor: expected 1, got 0.5"));
  CHECK_THAT(refused("qwen2", {{"use_sliding_window", true}, {"max_window_layers", 1}}),
             Contains("max_window_layers: expected 0 or num_hidden_layers, got 1"));
  CHECK_THAT(refused("qwen2", {{"use_sliding_window", 1}}), Contains("expected true or false"));
  CHECK_THAT(refused("qwen3", {{"layer_types", {"full_attention", "sliding_attention"}}}),
             Contains(R"(layer_types: expected "full_attention" for all layers, got "sliding_)"));
  CHECK_THAT(refused("qwen2", {{"max_window_layers", "2"}}), Contains("expected a whole number"));
  CHECK_THAT(refused("llama2", {{"rope_theta", 0}}), Contains("rope_theta: expected a number"));
  CHECK_THAT(refused("llama2", {{"head_dim", 5}}), Contains("heads of even size, got 5"));
  CHECK_THAT(refused("llama2", {{"head_dim", 1000000}}), Contains("exceeds the"));
  CHECK_THAT(refused("llama2", {{"num_key_value_heads", 3}}), Contains("kv_heads must divide"));
  CHECK(refused("llama2", {{"attention_bias", false}, {"mlp_bias", false}}) == "accepted");
  CHECK(refused("qwen3", {{"attention_bias", false}}) == "accepted");
  // An entry whose name looks like one of ours for an object's is not read.
  CHECK(refused("llama2", {{"rope_scaling.factor", 8}}) == "accepted");
}

TEST_CASE("Llama's family: weights that do not fit are refused by name", "[hugging_face]") {
  const Copy copy("qwen3");
  const NamedTensors good = copy.tensors();
  auto with = [&](const std::string& name, const std::function<Tensor(const Tensor&)>& change) {
    NamedTensors changed = good;
    for (auto& [key, tensor] : changed)
      if (key == name) tensor = change(tensor);
    copy.put(changed);
    try {
      models::load_model<GPT>(copy.dir);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK_THAT(
      with("model.layers.1.self_attn.k_proj.weight",
           [](const Tensor& x) { return x.slice(0, 0, 6); }),
      Contains(copy / "model.safetensors") &&
          Contains("mismatched: layers.1.self_attn.k_proj.weight (expected float32 (12, 16)"));
  CHECK_THAT(with("model.layers.0.self_attn.q_norm.weight",
                  [](const Tensor& x) { return x.slice(0, 0, 4); }),
             Contains("mismatched: layers.0.self_attn.q_norm.weight (expected float32 (6,)"));
  copy.rename([](const std::string& name) {
    return name == "model.layers.1.mlp.up_proj.weight" ? "" : name;
  });
  CHECK_THROWS_WITH(models::load_model<GPT>(copy.dir),
                    Contains("missing: model.layers.1.mlp.up_proj.weight"));
  GPTConfig other = models::load_config<GPT>(copy.dir);
  other.kv_heads = 4;
  copy.put(good);
  GPT model(other);
  CHECK_THROWS_WITH(models::load_weights(copy.dir, model),
                    Contains("expected a model with 48 rows in blocks.*.attn.qkv, got 72"));
}

TEST_CASE("Llama's family: 16-bit files can stay 16-bit weights in memory", "[hugging_face]") {
  for (const char* name : {"llama3", "smollm2"}) {
    CAPTURE(name);
    auto model = models::load_model<GPT>(all_folders + name);
    const NoGrad no_grad;
    const Tensor ids = expected(name).get("ids"), before = model(ids);
    model.to(bfloat16);
    CHECK(model.blocks[0].attn.qkv.weight.dtype() == bfloat16);
    CHECK(model.wte.weight.dtype() == bfloat16);
    const double loss = difference(model(ids), before);
    if (name == std::string("llama3"))
      CHECK(loss < 1e-4);  // the file's weights are bfloat16 already
    else
      CHECK(loss > 1e-4);
  }
}

TEST_CASE("Llama's family: a cache gives the logits of the full forward pass", "[hugging_face]") {
  const NoGrad no_grad;
  for (const std::string& name : family) {
    CAPTURE(name);
    const auto model = models::load_model<GPT>(all_folders + name);
    const Tensor ids = expected(name).get("ids"), all = expected(name).get("logits", float32);
    models::GPTDecoder decoder = model.decoder(2);
    for (int64_t begin = 0; begin < ids.size(1);) {
      const int64_t end = std::min(ids.size(1), begin == 0 ? 3 : begin + 1);
      CHECK(difference(decoder.next_logits(ids.slice(1, begin, end)), all.select(1, end - 1)) <
            1e-4);
      begin = end;
    }
  }
}

TEST_CASE("Llama's family: layers share one table of positions, in every dtype", "[hugging_face]") {
  GPT model(llama_config());
  CHECK(&model.blocks[0].attn.positions.impl() == &model.blocks[1].attn.positions.impl());
  CHECK(model.named_buffers().size() == 1);
  model.to(float64);
  CHECK(model.blocks[1].attn.positions.dtype() == float64);
}

TEST_CASE("rotary positions: Llama 3.1's frequencies by hand", "[nn]") {
  // 4 pairs of theta 10000: 1, 0.1, 0.01, 0.001 radians per token; within 1000 tokens 159, 15.9,
  // 1.59 and 0.159 turns.
  const nn::RotaryOptions o{
      .factor = 10, .low_turns = 0.5, .high_turns = 4.5, .trained_context = 1000};
  const Tensor table = nn::rotary_positions(3, 8, o), plain = nn::rotary_positions(3, 8);
  CHECK(golden::same(plain, nn::sinusoidal_positions(3, 8)));
  CHECK(golden::same(table.slice(1, 0, 4), plain.slice(1, 0, 4)));
  const double kept = (1000 * 0.01 / (2 * std::numbers::pi) - 0.5) / 4;
  const std::vector<double> frequencies{1, 0.1, kept * 0.01 + (1 - kept) * 0.001, 0.0001};
  for (int64_t i = 0; i < 4; ++i) {
    const double angle = 2 * frequencies[static_cast<size_t>(i)];
    CHECK(table[2][2 * i].item() == Approx(std::sin(angle)));
    CHECK(table[2][2 * i + 1].item() == Approx(std::cos(angle)));
  }
  for (const nn::RotaryOptions& bad :
       {nn::RotaryOptions{.theta = 0}, nn::RotaryOptions{.factor = 0.5},
        nn::RotaryOptions{.low_turns = 4}, nn::RotaryOptions{.trained_context = 0}})
    CHECK_THROWS_WITH(nn::rotary_positions(3, 8, bad),
                      Contains("rotary_positions: expected theta"));
  const nn::MultiHeadAttentionOptions shared{
      .heads = 2, .rotary = 4, .positions = nn::rotary_positions(4, 8)};
  CHECK_THROWS_WITH(nn::MultiHeadAttention(8, shared), Contains("positions"));
}

}  // namespace gradus::testing::llama_folders_test
