#include <algorithm>
#include <array>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/models/folder/hugging_face_parts.h"

namespace gradus::models {

using internal::TheirKey;
using internal::TheirModel;
using nlohmann::json;

namespace {

constexpr auto conv1d = internal::TheirLayer::conv1d, head = internal::TheirLayer::head;

// In functions: a user's global may load a folder before main, or after its end.

const TheirModel& gpt2() {
  static const auto& model = *new TheirModel{
      .type = "gpt2",
      .kind = "gpt",
      .prefix = "transformer.",
      .keys = {{"vocab_size", "vocab", "50257"},
               {"n_positions", "context", "1024", {"n_ctx"}, false, "max_position_embeddings"},
               {"n_layer", "layers", "12", {}, false, "num_hidden_layers"},
               {"n_head", "heads", "12", {}, false, "num_attention_heads"},
               {"n_embd", "dim", "768", {}, false, "hidden_size"},
               {"n_inner", "hidden", "0", {}, true},
               {"activation_function", "activation", "gelu_new"},
               {"resid_pdrop", "dropout", "0.1", {"embd_pdrop", "attn_pdrop"}},
               {"layer_norm_epsilon", "norm_eps", "1e-05"},
               {"tie_word_embeddings", "tie", "true"}},
      .required = {{"scale_attn_weights", true},
                   {"scale_attn_by_inverse_layer_idx", false},
                   {"add_cross_attention", false},
                   {"is_encoder_decoder", false}},
      .given = {{"bias", "true"},
                {"gated", "false"},
                {"kv_heads", "0"},
                {"positions", "learned"},
                {"norm", "layer"}},
      .layers = {{"wte", {"wte"}},
                 {"wpe", {"wpe"}},
                 {"blocks.*.ln1", {"h.*.ln_1"}},
                 {"blocks.*.attn.qkv", {"h.*.attn.c_attn"}, conv1d},
                 {"blocks.*.attn.proj", {"h.*.attn.c_proj"}, conv1d},
                 {"blocks.*.ln2", {"h.*.ln_2"}},
                 {"blocks.*.mlp.fc", {"h.*.mlp.c_fc"}, conv1d},
                 {"blocks.*.mlp.proj", {"h.*.mlp.c_proj"}, conv1d},
                 {"ln_f", {"ln_f"}}},
      .outside = {{"head", {"lm_head"}}},
      .repeated = {{"lm_head.weight", "wte.weight"}},
      .ignored = {"h.*.attn.bias", "h.*.attn.masked_bias"},
      .refused = {"lm_head.bias"}};
  return model;
}

const TheirModel& bert() {
  static const auto& model = *new TheirModel{
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
               {"hidden_dropout_prob", "dropout", "0.1", {"attention_probs_dropout_prob"}},
               {"hidden_act", "activation", "gelu"},
               {"layer_norm_eps", "norm_eps", "1e-12"}},
      .required = {{"position_embedding_type", "absolute"},
                   {"is_decoder", false},
                   {"add_cross_attention", false},
                   {"is_encoder_decoder", false},
                   {"tie_word_embeddings", true},
                   {"pruned_heads", json::object()}},
      .given = {},
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
      .outside = {{"transform", {"cls.predictions.transform.dense"}, head},
                  {"transform_norm", {"cls.predictions.transform.LayerNorm"}, head},
                  {"decoder.bias", {"cls.predictions.bias"}, head},
                  {"next", {"cls.seq_relationship"}, head},
                  {"head", {"classifier"}, head}},
      .repeated = {{"cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"},
                   {"cls.predictions.decoder.bias", "cls.predictions.bias"}},
      .ignored = {"embeddings.position_ids", "embeddings.token_type_ids"}};
  return model;
}

const TheirModel& vit() {
  static const auto& model = *new TheirModel{
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
               {"hidden_dropout_prob", "dropout", "0", {"attention_probs_dropout_prob"}},
               {"layer_norm_eps", "norm_eps", "1e-12"}},
      .required = {{"hidden_act", "gelu"}, {"qkv_bias", true}},
      .given = {{"pooling", "token"}},
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
      .outside = {{"head", {"classifier"}, head}},
      .repeated = {},
      .ignored = {"pooler.dense.weight", "pooler.dense.bias", "embeddings.mask_token"}};
  return model;
}

std::array<const TheirModel*, 3> all_of_theirs() { return {&bert(), &gpt2(), &vit()}; }

constexpr char bert_classifier[] = "bert-classifier";

bool is_of_kind(const TheirModel& model, const std::string& kind) {
  return kind == model.kind || (&model == &bert() && kind == bert_classifier);
}

