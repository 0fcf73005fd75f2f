// Adapters in PEFT's format.

#include "gradus/models/folder/adapter.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "gradus/core/core.h"
#include "gradus/models/bert.h"
#include "gradus/models/folder/hugging_face/hugging_face.h"
#include "gradus/models/gpt.h"
#include "gradus/models/vit.h"
#include "tests/models/folder/hugging_face_folders.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace gradus::testing::adapter_test {

using Catch::Matchers::Contains;

namespace {

models::GPT make_model() {
  manual_seed(1);
  return models::GPT({.vocab = 11, .context = 8, .layers = 2, .heads = 2, .dim = 8});
}

std::string content(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

void replace(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = content(path);
  REQUIRE(text.find(from) != std::string::npos);
  std::ofstream(path) << text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("save_adapter, load_adapter: the updates alone, in PEFT's names", "[adapter]") {
  const TemporaryFolder dir;
  models::GPT model = make_model();
  CHECK_THROWS_WITH(models::save_adapter(dir / "", model),
                    "save_adapter: the model has no low-rank updates");
  nn::add_lora(model, {.rank = 2, .alpha = 3, .dropout = 0.25, .layers = {"attn.qkv", "fc"}});
  for (const auto& [name, update] : nn::lora_updates(model)) {
    const NoGrad no_grad;
    update.b.copy_(randn(update.b.shape()));
  }
  models::save_adapter(dir / "", model);
  const std::string config = content(dir / "adapter_config.json");
  CHECK_THAT(config, Contains("\"peft_type\": \"LORA\"") && Contains("\"r\": 2") &&
                         Contains("\"lora_alpha\": 3.0") && Contains("\"lora_dropout\": 0.25") &&
                         Contains("\"fan_in_fan_out\": true") &&
                         Contains("\"task_type\": \"CAUSAL_LM\"") &&
                         Contains("\"transformer.h.1.mlp.c_fc\""));
  const SafetensorsFile file = load_safetensors(dir / "adapter_model.safetensors");
  CHECK(file.tensors.size() == 8);
  CHECK(file.tensors[0].first == "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight");
  CHECK(file.tensors[1].second.shape() == Shape{24, 2});

  models::GPT other = make_model();
  models::load_adapter(dir / "", other);
  const Tensor ids = randint(0, 11, {2, 8});
  const EvalMode eval;
  CHECK(same_bits(model(ids).detach(), other(ids).detach()));
  const auto updates = nn::lora_updates(other);
  REQUIRE(updates.size() == 4);
  CHECK(updates[0].second.alpha == 3);
  CHECK(updates[0].second.dropout == 0.25);
  CHECK(updates[0].second.a.requires_grad());
  CHECK_FALSE(other.wte.weight.requires_grad());
}

TEST_CASE("load_adapter: refuses files that do not fit, with nothing changed", "[adapter]") {
  const TemporaryFolder dir;
  models::GPT model = make_model();
  nn::add_lora(model, {.rank = 2, .layers = {"proj"}});
  models::save_adapter(dir / "", model);
  const std::string config = dir / "adapter_config.json",
                    weights = dir / "adapter_model.safetensors";
  struct Case {
    std::string from, to, message;
  };
  for (const Case& c :
       {Case{"\"r\": 2", "\"r\": 3", "c_proj.lora_A.weight: expected rank 3, got shape (2, 8)"},
        Case{"\"r\": 2", "\"r\": 2.5", "r: expected a whole number, got 2.5"},
        Case{"\"r\": 2", "\"r\": 0", "r: expected a number from 1 to "},
        Case{"\"r\": 2", "\"q\": 2", "r is missing"},
        Case{"\"lora_dropout\": 0.0", "\"lora_dropout\": 1.0",
             "lora_dropout: expected a number from 0 to 0.999999, got 1"},
        Case{"\"lora_dropout\": 0.0", "\"lora_dropout\": -0.5", "lora_dropout: expected a number"},
        Case{"\"LORA\"", "\"IA3\"", "peft_type: expected"},
        Case{"\"none\"", "\"all\"", "bias: expected"},
        Case{"\"bias\"", "\"use_dora\": true, \"bias\"", "use_dora: expected false"},
        Case{"\"bias\"", "\"use_rslora\": true, \"bias\"", "use_rslora: expected false"},
        Case{"\"bias\"", "\"lora_bias\": true, \"bias\"", "lora_bias: expected false"},
        Case{"\"bias\"", "\"modules_to_save\": [\"x\"], \"bias\"",
             "modules_to_save: expected null"},
        Case{"\"bias\"", "\"alora_invocation_tokens\": [1], \"bias\"",
             "alora_invocation_tokens: expected null"},
        Case{"\"bias\"", "\"init_lora_weights\": \"pissa_niter_4\", \"bias\"",
             "init_lora_weights: \"pissa_niter_4\" changes the base model"},
        Case{"\"bias\"", "\"init_lora_weights\": \"olora\", \"bias\"",
             "init_lora_weights: \"olora\" changes the base model"},
        Case{"\"bias\"", "\"init_lora_weights\": \"corda\", \"bias\"",
             "init_lora_weights: \"corda\" changes the base model"},
        Case{"\"bias\"", "\"init_lora_weights\": \"loftq\", \"bias\"",
             "init_lora_weights: \"loftq\" changes the base model"},
        Case{"16.0", "\"16\"", "lora_alpha: expected a number"},
        Case{"16.0", "0.0", "lora_alpha: expected a number from 1e-30 to "},
        Case{"16.0", "-16.0", "lora_alpha: expected a number from 1e-30 to "},
        Case{"\"rank_pattern\": {}", "\"rank_pattern\": 3",
             "rank_pattern: expected an object, got 3"},
        Case{"\"rank_pattern\": {}", "\"rank_pattern\": {\"c_proj\": 1}",
             "expected rank 1, got shape"},
        Case{"\"rank_pattern\": {}", "\"rank_pattern\": {\"h.[01]\": 1}",
             "rank_pattern: expected names of layers, got \"h.[01]\""},
        Case{"\"alpha_pattern\": {}", "\"alpha_pattern\": {\"h\\\\.\\\\d\": 1}",
             "alpha_pattern: expected names of layers, got \"h\\\\.\\\\d\""},
        Case{"\"r\"", "\"layer_replication\": [[0, 1]], \"r\"",
             "layer_replication: expected null, got [[0,1]]"},
        Case{"\"alpha_pattern\": {}", "\"alpha_pattern\": {\"c_proj\": []}",
             "c_proj: expected a number"},
        Case{"\"r\"", "\"r", "adapter_config.json"}}) {
    CAPTURE(c.from, c.to);
    replace(config, c.from, c.to);
    models::GPT other = make_model();
    CHECK_THROWS_WITH(models::load_adapter(dir / "", other),
                      Contains(c.message) && Contains(dir / ""));
    CHECK(nn::lora_updates(other).empty());
    CHECK(other.wte.weight.requires_grad());
    models::save_adapter(dir / "", model);
  }
  replace(
      config, "\"bias\"",
      "\"use_dora\": false, \"use_rslora\": false, \"lora_bias\": false, \"modules_to_save\": null,"
      "\"layers_to_transform\": null, \"init_lora_weights\": \"gaussian\", \"bias\"");
  models::GPT plain = make_model();
  models::load_adapter(dir / "", plain);
  CHECK(nn::lora_updates(plain).size() == nn::lora_updates(model).size());
  models::GPT shallow({.vocab = 11, .context = 8, .layers = 1, .heads = 2, .dim = 8});
  CHECK_THROWS_WITH(models::load_adapter(dir / "", shallow),
                    Contains("the model has no layer \"transformer.h.1.attn.c_proj\""));
  for (const char* name : {"base_model.model.blocks.0.attn.proj.lora_A.weight", "x"}) {
    save_safetensors(weights, {{name, zeros({2, 8})}});
    models::GPT other = make_model();
    CHECK_THROWS_WITH(models::load_adapter(dir / "", other), Contains("adapter_model.safetensors"));
  }
  std::filesystem::remove(weights);
  models::GPT other = make_model();
  CHECK_THROWS_WITH(models::load_adapter(dir / "", other), Contains("No such file"));
}

TEST_CASE("load_adapter: the smallest rank and the largest dropout", "[adapter]") {
  const TemporaryFolder dir;
  models::GPT model = make_model(), other = make_model();
  nn::add_lora(model, {.rank = 1, .layers = {"proj"}});
  models::save_adapter(dir / "", model);
  replace(dir / "adapter_config.json", "\"lora_dropout\": 0.0", "\"lora_dropout\": 0.999999");
  models::load_adapter(dir / "", other);
  CHECK(nn::lora_updates(other)[0].second.a.size(0) == 1);
  CHECK(nn::lora_updates(other)[0].second.dropout == 0.999999);
}

TEST_CASE("save_adapter: updates with the largest and the smallest options load again",
          "[adapter]") {
  for (const auto& [alpha, dropout] : {std::pair{2e30, 0.999999}, {2e-30, 0.0}}) {
    const TemporaryFolder dir;
    models::GPT model = make_model(), other = make_model();
    nn::add_lora(model, {.rank = 2, .alpha = alpha, .dropout = dropout, .layers = {"qkv", "proj"}});
    models::save_adapter(dir / "", model);
    models::load_adapter(dir / "", other);
    REQUIRE(nn::lora_updates(other).size() == nn::lora_updates(model).size());
    for (const auto& [name, update] : nn::lora_updates(other)) {
      CHECK(update.alpha == alpha);
      CHECK(update.dropout == dropout);
    }
  }
}

TEST_CASE("save_adapter: updates of tied output layers load again", "[adapter]") {
  for (const bool expressible : {true, false}) {
    const TemporaryFolder dir;
    const models::GPTConfig config{
        .vocab = 11,
        .context = 8,
        .layers = 1,
        .heads = 2,
        .dim = 8,
        .hidden = 13,
        .positions = expressible ? models::Positions::learned : models::Positions::rotary};
    models::GPT model(config), other(config);
    nn::add_lora(model, {.rank = 1, .layers = {"head", "qkv"}});
    models::save_adapter(dir / "", model);
    models::load_adapter(dir / "", other);
    const auto updates = nn::lora_updates(other), expected = nn::lora_updates(model);
    REQUIRE(updates.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(updates[i].first == expected[i].first);
      CHECK(allclose(updates[i].second.a, expected[i].second.a, {.rtol = 0, .atol = 0}));
    }
  }
}

TEST_CASE("load_adapter: what a configuration may lack or set to null", "[adapter]") {
  const TemporaryFolder dir;
  models::GPT model = make_model();
  nn::add_lora(model, {.rank = 2, .alpha = 4, .dropout = 0.5, .layers = {"proj"}});
  models::save_adapter(dir / "", model);
  const json whole = json_in(dir / "adapter_config.json");
  const auto load = [&](const json& config) {
    write_file_atomically(dir / "adapter_config.json", config.dump());
    models::GPT other = make_model();
    models::load_adapter(dir / "", other);
    REQUIRE(nn::lora_updates(other).size() == 4);
    CHECK(nn::lora_updates(other)[0].second.alpha == 4);
    return nn::lora_updates(other)[0].second.dropout;
  };
  json lacking = whole, nulls = whole;
  for (const char* key : {"lora_dropout", "rank_pattern", "alpha_pattern", "bias", "task_type",
                          "fan_in_fan_out", "target_modules"})
    lacking.erase(key);
  CHECK(load(lacking) == 0);
  for (const char* key : {"rank_pattern", "alpha_pattern", "bias", "use_dora", "use_rslora",
                          "lora_bias", "init_lora_weights"})
    nulls[key] = nullptr;
  CHECK(load(nulls) == 0.5);
  nulls["lora_dropout"] = nullptr;
  CHECK(load(nulls) == 0);
  nulls["init_lora_weights"] = true;
  CHECK(load(nulls) == 0);
}

TEST_CASE("load_adapter: a pattern's names are whole words, with or without backslashes",
          "[adapter]") {
  const TemporaryFolder dir;
  models::GPT model = make_model(), other = make_model();
  nn::add_lora(model, {.rank = 2, .alpha = 4, .layers = {"proj"}});
  models::save_adapter(dir / "", model);
  json config = json_in(dir / "adapter_config.json");
  config["alpha_pattern"] = {
      {"proj", 3}, {"_proj", 3}, {R"(h\.1\.attn\.c_proj)", 9}, {"0.mlp.c_proj", 5}};
  write_file_atomically(dir / "adapter_config.json", config.dump());
  models::load_adapter(dir / "", other);
  std::vector<double> alphas;  // of attention and MLP of block 0, then of block 1
  for (const auto& [name, update] : nn::lora_updates(other)) alphas.push_back(update.alpha);
  CHECK(alphas == std::vector<double>{4, 5, 9, 4});
}

TEST_CASE("save_adapter, load_adapter: a user's module, a layer's name within another's",
          "[adapter]") {
  struct Inner : nn::Module {
    nn::Linear proj;
    Inner() : proj(child("proj", nn::Linear(4, 4))) {}
  };
  struct Net : nn::Module {
    nn::Linear proj;
    Inner inner;
    Net() : proj(child("proj", nn::Linear(4, 4))), inner(child("inner", Inner())) {}
  };
  const TemporaryFolder dir;
  const nn::LoraUpdate one{randn({1, 4}), randn({4, 1}), 3, 0.5},
      two{randn({2, 4}), randn({4, 2}), 5, 0.5}, three{two.a, two.b, 5, 0.25};
  Net net, other, mixed;
  nn::add_lora_updates(net, {{"proj", one}, {"inner.proj", two}});
  models::save_adapter(dir / "", net);
  CHECK(load_safetensors(dir / "adapter_model.safetensors").tensors[0].first ==
        "base_model.model.proj.lora_A.weight");
  models::load_adapter(dir / "", other);
  const auto updates = nn::lora_updates(other);
  REQUIRE(updates.size() == 2);
  for (const auto& [i, name, expected] :
       {std::tuple{size_t{0}, "proj", &one}, {size_t{1}, "inner.proj", &two}}) {
    CHECK(updates[i].first == name);
    CHECK(same_bits(updates[i].second.a, expected->a));
    CHECK(same_bits(updates[i].second.b, expected->b));
    CHECK(updates[i].second.alpha == expected->alpha);
    CHECK(updates[i].second.dropout == 0.5);
  }
  nn::add_lora_updates(mixed, {{"proj", one}, {"inner.proj", three}});
  CHECK_THROWS_WITH(models::save_adapter(dir / "x", mixed),
                    "save_adapter: inner.proj and proj differ in dropout");
  CHECK_FALSE(dir.has("x"));
  save_safetensors(dir / "adapter_model.safetensors", {});
  Net last;
  CHECK_THROWS_WITH(models::load_adapter(dir / "", last),
                    Contains(dir / "adapter_model.safetensors: holds no updates"));
  CHECK(last.proj.weight.requires_grad());
}

TEST_CASE("load_adapter: the first name in a pattern that fits counts", "[adapter]") {
  const TemporaryFolder dir;
  models::GPT model = make_model(), other = make_model();
  nn::add_lora(model, {.rank = 2, .alpha = 4, .layers = {"proj"}});
  models::save_adapter(dir / "", model);
  replace(dir / "adapter_config.json", "\"alpha_pattern\": {}",
          "\"alpha_pattern\": {\"h.1.attn.c_proj\": 9, \"attn\\\\.c_proj\": 7, \"c_proj\": 5, "
          "\"h.0.mlp.c_proj\": 3}");
  models::load_adapter(dir / "", other);
  std::map<std::string, double> alphas;
  for (const auto& [name, update] : nn::lora_updates(other)) alphas[name] = update.alpha;
  CHECK(alphas == std::map<std::string, double>{{"blocks.0.attn.proj", 7},
                                                {"blocks.0.mlp.proj", 5},
                                                {"blocks.1.attn.proj", 9},
                                                {"blocks.1.mlp.proj", 5}});
  // Written again, with an entry for each layer.
  models::save_adapter(dir / "", other);
  CHECK_THAT(content(dir / "adapter_config.json"),
             Contains("\"transformer.h.0.attn.c_proj\": 7.0") &&
                 Contains("\"transformer.h.1.mlp.c_proj\": 5.0") &&
                 Contains("\"rank_pattern\": {}"));
  models::GPT again = make_model();
  models::load_adapter(dir / "", again);
  for (const auto& [name, update] : nn::lora_updates(again)) CHECK(update.alpha == alphas[name]);
}

TEST_CASE("load_adapter: of some layers only, whose names the tensors have", "[adapter]") {
  const TemporaryFolder dir;
  models::GPT model = make_model();
  nn::add_lora(model, {.rank = 2, .layers = {"blocks.1.attn.qkv"}});
  models::save_adapter(dir / "", model);
  json config = json_in(dir / "adapter_config.json");
  config.update({{"target_modules", {"c_attn"}}, {"layers_pattern", "h"}});
  for (const json& layers : {json(1), json{1}}) {
    config["layers_to_transform"] = layers;
    write_file_atomically(dir / "adapter_config.json", config.dump());
    models::GPT other = make_model();
    models::load_adapter(dir / "", other);
    REQUIRE(nn::lora_updates(other).size() == 1);
    CHECK(nn::lora_updates(other)[0].first == "blocks.1.attn.qkv");
  }
}

TEST_CASE("save_model: refuses a model with low-rank updates", "[adapter]") {
  const TemporaryFolder dir;
  models::GPT model = make_model();
  nn::add_lora(model, {.rank = 2});
  CHECK_THROWS_WITH(models::save_model(dir / "x", model),
                    "save_model: the model has low-rank updates: call merge_lora first, or "
                    "save_adapter instead");
  CHECK_FALSE(dir.has("x"));
  nn::merge_lora(model);
  models::save_model(dir / "x", model);
  models::load_model<models::GPT>(dir / "x");
}

TEST_CASE("save_hugging_face: refuses a model with low-rank updates", "[adapter]") {
  const TemporaryFolder dir;
  models::GPT model = make_model();
  nn::add_lora(model, {.rank = 2});
  CHECK_THROWS_WITH(models::save_hugging_face(dir / "x", model), Contains("call merge_lora first"));
  CHECK(!std::filesystem::exists(dir / "x"));
  nn::merge_lora(model);
  models::save_hugging_face(dir / "x", model);
}

TEST_CASE("load_adapter: tensors that are no updates of a layer are refused", "[adapter]") {
  const TemporaryFolder dir;
  models::GPT model = make_model();
  nn::add_lora(model, {.rank = 2, .layers = {"proj"}});
  models::save_adapter(dir / "", model);
  const auto refused = [&](const NamedTensors& tensors, const std::string& message) {
    save_safetensors(dir / "adapter_model.safetensors", tensors);
    models::GPT other = make_model();
    CHECK_THROWS_WITH(models::load_adapter(dir / "", other),
                      Contains(dir / "adapter_model.safetensors: ") && Contains(message));
  };
  const std::string begin = "base_model.model.", a = ".lora_A.weight", b = ".lora_B.weight",
                    layer = "transformer.h.0.attn.c_proj", names = "expected names such as ";
  refused({{begin + layer + ".lora_magnitude_vector", zeros({2, 8})}}, names);
  refused({{layer + a, zeros({2, 8})}}, names);
  const std::string matrix = "expected a matrix of floating-point numbers, got ";
  refused({{begin + layer + a, zeros({2, 8}, int64)}}, matrix + "int64 (2, 8)");
  refused({{begin + layer + a, zeros({16})}}, matrix + "float32 (16,)");
  const std::string norm = begin + "transformer.ln_f";  // its weight is no matrix
  refused({{norm + a, zeros({2, 8})}, {norm + b, zeros({8, 2})}},
          "the model has no layer \"transformer.ln_f\"");
}

namespace {

/// An update in PEFT's format: of the tensor name.weight of Hugging Face's folder.
struct PeftUpdate {
  std::string name;
  double rank, alpha;
};

/// Writes random updates with PEFT's configuration to the folder adapter/, and adds them to the
/// tensors of `copy`: W + alpha / rank B A, whose transpose GPT-2 stores.
void write_peft(const Copy& copy, const std::vector<PeftUpdate>& updates, bool transposed) {
  NamedTensors adapter;
  std::map<std::string, Tensor> sums;
  json ranks, alphas;
  for (const PeftUpdate& u : updates) {
    const std::string name = u.name.substr(u.name.find('.') + 1);  // an ending is enough
    ranks[name] = u.rank;
    alphas[name] = u.alpha;
  }
  for (const auto& entry : std::filesystem::directory_iterator(copy.dir)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".safetensors") || !entry.path().filename().string().starts_with("model"))
      continue;
    NamedTensors tensors;
    for (const auto& [key, stored] : load_safetensors(path).tensors) {
      Tensor tensor = is_floating(stored.dtype()) ? stored.to(float32) : stored;
      for (const PeftUpdate& u : updates) {
        if (!(u.name + ".weight").ends_with(key)) continue;  // a prefix may be missing
        const int64_t rank = static_cast<int64_t>(u.rank), out = tensor.size(transposed ? 1 : 0),
                      in = tensor.size(transposed ? 0 : 1);
        const Tensor a = randn({rank, in}), b = randn({out, rank});
        const Tensor sum = matmul(b, a) * (u.alpha / u.rank);
        tensor = tensor + (transposed ? sum.transpose(0, 1) : sum);
        adapter.emplace_back("base_model.model." + u.name + ".lora_A.weight", a);
        adapter.emplace_back("base_model.model." + u.name + ".lora_B.weight", b);
      }
      tensors.emplace_back(key, tensor.contiguous());
    }
    save_safetensors(path, tensors);
  }
  REQUIRE(adapter.size() == 2 * updates.size());
  std::filesystem::create_directory(copy / "adapter");
  save_safetensors(copy / "adapter/adapter_model.safetensors", adapter);
  write_file_atomically(copy / "adapter/adapter_config.json", json{{"peft_type", "LORA"},
                                                                   {"r", 7},
                                                                   {"lora_alpha", 7},
                                                                   {"rank_pattern", ranks},
                                                                   {"alpha_pattern", alphas},
                                                                   {"fan_in_fan_out", transposed}}
                                                                  .dump());
}

/// Loads the updates into the original model and compares it with the folder they were added to;
/// then saves and loads them once more. Returns the original model's layers that have updates.
template <class M, class F>
std::vector<std::string> check_peft(const std::string& name, const std::vector<PeftUpdate>& updates,
                                    const F& output) {
  manual_seed(3);
  const Copy copy(name);
  write_peft(copy, updates, name == "gpt2");
  const NoGrad no_grad;
  const EvalMode eval;
  auto model = models::load_model<M>(all_folders + name);
  model.to(float32);
  const Tensor before = output(model).detach();
  models::load_adapter(copy / "adapter", model);
  const Tensor adapted = output(model).detach();
  CHECK(difference(adapted, before) > 0.1);
  CHECK(difference(adapted, output(models::load_model<M>(copy.dir)).detach()) < 2e-5);

  models::save_adapter(copy / "again", model);
  auto again = models::load_model<M>(all_folders + name);
  again.to(float32);
  models::load_adapter(copy / "again", again);
  std::vector<std::string> layers;
  const auto first = nn::lora_updates(model), second = nn::lora_updates(again);
  REQUIRE(first.size() == second.size());
  for (size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].first == second[i].first);
    CHECK(same_bits(first[i].second.a, second[i].second.a));
    CHECK(same_bits(first[i].second.b, second[i].second.b));
    CHECK(first[i].second.alpha == second[i].second.alpha);
    layers.push_back(first[i].first);
  }
  return layers;
}

