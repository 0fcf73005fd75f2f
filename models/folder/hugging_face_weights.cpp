#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/ops/shape.h"
#include "gradus/models/folder/hugging_face_parts.h"
#include "gradus/models/folder/model_folder.h"
#include "gradus/nn/init.h"

namespace gradus::models {

using internal::TheirFile;
using internal::TheirLayer;
using internal::TheirModel;
using nlohmann::json;

namespace {

// ---- names ----

/// What stands in `name` where `pattern` has a *, "" where it has none; nothing if they differ.
std::optional<std::string> number_in(const std::string& pattern, const std::string& name) {
  const size_t star = pattern.find('*');
  if (star == std::string::npos) return name == pattern ? std::optional("") : std::nullopt;
  const std::string before = pattern.substr(0, star), behind = pattern.substr(star + 1);
  if (name.size() <= before.size() + behind.size() || !name.starts_with(before) ||
      !name.ends_with(behind))
    return {};
  const std::string number =
      name.substr(before.size(), name.size() - before.size() - behind.size());
  const bool whole = std::all_of(number.begin(), number.end(), [](char c) { return isdigit(c); });
  return whole ? std::optional(number) : std::nullopt;
}

std::string with_number(std::string pattern, const std::string& number) {
  if (const size_t star = pattern.find('*'); star != std::string::npos)
    pattern.replace(star, 1, number);
  return pattern;
}

/// A parameter of ours as they have it.
struct Place {
  const TheirLayer* layer = nullptr;
  std::vector<std::string> names;  // without the prefix
  bool has_prefix = false;         // in files of more than the bare model
  bool is_transposed = false;
};

std::optional<Place> place_in(const std::vector<TheirLayer>& layers, const std::string& name) {
  for (const TheirLayer& layer : layers)
    for (const char* end : {"", ".weight", ".bias"})
      if (const auto number = number_in(std::string(layer.ours) + end, name)) {
        Place place{&layer, {}, false, layer.kind == TheirLayer::conv1d && end[1] == 'w'};
        for (const char* theirs : layer.theirs)
          place.names.push_back(with_number(theirs, *number) + end);
        return place;
      }
  return {};
}

/// The place of a parameter; a classifier's, "bert.words.weight", is that of its encoder.
std::optional<Place> place_of(const TheirModel& model, std::string name) {
  if (name.starts_with(model.prefix)) name.erase(0, std::string(model.prefix).size());
  std::optional<Place> place = place_in(model.layers, name);
  if (place)
    place->has_prefix = true;
  else
    place = place_in(model.outside, name);
  return place;
}

/// A file's tensors by their names without the prefix and as newer files have them.
struct Named {
  std::map<std::string, Tensor> tensors;
  std::set<std::string> outside;  // that had no prefix where others have it
};

Named named(const TheirModel& model, TheirFile& file) {
  Named all;
  const std::string prefix = model.prefix;
  const bool prefixed = std::any_of(file.tensors.begin(), file.tensors.end(),
                                    [&](const auto& t) { return t.first.starts_with(prefix); });
  for (auto& [name, tensor] : file.tensors) {
    const bool inside = name.starts_with(prefix);
    std::string plain = inside ? name.substr(prefix.size()) : name;
    // The names of BERT's first files, which were TensorFlow's.
    if (plain.ends_with(".gamma")) plain.replace(plain.size() - 5, 5, "weight");
    if (plain.ends_with(".beta")) plain.replace(plain.size() - 4, 4, "bias");
    if (prefixed && !inside) all.outside.insert(plain);
    if (!all.tensors.emplace(plain, std::move(tensor)).second)
      fail("the tensor ", shown(plain), " stands there twice, as ", shown(name), " too");
  }
  file.tensors.clear();
  return all;
}

bool same_numbers(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  return dispatch_any(a.dtype(), [&]<class T>(TypeTag<T>) {
    return std::equal(a.data<T>(), a.data<T>() + a.numel(), b.data<T>());
  });
}

// ---- loading ----

/// What is wrong with a file, all of it.
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
      constexpr size_t most = 300;  // characters, after which no more names are begun
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

template <class... Parts>
std::string joined(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// The loading of one file into one model: first all is checked, then copied.
class Loading {
 public:
  Loading(const TheirModel& model, TheirFile& file, bool bare_is_enough,
          std::vector<std::string> needed_heads)
      : model_(model),
        file_(named(model, file)),
        heads_may_lack_(bare_is_enough),
        needed_(std::move(needed_heads)) {}

  void check_all(const NamedTensors& targets) {
    take_repeated(targets);
    for (const auto& [name, target] : targets) check_target(name, target);
    for (const char* name : model_.refused)
      if (file_.tensors.contains(name)) problems_.add("unexpected", name);
    for (const auto& [name, tensor] : file_.tensors)
      if (!used_.contains(name) && !is_passed_over(name)) problems_.add("unexpected", name);
    problems_.report();
  }
  Dtype dtype() const { return dtype_.value_or(float32); }

  /// Into the same targets once they are of dtype().
  void copy(const NamedTensors& targets, bool drawn) {
    const NoGrad no_grad;
    for (size_t i = 0; i < targets.size(); ++i) {
      Tensor target = targets[i].second;
      const Place& place = places_[i];
      if (place.names.empty()) {
        if (!drawn && target.rank() >= 2)
          target.copy_(nn::init::normal(target.shape(), 0, 0.02).to(target.dtype()));
        continue;
      }
      const int64_t rows = target.size(0) / std::ssize(place.names);
      for (size_t part = 0; part < place.names.size(); ++part) {
        const auto found = file_.tensors.find(place.names[part]);
        const int64_t first = static_cast<int64_t>(part) * rows;
        Tensor from = found->second.to(target.dtype());
        target.slice(0, first, first + rows).copy_(place.is_transposed ? from.mT() : from);
        file_.tensors.erase(found);  // each is held twice for the time of its copy alone
      }
    }
  }

 private:
  /// Where two names mean one parameter of ours they must be equal, and one will do.
  void take_repeated(const NamedTensors& targets) {
    const bool own_head = std::any_of(targets.begin(), targets.end(),
                                      [](const auto& t) { return t.first == "head.weight"; });
    for (const auto& [name, of] : model_.repeated) {
      const auto repeated = file_.tensors.find(name);
      if (repeated == file_.tensors.end() || (own_head && name == std::string("lm_head.weight")))
        continue;
      const auto first = file_.tensors.find(of);
      if (first == file_.tensors.end()) {
        file_.tensors.emplace(of, repeated->second);
      } else if (!same_numbers(repeated->second, first->second)) {
        fail("the tensors ", name, " and ", of, " differ: expected one, tied");
      }
      file_.tensors.erase(name);
    }
  }

  void check_target(const std::string& name, const Tensor& target) {
    const std::optional<Place> place = place_of(model_, name);
    check(place.has_value(), "a ", model_.type, " of theirs has no parameter ", shown(name));
    places_.push_back(*place);
    const bool is_there = std::any_of(place->names.begin(), place->names.end(),
                                      [&](const auto& n) { return file_.tensors.contains(n); });
    if (!is_there && may_lack(*place)) {
      places_.back().names.clear();
      return;
    }
    Shape shape = target.shape();
    shape[0] /= std::ssize(place->names);
    if (place->is_transposed) std::swap(shape[0], shape[1]);
    for (const std::string& theirs : place->names) {
      used_.insert(theirs);
      const auto found = file_.tensors.find(theirs);
      if (found == file_.tensors.end()) {
        problems_.add("missing", place->has_prefix ? model_.prefix + theirs : theirs);
        continue;
      }
      const Tensor& tensor = found->second;
      if (!dtype_ && is_floating(tensor.dtype())) dtype_ = tensor.dtype();
      if (tensor.shape() != shape || tensor.dtype() != dtype())
        problems_.add("mismatched", joined(theirs, " (expected ", dtype(), ' ', shape, ", got ",
                                           tensor.dtype(), ' ', tensor.shape(), ')'));
    }
  }

  bool may_lack(const Place& place) const {
    return heads_may_lack_ && place.layer->kind == TheirLayer::head &&
           std::find(needed_.begin(), needed_.end(), place.layer->ours) == needed_.end();
  }

  /// Buffers, and heads of other tasks.
  bool is_passed_over(const std::string& name) const {
    if (file_.outside.contains(name)) return true;
    for (const auto& [repeated, of] : model_.repeated)
      if (name == repeated) return true;
    for (const TheirLayer& layer : model_.layers)
      if (layer.kind == TheirLayer::head && name.starts_with(layer.theirs[0])) return true;
    for (const TheirLayer& layer : model_.outside)
      if (name.starts_with(layer.theirs[0])) return true;
    return std::any_of(model_.ignored.begin(), model_.ignored.end(),
                       [&](const char* pattern) { return number_in(pattern, name).has_value(); });
  }

  const TheirModel& model_;
  Named file_;
  bool heads_may_lack_;
  std::vector<std::string> needed_;
  std::vector<Place> places_;  // of each target; without names: it keeps what it has
  std::set<std::string> used_;
  std::optional<Dtype> dtype_;
  Problems problems_;
};

std::string in_folder(const std::string& dir, const std::string& file) {
  return (std::filesystem::path(dir) / file).string();
}

bool is_there(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// The files that a model.safetensors.index.json names, each once.
std::set<std::string> shards_in(const std::string& index) {
  const json file = parse_json(index.c_str(), read_file(index));
  const auto map = file.is_object() ? file.find("weight_map") : file.end();
  if (!file.is_object() || map == file.end() || !map->is_object() || map->empty())
    fail(index, ": expected an object weight_map of names and files");
  std::set<std::string> shards;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string() || shard.get<std::string>().find('/') != std::string::npos)
      fail(index, ": weight_map: expected a file of this folder for ", shown(name), ", got ",
           shown(shard));
    shards.insert(shard.get<std::string>());
  }
  return shards;
}

}  // namespace

internal::TheirFile internal::read_their_weights(const std::string& dir) {
  const std::string path = weights_path(dir), index = path + ".index.json",
                    pickled = in_folder(dir, "pytorch_model.bin");
  if (is_there(path)) return {path, load_safetensors(path).tensors};
  if (is_there(index)) {
    TheirFile all{index, {}};
    for (const std::string& shard : shards_in(index))
      for (auto& named : load_safetensors(in_folder(dir, shard)).tensors)
        all.tensors.push_back(std::move(named));
    return all;
  }
  for (const std::string& file : {pickled, pickled + ".index.json"})
    check(!is_there(file), path, ": there is only a ",
          std::filesystem::path(file).filename().string(),
          "; to convert it: python3 examples/weights.py to-safetensors ", file, ' ', path);
  return {path, load_safetensors(path).tensors};  // which says what is wrong
}

void internal::load_their_weights(TheirFile file, const std::string& config_path,
                                  const json& config, nn::Module& model, bool new_heads,
                                  bool drawn) {
  const std::string path = file.path;
  const TheirModel& theirs = their_model(config_path, config);
  const NamedTensors targets = model.state_dict();
  // A classifier of ours on an encoder of theirs has a new head; one of theirs must have its own, and
  // one of texts the pooler below it.
  const bool classifies = std::any_of(targets.begin(), targets.end(), [&](const auto& t) {
    return t.first.starts_with(theirs.prefix);
  });
  const std::string kind = kind_of_theirs(config_path, config);
  std::vector<std::string> needed;
  if (kind != theirs.kind && !new_heads) needed = {"head"};
  if (!needed.empty() && is_text_classifier(config)) needed.push_back("pooler");
  try {
    Loading loading(theirs, file, new_heads || classifies, needed);
    loading.check_all(targets);
    model.to(loading.dtype());
    loading.copy(model.state_dict(), drawn);
  } catch (const Error& e) {
    fail(path, ": ", e.what());
  }
}

// ---- saving ----

NamedTensors internal::their_weights(const std::string& kind, const Fields& ours,
                                     const nn::Module& model) {
  const TheirModel& theirs = their_model(kind);
  NamedTensors all;
  const Field *classes = ours.find("classes"), *tokens = ours.find("tokens"),
              *bias = ours.find("bias");
  const bool is_bare = kind == "vit" && classes->to_text() == "0";
  auto is_wanted = [&](const Place& place) {
    if (!tokens) return true;  // no classifier, which has its encoder's layers and one head
    const std::string layer = place.layer->ours;
    if (layer == "pooler") return tokens->to_text() == "false";
    return place.has_prefix || layer == "head";
  };
  auto add = [&](const std::string& name, const Tensor& tensor) {
    const Place place = place_of(theirs, name).value();
    if (!is_wanted(place)) return;
    const int64_t rows = tensor.size(0) / std::ssize(place.names);
    for (size_t i = 0; i < place.names.size(); ++i) {
      const int64_t first = static_cast<int64_t>(i) * rows;
      const Tensor part = place.names.size() == 1 ? tensor : tensor.slice(0, first, first + rows);
      all.emplace_back((place.has_prefix && !is_bare ? theirs.prefix : "") + place.names[i],
                       place.is_transposed ? part.mT() : part);
    }
  };
  const bool lacks_biases = bias && bias->to_text() == "false";
  for (const auto& [name, tensor] : model.state_dict()) {
    add(name, tensor);
    // Theirs always has biases, but for the output.
    if (lacks_biases && (name.starts_with("blocks.") || name == "ln_f.weight"))
      add(name.substr(0, name.size() - 6) + "bias", zeros({tensor.size(0)}, tensor.dtype()));
  }
  return all;
}

}  // namespace gradus::models
