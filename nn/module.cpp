#include "gradus/nn/module.h"

#include <numeric>
#include <set>

#include "gradus/core/internal.h"
#include "gradus/core/ops/compression.h"
#include "gradus/core/ops/factories.h"
#include "gradus/core/tensor/autograd.h"
#include "gradus/nn/loading.h"

namespace gradus::nn {

Tensor Module::param(const std::string& name, Tensor value) {
  check_name(name);
  check(value.defined() && is_floating(value.dtype()) && value.is_leaf() && !is_expanded(value),
        "module: parameter '", name, "' must be a floating-point leaf tensor, not expanded");
  add({name, Kind::parameter, value, nullptr});
  return value.requires_grad_();
}

Tensor Module::param(const std::string& name, const Shape& shape, const Initialiser& initialiser,
                     const char* layer) {
  checked_sizes(layer, shape);
  if (Loading::current()) return param(name, shape, 0, layer);
  const Tensor value = initialiser(shape);
  check(value.defined() && value.shape() == shape, layer, ": parameter '", name,
        "': expected an initialiser that returns ", shape, ", got ",
        value.defined() ? value.shape() : Shape{});
  return param(name, value);
}

Tensor Module::param(const std::string& name, const Shape& shape, double value, const char* layer) {
  checked_sizes(layer, shape);
  if (Loading* loading = Loading::current()) loading->count(layer, name, shape);
  return param(name, full(shape, value));
}

Tensor Module::buffer(const std::string& name, Tensor value, bool persistent) {
  check_name(name);
  check(value.defined() && !value.requires_grad(), "module: buffer '", name,
        "' must be a tensor that requires no gradient");
  if (is_expanded(value)) value = value.contiguous();
  add({name, persistent ? Kind::buffer : Kind::temporary_buffer, value, nullptr});
  return value;
}

Tensor Module::buffer(const std::string& name, const std::function<Tensor(Dtype)>& values) {
  const Tensor table = buffer(name, values(float32), /*persistent=*/false);
  registry_->entries.back().values = values;
  return table;
}

Tensor Module::compressible(Tensor parameter) {
  std::vector<Entry>& all = registry_->entries;
  check(!all.empty() && all.back().tensor.impl_ptr() == parameter.impl_ptr(),
        "module: compressible: expected the parameter registered last");
  all.back().compressible = true;
  return parameter;
}

void Module::hidden_weight(const Tensor& parameter, std::vector<int64_t> rows,
                           std::vector<int64_t> heads) {
  // An unsigned sum, because it may overflow.
  const auto sum = static_cast<int64_t>(std::accumulate(rows.begin(), rows.end(), uint64_t{0}));
  check(rows.empty() || sum == parameter.size(0),
        "module: hidden_weight: expected rows that add up to ", parameter.size(0), ", got ", sum);
  bool found = false;
  for (Entry& entry : registry_->entries)
    if (entry.kind == Kind::parameter && entry.tensor.impl_ptr().get() == &parameter.impl())
      found = entry.hidden = true, entry.rows = rows, entry.heads = heads;
  check(found, "module: hidden_weight: expected a parameter of this layer");
}

void Module::adaptable(const Tensor& weight) {
  const auto is_weight = [&](const Entry& e) { return e.tensor.impl_ptr() == weight.impl_ptr(); };
  check(weight.rank() == 2 && std::ranges::any_of(registry_->entries, is_weight),
        "module: adaptable: expected a parameter of this layer, a matrix");
  registry_->adaptable = weight;
}

std::vector<StackedMatrices> Module::hidden_matrices() const {
  std::vector<StackedMatrices> out;
  std::set<const void*> seen;
  const std::vector<Named> entries = all();
  for (const auto& [name, entry] : entries)  // leaves out weights with an unmarked entry
    if (!entry->hidden) seen.insert(&entry->tensor.impl());
  for (const auto& [name, entry] : entries)
    if (seen.insert(&entry->tensor.impl()).second)
      out.push_back({entry->tensor, entry->rows, entry->heads});
  return out;
}

void Module::check_name(const std::string& name) {
  check(!name.empty() && name.find('.') == std::string::npos, "module: the name '", name,
        "' is empty or contains a dot");
}

void Module::add(Entry entry) {
  // children() registers names such as "blocks.0", which are inside the name "blocks".
  const auto holds = [](const std::string& a, const std::string& b) {
    return b.starts_with(a) && (b.size() == a.size() || b[a.size()] == '.');
  };
  for (const Entry& other : registry_->entries)
    check(!holds(other.name, entry.name) && !holds(entry.name, other.name), "module: the name '",
          entry.name, "' is taken by '", other.name, "'");
  registry_->entries.push_back(std::move(entry));
}

bool Module::contains(const Registry& registry, const Registry* target) {
  return &registry == target ||
         std::any_of(registry.entries.begin(), registry.entries.end(), [&](const Entry& entry) {
           return entry.child && contains(*entry.child, target);
         });
}

void Module::add_child(const std::string& name, const Module& module) {
  check(!contains(*module.registry_, registry_.get()), "module: the child '", name,
        "' is or contains the module itself");
  add({name, Kind::parameter, {}, module.registry_});
}

void Module::collect(const Registry& registry, const std::string& prefix, std::vector<Named>& out) {
  for (const Entry& entry : registry.entries) {
    if (entry.child)
      collect(*entry.child, prefix + entry.name + '.', out);
    else
      out.push_back({prefix + entry.name, &entry});
  }
}

std::vector<Module::Named> Module::all() const {
  std::vector<Named> out;
  collect(*registry_, "", out);
  return out;
}

NamedTensors Module::named(std::initializer_list<Kind> kinds) const {
  NamedTensors out;
  std::set<const void*> seen;
  for (const auto& [name, entry] : all())
    if (std::ranges::count(kinds, entry->kind) && seen.insert(&entry->tensor.impl()).second)
      out.emplace_back(name, entry->tensor);
  return out;
}

NamedTensors Module::named_parameters() const { return named({Kind::parameter}); }

NamedTensors Module::named_buffers() const { return named({Kind::buffer, Kind::temporary_buffer}); }

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> out;
  for (auto& [name, tensor] : named_parameters()) out.push_back(tensor);
  return out;
}