using Names = std::vector<std::string>;

TEST_CASE("load_adapter: PEFT's adapters of Llama's family", "[adapter]") {
  const std::string name = GENERATE("llama2", "llama3", "mistral", "qwen3", "smollm2");
  CAPTURE(name);
  const std::string first = "model.layers.0.", second = "model.layers.1.";
  const auto output = [&](const models::GPT& m) { return m(expected(name).get("ids")); };
  // Queries and values alone, with different ranks and scales; a gate alone; a whole layer.
  CHECK(check_peft<models::GPT>(name,
                                {{first + "self_attn.q_proj", 2, 3},
                                 {first + "self_attn.v_proj", 3, 1},
                                 {second + "self_attn.k_proj", 1, 2},
                                 {second + "mlp.gate_proj", 2, 1},
                                 {second + "mlp.down_proj", 4, 1}},
                                output) ==
        Names{"blocks.0.attn.qkv", "blocks.1.attn.qkv", "blocks.1.mlp.fc", "blocks.1.mlp.proj"});
}

TEST_CASE("load_adapter: PEFT's adapters of GPT-2, BERT and ViT", "[adapter]") {
  const auto gpt2 = [](const models::GPT& m) { return m(expected("gpt2").get("ids")); };
  CHECK(check_peft<models::GPT>(
            "gpt2", {{"transformer.h.0.attn.c_attn", 2, 1}, {"transformer.h.1.mlp.c_proj", 3, 1}},
            gpt2) == Names{"blocks.0.attn.qkv", "blocks.1.mlp.proj"});
  const auto bert = [](const models::Bert& m) {
    const golden::File file = expected("bert");
    return m({file.get("ids"), file.get("segments"), file.get("mask")});
  };
  const std::string layer = "bert.encoder.layer.1.";
  check_peft<models::Bert>("bert",
                           {{layer + "attention.self.query", 2, 1},
                            {layer + "attention.self.value", 2, 1},
                            {layer + "output.dense", 1, 1}},
                           bert);
  const auto vit = [](const models::ViT& m) { return m(expected("vit").get("images", float32)); };
  check_peft<models::ViT>("vit",
                          {{"vit.encoder.layer.0.attention.attention.key", 2, 1},
                           {"vit.encoder.layer.0.intermediate.dense", 1, 2}},
                          vit);
}

