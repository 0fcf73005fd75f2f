#include "gradus/models/folder/hugging_face/models.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/runtime/error.h"
#include "gradus/models/folder/folder_files.h"
#include "gradus/models/folder/model_folder.h"

namespace gradus::models::internal {

using nlohmann::json;

namespace {

constexpr auto conv1d = HuggingFaceLayer::conv1d, head = HuggingFaceLayer::head;

// The models are built in functions, and never destroyed, because a user's global object may load a
// folder before or after main.

const HuggingFaceModel& gpt2() {
  static const auto& model = *new HuggingFaceModel{
      .type = "gpt2",
      .kind = "gpt",
      .prefix = "transformer.",
      .keys = {{"vocab_size", "vocab", "50257"},
               {"n_positions", "context", "1024", "max_position_embeddings", {"n_ctx"}},
               {"n_layer", "layers", "12", "num_hidden_layers"},
               {"n_head", "heads", "12", "num_attention_heads"},
               {"n_embd", "dim", "768", "hidden_size"},
               {.key = "n_inner", .field = "hidden", .initial = "0", .null_is_zero = true},
               {"activation_function", "activation", "gelu_new"},
               {"resid_pdrop", "dropout", "0.1", nullptr, {"embd_pdrop", "attn_pdrop"}},
               {"layer_norm_epsilon", "norm_eps", "1e-05"},
               {"tie_word_embeddings", "tie", "true"}},
      .required = {{"scale_attn_weights", true},
                   {"scale_attn_by_inverse_layer_idx", false},
                   {"add_cross_attention", false},
                   {"is_encoder_decoder", false}},
      .fixed = {{"bias", "true"},
                {"gated", "false"},
                {"kv_heads", "0"},
                {"head_dim", "0"},
                {"qkv_bias", "false"},
                {"positions", "learned"},
                {"norm", "layer"},
                {"window", "0"},
                {"qk_norm", "false"},
                {"value_shortcut", "false"},
                {"embedding_shortcut", "false"},
                {"logit_cap", "0.0"},
                {"bigram", "false"},
                {"token_shift", "false"}},
      .layers = {{"wte", {"wte"}},
                 {"wpe", {"wpe"}},
                 {"blocks.*.ln1", {"h.*.ln_1"}},
                 {"blocks.*.attn.qkv", {"h.*.attn.c_attn"}, conv1d},
                 {"blocks.*.attn.proj", {"h.*.attn.c_proj"}, conv1d},
                 {"blocks.*.ln2", {"h.*.ln_2"}},
                 {"blocks.*.mlp.fc", {"h.*.mlp.c_fc"}, conv1d},
                 {"blocks.*.mlp.proj", {"h.*.mlp.c_proj"}, conv1d},
                 {"ln_f", {"ln_f"}}},
      .unprefixed = {{"head", {"lm_head"}}},
      .tied = {{"lm_head.weight", "wte.weight"}},
      .ignored = {"h.*.attn.bias", "h.*.attn.masked_bias"},
      .unsupported = {"lm_head.bias"},
      .architecture = "GPT2LMHeadModel"};
  return model;
}

const HuggingFaceModel& bert() {
  static const auto& model = *new HuggingFaceModel{
      .type = "bert",
      .kind = "bert",
      .prefix = "bert.",
      .keys = {{"vocab_size", "vocab", "30522"},
               {"max_position_embeddings", "context", "512"},
               {"type_vocab_size", "segments", "2"},
               {"num_hidden_layers", "layers", "12"},
               {"num_attention_heads", "heads", "12"},
               {"hidden_size", "dim", "768"},
               {"intermediate_size", "hidden", "3072"},
               {"hidden_dropout_prob", "dropout", "0.1", nullptr, {"attention_probs_dropout_prob"}},
               {"hidden_act", "activation", "gelu"},
               {"layer_norm_eps", "norm_eps", "1e-12"}},
      .required = {{"position_embedding_type", "absolute"},
                   {"is_decoder", false},
                   {"add_cross_attention", false},
                   {"is_encoder_decoder", false},
                   {"tie_word_embeddings", true},
                   {"pruned_heads", json::object()}},
      .fixed = {},
      .layers = {{"words", {"embeddings.word_embeddings"}},
                 {"positions", {"embeddings.position_embeddings"}},
                 {"segments", {"embeddings.token_type_embeddings"}},
                 {"embedding_norm", {"embeddings.LayerNorm"}},
                 {"blocks.*.attn.qkv",
                  {"encoder.layer.*.attention.self.query", "encoder.layer.*.attention.self.key",
                   "encoder.layer.*.attention.self.value"}},
                 {"blocks.*.attn.proj", {"encoder.layer.*.attention.output.dense"}},
                 {"blocks.*.ln1", {"encoder.layer.*.attention.output.LayerNorm"}},
                 {"blocks.*.mlp.fc", {"encoder.layer.*.intermediate.dense"}},
                 {"blocks.*.mlp.proj", {"encoder.layer.*.output.dense"}},
                 {"blocks.*.ln2", {"encoder.layer.*.output.LayerNorm"}},
                 {"pooler", {"pooler.dense"}, head}},
      .unprefixed = {{"transform", {"cls.predictions.transform.dense"}, head},
                     {"transform_norm", {"cls.predictions.transform.LayerNorm"}, head},
                     {"decoder.bias", {"cls.predictions.bias"}, head},
                     {"next", {"cls.seq_relationship"}, head},
                     {"head", {"classifier"}, head}},
      .tied = {{"cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"},
               {"cls.predictions.decoder.bias", "cls.predictions.bias"}},
      .ignored = {"embeddings.position_ids", "embeddings.token_type_ids"}};
  return model;
}

const HuggingFaceModel& vit() {
  static const auto& model = *new HuggingFaceModel{
      .type = "vit",
      .kind = "vit",
      .prefix = "vit.",
      .keys = {{"image_size", "image", "224"},
               {"num_channels", "channels", "3"},
               {"patch_size", "patch", "16"},
               {"num_hidden_layers", "layers", "12"},
               {"num_attention_heads", "heads", "12"},
               {"hidden_size", "dim", "768"},
               {"intermediate_size", "hidden", "3072"},
               {"hidden_dropout_prob", "dropout", "0", nullptr, {"attention_probs_dropout_prob"}},
               {"layer_norm_eps", "norm_eps", "1e-12"}},
      .required = {{"hidden_act", "gelu"}, {"qkv_bias", true}},
      .fixed = {{"pooling", "token"}},
      .layers = {{"class_token", {"embeddings.cls_token"}},
                 {"positions", {"embeddings.position_embeddings"}},
                 {"patch", {"embeddings.patch_embeddings.projection"}},
                 {"blocks.*.ln1", {"encoder.layer.*.layernorm_before"}},
                 {"blocks.*.attn.qkv",
                  {"encoder.layer.*.attention.attention.query",
                   "encoder.layer.*.attention.attention.key",
                   "encoder.layer.*.attention.attention.value"}},
                 {"blocks.*.attn.proj", {"encoder.layer.*.attention.output.dense"}},
                 {"blocks.*.ln2", {"encoder.layer.*.layernorm_after"}},
                 {"blocks.*.mlp.fc", {"encoder.layer.*.intermediate.dense"}},
                 {"blocks.*.mlp.proj", {"encoder.layer.*.output.dense"}},
                 {"ln_f", {"layernorm"}}},
      .unprefixed = {{"head", {"classifier"}, head}},
      .tied = {},
      .ignored = {"pooler.dense.weight", "pooler.dense.bias", "embeddings.mask_token"}};
  return model;
}

constexpr char bert_classifier[] = "bert-classifier";

std::array<const HuggingFaceModel*, 7> all_models() {
  return {&bert(), &gpt2(), &llama(), &mistral(), &qwen2(), &qwen3(), &vit()};
}

/// The table for a GPT of these fields; saving it fails on what the table fixes otherwise.
const HuggingFaceModel& gpt_model(const Fields& fields) {
  const auto is = [&](const char* field, const char* value) {
    return fields.find(field)->to_text() == value;
  };
  if (!is("positions", "rotary")) return gpt2();
  if (is("qk_norm", "true")) return qwen3();
  if (is("qkv_bias", "true")) return qwen2();
  return is("window", "0") ? llama() : mistral();
}

}  // namespace

// ---- configurations ----

bool is_hugging_face_config(const json& config) {
  return config.is_object() && config.contains("model_type") && !config.contains("model");
}

std::optional<HuggingFaceConfig> find_hugging_face_config(const std::string& dir) {
  const std::string path = config_path(dir);
  if (!file_exists(path)) return {};
  json config = read_json(path);
  if (!is_hugging_face_config(config)) return {};
  return HuggingFaceConfig{path, std::move(config)};
}

const HuggingFaceModel& hugging_face_model(const HuggingFaceConfig& config) {
  const json& type = config.values["model_type"];
  std::string known;
  for (const HuggingFaceModel* model : all_models()) {
    if (type == model->type) return *model;
    known += (known.empty() ? "one of " : ", ") + shown(model->type);
  }
  fail(config.path, ": model_type: expected ", known, ", got ", shown(type));
}

const HuggingFaceModel& hugging_face_model(const std::string& kind, const Fields& fields) {
  if (kind == gpt2().kind) return gpt_model(fields);
  for (const HuggingFaceModel* model : all_models())
    if (has_kind(*model, kind)) return *model;
  fail("save_hugging_face: expected a gpt, bert, bert-classifier or vit, got ", shown(kind));
}

bool has_hugging_face_form(const std::string& kind) {
  const auto models = all_models();
  return std::any_of(models.begin(), models.end(),
                     [&](const HuggingFaceModel* model) { return has_kind(*model, kind); });
}

bool has_kind(const HuggingFaceModel& model, const std::string& kind) {
  return kind == model.kind || (&model == &bert() && kind == bert_classifier);
}

std::string kind_in(const HuggingFaceConfig& config) {
  const HuggingFaceModel& model = hugging_face_model(config);
  const std::string architecture = architecture_of(config);
  const bool classifies = architecture == text_classifier || architecture == token_classifier;
  return &model == &bert() && classifies ? bert_classifier : model.kind;
}

std::string architecture_of(const HuggingFaceConfig& config) {
  const auto found = config.values.find("architectures");
  if (found == config.values.end() || !found->is_array() || found->empty() ||
      !(*found)[0].is_string())
    return "";
  return (*found)[0];
}

// ---- names of parameters ----

std::optional<std::string> number_in(const std::string& pattern, const std::string& name) {
  const size_t star = pattern.find('*');
  if (star == std::string::npos) return name == pattern ? std::optional("") : std::nullopt;
  const std::string before = pattern.substr(0, star), after = pattern.substr(star + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after))
    return {};
  const std::string number = name.substr(before.size(), name.size() - before.size() - after.size());
  const bool is_whole =
      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_whole ? std::optional(number) : std::nullopt;
}

