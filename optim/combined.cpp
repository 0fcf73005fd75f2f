#include "gradus/optim/combined.h"

#include <map>
#include <string_view>

#include "gradus/core/files/named_tensors.h"
#include "gradus/core/internal.h"

namespace gradus::optim {

CombinedOptimizer::CombinedOptimizer(std::vector<std::unique_ptr<Optimizer>> parts)
    : Optimizer("CombinedOptimizer") {
  check(!parts.empty(), name(), ": no optimisers given");
  std::map<const void*, std::string> owners;
  std::set<std::string> names;
  for (std::unique_ptr<Optimizer>& part : parts) {
    check(part != nullptr, name(), ": optimiser ", parts_.size(), " is null");
    // By name: this file does not depend on optim/parallel.
    check(std::string_view(part->name()) != "ShardedOptimizer", name(), ": optimiser ",
          parts_.size(), " is a ShardedOptimizer; shard the CombinedOptimizer instead");
    std::string own = part->name();
    for (int n = 2; !names.insert(own).second; ++n) own = part->name() + std::to_string(n);
    for (const Tensor& p : part->parameters()) {
      const auto [owner, added] = owners.emplace(&p.impl(), own);
      check(added, name(), ": a parameter of shape ", p.shape(), " is in ", owner->second,
            " and in ", own);
    }
    const double first = parts_.empty() ? part->lr() : lr();
    check(first > 0, name(), ": expected a learning rate > 0 of ", part->name(), ", got ", first);
    const double ratio = part->lr() / first;
    parts_.push_back({std::move(part), own, ratio});
  }
}

std::vector<Tensor> CombinedOptimizer::parameters() const {
  std::vector<Tensor> all;
  for (const Part& part : parts_)
    for (const Tensor& p : part.optimizer->parameters()) all.push_back(p);
  return all;
}

double CombinedOptimizer::lr() const { return parts_.front().optimizer->lr(); }

void CombinedOptimizer::set_lr(double lr) {
  for (const Part& part : parts_)
    check(lr >= 0 && std::isfinite(lr * part.lr_ratio), name(),
          ": expected a finite learning rate >= 0 of ", part.name, ", got ", lr * part.lr_ratio);
  for (Part& part : parts_) part.optimizer->set_lr(lr * part.lr_ratio);
}

NamedTensors CombinedOptimizer::state_dict() const {
  NamedTensors all;
  for (const Part& part : parts_)
    for (const auto& [name, tensor] : part.optimizer->state_dict())
      all.emplace_back(part.name + '.' + name, tensor);
  return all;
}

void CombinedOptimizer::load_state_dict(const NamedTensors& state) {
  // All names and counts are checked before the first optimiser is changed.
  internal::check_counts(name(), state, "step");
  NamedTensors before;
  for (const auto& [name, tensor] : state_dict())
    if (tensor.defined()) before.emplace_back(name, tensor.clone());
  load_named(name(), before, state);
  for (Part& part : parts_) {
    NamedTensors own;
    const std::string prefix = part.name + '.';
    for (const auto& [name, tensor] : state)
      if (name.starts_with(prefix)) own.emplace_back(name.substr(prefix.size()), tensor);
    part.optimizer->load_state_dict(own);
  }
}

std::vector<Tensor> CombinedOptimizer::gradients() const {
  std::vector<Tensor> all;
  for (const Part& part : parts_)
    for (Tensor& g : part.optimizer->gradients()) all.push_back(std::move(g));
  return all;
}

void CombinedOptimizer::check_step() const {
  for (const Part& part : parts_) part.optimizer->check_step();
}

void CombinedOptimizer::keep_only(const std::set<const void*>& owned) {
  for (Part& part : parts_) part.optimizer->keep_only(owned);
}

void CombinedOptimizer::apply(double grad_scale) {
  for (Part& part : parts_) part.optimizer->apply(grad_scale);
}

}  // namespace gradus::optim