// ---- what a configuration says ----

/// What a model of theirs is for: "GPT2LMHeadModel"; "" where the file does not say.
std::string architecture_of(const json& config) {
  const auto found = config.find("architectures");
  if (found == config.end() || !found->is_array() || found->empty() || !(*found)[0].is_string())
    return "";
  return (*found)[0];
}

constexpr const char* text_classifier = "BertForSequenceClassification";
constexpr const char* token_classifier = "BertForTokenClassification";

/// Activations by their names, in the order of ours.
constexpr const char* their_activations[] = {"linear", "relu",     "tanh", "sigmoid",
                                             "gelu",   "gelu_new", "silu", "quick_gelu"};
static_assert(core::activations.size() == std::size(their_activations));
/// Other names of theirs for the same.
constexpr std::pair<const char*, const char*> same_activations[] = {
    {"gelu_pytorch_tanh", "gelu_new"},
    {"gelu_fast", "gelu_new"},
    {"gelu_python", "gelu"},
    {"swish", "silu"}};

/// Our entries under their names, with their defaults.
Fields as_theirs(const TheirModel& model, const Fields& ours) {
  Fields fields;
  for (const TheirKey& key : model.keys) {
    Field field = *ours.find(key.ours);
    field.name = key.theirs;
    field.optional = true;
    field.initial = key.initial;
    if (key.ours == std::string("activation"))
      std::get<Choice>(field.value).names = {std::begin(their_activations),
                                             std::end(their_activations)};
    fields.add(std::move(field));
  }
  return fields;
}

void check_required(const std::string& path, const TheirModel& model, const json& config) {
  for (const auto& [key, value] : model.required.items()) {
    const auto found = config.find(key);
    // To Python null is false, or what is not asked for.
    const bool is_same = found == config.end() || *found == value ||
                         (found->is_null() && (!value.is_boolean() || value == false));
    if (!is_same)
      fail(path, ": ", key, ": expected ", shown(value), ", got ", shown(*found),
           ": a model that gradus does not have");
  }
}

}  // namespace

bool internal::is_theirs(const json& config) {
  return config.is_object() && config.contains("model_type") && !config.contains("model");
}

const TheirModel& internal::their_model(const std::string& path, const json& config) {
  const json& type = config["model_type"];
  std::string known;
  for (const TheirModel* model : all_of_theirs()) {
    if (type == model->type) return *model;
    known += (known.empty() ? "one of " : ", ") + shown(model->type);
  }
  fail(path, ": model_type: expected ", known, ", got ", shown(type));
}

const TheirModel& internal::their_model(const std::string& kind) {
  for (const TheirModel* model : all_of_theirs())
    if (is_of_kind(*model, kind)) return *model;
  fail("save_hugging_face: expected a gpt, bert, bert-classifier or vit, got ", shown(kind));
}

std::string internal::kind_of_theirs(const std::string& path, const json& config) {
  const TheirModel& model = their_model(path, config);
  const std::string architecture = architecture_of(config);
  const bool classifies = architecture == text_classifier || architecture == token_classifier;
  return &model == &bert() && classifies ? bert_classifier : model.kind;
}

bool internal::is_text_classifier(const json& config) {
  return architecture_of(config) == text_classifier;
}

namespace {

/// The value of a key, under its alias too; null if there is none.
json value_of(const std::string& path, const json& config, const TheirKey& key) {
  auto at = [&](const char* name) { return name ? config.value(name, json()) : json(); };
  const json value = at(key.theirs), same = at(key.alias);
  if (!value.is_null() && !same.is_null() && value != same)
    fail(path, ": ", key.theirs, " is ", shown(value), ", ", key.alias, " is ", shown(same),
         ": expected one, they mean the same");
  return value.is_null() ? same : value;
}

void check_problem(const std::string& path, const json& config) {
  const json type = config.value("problem_type", json());
  if (!type.is_null() && type != "single_label_classification")
    fail(path, ": problem_type: expected \"single_label_classification\", got ", shown(type),
         ": gradus's classifiers choose one class");
}

}  // namespace

