#include "gradus/models/folder/hugging_face/weights.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "gradus/core/files/json.h"
#include "gradus/core/files/named_tensors.h"
#include "gradus/core/internal.h"
#include "gradus/core/ops/compression.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/shape.h"
#include "gradus/models/folder/folder_files.h"
#include "gradus/models/folder/hugging_face/config.h"
#include "gradus/models/folder/hugging_face/parts.h"

namespace gradus::models::internal {

using nlohmann::json;

namespace {

// ---- a file's tensors ----

/// A file's tensors by their names without the prefix, in the spelling of newer files.
struct PlainTensors {
  std::map<std::string, Tensor> tensors;
  std::set<std::string> unprefixed;  // names that lack the prefix although others have it
};

PlainTensors plain_tensors(const HuggingFaceModel& model, HuggingFaceFile& file) {
  PlainTensors all;
  const std::string prefix = model.prefix;
  const bool has_prefix = std::any_of(file.tensors.begin(), file.tensors.end(),
                                      [&](const auto& t) { return t.first.starts_with(prefix); });
  for (auto& [name, tensor] : file.tensors) {
    const bool prefixed = name.starts_with(prefix);
    std::string plain = prefixed ? name.substr(prefix.size()) : name;
    // BERT's first files keep TensorFlow's names.
    if (plain.ends_with(".gamma")) plain.replace(plain.size() - 5, 5, "weight");
    if (plain.ends_with(".beta")) plain.replace(plain.size() - 4, 4, "bias");
    if (has_prefix && !prefixed) all.unprefixed.insert(plain);
    if (!all.tensors.emplace(plain, std::move(tensor)).second)
      fail("the tensor ", shown(plain), " is given twice, also as ", shown(name));
  }
  file.tensors.clear();
  return all;
}

// ---- loading ----

/// Collects all errors of a file.
class Problems {
 public:
  void add(const char* what, const std::string& name) {
    std::vector<std::string>& names = by_kind_[what];
    const std::string quoted = shown(name), text = quoted.substr(1, quoted.size() - 2);
    constexpr size_t most = 140;
    names.push_back(text.size() > most ? text.substr(0, most) + "..." : text);
  }
  void report() const {
    std::string text;
    for (const auto& [what, names] : by_kind_) {
      constexpr size_t most = 300;  // characters of names; stops after the name that exceeds it
      text += std::string("; ") + what + ':';
      const size_t begin = text.size();
      size_t i = 0;
      for (; i < names.size() && text.size() - begin < most; ++i)
        text += (i ? ", " : " ") + names[i];
      if (i < names.size()) text += " and " + std::to_string(names.size() - i) + " more";
    }
    check(text.empty(), "the names or shapes differ", text);
  }

 private:
  std::map<std::string, std::vector<std::string>> by_kind_;
};

std::string mismatch(const std::string& name, const Tensor& got, Dtype dtype, const Shape& shape) {
  core::Text out;
  out << name << " (expected " << dtype << ' ' << shape << ", got " << got.dtype() << ' '
      << got.shape() << ')';
  return out.str();
}

/// Loads one file into one model: first everything is checked, then copied.
class WeightLoader {
 public:
  /// `optional_heads`: the file may lack heads, except for the layers in `required_heads`.
  WeightLoader(const HuggingFaceModel& model, const HeadLayout& layout, HuggingFaceFile& file,
               bool optional_heads, std::vector<std::string> required_heads)
      : model_(model),
        layout_(layout),
        file_(plain_tensors(model, file)),
        optional_heads_(optional_heads),
        required_heads_(std::move(required_heads)) {}

  void check_all(const NamedTensors& targets) {
    resolve_tied(targets);
    for (const auto& [name, target] : targets) check_target(name, target);
    for (const char* name : model_.unsupported)
      if (file_.tensors.contains(name)) problems_.add("unexpected", name);
    for (const auto& [name, tensor] : file_.tensors)
      if (!used_.contains(name) && !is_ignored(name)) problems_.add("unexpected", name);
    problems_.report();
  }

  /// The file's dtype, once checked.
  Dtype dtype() const { return dtype_.value_or(float32); }

  /// Copies the file's tensors into the targets, which are those of check_all() converted to
  /// dtype(). Returns the targets that the file lacks.
  NamedTensors copy(const NamedTensors& targets) {
    const NoGrad no_grad;
    NamedTensors missing;
    for (size_t i = 0; i < targets.size(); ++i) {
      if (sources_[i].names.empty())
        missing.push_back(targets[i]);
      else
        copy_one(sources_[i], targets[i].second);
    }
    return missing;
  }