TEST_CASE("save_adapter: a ViT without classes has no prefix", "[adapter]") {
  const TemporaryFolder dir;
  const models::ViTConfig config{
      .image = 8, .patch = 4, .classes = 0, .layers = 1, .heads = 2, .dim = 8};
  models::ViT model(config), other(config);
  nn::add_lora(model, {.rank = 2, .layers = {"attn.proj"}});
  models::save_adapter(dir / "", model);
  CHECK(load_safetensors(dir / "adapter_model.safetensors").tensors[0].first ==
        "base_model.model.encoder.layer.0.attention.output.dense.lora_A.weight");
  const json settings = json_in(dir / "adapter_config.json");
  CHECK(settings["task_type"].is_null());
  CHECK(settings["fan_in_fan_out"] == false);
  models::load_adapter(dir / "", other);
  CHECK(nn::lora_updates(other).size() == 1);
}

TEST_CASE("load_adapter: the same A for queries, keys and values keeps the rank", "[adapter]") {
  const TemporaryFolder dir;
  auto model = models::load_model<models::GPT>(all_folders + "llama3");
  nn::add_lora(model, {.rank = 2, .layers = {"qkv"}});
  models::save_adapter(dir / "", model);
  CHECK(load_safetensors(dir / "adapter_model.safetensors").tensors.size() == 12);
  CHECK(json_in(dir / "adapter_config.json")["fan_in_fan_out"] == false);
  auto other = models::load_model<models::GPT>(all_folders + "llama3");
  models::load_adapter(dir / "", other);
  for (const auto& [name, update] : nn::lora_updates(other)) CHECK(update.a.size(0) == 2);

  // Unless they have different scales.
  replace(dir / "adapter_config.json", "\"alpha_pattern\": {}",
          "\"alpha_pattern\": {\"layers.0.self_attn.k_proj\": 4}");
  auto scaled = models::load_model<models::GPT>(all_folders + "llama3");
  models::load_adapter(dir / "", scaled);
  CHECK(nn::lora_updates(scaled)[0].second.a.size(0) == 6);
  CHECK(nn::lora_updates(scaled)[1].second.a.size(0) == 2);

  // A part whose sizes do not fit.
  NamedTensors tensors = load_safetensors(dir / "adapter_model.safetensors").tensors;
  tensors[1].second = zeros({tensors[1].second.size(0) + 1, 2});
  save_safetensors(dir / "adapter_model.safetensors", tensors);
  auto wrong = models::load_model<models::GPT>(all_folders + "llama3");
  CHECK_THROWS_WITH(models::load_adapter(dir / "", wrong),
                    Contains("q_proj.lora_B.weight: expected shape"));
  CHECK(nn::lora_updates(wrong).empty());
}

