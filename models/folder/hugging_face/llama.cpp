// The models of Llama's family, and what their config.json has in objects.

#include <algorithm>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/models/folder/hugging_face/config.h"
#include "gradus/models/gpt.h"

namespace gradus::models::internal {

using nlohmann::json, nlohmann::ordered_json;

// ---- tables ----

namespace {

/// The differences between the models of Llama's family: the default values of keys that
/// config.json may lack, and the values of our fields.
struct Variant {
  const char *type, *architecture;
  const char *vocab, *context, *hidden, *kv_heads, *head_dim;
  bool has_window, qkv_bias, qk_norm;
  const char* window = "0";
  json required = {{"attention_bias", false}, {"mlp_bias", false}};
};

std::vector<HuggingFaceKey> keys(const Variant& v) {
  std::vector<HuggingFaceKey> all{
      {"vocab_size", "vocab", v.vocab},
      {"max_position_embeddings", "context", v.context},
      {"num_hidden_layers", "layers", "32"},
      {"num_attention_heads", "heads", "32"},
      {.key = "num_key_value_heads",
       .field = "kv_heads",
       .initial = v.kv_heads,
       .null_is_zero = true},
      {.key = "head_dim", .field = "head_dim", .initial = v.head_dim, .null_is_zero = true},
      {"hidden_size", "dim", "4096"},
      {"intermediate_size", "hidden", v.hidden},
      {"hidden_act", "activation", "silu"},
      {"attention_dropout", "dropout", "0"},
      {"rms_norm_eps", "norm_eps", "1e-06"},
      {"rope_theta", "rotary_theta", "10000"},
      {"rope_scaling.factor", "rotary_factor", "1"},
      {"rope_scaling.low_freq_factor", "rotary_low_turns", "1"},
      {"rope_scaling.high_freq_factor", "rotary_high_turns", "4"},
      {"rope_scaling.original_max_position_embeddings", "rotary_trained_context", "8192"},
      {"tie_word_embeddings", "tie", "false"}};
  if (v.has_window)
    all.push_back(
        {.key = "sliding_window", .field = "window", .initial = v.window, .null_is_zero = true});
  return all;
}

const HuggingFaceModel& table(const Variant& v) {
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  HuggingFaceModel model{};
  model.type = v.type;
  model.kind = "gpt";
  model.prefix = "model.";
  model.architecture = v.architecture;
  model.keys = keys(v);
  model.required = v.required;
  model.fixed = {{"bias", "false"},
                 {"gated", "true"},
                 {"positions", "rotary"},
                 {"norm", "rms"},
                 {"qkv_bias", flag(v.qkv_bias)},
                 {"qk_norm", flag(v.qk_norm)},
                 {"value_shortcut", "false"},
                 {"embedding_shortcut", "false"},
                 {"logit_cap", "0.0"},
                 {"bigram", "false"},
                 {"token_shift", "false"}};
  model.layers = {
      {"wte", {"embed_tokens"}},
      {"blocks.*.ln1", {"layers.*.input_layernorm"}},
      {"blocks.*.attn.qkv",
       {"layers.*.self_attn.q_proj", "layers.*.self_attn.k_proj", "layers.*.self_attn.v_proj"},
       HuggingFaceLayer::rotary},
      {"blocks.*.attn.proj", {"layers.*.self_attn.o_proj"}},
      {"blocks.*.ln2", {"layers.*.post_attention_layernorm"}},
      {"blocks.*.mlp.fc", {"layers.*.mlp.gate_proj", "layers.*.mlp.up_proj"}},
      {"blocks.*.mlp.proj", {"layers.*.mlp.down_proj"}},
      {"ln_f", {"norm"}}};
  model.unprefixed = {{"head", {"lm_head"}}};
  model.tied = {{"lm_head.weight", "embed_tokens.weight"}};
  model.ignored = {"layers.*.self_attn.rotary_emb.inv_freq"};
  model.unsupported = {"lm_head.bias"};
  model.is_llama = true;
  if (!v.has_window) model.fixed.emplace_back("window", "0");
  if (v.qk_norm) {
    model.layers.push_back(
        {"blocks.*.attn.q_norm", {"layers.*.self_attn.q_norm"}, HuggingFaceLayer::rotary});
    model.layers.push_back(
        {"blocks.*.attn.k_norm", {"layers.*.self_attn.k_norm"}, HuggingFaceLayer::rotary});
  }
  return *new HuggingFaceModel(std::move(model));  // never destroyed
}

}  // namespace

// Llama Team 2024, arXiv 2407.21783; also SmolLM2 and others of this form.
const HuggingFaceModel& llama() {
  static const auto& model = table({.type = "llama",
                                    .architecture = "LlamaForCausalLM",
                                    .vocab = "32000",
                                    .context = "2048",
                                    .hidden = "11008",
                                    .kv_heads = "0",
                                    .head_dim = "0",
                                    .has_window = false,
                                    .qkv_bias = false,
                                    .qk_norm = false});
  return model;
}

const HuggingFaceModel& mistral() {
  static const auto& model = table({.type = "mistral",
                                    .architecture = "MistralForCausalLM",
                                    .vocab = "32000",
                                    .context = "131072",
                                    .hidden = "14336",
                                    .kv_heads = "8",
                                    .head_dim = "0",
                                    .has_window = true,
                                    .qkv_bias = false,
                                    .qk_norm = false,
                                    .window = "4096",
                                    .required = json::object()});
  return model;
}

const HuggingFaceModel& qwen2() {
  static const auto& model = table({.type = "qwen2",
                                    .architecture = "Qwen2ForCausalLM",
                                    .vocab = "151936",
                                    .context = "32768",
                                    .hidden = "22016",
                                    .kv_heads = "32",
                                    .head_dim = "0",
                                    .has_window = true,
                                    .qkv_bias = true,
                                    .qk_norm = false,
                                    .window = "4096",
                                    .required = json::object()});
  return model;
}

const HuggingFaceModel& qwen3() {
  static const auto& model = table({.type = "qwen3",
                                    .architecture = "Qwen3ForCausalLM",
                                    .vocab = "151936",
                                    .context = "32768",
                                    .hidden = "22016",
                                    .kv_heads = "32",
                                    .head_dim = "128",
                                    .has_window = true,
                                    .qkv_bias = false,
                                    .qk_norm = true,
                                    .window = "4096",
                                    .required = json::object({{"attention_bias", false}})});
  return model;
}

// ---- reading ----

namespace {

constexpr std::string_view rope = "rope_scaling.";
constexpr const char* rope_entries[] = {"factor", "low_freq_factor", "high_freq_factor",
                                        "original_max_position_embeddings"};

/// Moves the entries of config[key], rope_scaling or rope_parameters, to `values`, with
/// "rope_scaling." before their names.
void flatten_rope(const HuggingFaceConfig& config, const char* key, json& values) {
  const json object = config.values.value(key, json());
  values.erase(key);
  if (object.is_null()) return;
  const std::string where = config.path + ": " + key;
  if (!object.is_object()) fail(where, ": expected an object or null, got ", shown(object));
  const json type = object.value("rope_type", object.value("type", json("default")));
  if (type != "default" && type != "llama3")
    fail(where, ".rope_type: expected \"default\" or \"llama3\", got ", shown(type),
         ": gradus has no such positions");
  for (const auto& [name, value] : object.items()) {
    const bool is_scale =
        std::find(std::begin(rope_entries), std::end(rope_entries), name) != std::end(rope_entries);
    if (name == "rope_type" || name == "type" || (is_scale && type == "default")) continue;
    if (!is_scale && name != "rope_theta")
      fail(where, '.', name, ": gradus has no positions with this entry");
    const std::string flat = is_scale ? std::string(rope) + name : name;
    if (const auto [at, is_new] = values.emplace(flat, value); !is_new && *at != value)
      fail(where, '.', name, ": got ", shown(value), ", elsewhere ", shown(*at),
           ": expected equal values, since they mean the same");
  }
  for (const char* name : rope_entries)
    if (type == "llama3" && !object.contains(name)) fail(where, ": expected an entry ", name);
}

/// The whole number values[key], or `initial` if it is missing.
int64_t whole(const HuggingFaceConfig& config, const char* key, int64_t initial) {
  const json value = config.values.value(key, json(initial));
  if (!value.is_number_integer())
    fail(config.path, ": ", key, ": expected a whole number, got ", shown(value));
  return value;
}

/// Whether the attention of Qwen's layers has the window.
bool uses_window(const HuggingFaceConfig& config) {
  const json use = config.values.value("use_sliding_window", json(false));
  if (!use.is_boolean())
    fail(config.path, ": use_sliding_window: expected true or false, got ", shown(use));
  const int64_t first = whole(config, "max_window_layers", 28),
                layers = whole(config, "num_hidden_layers", 32);
  if (use == false || first >= layers) return false;
  check(first == 0, config.path, ": max_window_layers: expected 0 or num_hidden_layers, got ",
        first, ": all layers of a GPT have the same window");
  return true;
}

void check_layer_types(const HuggingFaceConfig& config, const json& window) {
  const json types = config.values.value("layer_types", json());
  const char* const type = window.is_null() ? "full_attention" : "sliding_attention";
  if (types.is_null()) return;
  for (const json& one : types)
    if (one != type)
      fail(config.path, ": layer_types: expected ", shown(type), " for all layers, got ",
           shown(one), ": all layers of a GPT have the same window");
}

}  // namespace

json flat_values(const HuggingFaceModel& model, const HuggingFaceConfig& config) {
  if (!model.is_llama) return config.values;
  json values = config.values;
  for (auto entry = values.begin(); entry != values.end();)  // a key is no path
    entry = entry.key().starts_with(rope) ? values.erase(entry) : std::next(entry);
  for (const char* key : {"rope_scaling", "rope_parameters"}) flatten_rope(config, key, values);
  const json part = values.value("partial_rotary_factor", json());
  if (!part.is_null() && part != 1)
    fail(config.path, ": partial_rotary_factor: expected 1, got ", shown(part),
         ": gradus has no such model");
  const bool is_qwen = &model == &qwen2() || &model == &qwen3(),
             has_window = is_qwen ? uses_window(config) : &model == &mistral();
  if (!has_window) values["sliding_window"] = nullptr;
  check_layer_types(config, values.value("sliding_window", json(has_window)));
  return values;
}

int64_t number_of(const Fields& fields, const char* name) {
  return parse_number<int64_t>(fields.find(name)->to_text()).value();
}

HeadLayout head_layout(const Fields& fields) {
  const int64_t heads = number_of(fields, "heads"), kv_heads = number_of(fields, "kv_heads"),
                head_dim = number_of(fields, "head_dim");
  return {heads, kv_heads > 0 ? kv_heads : heads,
          head_dim > 0 ? head_dim : number_of(fields, "dim") / heads};
}

HeadLayout head_layout(const HuggingFaceConfig& config) {
  if (!hugging_face_model(config).is_llama) return {};
  GPTConfig read;
  const Fields fields = GPT::fields(read);
  read_fields(config, GPT::kind, fields);
  return head_layout(fields);
}

// ---- writing ----

void nest_values(const HuggingFaceModel& model, ordered_json& config) {
  if (!model.is_llama) return;
  ordered_json scaling{{"rope_type", "llama3"}};
  for (const char* name : rope_entries) {
    scaling[name] = config[std::string(rope) + name];
    config.erase(std::string(rope) + name);
  }
  config["rope_scaling"] = scaling["factor"] == 1 ? ordered_json() : scaling;
  if (&model != &qwen2() && &model != &qwen3()) return;
  const bool has_window = !config["sliding_window"].is_null();
  config["use_sliding_window"] = has_window;
  config["max_window_layers"] = has_window ? ordered_json(0) : config["num_hidden_layers"];
}

}  // namespace gradus::models::internal
