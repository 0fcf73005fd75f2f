// GPTs and GGUF: which architecture holds which GPT, and under which names.

#include <fcntl.h>

#include <algorithm>
#include <cmath>

#include "gradus/core/files/json.h"
#include "gradus/core/files/open_file.h"
#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/models/folder/gguf/gguf_file.h"
#include "gradus/models/folder/gguf/gguf_tokenizer.h"
#include "gradus/models/folder/hugging_face/config.h"
#include "gradus/models/folder/hugging_face/weights.h"
#include "gradus/nn/finetune/lora.h"
#include "gradus/nn/layers.h"
#include "gradus/nn/loading.h"

namespace gradus::models {

using namespace internal;
using nlohmann::json, nlohmann::ordered_json;

namespace {

// ---- tables ----

/// A key ARCHITECTURE.key and our field; `initial` is the value of a missing key, null if required.
struct Key {
  const char *key, *field, *initial;
};

/// One of llama.cpp's architectures.
struct Architecture {
  HuggingFaceModel names;  ///< of tensors; `fixed` are values of our fields
  std::vector<Key> keys;
  bool (*holds_activation)(Activation activation);
  const char* activation;
};

constexpr char freqs_name[] = "rope_freqs.weight";

bool is_gelu(Activation a) { return a == Activation::gelu || a == Activation::gelu_tanh; }
bool is_silu(Activation a) { return a == Activation::silu; }

std::vector<Key> keys_with(std::vector<Key> more) {
  std::vector<Key> all{
      {"context_length", "context", nullptr},     {"embedding_length", "dim", nullptr},
      {"block_count", "layers", nullptr},         {"feed_forward_length", "hidden", nullptr},
      {"attention.head_count", "heads", nullptr}, {"attention.head_count_kv", "kv_heads", "0"}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Returns the architecture `type`: the given fixed fields and layers, and those that all
/// architectures have.
Architecture architecture(const char* type, std::vector<std::pair<const char*, const char*>> fixed,
                          std::vector<HuggingFaceLayer> layers) {
  Architecture a;
  a.names.type = type;
  a.names.kind = GPT::kind;
  a.names.prefix = "";
  a.names.fixed = std::move(fixed);
  a.names.fixed.insert(a.names.fixed.end(), {{"value_shortcut", "false"},
                                             {"embedding_shortcut", "false"},
                                             {"logit_cap", "0.0"},
                                             {"bigram", "false"},
                                             {"token_shift", "false"}});
  a.names.layers = {{"wte", {"token_embd"}},
                    {"blocks.*.ln1", {"blk.*.attn_norm"}},
                    {"blocks.*.attn.proj", {"blk.*.attn_output"}},
                    {"blocks.*.ln2", {"blk.*.ffn_norm"}},
                    {"blocks.*.mlp.proj", {"blk.*.ffn_down"}},
                    {"ln_f", {"output_norm"}},
                    {"head", {"output"}}};
  a.names.layers.insert(a.names.layers.end(), layers.begin(), layers.end());
  return a;
}

Architecture make_gpt2() {
  Architecture a = architecture("gpt2",
                                {{"positions", "learned"},
                                 {"norm", "layer"},
                                 {"gated", "false"},
                                 {"head_dim", "0"},
                                 {"qkv_bias", "false"},
                                 {"qk_norm", "false"}},
                                {{"wpe", {"position_embd"}},
                                 {"blocks.*.attn.qkv", {"blk.*.attn_qkv"}},
                                 {"blocks.*.mlp.fc", {"blk.*.ffn_up"}}});
  a.keys = keys_with({{"attention.layer_norm_epsilon", "norm_eps", nullptr}});
  a.holds_activation = is_gelu;
  a.activation = "gelu_tanh";
  return a;
}

/// Returns llama, qwen2 or qwen3. The features of a pair that rotates together are neighbours in
/// llama, as in our models; in qwen2 and qwen3 they are half a head apart.
Architecture make_llama(const char* type, HuggingFaceLayer::Kind kind, bool has_qk_norm) {
  std::vector<std::pair<const char*, const char*>> fixed{
      {"positions", "rotary"}, {"norm", "rms"}, {"gated", "true"}};
  fixed.emplace_back("qk_norm", has_qk_norm ? "true" : "false");
  if (kind == HuggingFaceLayer::rotary) fixed.emplace_back("rotary_factor", "1.0");
  if (kind == HuggingFaceLayer::rotary) fixed.emplace_back("bias", "false");
  if (has_qk_norm) fixed.emplace_back("qkv_bias", "false");
  std::vector<HuggingFaceLayer> layers{
      {"blocks.*.attn.qkv", {"blk.*.attn_q", "blk.*.attn_k", "blk.*.attn_v"}, kind},
      {"blocks.*.mlp.fc", {"blk.*.ffn_gate", "blk.*.ffn_up"}}};
  if (has_qk_norm) {
    layers.push_back({"blocks.*.attn.q_norm", {"blk.*.attn_q_norm"}, kind});
    layers.push_back({"blocks.*.attn.k_norm", {"blk.*.attn_k_norm"}, kind});
  }
  Architecture a = architecture(type, std::move(fixed), std::move(layers));
  a.keys = keys_with({{"attention.key_length", "head_dim", "0"},
                      {"attention.layer_norm_rms_epsilon", "norm_eps", nullptr},
                      {"rope.freq_base", "rotary_theta", "10000"}});
  a.names.is_llama = true;
  a.holds_activation = is_silu;
  a.activation = "silu";
  return a;
}

/// The architectures; never destroyed, because a user's global object may use them.
const std::vector<Architecture>& architectures() {
  static const auto& all = *new std::vector<Architecture>{
      make_gpt2(), make_llama("llama", HuggingFaceLayer::heads, false),
      make_llama("qwen2", HuggingFaceLayer::rotary, false),
      make_llama("qwen3", HuggingFaceLayer::rotary, true)};
  return all;
}

/// The architecture that could hold the GPT.
const Architecture& architecture_for(const GPTConfig& c) {
  const std::string type = c.positions != Positions::rotary ? "gpt2"
                           : c.qk_norm                      ? "qwen3"
                                                            : "llama";
  return *std::find_if(architectures().begin(), architectures().end(),
                       [&](const Architecture& a) { return a.names.type == type; });
}

/// The configuration with the actual sizes where a 0 stands for the default.
GPTConfig with_sizes(GPTConfig c) {
  const HeadLayout heads = head_layout(GPT::fields(c));
  c.kv_heads = heads.kv_heads;
  c.head_dim = heads.head_dim;
  if (c.hidden == 0) c.hidden = c.gated ? nn::SwiGLU::hidden_size(c.dim) : 4 * c.dim;
  return c;
}

/// The configuration with 0 where sizes are the default ones.
GPTConfig without_sizes(GPTConfig c) {
  if (c.kv_heads == c.heads) c.kv_heads = 0;
  if (c.head_dim * c.heads == c.dim) c.head_dim = 0;
  return c;
}

/// Throws Error, opening with `op`, unless the architecture computes what the GPT does.
void check_held(const std::string& op, const Architecture& a, GPTConfig c) {
  c = without_sizes(c);
  const Fields fields = GPT::fields(c);
  const auto expect = [&](bool ok, const char* field, const std::string& value) {
    check(ok, op, ": llama.cpp's ", a.names.type, " has ", field, ' ', value, ", this model has ",
          fields.find(field)->to_text());
  };
  for (const auto& [field, value] : a.names.fixed)
    expect(fields.find(field)->to_text() == value, field, value);
  expect(a.holds_activation(c.activation), "activation", a.activation);
  expect(c.window == 0 || c.window >= c.context, "window", "0");
}

// ---- rotary frequencies ----

/// Returns the number that divides the frequency of each pair of features: (head_dim / 2).
Tensor frequency_factors(const nn::RotaryOptions& scaled, int64_t head_dim) {
  nn::RotaryOptions plain = scaled;
  plain.factor = 1;
  const auto angles = [&](const nn::RotaryOptions& o) {  // of the token at 1
    const Tensor sines = nn::rotary_positions(2, head_dim, o, float64);
    std::vector<double> all;
    for (int64_t i = 0; i < head_dim; i += 2)
      all.push_back(
          std::atan2(sines.data<double>()[head_dim + i], sines.data<double>()[head_dim + i + 1]));
    return all;
  };
  const std::vector<double> slow = angles(scaled), fast = angles(plain);
  const Tensor factors = empty({head_dim / 2}, float32);
  for (size_t i = 0; i < slow.size(); ++i)
    factors.data<float>()[i] = static_cast<float>(fast[i] / slow[i]);
  return factors;
}

/// Throws Error unless the file's frequency factors are those of the configuration. Files of other
/// programs do not state rotary_factor: it is then set to the largest factor, and the other options
/// of scaled positions keep their defaults, which are those of Llama 3.1.
void read_factors(const Tensor* in_file, GPTConfig& c) {
  if (!in_file && c.rotary.factor == 1) return;
  check(in_file, "expected a tensor \"", freqs_name, "\", since rotary_factor is not 1");
  const int64_t head_dim = head_layout(GPT::fields(c)).head_dim;
  check(in_file->shape() == Shape{head_dim / 2}, "tensor \"", freqs_name, "\": expected the shape ",
        Shape{head_dim / 2}, ", got ", in_file->shape());
  const float* const got = in_file->data<float>();
  if (c.rotary.factor == 1) c.rotary.factor = *std::max_element(got, got + head_dim / 2);
  GPT::fields(c).check("rotary positions");
  const Tensor expected = frequency_factors(c.rotary, head_dim);
  for (int64_t i = 0; i < head_dim / 2; ++i)
    check(std::abs(got[i] - expected.data<float>()[i]) <= 1e-3f * expected.data<float>()[i],
          "tensor \"", freqs_name, "\": expected Llama 3.1's ", expected.data<float>()[i],
          " for pair ", i, ", got ", got[i]);
}

// ---- our fields that the format lacks ----

constexpr const char* own_fields[] = {"activation",        "dropout",
                                      "rotary_factor",     "rotary_low_turns",
                                      "rotary_high_turns", "rotary_trained_context"};

std::string own_key(const char* field) { return std::string("gradus.") + field; }

void add_own_fields(ordered_json& metadata, const Architecture& a, const Fields& fields) {
  GPTConfig initial;
  GPT::fields(initial).find("activation")->set("activation", a.activation);
  for (const char* field : own_fields)
    if (const std::string text = fields.find(field)->to_text();
        text != GPT::fields(initial).find(field)->to_text())
      metadata[own_key(field)] = text;
}

void read_own_fields(const ordered_json& metadata, const Fields& fields) {
  for (const char* field : own_fields) {
    const auto found = metadata.find(own_key(field));
    if (found == metadata.end()) continue;
    const std::string where = "metadata " + shown(own_key(field));
    if (!found->is_string()) fail(where, ": expected a string, got ", shown(*found));
    fields.find(field)->set(where, *found);
  }
}

// ---- configurations ----

const Architecture& architecture_in(const ordered_json& metadata) {
  const json type = metadata.value("general.architecture", ordered_json());
  std::string known;
  for (const Architecture& a : architectures()) {
    if (type == a.names.type) return a;
    known += (known.empty() ? "one of " : ", ") + shown(a.names.type);
  }
  fail("metadata \"general.architecture\": expected ", known, ", got ", shown(type));
}

/// The fields whose values the metadata have, by their keys.
Fields keyed_fields(const Architecture& a, const Fields& ours) {
  Fields fields;
  for (const Key& key : a.keys) {
    Field field = *ours.find(key.field);
    field.name = std::string(a.names.type) + '.' + key.key;
    field.optional = key.initial;
    field.initial = key.initial ? key.initial : "";
    fields.add(std::move(field));
  }
  return fields;
}

/// Returns keys whose values follow from other keys, with these values.
std::vector<std::pair<std::string, int64_t>> implied(const Architecture& a, GPTConfig c) {
  const std::string type = a.names.type;
  const int64_t head_dim = head_layout(GPT::fields(c)).head_dim;
  if (!a.names.is_llama) return {{type + ".vocab_size", c.vocab}};
  return {{type + ".vocab_size", c.vocab},
          {type + ".rope.dimension_count", head_dim},
          {type + ".attention.value_length", head_dim}};
}

const Tensor* find_tensor(const NamedTensors& tensors, const char* name) {
  for (const auto& [one, tensor] : tensors)
    if (one == name) return &tensor;
  return nullptr;
}

/// Returns the configuration, from the metadata and from the presence of some tensors.
GPTConfig read_config(const Architecture& a, const GgufFile& file) {
  GPTConfig c;
  const Fields ours = GPT::fields(c), keyed = keyed_fields(a, ours);
  const std::string prefix = std::string(a.names.type) + '.';
  json known = json::object();
  for (const auto& [key, value] : file.metadata.items())
    if (keyed.find(key)) known[key] = value;
  keyed.read_json("metadata", known.dump(-1, ' ', false, json::error_handler_t::replace));
  for (const auto& [field, value] : a.names.fixed) ours.find(field)->set(field, value);
  ours.find("activation")->set("activation", a.activation);
  const auto has = [&](const char* name) { return find_tensor(file.tensors, name) != nullptr; };
  const Tensor* const words = find_tensor(file.tensors, "token_embd.weight");
  check(words && words->rank() == 2, "expected a matrix \"token_embd.weight\"");
  c.vocab = words->size(0);
  c.tie = !has("output.weight");
  c.bias = !a.names.is_llama || has("blk.0.attn_output.bias");
  if (a.names.is_llama) c.qkv_bias = has("blk.0.attn_q.bias");
  c = without_sizes(c);
  read_own_fields(file.metadata, ours);
  ours.check("metadata");
  if (a.names.is_llama) read_factors(find_tensor(file.tensors, freqs_name), c);
  const auto derived = implied(a, c);
  for (const auto& [key, value] : file.metadata.items()) {
    if (!key.starts_with(prefix) || keyed.find(key)) continue;
    const auto found = std::find_if(derived.begin(), derived.end(),
                                    [&key = key](const auto& one) { return one.first == key; });
    if (found == derived.end())
      fail("metadata ", shown(key), ": gradus has no model with this entry");
    if (value != found->second)
      fail("metadata ", shown(key), ": expected ", found->second, ", got ", shown(value));
  }
  check_held("metadata", a, c);
  return c;
}

// ---- text information ----

constexpr char jinja_key[] = "tokenizer.chat_template", form_key[] = "gradus.chat_template";

/// Adds what the format can hold of `text`. A token that precedes every text stays the one that
/// begins texts.
void add_text(ordered_json& metadata, const TextInfo& text, int64_t vocab) {
  const bool begins = metadata.value(in_ggml("add_bos_token"), false);
  for (const auto& [key, ids] : text.token_ids)
    if (key == "eos_token_id" || (key == "bos_token_id" && !begins))
      if (!ids.empty() && ids[0] >= 0 && ids[0] < vocab) metadata[in_ggml(key.c_str())] = ids[0];
  if (!text.chat_template.empty())
    metadata[text.has_jinja() ? jinja_key : form_key] = text.chat_template;
}

/// The chat template, and the special tokens that begin and end a text. A token that is not special
/// only stands in for a missing one, see end_token().
TextInfo text_in(const ordered_json& metadata, const Tokenizer* tokenizer) {
  TextInfo text;
  for (const char* key : {"bos_token_id", "eos_token_id"})
    if (const json id = metadata.value(in_ggml(key), ordered_json());
        tokenizer && id.is_number_unsigned() && tokenizer->is_special(id))
      text.token_ids[key].push_back(id);
  for (const char* key : {jinja_key, form_key})
    if (const json form = metadata.value(key, ordered_json()); form.is_string())
      text.chat_template = form;
  return text;
}

ordered_json make_metadata(const Architecture& a, GPTConfig c, GgufType type) {
  ordered_json metadata{{"general.architecture", a.names.type}};
  constexpr int file_types[] = {0, 1, 32, 7};  // llama.cpp's numbers, in the order of GgufType
  metadata["general.file_type"] = file_types[static_cast<size_t>(type)];
  if (type == GgufType::q8_0) metadata["general.quantization_version"] = 2;
  c = with_sizes(c);
  const Fields ours = GPT::fields(c);
  metadata.update(ordered_json::parse(keyed_fields(a, ours).to_json()));
  for (const auto& [key, value] : implied(a, c)) metadata[key] = value;
  add_own_fields(metadata, a, ours);
  return metadata;
}

}  // namespace

// ---- files ----

void save_gguf(const std::string& path, const GPT& model, const Tokenizer* tokenizer, GgufType type,
               const TextInfo* text) {
  GPTConfig c = model.config;
  const Architecture& a = architecture_for(c);
  check_held("save_gguf", a, c);
  check(nn::lora_updates(model).empty(),
        "save_gguf: the model has low-rank updates: call merge_lora first");
  GgufFile file{make_metadata(a, c, type), {}};
  add_gguf_tokenizer(file.metadata, tokenizer, c.vocab);
  if (text) add_text(file.metadata, *text, c.vocab);
  file.tensors = renamed_tensors(a.names, head_layout(GPT::fields(c)), model.state_dict(),
                                 !a.names.is_llama && !c.bias);
  if (c.rotary.factor != 1 && a.names.is_llama)
    file.tensors.emplace_back(freqs_name,
                              frequency_factors(c.rotary, head_layout(GPT::fields(c)).head_dim));
  write_gguf(path, file, type,
             [](const std::string& name) { return name == "position_embd.weight"; });
}

GgufModel load_gguf(const std::string& path) {
  GgufFile file = read_gguf(path);
  const std::string where = "load_gguf: " + path;
  std::optional<GPT> model;
  std::unique_ptr<Tokenizer> tokenizer;
  const Architecture* a = nullptr;
  naming(where, [&] {
    a = &architecture_in(file.metadata);
    const GPTConfig c = read_config(*a, file);
    std::erase_if(file.tensors, [](const auto& named) { return named.first == freqs_name; });
    tokenizer = read_gguf_tokenizer(file.metadata, c.vocab);
    int64_t elements = 0;
    for (const auto& [name, tensor] : file.tensors) elements += tensor.numel();
    // Slightly more, so that load_renamed can name parameters whose sizes differ.
    const Loading loading(elements + elements / 64);
    model.emplace(c);
  });
  GPTConfig c = model->config;
  load_renamed(a->names, head_layout(GPT::fields(c)), {where, std::move(file.tensors)}, *model);
  TextInfo text = text_in(file.metadata, tokenizer.get());
  return {std::move(*model), std::move(tokenizer), std::move(text)};
}

bool is_gguf(const std::string& path) {
  try {
    File file("", path, O_RDONLY | O_NONBLOCK);
    char first[4] = {};
    return file.size() >= 4 && file.read(first, 4) == 4 && std::string_view(first, 4) == "GGUF";
  } catch (const Error&) {
    return false;
  }
}

}  // namespace gradus::models