TEST_CASE("save_adapter: this library's names where Hugging Face has none", "[adapter]") {
  const TemporaryFolder dir;
  const models::GPTConfig config{
      .vocab = 11, .context = 8, .layers = 1, .heads = 2, .dim = 8, .window = 4};
  models::GPT model(config), other(config);
  nn::add_lora(model, {.rank = 2});
  models::save_adapter(dir / "", model);
  const auto tensors = load_safetensors(dir / "adapter_model.safetensors").tensors;
  CHECK(tensors[0].first == "base_model.model.blocks.0.attn.qkv.lora_A.weight");
  CHECK(json_in(dir / "adapter_config.json")["fan_in_fan_out"] == false);
  models::load_adapter(dir / "", other);
  CHECK(nn::lora_updates(other).size() == tensors.size() / 2);
}

/// Saves an adapter with one update, of blocks.0.attn.qkv. Returns its tensors.
NamedTensors save_qkv_adapter(const TemporaryFolder& dir) {
  models::GPT model = make_model();
  nn::add_lora(model, {.rank = 2, .layers = {"blocks.0.attn.qkv"}});
  models::save_adapter(dir / "", model);
  return load_safetensors(dir / "adapter_model.safetensors").tensors;
}

TEST_CASE("load_adapter: a layer has one update", "[adapter]") {
  const TemporaryFolder dir;
  NamedTensors twice = save_qkv_adapter(dir);
  const std::string ours = "base_model.model.blocks.0.attn.qkv.lora_";
  twice.emplace_back(ours + "A.weight", twice[0].second);
  twice.emplace_back(ours + "B.weight", twice[1].second);
  save_safetensors(dir / "adapter_model.safetensors", twice);
  models::GPT other = make_model();
  CHECK_THROWS_WITH(models::load_adapter(dir / "", other),
                    Contains("blocks.0.attn.qkv has two updates"));
  CHECK(other.wte.weight.requires_grad());
  twice[3].second = zeros({23, 2});
  save_safetensors(dir / "adapter_model.safetensors", {twice[2], twice[3]});
  CHECK_THROWS_WITH(models::load_adapter(dir / "", other),
                    Contains("lora_B.weight: expected shape (24, 2), got (23, 2)"));
}

TEST_CASE("load_adapter: a layer named with and without the model's prefix has two updates",
          "[adapter]") {
  const TemporaryFolder dir;
  NamedTensors twice = save_qkv_adapter(dir);
  const std::string prefix = "transformer.";
  for (size_t i = 0; i < 2; ++i) {
    std::string name = twice[i].first;
    REQUIRE(name.find(prefix) != std::string::npos);
    name.erase(name.find(prefix), prefix.size());
    twice.emplace_back(name, twice[i].second);
  }
  save_safetensors(dir / "adapter_model.safetensors", twice);
  models::GPT other = make_model();
  CHECK_THROWS_WITH(models::load_adapter(dir / "", other),
                    Contains("h.0.attn.c_attn: this layer has two updates"));
}

}  // namespace
}  // namespace gradus::testing::adapter_test
