#include "gradus/core/files/named_tensors.h"

#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "gradus/core/files/json.h"
#include "gradus/core/internal.h"
#include "gradus/core/ops/compression.h"
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

/// Whether a and b, of one shape, are the same elements.
bool same_view(const TensorImpl& a, const TensorImpl& b) {
  return a.storage == b.storage && a.offset == b.offset && a.strides == b.strides;
}

/// Whether copy_() can read and write x, a compressed tensor.
bool is_whole(const Tensor& x) {
  return x.is_contiguous() && (x.dtype() != int8 || x.impl().scales.defined());
}

/// Throws Error if entries of `state` under several names of one target differ.
void check_tied(const char* op, const std::unordered_map<std::string, Tensor>& targets,
                const NamedTensors& state) {
  std::unordered_map<const void*, const NamedTensors::value_type*> found;
  for (const auto& entry : state) {
    const auto at = targets.find(entry.first);
    if (at == targets.end()) continue;
    const auto& [name, first] = *found.emplace(&at->second.impl(), &entry).first->second;
    check(&first == &entry.second || has_equal_elements(first, entry.second), op, ": ", plain(name),
          " and ", plain(entry.first), " differ: expected one, tied");
  }
}
}  // namespace

void load_named(const char* op, const NamedTensors& target, const NamedTensors& state,
                bool strict) {
  const std::unordered_map<std::string, Tensor> expected(target.begin(), target.end());
  std::vector<std::string> missing, unexpected, twice, mismatched;
  std::set<std::string> seen;
  std::set<const void*> found;                    // tensors found, under any of their names
  std::vector<std::pair<Tensor, Tensor>> copies;  // to, from
  for (const auto& [name, tensor] : state) {
    if (!seen.insert(name).second) twice.push_back(plain(name));
    auto at = expected.find(name);
    if (at == expected.end()) {
      unexpected.push_back(plain(name));
      continue;
    }
    const Tensor& to = at->second;
    found.insert(&to.impl());
    if (tensor.defined() && tensor.shape() == to.shape() && tensor.dtype() == to.dtype()) {
      if (is_compressed(to.dtype()) && !(is_whole(to) && is_whole(tensor)))
        fail(op, ": ", plain(name), is_whole(to) ? "" : " in the target", ": expected a whole ",
             to.dtype(), " tensor, got a view");
      check(!is_expanded(to), op, ": ", plain(name), " in the target is an expanded tensor");
      copies.emplace_back(to, tensor);
      continue;
    }
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
  check_tied(op, expected, state);
  std::set<const Storage*> written;
  for (const auto& [name, tensor] : target) written.insert(tensor.impl().storage.get());
  // Clone sources that a copy could overwrite before they are read.
  for (auto& [to, from] : copies)
    if (written.contains(from.impl().storage.get()) && !same_view(from.impl(), to.impl()))
      from = from.clone();
  for (const auto& [to, from] : copies) to.copy_(from);
}

bool has_equal_elements(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Tensor x = floating(a).contiguous(), y = floating(b).contiguous();
  return dispatch_any("has_equal_elements", x.dtype(), [&]<class T>(TypeTag<T>) {
    return std::equal(x.data<T>(), x.data<T>() + x.numel(), y.data<T>(),
                      [](T p, T q) { return p == q || (p != p && q != q); });
  });
}

}  // namespace gradus
