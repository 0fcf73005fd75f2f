#include "gradus/core/files/named_tensors.h"

#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/tensor/autograd.h"

namespace gradus {

namespace {
std::string joined(const char* what, const std::vector<std::string>& names) {
  constexpr size_t most = 10;
  if (names.empty()) return "";
  std::string text = std::string("; ") + what;
  for (size_t i = 0; i < std::min(most, names.size()); ++i) text += (i ? ", " : " ") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

/// A name formatted for messages, without quotes.
std::string plain(const std::string& name) {
  const std::string quoted = shown(name);
  return quoted.substr(1, quoted.size() - 2);
}

bool same_view(const TensorImpl& a, const TensorImpl& b) {
  return a.storage == b.storage && a.offset == b.offset && a.shape == b.shape &&
         a.strides == b.strides;
}
}  // namespace

void load_named(const char* op, const NamedTensors& target, const NamedTensors& state,
                bool strict) {
  std::unordered_map<std::string, const Tensor*> expected;
  for (const auto& [name, tensor] : target) expected.emplace(name, &tensor);

  std::vector<std::string> missing, unexpected, twice, mismatched;
  std::set<std::string> seen;
  std::set<const void*> found;  // tensors found, under any of their names
  for (const auto& [name, tensor] : state) {
    if (!seen.insert(name).second) twice.push_back(plain(name));
    auto at = expected.find(name);
    if (at == expected.end()) {
      unexpected.push_back(plain(name));
      continue;
    }
    const Tensor& to = *at->second;
    found.insert(&to.impl());
    if (tensor.defined() && tensor.shape() == to.shape() && tensor.dtype() == to.dtype()) continue;
    core::Text text;
    text << plain(name) << " (expected " << to.dtype() << ' ' << to.shape() << ", got ";
    if (tensor.defined())
      text << tensor.dtype() << ' ' << tensor.shape() << ')';
    else
      text << "an undefined tensor)";
    mismatched.push_back(text.str());
  }
  for (const auto& [name, tensor] : target)
    if (found.insert(&tensor.impl()).second) missing.push_back(plain(name));
  if (!strict) missing.clear(), unexpected.clear();

  const std::string problems = joined("missing:", missing) + joined("unexpected:", unexpected) +
                               joined("given twice:", twice) + joined("mismatched:", mismatched);
  check(problems.empty(), op, ": the names or shapes differ", problems);

  NoGrad no_grad;
  std::set<const Storage*> written;
  for (const auto& [name, tensor] : target) written.insert(tensor.impl().storage.get());
  // Clone sources that a copy could overwrite before they are read.
  NamedTensors copies;
  for (const auto& [name, tensor] : state) {
    const auto at = expected.find(name);
    if (at == expected.end()) continue;
    const TensorImpl& from = tensor.impl();
    const bool at_risk =
        written.contains(from.storage.get()) && !same_view(from, at->second->impl());
    copies.emplace_back(name, at_risk ? tensor.clone() : tensor);
  }
  for (const auto& [name, tensor] : copies) expected.at(name)->copy_(tensor);
}

}  // namespace gradus
