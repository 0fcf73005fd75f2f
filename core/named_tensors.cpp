#include "gradus/core/named_tensors.h"

#include <set>
#include <unordered_map>

namespace gradus {

namespace {
std::string joined(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string text = std::string("; ") + what;
  for (size_t i = 0; i < names.size(); ++i) text += (i ? ", " : " ") + names[i];
  return text;
}
}  // namespace

void load_named(const char* op, const NamedTensors& target, const NamedTensors& state,
                bool strict) {
  std::unordered_map<std::string, const Tensor*> expected;
  for (const auto& [name, tensor] : target) expected.emplace(name, &tensor);

  std::vector<std::string> missing, unexpected, twice, mismatched;
  std::set<std::string> seen;
  std::set<const void*> found;  // tensors, under whichever name
  for (const auto& [name, tensor] : state) {
    if (!seen.insert(name).second) twice.push_back(name);
    auto at = expected.find(name);
    if (at == expected.end()) {
      unexpected.push_back(name);
      continue;
    }
    const Tensor& to = *at->second;
    found.insert(&to.impl());
    if (tensor.defined() && tensor.shape() == to.shape() && tensor.dtype() == to.dtype()) continue;
    std::ostringstream text;
    text << name << " (expected " << to.dtype() << ' ' << to.shape() << ", got ";
    if (tensor.defined())
      text << tensor.dtype() << ' ' << tensor.shape() << ')';
    else
      text << "an undefined tensor)";
    mismatched.push_back(text.str());
  }
  for (const auto& [name, tensor] : target)
    if (found.insert(&tensor.impl()).second) missing.push_back(name);
  if (!strict) missing.clear(), unexpected.clear();

  const std::string problems = joined("missing:", missing) + joined("unexpected:", unexpected) +
                               joined("given twice:", twice) + joined("mismatched:", mismatched);
  check(problems.empty(), op, ": the names or shapes differ", problems);

  NoGrad no_grad;
  for (const auto& [name, tensor] : state)
    if (auto at = expected.find(name); at != expected.end()) at->second->copy_(tensor);
}

}  // namespace gradus