 private:
  /// Throws Error if two tied tensors are in the file and differ. Keeps only the first of them.
  void resolve_tied(const NamedTensors& targets) {
    const bool has_own_head = std::any_of(targets.begin(), targets.end(),
                                          [](const auto& t) { return t.first == "head.weight"; });
    for (const auto& [name, first_name] : model_.tied) {
      const auto repeated = file_.tensors.find(name);
      if (repeated == file_.tensors.end() ||
          (has_own_head && name == std::string("lm_head.weight")))
        continue;
      const auto first = file_.tensors.find(first_name);
      if (first == file_.tensors.end()) {
        file_.tensors.emplace(first_name, repeated->second);
      } else if (!has_equal_elements(repeated->second, first->second)) {
        fail("the tensors ", name, " and ", first_name, " differ: expected one, tied");
      }
      file_.tensors.erase(name);
    }
  }

  void check_target(const std::string& name, const Tensor& target) {
    const std::optional<HuggingFaceParameter> source = find_parameter(model_, name);
    check(source.has_value(), "Hugging Face's ", model_.type, " has no parameter ", shown(name));
    sources_.push_back(*source);
    const bool is_there =
        std::any_of(source->names.begin(), source->names.end(),
                    [&](const std::string& n) { return file_.tensors.contains(n); });
    if (!is_there && may_lack(*source)) {
      sources_.back().names.clear();
      return;
    }
    const std::vector<Part> parts = parts_of(*source, target.size(0), layout_);
    for (size_t i = 0; i < parts.size(); ++i) {
      Shape shape = target.shape();
      shape[0] = parts[i].end - parts[i].begin;
      if (source->is_transposed) std::swap(shape[0], shape[1]);
      check_source(*source, source->names[i], shape);
    }
  }

  void check_source(const HuggingFaceParameter& source, const std::string& name,
                    const Shape& shape) {
    used_.insert(name);
    const auto found = file_.tensors.find(name);
    if (found == file_.tensors.end())
      return problems_.add("missing", source.has_prefix ? model_.prefix + name : name);
    const Tensor& tensor = found->second;
    if (!dtype_ && is_floating(tensor.dtype())) dtype_ = tensor.dtype();
    if (tensor.shape() != shape || tensor.dtype() != dtype())
      problems_.add("mismatched", mismatch(name, tensor, dtype(), shape));
  }

  bool may_lack(const HuggingFaceParameter& source) const {
    return optional_heads_ && source.layer->kind == HuggingFaceLayer::head &&
           std::find(required_heads_.begin(), required_heads_.end(), source.layer->layer) ==
               required_heads_.end();
  }

  /// Whether the name belongs to a buffer, a tied tensor or a head of another task.
  bool is_ignored(const std::string& name) const {
    if (file_.unprefixed.contains(name)) return true;
    for (const auto& [repeated, first_name] : model_.tied)
      if (name == repeated) return true;
    for (const HuggingFaceLayer& layer : model_.layers)
      if (layer.kind == HuggingFaceLayer::head && name.starts_with(layer.hf_layers[0])) return true;
    for (const HuggingFaceLayer& layer : model_.unprefixed)
      if (name.starts_with(layer.hf_layers[0])) return true;
    return std::any_of(model_.ignored.begin(), model_.ignored.end(),
                       [&](const char* pattern) { return number_in(pattern, name).has_value(); });
  }

  void copy_one(const HuggingFaceParameter& source, const Tensor& target) {
    const std::vector<Part> parts = parts_of(source, target.size(0), layout_);
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto found = file_.tensors.find(source.names[i]);
      Tensor from = found->second.to(target.dtype());
      if (source.is_transposed) from = from.mT();
      if (parts[i].is_rotary) from = reordered(from, layout_.head_dim, true);
      target.slice(0, parts[i].begin, parts[i].end).copy_(from);
      file_.tensors.erase(found);  // so that only one tensor at a time is in memory twice
    }
  }

  const HuggingFaceModel& model_;
  HeadLayout layout_;  // of a model of Llama's family
  PlainTensors file_;
  bool optional_heads_;
  std::vector<std::string> required_heads_;
  std::vector<HuggingFaceParameter> sources_;  // per target; without names if the file lacks it
  std::set<std::string> used_;
  std::optional<Dtype> dtype_;
  Problems problems_;
};

/// Whether `name` is a file's in the same folder and can be printed: visible ASCII.
bool is_file_name(const std::string& name) {
  return !name.empty() &&
         std::ranges::all_of(name, [](char c) { return c >= ' ' && c < 0x7f && c != '/'; });
}

/// The files that a model.safetensors.index.json names, each once.
std::set<std::string> shards_in(const std::string& index) {
  const json file = read_json(index);
  const auto map = file.is_object() ? file.find("weight_map") : file.end();
  if (!file.is_object() || map == file.end() || !map->is_object() || map->empty())
    fail(index, ": expected an object weight_map of names and files");
  std::set<std::string> shards;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string() || !is_file_name(shard.get<std::string>()))
      fail(index, ": weight_map: expected a file of this folder for ", shown(name), ", got ",
           shown(shard));
    shards.insert(shard.get<std::string>());
  }
  return shards;
}

}  // namespace