std::vector<std::string> internal::their_labels(const std::string& path, const json& config) {
  const auto names = config.find("id2label");
  std::vector<std::string> labels;
  if (names == config.end() || names->is_null()) {
    const auto count = config.find("num_labels");
    int64_t n = 2;
    if (count != config.end()) {
      const bool ok = count->is_number_integer() && *count >= 1 && *count <= 1'000'000;
      if (!ok)
        fail(path, ": num_labels: expected a whole number from 1 to 1000000, got ", shown(*count));
      n = *count;
    }
    for (int64_t i = 0; i < n; ++i) labels.push_back("LABEL_" + std::to_string(i));
    return labels;
  }
  if (!names->is_object())
    fail(path, ": id2label: expected an object of numbers and names, got ", shown(*names));
  for (size_t i = 0; i < names->size(); ++i) {
    const auto name = names->find(std::to_string(i));
    if (name == names->end() || !name->is_string())
      fail(path, ": id2label: expected a name for each number from 0 to ", names->size() - 1,
           ", but there is none for ", i);
    labels.push_back(*name);
  }
  return labels;
}

void internal::read_their_config(const std::string& path, const json& config,
                                 const std::string& kind, const Fields& ours) {
  const TheirModel& model = their_model(path, config);
  check(is_of_kind(model, kind), path, ": expected a model of kind \"", kind, "\", got a ",
        model.type);
  check_required(path, model, config);
  json known = json::object();
  for (const TheirKey& key : model.keys) {
    const json value = value_of(path, config, key);
    if (value.is_null()) continue;
    known[key.theirs] = value;
    for (const auto& [other, name] : same_activations)
      if (key.ours == std::string("activation") && value == other) known[key.theirs] = name;
  }
  const std::string architecture = architecture_of(config);
  const Field *classes = ours.find("classes"), *tokens = ours.find("tokens");
  const size_t labels =
      classes && architecture != "ViTModel" ? their_labels(path, config).size() : 0;
  if (classes) check_problem(path, config);
  check(!classes || static_cast<double>(labels) >= classes->least, path,
        ": expected at least 2 classes, got ", labels);

  as_theirs(model, ours).read_json(path, known.dump());
  for (const auto& [name, value] : model.given) ours.find(name)->set(name, value);
  if (classes) classes->set("classes", std::to_string(labels));
  if (tokens) tokens->set("tokens", architecture == token_classifier ? "true" : "false");
}

// ---- to be saved ----

namespace {

std::string architecture_for(const std::string& kind, const Fields& ours) {
  if (kind == "gpt") return "GPT2LMHeadModel";
  if (kind == "bert") return "BertForPreTraining";
  if (kind == "vit")
    return ours.find("classes")->to_text() == "0" ? "ViTModel" : "ViTForImageClassification";
  return ours.find("tokens")->to_text() == "true" ? token_classifier : text_classifier;
}

/// Throws Error on entries that have no counterpart. Biases that are not there are zeros to them.
void check_expressible(const TheirModel& model, const Fields& ours) {
  for (const auto& [name, value] : model.given) {
    const std::string got = ours.find(name)->to_text(), called = name;
    const bool same = got == value || called == "bias" ||
                      (called == "kv_heads" && got == ours.find("heads")->to_text());
    check(same, "save_hugging_face: a ", model.type, " of theirs has ", name, ' ', value,
          ", this model has ", got);
  }
}

}  // namespace

nlohmann::ordered_json internal::their_config(const std::string& kind, const Fields& ours,
                                              const std::vector<std::string>& labels) {
  const TheirModel& model = their_model(kind);
  check_expressible(model, ours);
  const auto values = nlohmann::ordered_json::parse(as_theirs(model, ours).to_json());
  nlohmann::ordered_json config{{"architectures", {architecture_for(kind, ours)}},
                                {"model_type", model.type}};
  for (const TheirKey& key : model.keys) {
    config[key.theirs] = values[key.theirs];
    for (const char* other : key.also) config[other] = values[key.theirs];
    if (key.ours != std::string("hidden") || values[key.theirs] != 0) continue;
    if (key.null_is_zero)
      config[key.theirs] = nullptr;
    else
      config[key.theirs] = 4 * values["hidden_size"].get<int64_t>();
  }
  for (const auto& [key, value] : model.required.items()) config[key] = value;
  const Field* classes = ours.find("classes");
  if (!classes || classes->to_text() == "0") return config;
  const auto count = parse_number<int64_t>(classes->to_text()).value();
  check(labels.empty() || std::ssize(labels) == count, "save_hugging_face: expected ", count,
        " names of classes, got ", labels.size());
  nlohmann::ordered_json names = json::object(), numbers = json::object();
  for (int64_t i = 0; i < count; ++i) {
    const std::string name =
        labels.empty() ? "LABEL_" + std::to_string(i) : labels[static_cast<size_t>(i)];
    names[std::to_string(i)] = name;
    numbers[name] = i;
  }
  config["id2label"] = std::move(names);
  config["label2id"] = std::move(numbers);
  return config;
}

}  // namespace gradus::models