int64_t Module::num_parameters() const {
  int64_t n = 0;
  for (const Tensor& p : parameters()) n += p.numel();
  return n;
}

NamedTensors Module::state_dict() const {
  NamedTensors out = named({Kind::parameter, Kind::buffer});
  for (auto& [name, tensor] : out) tensor = tensor.detach();
  return out;
}

void Module::load_state_dict(const NamedTensors& state, bool strict) {
  NamedTensors target;
  for (const auto& [name, entry] : all())
    if (entry->kind != Kind::temporary_buffer) target.emplace_back(name, entry->tensor);
  load_named("load_state_dict", target, state, strict);
}

void Module::initialise(
    const std::function<void(const std::string& name, const Tensor& parameter)>& rule) {
  if (Loading::current()) return;
  const NoGrad no_grad;
  for (const auto& [name, parameter] : named_parameters()) rule(name, parameter);
}

void Module::requires_grad_(bool on) {
  for (const auto& [name, p] : named_parameters())
    check(!on || is_floating(p.dtype()), "module.requires_grad_: '", name, "' is ", p.dtype(),
          ", which has no gradient");
  for (const Tensor& p : parameters()) {
    p.requires_grad_(on);
    if (!on) p.set_grad({});
  }
}

void Module::zero_grad() {
  for (const Tensor& p : parameters()) p.set_grad({});
}

void Module::to(Dtype dtype) {
  check(is_floating(dtype) || is_compressed(dtype),
        "module.to: expected float32, float64, bfloat16 or int8, got ", dtype);
  NamedTensors tensors;
  std::set<const void*> seen;
  std::vector<Named> entries = all();
  for (const auto& [name, entry] : entries)  // an unmarked entry keeps the tensor's dtype
    if (is_compressed(dtype) && !entry->compressible) seen.insert(&entry->tensor.impl());
  for (const auto& [name, entry] : entries)
    if (seen.insert(&entry->tensor.impl()).second) tensors.emplace_back(name, entry->tensor);
  const auto stays = [=](const Named& n) {
    return !n.entry->values || is_compressed(dtype) || n.entry->tensor.dtype() == dtype;
  };
  std::erase_if(entries, stays);
  convert_in_place("module.to", tensors, dtype);
  for (const auto& [_, table] : entries) table->tensor.copy_(table->values(table->tensor.dtype()));
}

}  // namespace gradus::nn