HuggingFaceFile read_hugging_face_weights(const std::string& dir) {
  const std::string path = weights_path(dir), index = path + ".index.json",
                    pickled = in_folder(dir, "pytorch_model.bin");
  if (file_exists(path)) return {path, load_safetensors(path).tensors};
  if (file_exists(index)) {
    HuggingFaceFile all{index, {}};
    for (const std::string& shard : shards_in(index))
      for (auto& named : load_safetensors(in_folder(dir, shard)).tensors)
        all.tensors.push_back(std::move(named));
    return all;
  }
  for (const std::string& file : {pickled, pickled + ".index.json"})
    check(!file_exists(file), path, ": there is only a ",
          std::filesystem::path(file).filename().string(),
          "; to convert it: python3 examples/weights.py to-safetensors ", file, ' ', path);
  return {path, load_safetensors(path).tensors};  // throws: the file is missing
}

NamedTensors load_renamed(const HuggingFaceModel& names, const HeadLayout& layout,
                          HuggingFaceFile file, nn::Module& model, const HeadsInFile& heads) {
  return naming(file.path, [&] {
    WeightLoader loader(names, layout, file, heads.optional, heads.required);
    loader.check_all(model.state_dict());
    model.to(loader.dtype());
    return loader.copy(model.state_dict());
  });
}

NamedTensors load_hugging_face_weights(HuggingFaceFile file, const HuggingFaceConfig& config,
                                       nn::Module& model, const LoadOptions& options) {
  const HuggingFaceModel& hf_model = hugging_face_model(config);
  const NamedTensors targets = model.state_dict();
  // If our classifier loads a bare encoder, its head is new. A classifier's folder must have the
  // head and, for whole texts, the pooler below it, unless options.new_heads is set.
  const bool classifies = std::any_of(targets.begin(), targets.end(), [&](const auto& t) {
    return t.first.starts_with(hf_model.prefix);
  });
  const HeadLayout layout = head_layout(config);
  std::vector<std::string> required_heads;
  if (kind_in(config) != hf_model.kind && !options.new_heads) {
    required_heads.push_back("head");
    if (architecture_of(config) == text_classifier) required_heads.push_back("pooler");
  }
  return load_renamed(hf_model, layout, std::move(file), model,
                      {.optional = options.new_heads || classifies, .required = required_heads});
}

// ---- saving ----

namespace {

/// Adds one of our parameters under its Hugging Face names.
void add_tensor(NamedTensors& all, const HuggingFaceParameter& parameter, const std::string& prefix,
                const HeadLayout& layout, const Tensor& tensor) {
  const std::vector<Part> parts = parts_of(parameter, tensor.size(0), layout);
  for (size_t i = 0; i < parts.size(); ++i) {
    Tensor part = parts.size() == 1 ? tensor : tensor.slice(0, parts[i].begin, parts[i].end);
    if (parts[i].is_rotary) part = reordered(part, layout.head_dim, false);
    all.emplace_back((parameter.has_prefix ? prefix : "") + parameter.names[i],
                     parameter.is_transposed ? part.mT() : part);
  }
}

/// Whether Hugging Face's classifier, of tokens or of whole texts, has the parameter.
bool is_in_classifier(const HuggingFaceParameter& parameter, bool of_tokens) {
  const std::string layer = parameter.layer->layer;
  if (layer == "pooler") return !of_tokens;
  return parameter.has_prefix || layer == "head";
}

}  // namespace

NamedTensors renamed_tensors(const HuggingFaceModel& names, const HeadLayout& layout,
                             const NamedTensors& ours, bool lacks_biases) {
  NamedTensors all;
  auto add = [&](const std::string& name, const Tensor& tensor) {
    add_tensor(all, find_parameter(names, name).value(), names.prefix, layout, tensor);
  };
  for (const auto& [name, stored] : ours) {
    const Tensor tensor = floating(stored);
    add(name, tensor);
    // GPT-2's layers all have biases, except for the output.
    if (lacks_biases && (name.starts_with("blocks.") || name == "ln_f.weight"))
      add(name.substr(0, name.size() - 6) + "bias", zeros({tensor.size(0)}, tensor.dtype()));
  }
  return all;
}

NamedTensors hugging_face_tensors(const std::string& kind, const Fields& fields,
                                  const nn::Module& model) {
  HuggingFaceModel hf_model = hugging_face_model(kind, fields);
  const HeadLayout layout = hf_model.is_llama ? head_layout(fields) : HeadLayout();
  const Field *tokens = fields.find("tokens"), *bias = fields.find("bias");
  const bool lacks_biases = !hf_model.is_llama && bias && bias->to_text() == "false";
  NamedTensors ours = model.state_dict();
  if (tokens)
    std::erase_if(ours, [&](const auto& named) {
      const bool of_tokens = tokens->to_text() == "true";
      return !is_in_classifier(find_parameter(hf_model, named.first).value(), of_tokens);
    });
  if (kind == "vit" && fields.find("classes")->to_text() == "0") hf_model.prefix = "";
  return renamed_tensors(hf_model, layout, ours, lacks_biases);
}

}  // namespace gradus::models::internal