namespace {

std::string with_number(std::string pattern, const std::string& number) {
  if (const size_t star = pattern.find('*'); star != std::string::npos)
    pattern.replace(star, 1, number);
  return pattern;
}

std::optional<HuggingFaceParameter> find_in(const std::vector<HuggingFaceLayer>& layers,
                                            const std::string& name) {
  for (const HuggingFaceLayer& layer : layers)
    for (const std::string suffix : {"", ".weight", ".bias"})
      if (const auto number = number_in(layer.layer + suffix, name)) {
        HuggingFaceParameter found;
        found.layer = &layer;
        found.is_transposed = layer.kind == HuggingFaceLayer::conv1d && suffix == ".weight";
        for (const char* hf_layer : layer.hf_layers)
          found.names.push_back(with_number(hf_layer, *number) + suffix);
        return found;
      }
  return {};
}

}  // namespace

std::optional<HuggingFaceParameter> find_parameter(const HuggingFaceModel& model,
                                                   std::string name) {
  if (name.starts_with(model.prefix)) name.erase(0, std::string(model.prefix).size());
  std::optional<HuggingFaceParameter> found = find_in(model.layers, name);
  if (!found) return find_in(model.unprefixed, name);
  found->has_prefix = true;
  return found;
}

}  // namespace gradus::models::internal
