#include "gradus/models/folder/hugging_face/config.h"

#include <algorithm>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/nn/layers.h"

namespace gradus::models::internal {

using nlohmann::json, nlohmann::ordered_json;

namespace {

/// Activations whose names differ: ours, Hugging Face's.
constexpr std::pair<const char*, const char*> hf_activations[] = {
    {"none", "linear"}, {"relu_squared", "relu2"}, {"gelu_tanh", "gelu_new"}};
/// Hugging Face's aliases of activations, each with the name that it stands for.
constexpr std::pair<const char*, const char*> activation_aliases[] = {
    {"gelu_pytorch_tanh", "gelu_new"},
    {"gelu_fast", "gelu_new"},
    {"gelu_python", "gelu"},
    {"swish", "silu"}};

bool is_activation(const HuggingFaceKey& key) { return key.field == std::string("activation"); }

/// Returns our fields under Hugging Face's keys and with Hugging Face's defaults.
Fields hugging_face_fields(const HuggingFaceModel& model, const Fields& ours) {
  Fields fields;
  for (const HuggingFaceKey& key : model.keys) {
    Field field = *ours.find(key.field);
    field.name = key.key;
    field.optional = true;
    field.initial = key.initial;
    if (is_activation(key))
      for (std::string& name : std::get<Choice>(field.value).names)
        for (const auto& [own, theirs] : hf_activations)
          if (name == own) name = theirs;
    fields.add(std::move(field));
  }
  return fields;
}

// ---- reading ----

void check_required(const HuggingFaceModel& model, const HuggingFaceConfig& config) {
  for (const auto& [key, value] : model.required.items()) {
    const auto found = config.values.find(key);
    // Null, None in Python, stands for false or for a feature that is not used.
    const bool is_same = found == config.values.end() || *found == value ||
                         (found->is_null() && (!value.is_boolean() || value == false));
    if (!is_same)
      fail(config.path, ": ", key, ": expected ", shown(value), ", got ", shown(*found),
           ": gradus has no such model");
  }
}

void check_single_label(const HuggingFaceConfig& config) {
  const json type = config.values.value("problem_type", json());
  if (!type.is_null() && type != "single_label_classification")
    fail(config.path, ": problem_type: expected \"single_label_classification\", got ", shown(type),
         ": gradus's classifiers choose one class");
}

/// The value of a key, or of its alias; null if both are missing.
json value_of(const HuggingFaceConfig& config, const HuggingFaceKey& key) {
  auto at = [&](const char* name) { return name ? config.values.value(name, json()) : json(); };
  const json value = at(key.key), same = at(key.alias);
  if (!value.is_null() && !same.is_null() && value != same)
    fail(config.path, ": ", key.key, " is ", shown(value), ", ", key.alias, " is ", shown(same),
         ": expected equal values, since they mean the same");
  return value.is_null() ? same : value;
}

/// The values of the model's keys, without their aliases.
json known_values(const HuggingFaceModel& model, const HuggingFaceConfig& read) {
  const HuggingFaceConfig config{read.path, flat_values(model, read)};
  json known = json::object();
  for (const HuggingFaceKey& key : model.keys) {
    const json value = value_of(config, key);
    if (value.is_null() && key.null_is_zero && config.values.contains(key.key)) known[key.key] = 0;
    if (value.is_null()) continue;
    known[key.key] = value;
    if (!is_activation(key)) continue;
    for (const auto& [alias, name] : activation_aliases)
      if (value == alias) known[key.key] = name;
  }
  return known;
}

}  // namespace

size_t count_in(const HuggingFaceConfig& config, const char* key, size_t by_default) {
  const json count = config.values.value(key, json());
  if (count.is_null()) return by_default;
  if (!count.is_number_integer() || count < 1 || count > 1'000'000)
    fail(config.path, ": ", key, ": expected a whole number from 1 to 1000000, got ", shown(count));
  return count;
}

std::string default_class_name(size_t i) { return "LABEL_" + std::to_string(i); }

std::vector<std::string> class_names_in(const HuggingFaceConfig& config) {
  std::vector<std::string> names;
  if (architecture_of(config) == "ViTModel") return names;
  const auto labels = config.values.find("id2label");
  if (labels == config.values.end() || labels->is_null()) {
    const size_t count = count_in(config, "num_labels", 2);
    for (size_t i = 0; i < count; ++i) names.push_back(default_class_name(i));
    return names;
  }
  if (!labels->is_object())
    fail(config.path, ": id2label: expected an object of numbers and names, got ", shown(*labels));
  for (size_t i = 0; i < labels->size(); ++i) {
    const auto name = labels->find(std::to_string(i));
    if (name == labels->end() || !name->is_string())
      fail(config.path, ": id2label: expected a name for each number from 0 to ",
           labels->size() - 1, ", but there is none for ", i);
    names.push_back(*name);
  }
  return names;
}

void read_fields(const HuggingFaceConfig& config, const std::string& kind, const Fields& fields) {
  const HuggingFaceModel& model = hugging_face_model(config);
  check(has_kind(model, kind), config.path, ": expected a model of kind \"", kind, "\", got a ",
        model.type);
  check_required(model, config);
  const json known = known_values(model, config);
  const std::string architecture = architecture_of(config);
  const Field *classes = fields.find("classes"), *tokens = fields.find("tokens");
  const size_t num_classes = classes ? class_names_in(config).size() : 0;
  if (classes) check_single_label(config);
  if (classes)
    check(num_classes >= classes->least && num_classes <= classes->most, config.path, ": expected ",
          static_cast<int64_t>(classes->least), " to ", static_cast<int64_t>(classes->most),
          " classes, got ", num_classes);

  hugging_face_fields(model, fields).read_json(config.path, known.dump());
  for (const auto& [name, value] : model.fixed) fields.find(name)->set(name, value);
  if (classes) classes->set("classes", std::to_string(num_classes));
  if (tokens) tokens->set("tokens", architecture == token_classifier ? "true" : "false");
}

// ---- writing ----

namespace {

std::string architecture_for(const HuggingFaceModel& model, const std::string& kind,
                             const Fields& fields) {
  if (model.architecture) return model.architecture;
  if (kind == "bert") return "BertForPreTraining";
  if (kind == "vit")
    return fields.find("classes")->to_text() == "0" ? "ViTModel" : "ViTForImageClassification";
  return fields.find("tokens")->to_text() == "true" ? token_classifier : text_classifier;
}

/// The value of a field that is 0, which means the default.
ordered_json default_of(const HuggingFaceKey& key, const Fields& fields) {
  if (key.field == std::string("kv_heads")) return head_layout(fields).kv_heads;
  if (key.field == std::string("head_dim")) return head_layout(fields).head_dim;
  if (key.field != std::string("hidden"))
    return key.null_is_zero ? ordered_json() : ordered_json(0);
  if (key.null_is_zero) return nullptr;
  const Field* gated = fields.find("gated");
  const int64_t dim = number_of(fields, "dim");
  return gated && gated->to_text() == "true" ? nn::SwiGLU::hidden_size(dim) : 4 * dim;
}

bool has_default_head_dim(const Fields& fields) {
  const HeadLayout layout = head_layout(fields);
  return layout.heads * layout.head_dim == number_of(fields, "dim");
}

/// Throws Error on fields that Hugging Face's model fixes to another value. A model without biases
/// passes if they are written as zeros.
void check_fixed(const HuggingFaceModel& model, const Fields& fields) {
  for (const auto& [name, value] : model.fixed) {
    const std::string field = name, got = fields.find(field)->to_text();
    const bool is_same = got == value || (field == "bias" && !model.is_llama) ||
                         (field == "kv_heads" && got == fields.find("heads")->to_text()) ||
                         (field == "head_dim" && has_default_head_dim(fields));
    check(is_same, "save_hugging_face: Hugging Face's ", model.type, " has ", name, ' ', value,
          ", this model has ", got);
  }
}

void add_classes(ordered_json& config, size_t count, const std::vector<std::string>& class_names) {
  check(class_names.empty() || class_names.size() == count, "save_hugging_face: expected ", count,
        " names of classes, got ", class_names.size());
  ordered_json names = json::object(), ids = json::object();
  for (size_t i = 0; i < count; ++i) {
    const std::string name = class_names.empty() ? default_class_name(i) : class_names[i];
    names[std::to_string(i)] = name;
    ids[name] = i;
  }
  config["id2label"] = std::move(names);
  config["label2id"] = std::move(ids);
}

}  // namespace

ordered_json make_hugging_face_config(const std::string& kind, const Fields& fields,
                                      const std::vector<std::string>& class_names) {
  const HuggingFaceModel& model = hugging_face_model(kind, fields);
  check_fixed(model, fields);
  const auto values = ordered_json::parse(hugging_face_fields(model, fields).to_json());
  ordered_json config{{"architectures", {architecture_for(model, kind, fields)}},
                      {"model_type", model.type}};
  for (const HuggingFaceKey& key : model.keys) {
    const bool is_default = fields.find(key.field)->to_text() == "0";
    config[key.key] = is_default ? default_of(key, fields) : values[key.key];
    for (const char* other : key.also) config[other] = config[key.key];
  }
  nest_values(model, config);
  for (const auto& [key, value] : model.required.items()) config[key] = value;
  const Field* classes = fields.find("classes");
  if (classes && classes->to_text() != "0")
    add_classes(config, parse_number<uint64_t>(classes->to_text()).value(), class_names);
  return config;
}

}  // namespace gradus::models::internal
